//! `--plain`, for screen readers and logs: a line per change, and typed commands.

use std::io::{self, Write, stdout};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use coord_view::list::{List, Row};
use coord_view::text::escape;
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;

use crate::Failure;
use crate::app::Purpose;
use crate::looks::Looks;
use crate::source::{Look, Ran, Source};
use crate::threads::{News, Threads, report_panics};

const HELP: &str =
    "Commands: go NAME, next, back, list, explain NAME, events NAME, message NAME TEXT, quit.";

pub(crate) fn run(source: &dyn Source, takes_commands: bool) -> Result<(), Failure> {
    let (threads, news) = Threads::start()?;
    report_panics(|| ());
    if takes_commands {
        threads.read_lines()?;
    }
    let mut plain = Plain {
        source,
        threads,
        looks: Looks::new(),
        look: Look::default(),
        list: None,
        is_lost: false,
    };
    loop {
        let now = Instant::now();
        if plain.looks.starts(now) {
            plain.threads.run(source.look(plain.list.is_none()), News::Looked)?;
        }
        let due = plain.looks.next_at().map(|at| at.saturating_duration_since(now));
        let next = match due {
            Some(left) => news.recv_timeout(left),
            None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(one) => {
                if plain.take(one)? {
                    return Ok(());
                }
            }
            Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

struct Plain<'a> {
    source: &'a dyn Source,
    threads: Threads,
    looks: Looks,
    look: Look,
    /// What was said last; none before the first look.
    list: Option<List>,
    is_lost: bool,
}

impl Plain<'_> {
    /// Takes what happened. Returns whether the program ends.
    fn take(&mut self, news: News) -> Result<bool, Failure> {
        match news {
            News::Line(None) => return Ok(true),
            News::Line(Some(line)) => return self.command(&line),
            News::Signal(SIGCONT) | News::Input(_) | News::Screen(_) => (),
            News::Signal(SIGTSTP) => emulate_default_handler(SIGTSTP)?,
            News::Signal(signal) => return Err(Failure::Signal(signal)),
            News::Changed => self.looks.changed(Instant::now()),
            News::Unwatched => self.looks.unwatched(Instant::now()),
            News::Looked(found) => {
                let is_last = found.as_ref().is_ok_and(|look| look.is_last);
                self.looked(found)?;
                return Ok(is_last);
            }
            News::Ran(_, ran) => self.print_ran(ran)?,
            News::Panicked(report) => return Err(Failure::Panicked(report)),
        }
        Ok(false)
    }

    fn looked(&mut self, found: anyhow::Result<Look>) -> io::Result<()> {
        let is_live = found.as_ref().is_ok_and(|look| look.is_live);
        if !is_live && !self.is_lost {
            self.say("Coordinator lost; retrying.")?;
        } else if is_live && self.is_lost {
            self.say("Coordinator found again.")?;
        }
        self.is_lost = !is_live;
        if let Ok(look) = found {
            let list = self.source.list(&look.answer, self.source.now_ms());
            let lines = match &self.list {
                None => first(&list),
                Some(before) => changes(before, &list),
            };
            for line in lines {
                self.say(&line)?;
            }
            (self.look, self.list) = (look, Some(list));
        }
        let pid = Some(self.look.answer.coordinator.pid).filter(|_| is_live);
        self.looks.ended(pid, self.source, &self.threads)
    }

    fn say(&self, text: &str) -> io::Result<()> {
        let mut out = stdout().lock();
        writeln!(out, "{} {}", self.source.clock(self.source.now_ms()), escape(text))?;
        out.flush()
    }

    /// Performs a typed command. Returns whether the program ends.
    fn command(&mut self, line: &str) -> Result<bool, Failure> {
        let mut words = line.trim().splitn(3, char::is_whitespace);
        let (verb, name, text) = (words.next().unwrap_or(""), words.next(), words.next());
        let words = match (verb, name, text) {
            ("", ..) => return Ok(false),
            ("quit" | "q", ..) => return Ok(true),
            ("list", ..) => vec!["inspect"],
            ("next" | "back", None, None) => vec![verb],
            ("go" | "explain" | "events", Some(name), None) => vec![verb, "--", name],
            ("message", Some(name), Some(text)) => vec!["send", "--", name, text],
            _ => {
                self.say(HELP)?;
                return Ok(false);
            }
        };
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let purpose = Purpose::Text(verb.to_owned());
        let job = self.source.command(false, &words);
        self.threads.run(job, |ran| News::Ran(purpose, ran))?;
        Ok(false)
    }

    fn print_ran(&self, ran: Ran) -> io::Result<()> {
        let output = match ran {
            Ok(output) => output,
            Err(error) => return self.say(&format!("coord could not be run: {error}")),
        };
        let mut out = stdout().lock();
        for bytes in [&output.stdout, &output.stderr] {
            for line in String::from_utf8_lossy(bytes).lines() {
                writeln!(out, "{}", escape(line))?;
            }
        }
        out.flush()
    }
}

/// The summary, and who needs a person.
fn first(list: &List) -> Vec<String> {
    let needs = list.rows.iter().filter(|row| row.needs_you()).map(said);
    std::iter::once(list.summary("·")).chain(needs).collect()
}

/// What changed from one list to the next.
fn changes(before: &List, after: &List) -> Vec<String> {
    let of = |list: &List, row: &Row| list.rows.iter().find(|one| one.id == row.id).cloned();
    let new = after.rows.iter().filter(|row| {
        let before = of(before, row);
        let is_same = |one: &Row| (one.group, &one.state) == (row.group, &row.state);
        let is_same_need = |one: &Row| !row.needs_you() || one.what == row.what;
        !before.is_some_and(|one| is_same(&one) && is_same_need(&one))
    });
    let gone = before.rows.iter().filter(|row| of(after, row).is_none());
    let gone = gone.map(|row| format!("{} is no longer listed", row.name));
    new.map(said).chain(gone).collect()
}

fn said(row: &Row) -> String {
    let what = if row.what.is_empty() { String::new() } else { format!(": {}", row.what) };
    let place = if row.place.is_empty() { String::new() } else { format!(", {}", row.place) };
    if row.needs_you() {
        format!("{} needs you{what}{place}", row.name)
    } else {
        format!("{} is {}{what}{place}", row.name, row.state)
    }
}
