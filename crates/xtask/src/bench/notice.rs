//! Notices of prompts of the real client (N-01, N-03): that exactly those are told that nobody answers in time, each
//! once, how soon they are taken back, and how soon a dialog is told in tmux.

use super::Bench;
use super::place::{self, Place, Which, load, start_line, until};
use super::sample::Sample;
use super::table::{Goal, Table};
use super::terminal::Pane;
use anyhow::Context as _;
use coord_model::SessionState;
use coord_tests::fake_api::{FakeApi, Turn};
use coord_wire::notice::{Notice, NoticeEvent};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a prompt is open before it is told, in seconds.
const DELAY_S: u64 = 20;
/// Milliseconds from the answer until the notice is taken back (N-03).
const WITHDRAWN_MS: f64 = 2000.0;
/// Milliseconds from the dialog to the message in tmux, without a delay.
const TOLD_MS: f64 = 300.0;
/// Between two notices: the message before is gone, so that a redrawn one is not taken for the next.
const NEXT: Duration = Duration::from_secs(6);
/// On the screen while a permission dialog is open.
const DIALOG: &str = "1. Yes";
/// What the message in tmux says.
const SAYS: &str = "asks to run Bash";

/// One session, and what was told of it.
struct Told {
    place: Place,
    pane: Pane,
    id: String,
    log: PathBuf,
}

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    if !place::has_client() {
        return Ok(());
    }
    delays(bench, table)?;
    prompts(bench, table)
}

/// Prompts, half of which are answered in time.
fn prompts(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let before = load();
    let mut told = Told::open(bench, &format!("{DELAY_S}s"))?;
    let mut withdrawn = Sample::default();
    let (mut missed, mut needless) = (0_u32, 0_u32);
    let n = bench.rounds(20);
    for round in 0..n {
        let (known, begun) = (told.notices()?.len(), told.ask(round)?);
        let is_in_time = round.is_multiple_of(2);
        // 1 to 19 s, one after the other.
        let after_s = if is_in_time { 1 + (round / 2 * 2) as u64 % 19 } else { DELAY_S + 2 };
        until("the time of the answer", || {
            Ok((Duration::from_secs(after_s) <= begun.elapsed()).then_some(()))
        })?;
        let is_told = known < told.notices()?.len();
        missed += u32::from(!is_in_time && !is_told);
        needless += u32::from(is_in_time && is_told);
        told.answer()?;
        if is_told {
            let answered = Instant::now();
            until("it is taken back", || Ok((known + 2 <= told.notices()?.len()).then_some(())))?;
            withdrawn.push(answered.elapsed());
        }
        told.when_idle()?;
    }
    let all = told.notices()?;
    let doubles = all.iter().filter(|one| {
        let is_same = |other: &&Notice| other.id == one.id && other.event == one.event;
        1 < all.iter().filter(is_same).count()
    });
    let detail =
        format!("{n} prompts, half of them answered after 1 to 19 s; load {before} to {}", load());
    let none = Goal::AtMost(0.0, 0.0);
    for (what, count) in [
        ("notices: unanswered prompts that were not told", missed),
        ("notices: prompts answered in time that were told", needless),
        ("notices: told twice", u32::try_from(doubles.count())?),
    ] {
        table.row(what.to_owned(), f64::from(count), "", none, detail.clone());
    }
    let detail = format!("p99 {:.0} ms of {}", withdrawn.p99() / 1000.0, withdrawn.len());
    let goal = Goal::AtMost(WITHDRAWN_MS, WITHDRAWN_MS);
    let what = "notices: answer to withdrawal".to_owned();
    table.row(what, withdrawn.median() / 1000.0, "ms", goal, detail);
    told.place.down().map(drop)
}

/// From the dialog on the screen to the message on an attached terminal.
fn delays(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let before = load();
    let mut told = Told::open(bench, "0s")?;
    let (_terminal, shown) = told.place.terminal.attach(&told.place.home)?;
    let messages = || -> anyhow::Result<usize> {
        Ok(String::from_utf8_lossy(&std::fs::read(&shown)?).matches(SAYS).count())
    };
    let mut times = Sample::default();
    let mut last = None::<Instant>;
    for round in 0..bench.rounds(20) {
        until("the time of the next notice", || {
            let is_time = last.is_none_or(|last| NEXT <= last.elapsed());
            Ok(is_time.then_some(()))
        })?;
        last = Some(Instant::now());
        let known = messages()?;
        let begun = told.ask(round)?;
        let arrives = until("the message", || Ok((known < messages()?).then_some(())));
        arrives.with_context(|| {
            let need = told.place.coord(&["events", &told.id, "-n", "12", "--all"]);
            format!("{}{need}", told.place.coord(&["status"]))
        })?;
        times.push(begun.elapsed());
        told.answer()?;
        told.when_idle()?;
    }
    let detail = format!(
        "p99 {:.0} ms of {}, looked at every 20 ms; load {before} to {}",
        times.p99() / 1000.0,
        times.len(),
        load()
    );
    let goal = Goal::AtMost(TOLD_MS, TOLD_MS);
    let what = "notices: dialog to the message in tmux, p99".to_owned();
    table.row(what, times.p99() / 1000.0, "ms", goal, detail);
    told.place.down().map(drop)
}

impl Told {
    fn open(bench: &Bench, delay: &str) -> anyhow::Result<Self> {
        let api = FakeApi::start([Turn::text("Done.").lasting()]);
        // The place writes the rest of the configuration.
        let files = tempfile::tempdir()?.keep();
        let (program, log) = (files.join("tell"), files.join("told"));
        std::fs::write(&program, format!("#!/bin/sh\nexec /bin/cat >> {}\n", log.display()))?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        let config = format!(
            "[notice]\ndelays = {{ permission = '{delay}' }}\n\
             [notice.channel.log]\nvia = 'command'\nprogram = '{}'\nper_hour = 1000\n\
             [notice.channel.tmux]\nvia = 'tmux'\nper_hour = 1000\n",
            program.display()
        );
        let place = Place::open(bench, Which::Real(api), &config)?;
        let id = super::events::session_id(0);
        let pane = place.terminal.pane(&place.home.project())?;
        place.terminal.wait_shell(&pane)?;
        place.terminal.command(&pane, &start_line(&id))?;
        let told = Self { place, pane, id, log };
        told.when_idle()?;
        told.place.terminal.wait_screen(&told.pane, "❯\u{a0}")?;
        Ok(told)
    }

    /// Sends a prompt that ends in a dialog. When the dialog was on the screen.
    fn ask(&mut self, round: usize) -> anyhow::Result<Instant> {
        let prompt = format!("Make number {round}.");
        self.place.will_answer(Turn::bash(&format!("touch made-{round}")).only_after(&prompt));
        self.place.terminal.say(&self.pane, &prompt)?;
        self.place.terminal.wait_screen(&self.pane, DIALOG)?;
        Ok(Instant::now())
    }

    /// The client ignores keys for a moment after a dialog appears (measured: up to 0.5 s).
    fn answer(&self) -> anyhow::Result<()> {
        until("the end of the dialog", || {
            let is_open = self.place.terminal.screen(&self.pane)?.contains(DIALOG);
            is_open.then(|| self.place.terminal.key(&self.pane, "Enter")).transpose()?;
            Ok((!is_open).then_some(()))
        })
    }

    fn when_idle(&self) -> anyhow::Result<()> {
        self.place.when(&self.id, "it is idle", |one| one.state == SessionState::Idle).map(drop)
    }

    /// What the channel got of needs.
    fn notices(&self) -> anyhow::Result<Vec<Notice>> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let all = text.lines().map(serde_json::from_str::<Notice>);
        let all = all.collect::<Result<Vec<_>, _>>().context("a notice")?;
        Ok(all.into_iter().filter(|one| one.event != NoticeEvent::Test).collect())
    }
}
