//! Durations counted by size. An observation adds three numbers and allocates nothing.

use std::fmt;

/// The upper bound of a bucket: as it is written, in seconds, and in nanoseconds.
pub(crate) type Bound = (&'static str, u64);

/// A histogram of durations, with `N` bounded buckets.
#[derive(Debug, Clone)]
pub(crate) struct Histogram<const N: usize> {
    bounds: &'static [Bound; N],
    /// How many fell into each bucket, and into none before it.
    counts: [u64; N],
    /// How many were longer than the last bound.
    above: u64,
    sum_ns: u64,
}

/// The buckets of a histogram, whatever their number.
#[derive(Debug)]
pub(crate) struct Buckets<'a> {
    bounds: &'a [Bound],
    counts: &'a [u64],
    pub(crate) above: u64,
    pub(crate) sum_ns: u64,
}

impl<const N: usize> Histogram<N> {
    /// An empty one. The bounds grow.
    pub(crate) fn new(bounds: &'static [Bound; N]) -> Self {
        Self { bounds, counts: [0; N], above: 0, sum_ns: 0 }
    }

    /// Counts a duration.
    pub(crate) fn observe(&mut self, ns: u64) {
        let place = self.bounds.iter().position(|(_, bound_ns)| ns <= *bound_ns);
        let count = place.and_then(|at| self.counts.get_mut(at)).unwrap_or(&mut self.above);
        *count = count.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// What was counted.
    pub(crate) fn buckets(&self) -> Buckets<'_> {
        let Self { bounds, counts, above, sum_ns } = self;
        Buckets { bounds: *bounds, counts, above: *above, sum_ns: *sum_ns }
    }
}

impl Buckets<'_> {
    /// Each bucket's bound and how many fell into it alone.
    pub(crate) fn bounded(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.bounds.iter().zip(self.counts).map(|((bound, _), count)| (*bound, *count))
    }
}

/// Nanoseconds, written as seconds without a loss.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seconds(pub(crate) u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        if rest == 0 {
            return write!(f, "{seconds}");
        }
        write!(f, "{seconds}.{}", format!("{rest:09}").trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_lose_nothing() {
        for (ns, text) in [
            (0, "0"),
            (1, "0.000000001"),
            (1_500_000_000, "1.5"),
            (60_000_000_000, "60"),
            (u64::MAX, "18446744073.709551615"),
        ] {
            assert_eq!(Seconds(ns).to_string(), text);
        }
    }
}
