//! Prints the list of sessions and runs (U-02): in groups for a person, as plain lines where nobody looks.

use std::io::Write;

use coord_view::list::{Group, List, Row, Tone, Widths, age};

use crate::out::{
    Colour, Failure, Painter, escape, fit_end_marked, fit_marked, pad, print_columns,
};

/// How the list is printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Columns of the terminal, or of `--width`; none where nobody looks, and nothing is cut.
    pub(crate) width: Option<usize>,
    pub(crate) painter: Painter,
    /// Without signs beyond ASCII.
    pub(crate) is_ascii: bool,
    pub(crate) has_heads: bool,
}

impl Style {
    fn arrow(self) -> &'static str {
        if self.is_ascii { "->" } else { "→" }
    }

    /// `text` in `width` columns; what is cut at its end, or at its beginning, is marked.
    fn fit(self, text: &str, width: usize) -> String {
        fit_marked(text, width, self.mark())
    }

    fn fit_end(self, text: &str, width: usize) -> String {
        fit_end_marked(text, width, self.mark())
    }

    fn mark(self) -> &'static str {
        if self.is_ascii { ".." } else { "…" }
    }

    fn dot(self) -> &'static str {
        if self.is_ascii { "-" } else { "·" }
    }
}

pub(crate) fn colour(tone: Tone) -> Colour {
    match tone {
        Tone::Plain => Colour::Plain,
        Tone::Dim => Colour::Dim,
        Tone::Green => Colour::Green,
        Tone::Yellow => Colour::Yellow,
        Tone::Red => Colour::Red,
    }
}

/// The list, its summary first.
pub(crate) fn print(out: &mut impl Write, list: &List, style: Style) -> Result<(), Failure> {
    let Some(total) = style.width else { return print_plain(out, list, style) };
    let painter = style.painter;
    writeln!(out, "{}\n", style.fit(&escape(&list.summary(style.dot())), total))?;
    let widths = Widths::of(&list.rows, total);
    if style.has_heads {
        let head = line(&widths, ["NAME", "STATE", "AGE", "WHERE", "WHAT"].map(ToOwned::to_owned));
        writeln!(
            out,
            "{}",
            painter.paint(Colour::Bold, style.fit(&format!("  {head}"), total).trim_end())
        )?;
    }
    for group in Group::ALL {
        let mut rows = list.rows.iter().filter(|row| row.group == group).peekable();
        if rows.peek().is_some() && style.has_heads {
            writeln!(out, "{}", painter.paint(Colour::Bold, group.head()))?;
        }
        for row in rows {
            print_row(out, row, &widths, style, total)?;
        }
    }
    if 0 < list.more {
        let more = format!("  {} more {} coord inspect --all", list.more, style.arrow());
        writeln!(out, "{}", painter.paint(Colour::Dim, &more))?;
    }
    if let Some(first) = list.rows.iter().find(|row| row.needs_you() && row.has_pane) {
        let command = format!("{} coord next", style.arrow());
        let what = format!("   go to {}, which waits longest", escape(&first.name));
        let what = style.fit(&what, total.saturating_sub("→ coord next".chars().count()));
        writeln!(out, "\n{command}{what}")?;
    }
    Ok(())
}

fn line(widths: &Widths, [name, state, age, place, what]: [String; 5]) -> String {
    let mut cells = vec![
        pad(&name, widths.name, false),
        pad(&state, widths.state, false),
        pad(&age, widths.age, true),
    ];
    if 0 < widths.place {
        cells.push(pad(&place, widths.place, false));
    }
    if 0 < widths.what {
        cells.push(what);
    }
    cells.join("  ")
}

fn print_row(
    out: &mut impl Write,
    row: &Row,
    widths: &Widths,
    style: Style,
    total: usize,
) -> Result<(), Failure> {
    use unicode_width::UnicodeWidthStr;
    let painter = style.painter;
    let what = escape(&row.what);
    // A command is never cut: without room, it gets a line of its own.
    let is_command = row.hint.as_deref() == Some(row.what.as_str());
    let has_room = what.width() <= widths.what;
    let shown = if is_command && !has_room { String::new() } else { style.fit(&what, widths.what) };
    let text = line(
        widths,
        [
            style.fit(&escape(&row.name), widths.name),
            row.state.clone(),
            age(row.age_s),
            style.fit_end(&escape(&row.place), widths.place),
            shown,
        ],
    );
    let sign = painter.paint(colour(row.tone), row.sign(style.is_ascii));
    let text = style.fit(text.trim_end(), total.saturating_sub(2));
    let text =
        if row.group == Group::Ended { painter.paint(colour(row.tone), &text) } else { text };
    writeln!(out, "{sign} {text}")?;
    if let Some(hint) = row.hint.as_ref().filter(|_| !(is_command && has_room)) {
        let hint = format!("    {} {}", style.arrow(), escape(hint));
        writeln!(out, "{}", painter.paint(colour(row.tone), &hint))?;
    }
    Ok(())
}

/// For programs and files: one line each, nothing cut.
fn print_plain(out: &mut impl Write, list: &List, style: Style) -> Result<(), Failure> {
    let mut lines: Vec<[String; 6]> = Vec::new();
    if style.has_heads {
        lines.push(["NAME", "NEEDS", "STATE", "AGE", "WHERE", "WHAT"].map(ToOwned::to_owned));
    }
    lines.extend(list.rows.iter().map(|row| {
        let needs = if row.needs_you() { "yes" } else { "-" };
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { escape(text) };
        [
            escape(&row.name),
            needs.to_owned(),
            row.state.clone(),
            age(row.age_s),
            or_dash(&row.place),
            or_dash(&row.what),
        ]
    }));
    print_columns(out, &lines)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use coord_view::list::Seen;
    use coord_wire::inspect::Inspect;
    use serde_json::{Value, json};

    use super::*;

    /// 2026-01-01, noon.
    const NOW_MS: u64 = 1_767_268_800_000;

    fn at(minutes_ago: u64) -> String {
        coord_model::stamp::rfc3339(NOW_MS - minutes_ago * 60_000)
    }

    fn session(name: &str, state: &str, minutes: u64, place: &str, more: &Value) -> Value {
        let mut all = json!({
            "session_id": format!("{name}-0000"), "previous_ids": [], "forked_from": null, "host": "dev",
            "config_dir": "", "resumable": true, "name": null, "display_name": name,
            "name_source": "directory", "provider": "claude", "kind": "interactive",
            "status": "running", "state": state, "since": at(minutes), "because": "the user exited",
            "awaiting_permission": null, "pending_recovery": null,
            "recovery": {"this_turn": 0, "total": 0, "last_at": null, "last_outcome": null},
            "quota": null, "background": null, "stall_count": 0, "unattended": false, "parent": null,
            "needs_operator": null, "hold": null, "disagreement": null, "owner": null, "tmux": null,
            "where": {"kind": "tmux", "text": place, "server": "/tmp/tmux-1000/default"},
            "cwd": "/home/dev/src/lint", "transcript_path": "", "permission_mode": null,
            "last_event": null, "evidence": [],
            "messages": {"pending": 0, "processing": 0, "failed": 0},
        });
        all.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        all
    }

    fn need(kind: &str, minutes: u64, text: &str) -> Value {
        let command = (kind == "crashed").then_some("coordctl recover site");
        let need = json!({"id": "a_1.1", "kind": kind, "since": at(minutes), "text": text, "command": command});
        json!({"need": need, "needs": [need]})
    }

    fn eight() -> Vec<Value> {
        let none = json!({});
        let subagents = json!({"tasks": 0, "subagents": 3, "crons": 0});
        let shell = json!({"tasks": 1, "subagents": 0, "crons": 0});
        let open = json!({"name": "Edit", "since": at(0)});
        vec![
            session(
                "lint",
                "stopped",
                20,
                "",
                &json!({"where": {"kind": "directory", "text": "/home/dev/src/lint", "server": null}}),
            ),
            session(
                "parser",
                "awaiting_permission",
                4,
                "work:api.1",
                &need("permission", 4, "asks to run Bash"),
            ),
            session(
                "docs",
                "awaiting_input",
                41,
                "work:docs",
                &need("question", 41, "asks a question"),
            ),
            session("site", "crashed", 12, "web:2", &need("crashed", 12, "crashed")),
            session(
                "tests",
                "running",
                2,
                "work:tests",
                &json!({"background": subagents, "open_tool": open}),
            ),
            session("billing-api", "background", 9, "work:4.2", &json!({"background": shell})),
            session(
                "infra",
                "quota_wait",
                22,
                "ops:infra",
                &json!({"quota": {"kind": "rate_limit", "since": at(22), "until": at(0), "source": "transcript"}}),
            ),
            session(
                "notes",
                "idle",
                180,
                "work:notes",
                &json!({"messages": {"pending": 1, "processing": 0, "failed": 0}}),
            ),
            session("漢字漢字漢字漢字漢字漢字漢字", "unknown", 3000, "مرحبا:عالم", &none),
        ]
    }

    fn shown(sessions: &[Value], width: Option<usize>, is_ascii: bool) -> String {
        shown_with(sessions, &[], width, is_ascii)
    }

    fn shown_with(
        sessions: &[Value],
        runs: &[Value],
        width: Option<usize>,
        is_ascii: bool,
    ) -> String {
        let answer: Inspect = serde_json::from_value(json!({
            "schema": 1, "coordinator": {"running": true, "pid": 1, "version": "", "uptime_s": 0,
            "spool_pending": 0, "invariant_violations": 0}, "sessions": sessions, "runs": runs,
        }))
        .expect("an answer");
        let seen = Seen {
            now_ms: NOW_MS,
            home: "/home/dev",
            server: Some("/tmp/tmux-1000/default"),
            clock: |_| "17:40".to_owned(),
            ended: coord_view::list::Ended::Newest,
        };
        let list = List::of(&answer, &seen);
        let style = Style { width, painter: Painter::off(), is_ascii, has_heads: true };
        let mut text = Vec::new();
        print(&mut text, &list, style).expect("it is written");
        String::from_utf8(text).expect("text")
    }

    /// Compares with the accepted screen; COORD_TEST_ACCEPT=1 accepts what is shown.
    fn is_as_accepted(name: &str, text: &str) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/verb/inspect/screens");
        let file = dir.join(format!("{name}.txt"));
        if std::env::var_os("COORD_TEST_ACCEPT").is_some() {
            std::fs::write(&file, text).expect("it is written");
        }
        let accepted = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(text, accepted, "{name}: COORD_TEST_ACCEPT=1 accepts it");
    }

    // U-02: what people see, at each width.
    #[test]
    fn u_02_the_list_is_as_accepted_at_each_width() {
        for width in [40, 80, 120, 200] {
            let text = shown(&eight(), Some(width), false);
            for line in text.lines() {
                let columns = unicode_width::UnicodeWidthStr::width(line);
                assert!(columns <= width, "{width}: {line:?}");
            }
            is_as_accepted(&width.to_string(), &text);
        }
        is_as_accepted("ascii", &shown(&eight()[1..8], Some(80), true));
        let narrow = shown(&eight()[1..8], Some(30), true);
        assert!(narrow.contains("..") && narrow.is_ascii(), "{narrow}");
        is_as_accepted("plain", &shown(&eight(), None, false));
        is_as_accepted("one", &shown(&eight()[7..8], Some(80), false));
    }

    // U-02: what may come back by itself is not over, and what is not decided yet is not promised.
    #[test]
    fn u_02_a_crashed_session_that_comes_back_waits() {
        let until = coord_model::stamp::rfc3339(NOW_MS + 17_000);
        let more = json!({
            "pending_recovery": {"cause": "crashed", "detected_at": at(0), "attempts": 0, "next_attempt_at": until},
            "hold": {"reason": "settling after a start", "since": at(0), "until": until},
        });
        let text = shown(&[session("site", "crashed", 0, "web:2", &more)], Some(80), true);
        let is_told = text.contains("coord checks it in 17s");
        assert!(text.contains("WAITING\n~ site") && is_told, "{text}");
        let text = shown(&[session("site", "recovery_pending", 0, "web:2", &more)], Some(80), true);
        assert!(text.contains("WAITING\n~ site") && text.contains("returns in 17s"), "{text}");
        let text = shown(&[session("site", "crashed", 0, "web:2", &json!({}))], Some(80), true);
        assert!(text.contains("ENDED\n- site"), "{text}");
    }

    // U-02: while coord checks how a client ended, or what to do after its crash, nothing has ended for its person.
    #[test]
    fn u_02_a_session_whose_end_is_being_judged_is_not_listed_as_ended() {
        let because = json!({"because": "its process is gone; coord is checking how it ended"});
        let judged = json!({
            "pending_recovery": {"cause": "crashed", "detected_at": at(0), "attempts": 0, "next_attempt_at": null},
        });
        for (state, more) in
            [("unknown", &because), ("crashed", &judged), ("recovery_pending", &judged)]
        {
            let text = shown(&[session("site", state, 0, "web:2", more)], Some(80), true);
            assert!(text.contains("WAITING\n") && !text.contains("ENDED"), "{text}");
        }
    }

    // U-02: a running session always says what it does.
    #[test]
    fn u_02_a_session_without_an_open_tool_waits_for_the_model() {
        let text = shown(&[session("site", "running", 0, "web:2", &json!({}))], Some(80), true);
        assert!(text.contains("web:2  waits for the model\n"), "{text}");
    }

    /// A headless run of the process, whose stream named that conversation.
    fn run_of(process: &Value, session_id: Option<&str>) -> Value {
        json!({
            "v": 1, "run_id": "run_0197c2aabbccddeeff00", "at": at(3), "name": null,
            "program": "claude", "provider": "claude", "cwd": "/home/dev", "process": process,
            "supervisor": {"pid": 6, "start_time": "60"}, "state": "streaming", "since": at(3),
            "session_id": session_id, "results": 0, "hold": null,
            "background": {"tasks": 0, "subagents": 0}, "supervised": true, "exit": null,
        })
    }

    // U-02: a run and its session are one row, whether its stream names the conversation or only its process is known.
    #[test]
    fn u_02_a_run_and_its_session_share_a_row() {
        let process = json!({"pid": 7, "start_time": "70"});
        let other = json!({"pid": 7, "start_time": "71"});
        let more = json!({
            "kind": "headless", "owner": {"pid": 7, "start_time": "70", "alive": true},
            "where": {"kind": "headless", "text": "headless", "server": null},
        });
        let nightly = session("nightly", "running", 2, "", &more);
        for (process, id, rows) in [
            (&process, None, 1),
            (&process, Some("nightly-0000"), 1),
            (&other, Some("nightly-0000"), 1),
            (&other, None, 2),
            (&process, Some("another-0000"), 2),
        ] {
            let run = run_of(process, id);
            let text = shown_with(std::slice::from_ref(&nightly), &[run], Some(80), true);
            let found = text.lines().filter(|line| line.starts_with('*')).count();
            assert_eq!(found, rows, "{process} {id:?}: {text}");
            assert!(text.contains("run_0197c2aabbcc: working"), "{text}");
        }
    }

    // U-02: many interrupted sessions share a row, and ended ones are counted.
    #[test]
    fn u_02_five_hundred_sessions_stay_readable() {
        let many = (0..500).map(|n| {
            let name = format!("s{n:03}");
            match n % 5 {
                0 => session(
                    &name,
                    "interrupted",
                    5,
                    "w:1",
                    &need("interrupted", 5, "was interrupted"),
                ),
                1 => session(&name, "stopped", n, "w:2", &json!({})),
                2 => session(&name, "idle", n, "w:3", &json!({})),
                3 => session(&name, "running", n, "w:4", &json!({})),
                _ => session(
                    &name,
                    "awaiting_input",
                    n,
                    "w:5",
                    &need("question", n, "asks a question"),
                ),
            }
        });
        let text = shown(&many.collect::<Vec<_>>(), Some(80), false);
        assert!(text.contains("! 100 sessions  interrupted"), "{text}");
        assert!(text.contains("  95 more → coord inspect --all"), "{text}");
        assert!(text.contains("· 100 ended"), "the summary counts them all: {text}");
        assert_eq!(text.lines().filter(|line| line.starts_with('!')).count(), 101, "{text}");
        let first = text.lines().find(|line| line.starts_with('!'));
        assert!(first.is_some_and(|line| line.contains("s499")), "the longest wait first: {text}");
    }
}
