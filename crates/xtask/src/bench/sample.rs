//! Many measurements of one thing.

use std::time::Duration;

/// Measurements in microseconds.
#[derive(Debug, Default)]
pub(super) struct Sample {
    micros: Vec<f64>,
}

impl Sample {
    pub(super) fn push(&mut self, time: Duration) {
        self.micros.push(time.as_secs_f64() * 1e6);
    }

    /// Adds the time of one of `n` things that took `time` together.
    pub(super) fn push_each(&mut self, time: Duration, n: usize) {
        self.micros.push(time.as_secs_f64() * 1e6 / count(n));
    }

    pub(super) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(super) fn p99(&self) -> f64 {
        self.quantile(0.99)
    }

    pub(super) fn len(&self) -> usize {
        self.micros.len()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position in a list, rounded"
    )]
    fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.micros.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        sorted.get((count(last) * share).round() as usize).copied().unwrap_or(f64::NAN)
    }
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
pub(super) fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_tail() {
        let mut sample = Sample::default();
        (1..=101).rev().for_each(|n| sample.push(Duration::from_micros(n)));
        assert!((sample.median() - 51.0).abs() < 1e-9);
        assert!((sample.p99() - 100.0).abs() < 1e-9);
        assert!(Sample::default().median().is_nan());
    }
}
