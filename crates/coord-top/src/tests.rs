//! What is shown at each size, and what each key does (U-05).

use std::path::Path;

use coord_view::list::{Ended, List, Row, Seen};
use coord_wire::inspect::{Inspect, Session};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use crate::Options;
use crate::app::{App, Ask, Mode};
use crate::draw::draw;
use crate::source::{Job, Look, Ran, Source, Watch};

/// 2026-01-01, noon.
const NOW_MS: u64 = 1_767_268_800_000;

const PLAIN: Options =
    Options { name: "coord top", notice: None, acts: false, is_colourless: true, is_ascii: false };

/// Answers nothing: what is shown is given to the program directly.
#[derive(Debug)]
struct Canned;

impl Source for Canned {
    fn look(&self, _: bool) -> Job<anyhow::Result<Look>> {
        Box::new(|| Ok(Look::default()))
    }

    fn watch(&self, _: u32) -> anyhow::Result<Box<dyn Watch>> {
        anyhow::bail!("nothing is watched")
    }

    fn list(&self, answer: &Inspect, now_ms: u64) -> List {
        let clock = |_| "17:40".to_owned();
        let server = Some("/tmp/tmux-1000/default");
        List::of(answer, &Seen { now_ms, home: "/home/dev", server, clock, ended: Ended::Newest })
    }

    fn details(&self, answer: &Inspect, row: &Row) -> Vec<(String, String)> {
        let session = answer.sessions.iter().find(|one| one.session_id == row.id);
        let Some(session) = session else { return Vec::new() };
        let place = format!("tmux work:api.1 · {}", self.directory(session));
        [("why", session.because.as_str()), ("where", &place), ("client", "pid 41207, alive")]
            .map(|(name, words)| (name.to_owned(), words.to_owned()))
            .to_vec()
    }

    fn directory(&self, session: &Session) -> String {
        coord_view::list::tilde(&session.cwd, "/home/dev")
    }

    fn screen(&self, _: &Session) -> Job<Result<String, String>> {
        Box::new(|| Err("nothing is read".to_owned()))
    }

    fn command(&self, _: bool, _: &[String]) -> Job<Ran> {
        Box::new(|| Err(std::io::Error::other("nothing is run")))
    }

    fn converse(&self, _: &[String]) -> std::io::Result<()> {
        Err(std::io::Error::other("nothing is run"))
    }

    fn nothing(&self) -> String {
        "No sessions yet. Start claude; it appears here at once.".to_owned()
    }

    fn now_ms(&self) -> u64 {
        NOW_MS
    }

    fn clock(&self, _: u64) -> String {
        "14:12".to_owned()
    }
}

fn session(name: &str, state: &str, minutes: u64, place: &str, more: &Value) -> Value {
    let at = coord_model::stamp::rfc3339(NOW_MS - minutes * 60_000);
    let mut all = json!({
        "session_id": format!("{name}-0000"), "previous_ids": [], "forked_from": null, "host": "dev",
        "config_dir": "", "resumable": true, "name": null, "display_name": name,
        "name_source": "directory", "provider": "claude", "kind": "interactive",
        "status": "running", "state": state, "since": at, "because": "a permission dialog for Bash is open",
        "awaiting_permission": null, "pending_recovery": null,
        "recovery": {"this_turn": 0, "total": 0, "last_at": null, "last_outcome": null},
        "quota": null, "background": null, "stall_count": 0, "unattended": false, "parent": null,
        "needs_operator": null, "hold": null, "disagreement": null, "owner": null, "tmux": null,
        "where": {"kind": "tmux", "text": place, "server": "/tmp/tmux-1000/default"},
        "cwd": format!("/home/dev/src/{name}"), "transcript_path": "", "permission_mode": null,
        "last_event": null, "evidence": [],
        "messages": {"pending": 0, "processing": 0, "failed": 0},
    });
    if let Some(kind) = more.get("kind") {
        let command = (kind == "crashed").then(|| format!("coordctl recover {name}"));
        let need = json!({
            "id": "a_1.1", "kind": kind, "since": at, "text": more["text"], "command": command,
            "request": more["request"],
        });
        all["need"] = need.clone();
        all["needs"] = json!([need]);
    }
    all
}

fn need(kind: &str, text: &str) -> Value {
    json!({"kind": kind, "text": text})
}

fn eight() -> Vec<Value> {
    let none = json!({});
    let asks = need("permission", "asks to run Bash");
    vec![
        session("parser", "awaiting_permission", 4, "work:api.1", &asks),
        session("docs", "awaiting_input", 41, "work:docs", &need("question", "asks a question")),
        session("site", "crashed", 12, "web:2", &need("crashed", "crashed")),
        session("tests", "running", 2, "work:tests", &none),
        session("billing-api", "background", 9, "work:4.2", &none),
        session("notes", "idle", 180, "work:notes", &none),
        session("漢字漢字漢字漢字漢字漢字漢字", "unknown", 300, "مرحبا:عالم", &none),
        session("lint", "stopped", 20, "", &none),
    ]
}

/// The program with these sessions.
fn with(sessions: &[Value], acts: bool) -> App {
    let name = if acts { "coordctl top" } else { PLAIN.name };
    let mut app = App::new(Options { name, acts, ..PLAIN });
    looks(&mut app, sessions, true);
    app
}

fn looks(app: &mut App, sessions: &[Value], is_live: bool) {
    let answer = serde_json::from_value(json!({
        "schema": 1, "coordinator": {"running": true, "pid": 1, "version": "", "uptime_s": 0,
        "spool_pending": 0, "invariant_violations": 0}, "sessions": sessions, "runs": [],
    }));
    app.looked(Ok(Look { answer: answer.expect("an answer"), is_live, is_last: false }), &Canned);
    app.arrange(&Canned);
}

fn press(app: &mut App, code: KeyCode) -> Option<Ask> {
    let ask = app.key(KeyEvent::new(code, KeyModifiers::NONE));
    app.arrange(&Canned);
    ask
}

fn types(app: &mut App, text: &str) -> Option<Ask> {
    text.chars().map(|c| press(app, KeyCode::Char(c))).fold(None, Option::or)
}

fn drawn(app: &mut App, width: u16, height: u16, options: Options) -> Buffer {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(app, options, area, &mut buffer);
    buffer
}

/// What a terminal shows of it.
fn text(buffer: &Buffer) -> String {
    let rows = (0..buffer.area.height).map(|y| {
        let mut row = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            row.push_str(symbol);
            x += u16::try_from(coord_view::text::width(symbol)).unwrap_or(1).max(1);
        }
        row.trim_end().to_owned() + "\n"
    });
    rows.collect()
}

fn shown(app: &mut App, width: u16, height: u16) -> String {
    text(&drawn(app, width, height, PLAIN))
}

/// Compares with the accepted screen; COORD_TEST_ACCEPT=1 accepts what is shown.
fn is_as_accepted(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/screens/{name}.txt"));
    if std::env::var_os("COORD_TEST_ACCEPT").is_some() {
        std::fs::write(&file, text).expect("it is written");
    }
    let accepted = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, accepted, "{name}: COORD_TEST_ACCEPT=1 accepts it");
}

#[test]
fn u_05_the_screen_is_as_accepted_at_each_size() {
    for (width, height) in [(200, 50), (120, 30), (80, 24), (40, 12)] {
        let mut app = with(&eight(), false);
        press(&mut app, KeyCode::Down);
        is_as_accepted(&format!("{width}x{height}"), &shown(&mut app, width, height));
    }
    let ascii = Options { is_ascii: true, ..PLAIN };
    let mut app = with(&eight()[..6], false);
    let text = text(&drawn(&mut app, 80, 24, ascii));
    assert!(text.is_ascii(), "{text}");
    is_as_accepted("ascii", &text);
    is_as_accepted("empty", &shown(&mut with(&[], false), 80, 16));
    // Too small for anything, and yet no panic.
    for (width, height) in [(0, 0), (1, 1), (3, 3), (20, 4), (110, 2)] {
        drawn(&mut with(&eight(), false), width, height, PLAIN);
    }
}

#[test]
fn u_05_the_selected_row_is_always_on_the_screen() {
    let many: Vec<Value> = (0..500)
        .map(|n| session(&format!("s{n:03}"), "running", n, "w:1", &json!({})))
        .chain(eight())
        .collect();
    let mut app = with(&many, false);
    for (width, height) in [(80, 24), (40, 12), (120, 18)] {
        for key in ['G', 'g', 'j', 'j', 'G', 'k'] {
            press(&mut app, KeyCode::Char(key));
            let text = shown(&mut app, width, height);
            let rows = text.lines().filter(|line| line.starts_with("> ")).count();
            assert_eq!(rows, 1, "{key} at {width}x{height}: {text}");
        }
    }
    for _ in 0..40 {
        let down = KeyEvent::new(KeyCode::Char('d'), KeyModifiers::CONTROL);
        assert_eq!(app.key(down), None);
        app.arrange(&Canned);
        assert!(shown(&mut app, 80, 24).contains("\n> "));
    }
}

#[test]
fn u_05_the_selection_follows_the_session_and_rows_keep_their_places_while_keys_are_pressed() {
    let mut app = with(&eight(), false);
    // The needs, then what works: tests has changed last.
    types(&mut app, "jjj");
    let name = |app: &App| app.rows.selected().expect("a row").name.clone();
    assert_eq!((name(&app), app.rows.at()), ("tests".to_owned(), 3));
    let mut later = eight();
    later[3] = session("tests", "awaiting_input", 0, "work:tests", &need("question", "asks"));
    later[4] = session("billing-api", "awaiting_input", 90, "w:4", &need("question", "asks"));
    looks(&mut app, &later, true);
    assert_eq!((name(&app), app.rows.at()), ("tests".to_owned(), 3), "it stays");
    assert!(app.settles_at().is_some(), "it will go where it belongs");
    assert_eq!(app.rows.all()[3].row.state, "awaiting_input", "and shows what is so now");
    // Grouping asks for another order at once, and twice for the first one.
    types(&mut app, "ss");
    assert_eq!((name(&app), app.rows.at()), ("tests".to_owned(), 4), "billing-api waits longest");
    assert!(app.settles_at().is_none());
}

#[test]
fn u_05_a_filter_looks_at_name_state_and_directory() {
    let mut app = with(&eight(), false);
    for (filter, rows) in [("SITE", 1), ("awaiting", 2), ("src/l", 1), ("nothing", 0)] {
        press(&mut app, KeyCode::Char('/'));
        types(&mut app, filter);
        assert_eq!(app.rows.all().len(), rows, "{filter}");
        let text = shown(&mut app, 80, 24);
        assert!(text.ends_with(&format!("/{filter}_\n")), "{text}");
        press(&mut app, KeyCode::Enter);
        assert_eq!((app.rows.all().len(), &app.mode), (rows, &Mode::List), "{filter}");
        press(&mut app, KeyCode::Esc);
        assert_eq!(app.rows.all().len(), 8);
    }
    // While a filter is typed, letters are no commands.
    press(&mut app, KeyCode::Char('/'));
    assert_eq!(types(&mut app, "qpe"), None);
}

// the fullest context and the highest cost first, and only those that are beyond a bound.
#[test]
fn q_01_rows_are_ordered_and_filtered_by_numbers() {
    let mut sessions = eight();
    for (at, percent, usd) in [(5, 61, 2.5), (3, 90, 0.5)] {
        let (source, at_ms) = ("status line", coord_model::stamp::rfc3339(NOW_MS));
        sessions[at]["usage"] = json!({
            "model": null, "tokens": null, "limits": [],
            "context": {"percent": percent, "size": null, "source": source, "at": at_ms},
            "cost": {"usd": usd, "source": source, "at": at_ms},
        });
    }
    let mut app = with(&sessions, false);
    let names = |app: &App| -> Vec<String> {
        app.rows.all().iter().map(|one| one.row.name.clone()).collect()
    };
    let by_group = names(&app);
    press(&mut app, KeyCode::Char('o'));
    assert_eq!(names(&app)[..2], ["tests", "notes"]);
    let text = shown(&mut app, 80, 24);
    assert!(text.contains("BY CONTEXT") && text.contains("90% of context"), "{text}");
    assert!(text.contains("CONTEXT NOT KNOWN"), "{text}");
    press(&mut app, KeyCode::Char('o'));
    assert_eq!(names(&app)[..2], ["notes", "tests"]);
    assert!(shown(&mut app, 80, 24).contains("$2.50"));
    press(&mut app, KeyCode::Char('o'));
    assert_eq!(names(&app), by_group);
    for (filter, rows) in [("context>61", &["tests"][..]), ("cost>0.4", &["tests", "notes"])] {
        press(&mut app, KeyCode::Char('/'));
        types(&mut app, filter);
        assert_eq!(names(&app), rows, "{filter}");
        press(&mut app, KeyCode::Esc);
    }
}

fn run(acts: bool, words: &[&str]) -> Vec<(bool, Vec<String>)> {
    vec![(acts, words.iter().map(|word| (*word).to_owned()).collect())]
}

#[test]
fn u_05_keys_run_the_commands_that_a_person_would_type() {
    let keys: [(&[KeyCode], _); 8] = [
        (&[KeyCode::Enter], run(false, &["go", "docs-0000"])),
        (&[KeyCode::Char('n')], run(false, &["next"])),
        (&[KeyCode::Char('b')], run(false, &["back"])),
        (&[KeyCode::Char('e')], run(false, &["explain", "docs-0000"])),
        (&[KeyCode::Char('v')], run(false, &["events", "docs-0000"])),
        // What acts is asked for twice, and only by `coordctl top`.
        (&[KeyCode::Char('R'), KeyCode::Enter], run(true, &["recover", "docs-0000", "--no-wait"])),
        (&[KeyCode::Char('H'), KeyCode::Enter], run(true, &["hold", "docs-0000"])),
        (&[KeyCode::Char('H'), KeyCode::Esc], Vec::new()),
    ];
    for (keys, expected) in keys {
        let mut app = with(&eight(), true);
        let asks = keys.iter().filter_map(|key| press(&mut app, *key));
        let ran = asks.map(|ask| match ask {
            Ask::Run { acts, words, .. } => (acts, words),
            Ask::Quit | Ask::Suspend | Ask::Screen(_) | Ask::Converse(_) => panic!("{ask:?}"),
        });
        assert_eq!(ran.collect::<Vec<_>>(), expected, "{keys:?}");
    }
    let mut app = with(&eight(), false);
    for (key, said) in [
        ('a', "Answering needs coordctl top."),
        ('7', "Answering needs coordctl top."),
        ('R', "→ coordctl recover docs"),
        ('H', "→ coordctl hold docs"),
    ] {
        assert_eq!(press(&mut app, KeyCode::Char(key)), None);
        assert!(shown(&mut app, 80, 24).ends_with(&format!("{said}\n")), "{key}");
    }
    let mut app = with(&eight(), true);
    press(&mut app, KeyCode::Char('a'));
    assert!(shown(&mut app, 80, 24).contains("docs is answered in its terminal."));
}

// the keys run the verbs, which show the exact input and ask.
#[test]
fn u_05_a_request_is_answered_by_its_verb() {
    let with_request = |kind: &str, acts: bool| {
        let mut need = need(kind, "asks");
        need["request"] = json!("r_7k2d");
        let mut app = with(&[session("parser", "awaiting_permission", 4, "a", &need)], acts);
        press(&mut app, KeyCode::Char('g'));
        app
    };
    for (kind, key, expected) in [
        ("permission", 'a', "approve r_7k2d"),
        ("permission", 'd', "deny r_7k2d"),
        ("plan", 'a', "approve r_7k2d"),
        ("question", 'a', "answer r_7k2d"),
        ("question", 'd', "deny r_7k2d"),
        ("question", '2', "answer r_7k2d --option 2"),
    ] {
        let ask = press(&mut with_request(kind, true), KeyCode::Char(key));
        let words = expected.split(' ').map(str::to_owned).collect();
        assert_eq!(ask, Some(Ask::Converse(words)), "{kind} {key}");
        assert_eq!(press(&mut with_request(kind, false), KeyCode::Char(key)), None);
    }
    let mut app = with_request("permission", true);
    assert_eq!(press(&mut app, KeyCode::Char('1')), None);
    assert!(shown(&mut app, 80, 24).contains("parser asks no question. a allows, d denies."));
}

#[test]
fn u_05_a_message_is_typed_and_sent_or_dropped() {
    let mut app = with(&eight(), false);
    types(&mut app, "m--all q");
    assert!(shown(&mut app, 80, 24).ends_with("message to docs: --all q_\n"));
    press(&mut app, KeyCode::Backspace);
    let Some(Ask::Run { acts: false, words, .. }) = press(&mut app, KeyCode::Enter) else {
        panic!("{:?}", app.mode)
    };
    assert_eq!(words, ["send", "--", "docs-0000", "--all "], "an option is none here");
    types(&mut app, "mx");
    assert_eq!((press(&mut app, KeyCode::Esc), &app.mode), (None, &Mode::List));
    types(&mut app, "m ");
    assert_eq!(press(&mut app, KeyCode::Enter), None, "nothing is no message");
}

#[test]
fn u_05_a_lost_coordinator_is_said_and_what_it_is_needed_for_is_off() {
    let mut app = with(&eight(), true);
    looks(&mut app, &[], false);
    let buffer = drawn(&mut app, 80, 24, Options { is_colourless: false, ..PLAIN });
    let first = text(&buffer);
    let said = "Coordinator lost at 14:12; retrying. Shown is what was known then.\n";
    assert!(first.starts_with(said), "{first}");
    assert!(first.contains("docs"), "what was known is kept: {first}");
    let dim = |buffer: &Buffer| buffer[(4, 4)].style().add_modifier.contains(Modifier::DIM);
    assert!(dim(&buffer));
    assert_eq!(types(&mut app, "m"), None);
    assert!(shown(&mut app, 80, 24).contains("No messages without the coordinator."));
    types(&mut app, "a");
    assert!(shown(&mut app, 80, 24).contains("No answers without the coordinator."));
    looks(&mut app, &eight(), true);
    let buffer = drawn(&mut app, 80, 24, Options { is_colourless: false, ..PLAIN });
    assert!(text(&buffer).starts_with("coordctl top   3 need you") && !dim(&buffer));
    assert_eq!(buffer[(0, 4)].fg, Color::Red, "the sign of a crash");
}

// H-26, H-51: whatever names, reasons and screens contain, no terminal is steered by it.
#[test]
fn u_05_nothing_foreign_can_steer_the_terminal() {
    let evil = "a\u{1b}]0;x\u{7}\u{9b}31m\u{202e}\nb";
    let asks = need("permission", evil);
    let mut app = with(&[session(evil, "awaiting_permission", 4, evil, &asks)], false);
    press(&mut app, KeyCode::Char('p'));
    app.screen(Ok(format!("{evil}\n{evil}\n")));
    let screens = [
        drawn(&mut app, 120, 30, PLAIN),
        drawn(&mut with(&[session(evil, "idle", 4, evil, &asks)], false), 120, 30, PLAIN),
        drawn(&mut with(&[session(evil, "idle", 4, evil, &asks)], false), 80, 24, PLAIN),
        drawn(&mut with(&[session(evil, "idle", 4, evil, &asks)], false), 40, 12, PLAIN),
    ];
    for buffer in screens {
        let text = text(&buffer);
        assert!(
            !text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'),
            "{text:?}"
        );
        assert!(text.contains("]0;x"), "{text:?}");
    }
}

#[test]
fn u_05_a_screen_is_shown_with_its_age_and_left() {
    let mut app = with(&eight(), false);
    assert_eq!(press(&mut app, KeyCode::Char('p')), Some(Ask::Screen("docs-0000".to_owned())));
    app.screen(Ok("● Reading\n❯ \n".to_owned()));
    let text = shown(&mut app, 80, 24);
    assert!(text.contains("screen of work:docs, read-only, 0s ago\n● Reading\n❯\n"), "{text}");
    press(&mut app, KeyCode::Esc);
    assert_eq!((&app.mode, app.screen_of().is_none()), (&Mode::List, true));
    press(&mut app, KeyCode::Char('p'));
    app.screen(Err("docs is headless.".to_owned()));
    assert!(shown(&mut app, 80, 24).ends_with("No screen: docs is headless.\n"));
}

// U-11: a program around the list says what it is, until the first key.
#[test]
fn a_notice_is_shown_until_the_first_key() {
    let mut app = App::new(Options { name: "coord demo", notice: Some("Recorded."), ..PLAIN });
    looks(&mut app, &eight(), true);
    let buffer = drawn(&mut app, 80, 24, PLAIN);
    assert!(text(&buffer).starts_with("coord demo   3 need you"), "{}", text(&buffer));
    assert!(text(&buffer).contains("Recorded."), "{}", text(&buffer));
    press(&mut app, KeyCode::Char('j'));
    assert!(!text(&drawn(&mut app, 80, 24, PLAIN)).contains("Recorded."));
}

// F-02: a session of another machine is named with its machine, and nobody acts on it from here.
#[test]
fn f_02_a_session_of_another_machine_is_acted_on_there() {
    let mut there = session("parser", "awaiting_permission", 4, "", &need("permission", "asks"));
    there["host"] = "desk".into();
    there["machine"] = "0".repeat(32).into();
    there["needs"][0]["request"] = "r_1".into();
    let mut app = with(&[there], true);
    for key in ['a', 'd', 'R', 'H', 'e'] {
        assert_eq!(press(&mut app, KeyCode::Char(key)), None);
        assert_eq!(app.mode, Mode::List, "{key}");
        let text = shown(&mut app, 80, 24);
        assert!(text.contains("runs on desk. Enter shows the way there."), "{key}: {text}");
    }
    for (key, verb) in [(KeyCode::Enter, "go"), (KeyCode::Char('v'), "events")] {
        let Some(Ask::Run { acts: false, words, .. }) = press(&mut app, key) else {
            panic!("{verb}")
        };
        assert_eq!(words, [verb, "desk/parser-0000"]);
    }
    press(&mut app, KeyCode::Char('m'));
    types(&mut app, "hi");
    let Some(Ask::Run { acts: false, words, .. }) = press(&mut app, KeyCode::Enter) else {
        panic!("nothing is sent")
    };
    assert_eq!(words, ["send", "--", "desk/parser-0000", "hi"]);
}
