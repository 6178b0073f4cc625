//! Turns the coordinator's OpenMetrics text into Prometheus's older text format, version 0.0.4, which is what
//! node_exporter's textfile collector reads.

use std::fmt::Write;

/// Whether a text is in the OpenMetrics format; a coordinator of an earlier version has the older one.
pub(crate) fn is_openmetrics(text: &str) -> bool {
    text.ends_with("# EOF\n")
}

/// The same metrics in the older format. There, a family of counters has the name of its samples, and neither units nor
/// informations nor gauge histograms are known.
pub(crate) fn for_prometheus(text: &str) -> String {
    if !is_openmetrics(text) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut family = Family { name: "", suffix: "", is_gauge_histogram: false };
    for line in text.lines() {
        let written = match line.split_once(' ') {
            Some(("#", comment)) => family.comment(comment, &mut out),
            Some(_) | None => family.sample(line, &mut out),
        };
        // Writing to a String does not fail.
        let _: std::fmt::Result = written;
    }
    out
}

/// The family whose lines are read: its name, and what the older format adds to it.
struct Family<'a> {
    name: &'a str,
    suffix: &'static str,
    is_gauge_histogram: bool,
}

impl<'a> Family<'a> {
    fn comment(&mut self, comment: &'a str, out: &mut String) -> std::fmt::Result {
        let mut words = comment.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    "gaugehistogram" => ("", "histogram"),
                    kind => ("", kind),
                };
                let is_gauge_histogram = comment.ends_with("gaugehistogram");
                *self = Self { name, suffix, is_gauge_histogram };
                writeln!(out, "# TYPE {name}{suffix} {kind}")
            }
            (Some("HELP"), Some(name), Some(help)) => {
                writeln!(out, "# HELP {name}{} {help}", self.suffix)
            }
            _ => Ok(()),
        }
    }

    fn sample(&self, line: &str, out: &mut String) -> std::fmt::Result {
        if self.is_gauge_histogram
            && let Some(rest) = line.strip_prefix(self.name)
        {
            for (from, to) in [("_gcount", "_count"), ("_gsum", "_sum")] {
                if let Some(value) = rest.strip_prefix(from) {
                    return writeln!(out, "{}{to}{value}", self.name);
                }
            }
        }
        writeln!(out, "{line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_family_is_turned() {
        let text = "# TYPE c_build info\n# HELP c_build B.\nc_build_info{version=\"1\"} 1\n\
                    # TYPE c_crashes counter\n# HELP c_crashes C d.\nc_crashes_total 3\n\
                    # TYPE c_a_seconds gaugehistogram\n# UNIT c_a_seconds seconds\n# HELP c_a_seconds A.\n\
                    c_a_seconds_bucket{le=\"+Inf\"} 2\nc_a_seconds_gcount 2\nc_a_seconds_gsum 1.5\n\
                    # TYPE c_up gauge\n# HELP c_up U.\nc_up 1\n# EOF\n";
        let wanted = "# TYPE c_build_info gauge\n# HELP c_build_info B.\nc_build_info{version=\"1\"} 1\n\
                      # TYPE c_crashes_total counter\n# HELP c_crashes_total C d.\nc_crashes_total 3\n\
                      # TYPE c_a_seconds histogram\n# HELP c_a_seconds A.\n\
                      c_a_seconds_bucket{le=\"+Inf\"} 2\nc_a_seconds_count 2\nc_a_seconds_sum 1.5\n\
                      # TYPE c_up gauge\n# HELP c_up U.\nc_up 1\n";
        assert_eq!(for_prometheus(text), wanted);
        assert_eq!(for_prometheus(wanted), wanted, "that of an earlier version stays as it is");
    }
}
