//! Writes metrics as OpenMetrics 1.0 text. It decides the format, and nothing of what is measured.
//!
//! This is own code because the library for it (`prometheus-client`) keeps registries of shared atomics with
//! derive macros, while most values here are read from the state, and it has no gauge histograms.

use std::fmt::{Display, Write};

use crate::metrics::histogram::{Buckets, Seconds};

/// The media type of the text.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The type of a family of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    /// It only grows, until the coordinator restarts.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A constant 1 whose labels are the information.
    Info,
    /// Durations since the start, counted by size.
    Histogram,
    /// What there is now, counted by size.
    GaugeHistogram,
}

impl Type {
    fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Info => "info",
            Self::Histogram => "histogram",
            Self::GaugeHistogram => "gaugehistogram",
        }
    }

    /// What follows the name of the family in the name of a sample.
    fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram | Self::GaugeHistogram => "",
        }
    }
}

/// The text, as far as it is written. Names, labels and help texts are constants of the program, so nothing needs to be
/// escaped; names are those of families, without the suffix of their samples.
#[derive(Debug)]
pub(crate) struct Exposition {
    text: String,
}

impl Exposition {
    pub(crate) fn new() -> Self {
        Self { text: String::with_capacity(32 * 1024) }
    }

    /// A family with one sample.
    pub(crate) fn single(&mut self, name: &str, kind: Type, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.line(name, kind.suffix(), "", value);
    }

    /// A family with one sample for each value of a label.
    pub(crate) fn labelled<'a, V: Display>(
        &mut self,
        (name, label): (&str, &str),
        kind: Type,
        help: &str,
        samples: impl IntoIterator<Item = (&'a str, V)>,
    ) {
        self.family(name, kind, help);
        for (word, value) in samples {
            self.line(name, kind.suffix(), &format!("{{{label}=\"{word}\"}}"), value);
        }
    }

    /// A family with one histogram.
    pub(crate) fn histogram(&mut self, name: &str, kind: Type, help: &str, buckets: &Buckets<'_>) {
        self.family(name, kind, help);
        let mut count = 0_u64;
        for (bound, n) in buckets.bounded() {
            count = count.saturating_add(n);
            self.line(name, "_bucket", &format!("{{le=\"{bound}\"}}"), count);
        }
        let count = count.saturating_add(buckets.above);
        self.line(name, "_bucket", "{le=\"+Inf\"}", count);
        let (of_count, of_sum) = match kind {
            Type::GaugeHistogram => ("_gcount", "_gsum"),
            Type::Counter | Type::Gauge | Type::Info | Type::Histogram => ("_count", "_sum"),
        };
        self.line(name, of_count, "", count);
        self.line(name, of_sum, "", Seconds(buckets.sum_ns));
    }

    /// The whole text.
    pub(crate) fn finish(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }

    fn family(&mut self, name: &str, kind: Type, help: &str) {
        self.push(format_args!("# TYPE {name} {}\n", kind.word()));
        if let Some(unit) = ["seconds", "bytes"].iter().find(|unit| name.ends_with(**unit)) {
            self.push(format_args!("# UNIT {name} {unit}\n"));
        }
        self.push(format_args!("# HELP {name} {help}\n"));
    }

    fn line(&mut self, name: &str, suffix: &str, labels: &str, value: impl Display) {
        self.push(format_args!("{name}{suffix}{labels} {value}\n"));
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = self.text.write_fmt(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::histogram::Histogram;

    #[test]
    fn every_type_is_written_as_openmetrics_wants_it() {
        static BOUNDS: [(&str, u64); 2] = [("0.5", 500_000_000), ("1.0", 1_000_000_000)];
        let mut histogram = Histogram::new(&BOUNDS);
        for ms in [500, 501, 2_000] {
            histogram.observe(ms * 1_000_000);
        }
        let mut out = Exposition::new();
        out.labelled(("c_build", "version"), Type::Info, "Build.", [("0.1.0", 1)]);
        out.single("c_crashes", Type::Counter, "Crashes.", 3);
        out.single("c_size_bytes", Type::Gauge, "Size.", 4);
        out.histogram("c_took_seconds", Type::Histogram, "Took.", &histogram.buckets());
        out.histogram("c_age_seconds", Type::GaugeHistogram, "Age.", &histogram.buckets());
        let expected = r#"# TYPE c_build info
# HELP c_build Build.
c_build_info{version="0.1.0"} 1
# TYPE c_crashes counter
# HELP c_crashes Crashes.
c_crashes_total 3
# TYPE c_size_bytes gauge
# UNIT c_size_bytes bytes
# HELP c_size_bytes Size.
c_size_bytes 4
# TYPE c_took_seconds histogram
# UNIT c_took_seconds seconds
# HELP c_took_seconds Took.
c_took_seconds_bucket{le="0.5"} 1
c_took_seconds_bucket{le="1.0"} 2
c_took_seconds_bucket{le="+Inf"} 3
c_took_seconds_count 3
c_took_seconds_sum 3.001
# TYPE c_age_seconds gaugehistogram
# UNIT c_age_seconds seconds
# HELP c_age_seconds Age.
c_age_seconds_bucket{le="0.5"} 1
c_age_seconds_bucket{le="1.0"} 2
c_age_seconds_bucket{le="+Inf"} 3
c_age_seconds_gcount 3
c_age_seconds_gsum 3.001
# EOF
"#;
        assert_eq!(out.finish(), expected);
    }
}
