//! The report: what was measured, beside its goal.

use super::programs::Programs;
use super::sample::Sample;
use serde::Serialize;
use std::fmt::Write;

/// Whether more or less is better.
#[derive(Debug, Clone, Copy)]
pub(super) enum Goal {
    /// Goal and stretch are the most allowed.
    AtMost(f64, f64),
    /// Goal and stretch are the least allowed.
    AtLeast(f64, f64),
    /// For people only.
    None,
}

#[derive(Debug, Serialize)]
struct Row {
    what: String,
    measured: f64,
    unit: &'static str,
    goal: Option<f64>,
    stretch: Option<f64>,
    reached: Option<&'static str>,
    detail: String,
}

/// All rows.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    machine: String,
    notes: Vec<String>,
    rows: Vec<Row>,
}

impl Table {
    pub(super) fn new(programs: &Programs) -> Self {
        Self { machine: machine(), notes: programs.notes.clone(), rows: Vec::new() }
    }

    /// Adds a figure.
    pub(super) fn row(
        &mut self,
        what: impl Into<String>,
        measured: f64,
        unit: &'static str,
        goal: Goal,
        detail: String,
    ) {
        let (limits, reached) = match goal {
            Goal::AtMost(goal, stretch) => {
                let stretched = stretch < goal && measured <= stretch;
                (Some((goal, stretch)), Some(verdict(measured <= goal, stretched)))
            }
            Goal::AtLeast(goal, stretch) => {
                let stretched = goal < stretch && stretch <= measured;
                (Some((goal, stretch)), Some(verdict(goal <= measured, stretched)))
            }
            Goal::None => (None, None),
        };
        let (goal, stretch) = limits.unzip();
        self.rows.push(Row { what: what.into(), measured, unit, goal, stretch, reached, detail });
    }

    /// Adds the median of `sample` as a ratio to the median of `floor`.
    pub(super) fn ratio(&mut self, what: &str, sample: &Sample, floor: &Sample, goal: Goal) {
        let detail = format!(
            "median {:.0} us, p99 {:.0} us; floor {:.0} us, p99 {:.0} us; n {}",
            sample.median(),
            sample.p99(),
            floor.median(),
            floor.p99(),
            sample.len()
        );
        self.row(what, sample.median() / floor.median(), "x floor", goal, detail);
    }

    pub(super) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for line in std::iter::once(&self.machine).chain(&self.notes) {
            out.push_str(line);
            out.push('\n');
        }
        out.push('\n');
        let wide = self.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
        let head = ["what", "measured", "goal", "stretch", "reached", "detail"];
        line(&mut out, wide, &head.map(str::to_owned));
        for row in &self.rows {
            let limit = |limit: Option<f64>| limit.map_or_else(|| "-".to_owned(), number);
            line(
                &mut out,
                wide,
                &[
                    row.what.clone(),
                    format!("{} {}", number(row.measured), row.unit),
                    limit(row.goal),
                    limit(row.stretch),
                    row.reached.unwrap_or("-").to_owned(),
                    row.detail.clone(),
                ],
            );
        }
        out
    }
}

fn verdict(goal: bool, stretch: bool) -> &'static str {
    match (goal, stretch) {
        (_, true) => "stretch",
        (true, false) => "yes",
        (false, false) => "NO",
    }
}

/// As many digits as are worth reading.
fn number(value: f64) -> String {
    if value.fract() == 0.0 || 100.0 <= value.abs() {
        format!("{value:.0}")
    } else if 10.0 <= value.abs() {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

fn line(out: &mut String, wide: usize, cells: &[String; 6]) {
    let [what, measured, goal, stretch, reached, detail] = cells;
    let text =
        format!("{what:wide$}  {measured:>14}  {goal:>6}  {stretch:>7}  {reached:7}  {detail}");
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}", text.trim_end());
}

/// The machine in one line.
fn machine() -> String {
    let uname = rustix::system::uname();
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{cores} cores of {model}, Linux {}, temporary files in {}, load {}",
        uname.release().to_string_lossy(),
        std::env::temp_dir().display(),
        load.split(' ').next().unwrap_or("unknown")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_judged_in_their_direction() {
        let mut table = Table { machine: String::new(), notes: Vec::new(), rows: Vec::new() };
        for (measured, goal) in [
            (1.0, Goal::AtMost(2.0, 1.0)),
            (1.5, Goal::AtMost(2.0, 1.0)),
            (2.5, Goal::AtMost(2.0, 1.0)),
            (2.5, Goal::AtLeast(1.0, 2.0)),
            (0.5, Goal::AtLeast(1.0, 2.0)),
            (1.0, Goal::AtMost(1.0, 1.0)),
            (0.5, Goal::None),
        ] {
            table.row("x", measured, "x", goal, String::new());
        }
        let reached: Vec<_> = table.rows.iter().map(|row| row.reached).collect();
        let expected = [
            Some("stretch"),
            Some("yes"),
            Some("NO"),
            Some("stretch"),
            Some("NO"),
            Some("yes"),
            None,
        ];
        assert_eq!(reached, expected);
    }
}
