//! Decides what a key does, and what is shown after each event.
#![expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing")]

use std::process::Output;
use std::time::{Duration, Instant};

use coord_view::list::{List, Row};
use coord_wire::inspect::Session;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::Options;
use crate::rows::Rows;
use crate::source::{Look, Ran, Source};

/// Rows stay in their places for this long after a key.
const KEPT: Duration = Duration::from_secs(2);
/// Rows by which a page is moved.
const PAGE: usize = 10;
/// Characters of a message that may be typed.
const TYPED_MAX: usize = 4_000;

/// What the keys mean now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They move and act.
    List,
    /// They are typed into the filter.
    Filter(String),
    /// They are typed into a message to this session.
    Message { id: String, name: String, text: String },
    /// Enter runs this command of `coordctl`.
    Confirm { what: String, words: Vec<String> },
    /// They scroll a text.
    Pager(Pager),
    /// The keys are explained.
    Keys,
}

/// A text that covers the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pager {
    /// The line above it.
    pub(crate) title: String,
    /// Its lines, not escaped.
    pub(crate) lines: Vec<String>,
    /// The first line that is drawn.
    pub(crate) top: usize,
    /// The session whose pane it shows; it is read again and again.
    pub(crate) screen_of: Option<String>,
    /// When the pane was read last.
    pub(crate) read_at: Option<Instant>,
}

/// What is to be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    /// The program ends.
    Quit,
    /// The program stops, as Ctrl-Z stops any other.
    Suspend,
    /// A command is run.
    Run { acts: bool, words: Vec<String>, purpose: Purpose },
    /// A command of `coordctl` is run that speaks with the person.
    Converse(Vec<String>),
    /// The pane of this session is read.
    Screen(String),
}

/// What a command that runs is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Its text is shown under this title.
    Text(String),
    /// Its last line is shown, or this one if it says nothing.
    Line(String),
}

/// All that is shown.
#[derive(Debug)]
pub(crate) struct App {
    /// The keys that act on sessions work.
    acts: bool,
    /// The command's name.
    pub(crate) name: &'static str,
    pub(crate) look: Look,
    /// Since when no coordinator answers, as the clock shows it; none while one answers.
    pub(crate) lost_at: Option<String>,
    pub(crate) list: List,
    /// What is said in place of an empty list.
    pub(crate) nothing: String,
    pub(crate) rows: Rows,
    pub(crate) details: Vec<(String, String)>,
    pub(crate) mode: Mode,
    /// What is said at the bottom until the next key.
    pub(crate) notice: Option<String>,
    pub(crate) clock: String,
    key_at: Option<Instant>,
    /// A row is not where it belongs, because keys are pressed.
    is_held: bool,
}

impl App {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            acts: options.acts,
            name: options.name,
            look: Look { is_live: true, ..Look::default() },
            lost_at: None,
            list: List::default(),
            nothing: String::new(),
            rows: Rows::default(),
            details: Vec::new(),
            mode: Mode::List,
            notice: options.notice.map(str::to_owned),
            clock: String::new(),
            key_at: None,
            is_held: false,
        }
    }

    /// Takes what a look found.
    pub(crate) fn looked(&mut self, found: anyhow::Result<Look>, source: &dyn Source) {
        let now = source.clock(source.now_ms());
        match found {
            Ok(look) => {
                let was_lost = self.lost_at.take();
                self.lost_at = (!look.is_live).then(|| was_lost.unwrap_or(now));
                // What a coordinator said last is newer than what the files say without it.
                if look.is_live || self.look.answer.sessions.is_empty() {
                    self.look = look;
                }
            }
            Err(_) => self.lost_at = Some(self.lost_at.take().unwrap_or(now)),
        }
    }

    /// Arranges what is known, as it is at this moment.
    pub(crate) fn arrange(&mut self, source: &dyn Source) {
        let now_ms = source.now_ms();
        self.clock = source.clock(now_ms);
        self.list = source.list(&self.look.answer, now_ms);
        if self.list.is_empty() {
            self.nothing = source.nothing();
        }
        let keeps = self.key_at.is_some_and(|at| at.elapsed() < KEPT);
        let sessions = &self.look.answer.sessions;
        let directory_of = |row: &Row| {
            let session = sessions.iter().find(|one| one.session_id == row.id);
            session.map(|session| source.directory(session)).unwrap_or_default()
        };
        self.is_held = self.rows.take(&self.list, directory_of, keeps);
        let selected = self.rows.selected();
        self.details = selected.map_or_else(Vec::new, |row| source.details(&self.look.answer, row));
    }

    /// When rows go where they belong, if some do not now.
    pub(crate) fn settles_at(&self) -> Option<Instant> {
        self.key_at.filter(|_| self.is_held).map(|at| at + KEPT)
    }

    fn session(&self, id: &str) -> Option<&Session> {
        self.look.answer.sessions.iter().find(|one| one.session_id == id)
    }

    /// The session whose pane is shown.
    pub(crate) fn screen_of(&self) -> Option<&Session> {
        let Mode::Pager(Pager { screen_of: Some(id), .. }) = &self.mode else { return None };
        self.session(id)
    }

    /// Takes what the pane of a session shows.
    pub(crate) fn screen(&mut self, read: Result<String, String>) {
        let place = self.screen_of().and_then(|session| session.place.as_ref());
        let place = place.map_or_else(String::new, |place| place.text.clone());
        let Mode::Pager(pager) = &mut self.mode else { return };
        if pager.screen_of.is_none() {
            return;
        }
        match read {
            Ok(text) => {
                pager.title = format!("screen of {place}, read-only");
                pager.lines = text.lines().map(str::to_owned).collect();
                pager.read_at = Some(Instant::now());
            }
            Err(why) => {
                self.mode = Mode::List;
                self.notice = Some(format!("No screen: {why}"));
            }
        }
    }

    /// Takes what a command printed.
    pub(crate) fn ran(&mut self, purpose: Purpose, ran: Ran) {
        let output = match ran {
            Ok(output) => output,
            Err(error) => return self.notice = Some(format!("coord could not be run: {error}")),
        };
        match purpose {
            Purpose::Text(title) if output.status.success() => {
                let text = String::from_utf8_lossy(&output.stdout);
                let lines = text.lines().map(str::to_owned).collect();
                let (screen_of, read_at) = (None, None);
                self.mode = Mode::Pager(Pager { title, lines, top: 0, screen_of, read_at });
            }
            Purpose::Text(_) => self.notice = Some(last_line(&output).unwrap_or_default()),
            Purpose::Line(done) => self.notice = Some(last_line(&output).unwrap_or(done)),
        }
    }

    /// Takes a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Option<Ask> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        self.key_at = Some(Instant::now());
        self.notice = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Some(Ask::Quit),
                KeyCode::Char('z') => return Some(Ask::Suspend),
                _ => (),
            }
        }
        match std::mem::replace(&mut self.mode, Mode::List) {
            Mode::List => self.key_in_list(key),
            Mode::Keys => None,
            Mode::Filter(text) => self.key_in_filter(key, text),
            Mode::Message { id, name, text } => self.key_in_message(key, id, name, text),
            Mode::Confirm { what, words } => match key.code {
                KeyCode::Enter => {
                    let purpose = Purpose::Line(format!("done: {what}"));
                    Some(Ask::Run { acts: true, words, purpose })
                }
                _ => None,
            },
            Mode::Pager(pager) => self.key_in_pager(key, pager),
        }
    }

    fn key_in_list(&mut self, key: KeyEvent) -> Option<Ask> {
        let at = self.rows.at();
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('d') if is_control => self.rows.select(at + PAGE),
            KeyCode::Char('u') if is_control => self.rows.select(at.saturating_sub(PAGE)),
            KeyCode::Char(_) if is_control => (),
            KeyCode::PageDown => self.rows.select(at + PAGE),
            KeyCode::PageUp => self.rows.select(at.saturating_sub(PAGE)),
            KeyCode::Char('j') | KeyCode::Down => self.rows.select(at + 1),
            KeyCode::Char('k') | KeyCode::Up => self.rows.select(at.saturating_sub(1)),
            KeyCode::Char('g') | KeyCode::Home => self.rows.select(0),
            KeyCode::Char('G') | KeyCode::End => self.rows.select(usize::MAX),
            KeyCode::Char('q') => return Some(Ask::Quit),
            KeyCode::Char('?') => self.mode = Mode::Keys,
            KeyCode::Char('/') => self.mode = Mode::Filter(self.rows.filter().to_owned()),
            KeyCode::Esc => self.rows.set_filter(""),
            KeyCode::Char('s') => {
                self.rows.toggle_directories();
                self.key_at = None;
            }
            KeyCode::Char('o') => {
                self.rows.next_number();
                self.key_at = None;
            }
            KeyCode::Char('n') => return Some(run_line("next", None)),
            KeyCode::Char('b') => return Some(run_line("back", None)),
            KeyCode::Char(key @ ('a' | 'd' | '1'..='9')) => {
                return self.on_row(|app, row| app.answers(&row, key));
            }
            KeyCode::Enter => return self.on_row(|app, row| Some(app.goes(&row))),
            KeyCode::Char('e') => {
                return self.on_row(|app, row| {
                    app.is_here(&row).then(|| run_text("explain", &row.id, &row.name))
                });
            }
            KeyCode::Char('v') => {
                return self
                    .on_row(|app, row| Some(run_text("events", &app.address(&row), &row.name)));
            }
            KeyCode::Char('p') => return self.on_row(|app, row| app.opens_screen(&row)),
            KeyCode::Char('m') => {
                return self.on_row(|app, row| {
                    app.writes(row);
                    None
                });
            }
            KeyCode::Char('R') => return self.on_row(|app, row| app.confirms("recover", &row)),
            KeyCode::Char('H') => return self.on_row(|app, row| app.confirms("hold", &row)),
            _ => (),
        }
        None
    }

    fn on_row(&mut self, act: impl FnOnce(&mut Self, Row) -> Option<Ask>) -> Option<Ask> {
        let row = self.rows.selected()?.clone();
        if row.id.is_empty() {
            // One row for many sessions.
            self.notice = row.hint.map(|hint| format!("→ {hint}"));
            return None;
        }
        act(self, row)
    }

    /// The machine of a session of another machine.
    fn machine(&self, row: &Row) -> Option<String> {
        let session = self.session(&row.id)?;
        session.elsewhere.machine.map(|_| session.host.clone())
    }

    /// How commands name a row: with its machine, if that is another one.
    fn address(&self, row: &Row) -> String {
        let id = row.id.clone();
        self.machine(row).map_or(id, |machine| format!("{machine}/{}", row.id))
    }

    /// Whether a row is of this machine. Nobody acts on another one's from here, and that is said.
    fn is_here(&mut self, row: &Row) -> bool {
        let machine = self.machine(row);
        if let Some(machine) = &machine {
            self.notice =
                Some(format!("{} runs on {machine}. Enter shows the way there.", row.name));
        }
        machine.is_none()
    }

    /// Goes to a session's pane, or shows the command that leads to its machine.
    fn goes(&self, row: &Row) -> Ask {
        match self.machine(row) {
            Some(_) => run_text("go", &self.address(row), &row.name),
            None => run_line("go", Some(row)),
        }
    }

    fn opens_screen(&mut self, row: &Row) -> Option<Ask> {
        if self.session(&row.id).is_none() {
            self.notice = Some(format!("No screen: {} is headless.", row.name));
            return None;
        }
        self.mode = Mode::Pager(Pager {
            title: format!("screen of {}", row.name),
            lines: Vec::new(),
            top: 0,
            screen_of: Some(row.id.clone()),
            read_at: None,
        });
        Some(Ask::Screen(row.id.clone()))
    }

    fn writes(&mut self, row: Row) {
        if self.lost_at.is_some() {
            self.notice = Some("No messages without the coordinator. → coord up".to_owned());
        } else {
            let id = self.address(&row);
            self.mode = Mode::Message { id, name: row.name, text: String::new() };
        }
    }

    /// Answers the oldest request of a session: `a` allows, approves or answers it, `d` denies it, and a number chooses
    /// an option of its question. The command shows the exact input and asks before it sends anything.
    fn answers(&mut self, row: &Row, key: char) -> Option<Ask> {
        if !self.is_here(row) {
            return None;
        }
        let needs = self.session(&row.id).map_or(&[][..], |session| &session.needs);
        let request = needs.iter().find_map(|need| Some((need.request.clone()?, &need.kind)));
        let words = |verb: &str, more: &[String]| {
            let id = request.as_ref().map(|(id, _)| id.clone());
            let words = std::iter::once(verb.to_owned()).chain(id).chain(more.iter().cloned());
            Some(Ask::Converse(words.collect()))
        };
        let is_question = request.as_ref().map(|(_, kind)| kind.as_str() == "question");
        self.notice = Some(match (self.acts, self.lost_at.is_some(), is_question, key) {
            (false, ..) => "Answering needs coordctl top.".to_owned(),
            (_, true, ..) => "No answers without the coordinator. → coord up".to_owned(),
            (.., Some(_), 'd') => return words("deny", &[]),
            (.., Some(true), 'a') => return words("answer", &[]),
            (.., Some(false), 'a') => return words("approve", &[]),
            (.., Some(true), number) => {
                return words("answer", &["--option".to_owned(), number.to_string()]);
            }
            (.., Some(false), _) => format!("{} asks no question. a allows, d denies.", row.name),
            (.., None, _) if row.needs_you() => {
                format!("{} is answered in its terminal. Enter goes there.", row.name)
            }
            (.., None, _) => "Nothing waits for an answer here.".to_owned(),
        });
        None
    }

    fn confirms(&mut self, verb: &str, row: &Row) -> Option<Ask> {
        if !self.is_here(row) {
            return None;
        }
        if self.acts {
            let what = format!("{verb} {}", row.name);
            let mut words = vec![verb.to_owned(), row.id.clone()];
            // What comes of it is seen in the list.
            words.extend((verb == "recover").then(|| "--no-wait".to_owned()));
            self.mode = Mode::Confirm { what, words };
        } else {
            self.notice = Some(format!("→ coordctl {verb} {}", row.name));
        }
        None
    }

    fn key_in_filter(&mut self, key: KeyEvent, mut text: String) -> Option<Ask> {
        self.key_at = None;
        match key.code {
            KeyCode::Enter => return None,
            KeyCode::Esc => text.clear(),
            KeyCode::Down | KeyCode::Up => return self.key_in_list(key),
            code => typed(&mut text, code),
        }
        self.rows.set_filter(&text);
        if key.code != KeyCode::Esc {
            self.mode = Mode::Filter(text);
        }
        None
    }

    fn key_in_message(
        &mut self,
        key: KeyEvent,
        id: String,
        name: String,
        mut text: String,
    ) -> Option<Ask> {
        match key.code {
            KeyCode::Esc => return None,
            KeyCode::Enter if text.trim().is_empty() => return None,
            KeyCode::Enter => {
                // What was typed is no option, however it begins.
                let words = ["send", "--", &id, &text].map(str::to_owned).to_vec();
                let purpose = Purpose::Line(format!("sent to {name}"));
                return Some(Ask::Run { acts: false, words, purpose });
            }
            code => typed(&mut text, code),
        }
        self.mode = Mode::Message { id, name, text };
        None
    }

    fn key_in_pager(&mut self, key: KeyEvent, mut pager: Pager) -> Option<Ask> {
        let last = pager.lines.len().saturating_sub(1);
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        pager.top = match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return None,
            KeyCode::Char('p') if pager.screen_of.is_some() => return None,
            KeyCode::Char('j') | KeyCode::Down | KeyCode::Enter => pager.top + 1,
            KeyCode::Char('k') | KeyCode::Up => pager.top.saturating_sub(1),
            KeyCode::Char(' ') | KeyCode::PageDown => pager.top + PAGE,
            KeyCode::Char('d') if is_control => pager.top + PAGE,
            KeyCode::Char('u') if is_control => pager.top.saturating_sub(PAGE),
            KeyCode::PageUp => pager.top.saturating_sub(PAGE),
            KeyCode::Char('g') | KeyCode::Home => 0,
            KeyCode::Char('G') | KeyCode::End => last,
            _ => pager.top,
        }
        .min(last);
        self.mode = Mode::Pager(pager);
        None
    }
}

/// A command that says something only if it fails.
fn run_line(verb: &str, row: Option<&Row>) -> Ask {
    let words = std::iter::once(verb.to_owned()).chain(row.map(|row| row.id.clone()));
    Ask::Run { acts: false, words: words.collect(), purpose: Purpose::Line(String::new()) }
}

/// A command whose text is shown.
fn run_text(verb: &str, id: &str, name: &str) -> Ask {
    let purpose = Purpose::Text(format!("coord {verb} {name}"));
    Ask::Run { acts: false, words: vec![verb.to_owned(), id.to_owned()], purpose }
}

/// Applies a key to a line that is typed.
fn typed(text: &mut String, code: KeyCode) {
    match code {
        KeyCode::Char(c) if !c.is_control() && text.chars().count() < TYPED_MAX => text.push(c),
        KeyCode::Backspace => drop(text.pop()),
        _ => (),
    }
}

/// The last line that a command printed, its complaint first.
fn last_line(output: &Output) -> Option<String> {
    [&output.stderr, &output.stdout].into_iter().find_map(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let line = text.lines().rfind(|line| !line.trim().is_empty())?;
        let own = ["coord: ", "coordctl: "].iter().find_map(|name| line.strip_prefix(name));
        Some(own.unwrap_or(line).to_owned())
    })
}
