//! What it costs to have 200 sessions in tmux watched while little happens: coordinator, the tmux
//! processes it starts, and what the tmux server takes beyond its own cost without a coordinator, as
//! a share of one core.
//!
//! All sessions are interactive, unattended and known to registry and hooks, each with a wake hook that
//! waits. In some a turn is open and something is painted each second; in others a recovery waits for a
//! draft to go away.

use super::Bench;
use super::client::{DAMAGE, DONE, HANG};
use super::events::session_id;
use super::place::{Place, Which, load, pass, start_line, until};
use super::sample::count;
use super::table::{Goal, Table};
use super::terminal::Pane;
use anyhow::{Context, bail};
use coord_model::SessionState;
use coord_wire::inspect::Session;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

const SESSIONS: usize = 200;
/// Sessions in which something happens.
const CHANGING: usize = 5;
/// Sessions whose recovery waits.
const WAITING: usize = 5;

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let place = Place::open(bench, Which::Scripted, "")?;
    start(&place)?;
    let window = Duration::from_secs(if bench.quick { 30 } else { 120 });
    let before = load();
    let (coordinator, server) = (place.coordinator(), place.terminal.pid());
    let waiters = until("a wake hook of each session", || {
        let waiters = hooks_of(&place.home.root(), "coord-hook-wake")?;
        Ok((SESSIONS - CHANGING - WAITING <= waiters.len()).then_some(waiters))
    })?;
    let waited_s = || waiters.iter().map(|pid| Ok(used(*pid)?.own)).sum::<anyhow::Result<f64>>();
    let (waited_before_s, begun) = (waited_s()?, Instant::now());
    let watched = Cost::within(window, &[coordinator, server], || threads(coordinator))?;
    let waited = 100.0 * (waited_s()? - waited_before_s) / begun.elapsed().as_secs_f64();
    wake_hooks(&waiters, waited, table)?;
    // A recovery that was given up, or a session that was lost, would make it cheap.
    let waiting = place.sessions("")?.iter().filter(|one| one.pending_recovery.is_some()).count();
    if waiting != WAITING {
        bail!("{waiting} recoveries wait, not {WAITING}");
    }
    let listed = place.sessions("")?.iter().filter(|one| is_alive(one)).count();
    if listed != SESSIONS {
        bail!("{listed} sessions live, not {SESSIONS}");
    }
    place.down()?;
    let alone = Cost::within(window / 2, &[server], || Ok(BTreeMap::new()))?;
    let [own, tmux] = watched.shares[..] else { bail!("two processes, two shares") };
    let floor = alone.shares.first().copied().unwrap_or_default();
    let mut detail = format!(
        "coordinator {:.3} %, tmux processes it starts {:.3} %, tmux server {:.3} % ({floor:.3} % without \
         coordinator); {} s; load {before} to {}; threads",
        own.own,
        own.children,
        tmux.own,
        window.as_secs(),
        load(),
        floor = floor.own,
    );
    for (name, share) in &watched.threads {
        let _ = write!(detail, " {name} {share:.3} %");
    }
    let what = format!("{SESSIONS} sessions, {CHANGING} changing, {WAITING} recoveries wait");
    let added = own.own + own.children + tmux.own - floor.own;
    table.row(format!("standing: {what}"), added, "% of a core", Goal::AtMost(0.5, 0.25), detail);
    let all = own.own + own.children + tmux.own;
    let detail = "with what the tmux server takes for its panes alone".to_owned();
    table.row("standing, all included", all, "% of a core", Goal::None, detail);
    Ok(())
}

/// The processes of a hook that belong to the coordinator with this root. The kernel keeps 15 bytes of a name.
pub(super) fn hooks_of(root: &Path, name: &str) -> anyhow::Result<Vec<u32>> {
    let mut pids = Vec::new();
    let root = root.as_os_str().as_bytes();
    let name = format!("{}\n", name.get(..15).unwrap_or(name));
    for process in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end while it is looked at.
        let read = |name: &str| std::fs::read(process.path().join(name)).unwrap_or_default();
        let is_own = read("cmdline").windows(root.len()).any(|part| part == root);
        if is_own && read("comm") == name.as_bytes() {
            pids.push(pid);
        }
    }
    Ok(pids)
}

/// The memory of processes that they share with no other, in KiB.
pub(super) fn private_kib(pids: &[u32]) -> anyhow::Result<f64> {
    let mut private_kib = 0.0;
    for pid in pids {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let own = text.lines().filter(|line| line.starts_with("Private_"));
        private_kib +=
            own.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).sum::<f64>();
    }
    Ok(private_kib)
}

/// U-08: what the wake hooks cost while they wait.
fn wake_hooks(waiters: &[u32], waited: f64, table: &mut Table) -> anyhow::Result<()> {
    let private_kib = private_kib(waiters)?;
    let n = waiters.len();
    let detail = format!(
        "{private_kib:.0} KiB not shared in {n} processes; {waited:.3} % of a core while they wait"
    );
    table.row("a wake hook that waits", private_kib / count(n), "KiB", Goal::None, detail);
    Ok(())
}

fn is_alive(session: &Session) -> bool {
    session.owner.as_ref().is_some_and(|owner| owner.alive == Some(true))
}

/// Starts all sessions and brings them to where they are to be.
fn start(place: &Place) -> anyhow::Result<()> {
    let terminal = &place.terminal;
    let mut panes = Vec::new();
    for number in 0..SESSIONS {
        let pane = terminal.pane(&place.home.project())?;
        terminal.command(&pane, &start_line(&session_id(number)))?;
        panes.push(pane);
    }
    until("all sessions", || {
        let sessions = place.sessions("")?;
        let idle = sessions.iter().filter(|session| session.state == SessionState::Idle).count();
        Ok((idle == SESSIONS).then_some(()))
    })?;
    let mut rest = panes.iter().enumerate();
    for (number, pane) in rest.by_ref().take(CHANGING) {
        prompt(place, number, pane, &format!("work, and {HANG}"))?;
    }
    let waiting: Vec<(usize, &Pane)> = rest.by_ref().take(WAITING).collect();
    for (number, pane) in &waiting {
        // What stands on the first screen that is seen is taken for an older conversation's (H-07).
        let is_seen = |one: &Session| one.evidence.iter().any(|known| known.source == "pane");
        place.when(&session_id(*number), "its pane was looked at", is_seen)?;
        prompt(place, *number, pane, &format!("{DAMAGE}, and {HANG}"))?;
    }
    for (number, pane) in &waiting {
        let id = session_id(*number);
        place.when(&id, "a recovery is owed", |one| one.pending_recovery.is_some())?;
        terminal.command(pane, DONE)?;
    }
    for (number, _) in &waiting {
        // Until then it waits for other things: where the words come from, that all has settled.
        let id = session_id(*number);
        until("a recovery that waits for its draft", || {
            Ok(place.decisions(&id)?.contains("holds a draft").then_some(()))
        })?;
    }
    Ok(())
}

fn prompt(place: &Place, number: usize, pane: &Pane, text: &str) -> anyhow::Result<()> {
    place.terminal.command(pane, text)?;
    let is_running = |session: &Session| session.state == SessionState::Running;
    place.when(&session_id(number), "its turn is open", is_running).map(drop)
}

/// What processes used, in percent of a core.
struct Cost {
    /// Of each process.
    shares: Vec<Used>,
    /// The threads of one of them, by name.
    threads: BTreeMap<String, f64>,
}

/// Seconds of a core, or a share of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) own: f64,
    /// Of children that have ended.
    pub(super) children: f64,
}

impl Cost {
    fn within(
        window: Duration,
        pids: &[u32],
        threads: impl Fn() -> anyhow::Result<BTreeMap<String, f64>>,
    ) -> anyhow::Result<Self> {
        let all = || pids.iter().map(|pid| used(*pid)).collect::<anyhow::Result<Vec<Used>>>();
        let begun = Instant::now();
        let (before, threads_before) = (all()?, threads()?);
        pass(begun + window);
        let (after, threads_after) = (all()?, threads()?);
        let percent = |used: f64| 100.0 * used / begun.elapsed().as_secs_f64();
        let shares = after.iter().zip(&before).map(|(after, before)| Used {
            own: percent(after.own - before.own),
            children: percent(after.children - before.children),
        });
        let threads = threads_after.into_iter().map(|(name, used_s)| {
            let used_s = used_s - threads_before.get(&name).copied().unwrap_or_default();
            (name, percent(used_s))
        });
        Ok(Self { shares: shares.collect(), threads: threads.collect() })
    }
}

/// What a process and its ended children have used since their starts, in seconds.
pub(super) fn used(pid: u32) -> anyhow::Result<Used> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = text.rsplit_once(") ").context("/proc/PID/stat")?;
    // utime, stime, cutime, cstime: fields 14 to 17; the rest begins with the third.
    let fields: Vec<f64> =
        rest.split(' ').skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
    let per_second = f64::from(u32::try_from(rustix::param::clock_ticks_per_second())?);
    let [user, system, user_children, system_children] = fields[..] else {
        bail!("/proc/PID/stat has another shape")
    };
    let (own, children) = (user + system, user_children + system_children);
    Ok(Used { own: own / per_second, children: children / per_second })
}

/// What each thread of a process has used, in seconds, by its name.
pub(super) fn threads(pid: u32) -> anyhow::Result<BTreeMap<String, f64>> {
    let mut threads = BTreeMap::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let dir = thread?.path();
        let name = std::fs::read_to_string(dir.join("comm"))?.trim().to_owned();
        let text = std::fs::read_to_string(dir.join("schedstat"))?;
        let ns: f64 = text.split(' ').next().context("schedstat")?.parse()?;
        *threads.entry(name).or_default() += ns / 1e9;
    }
    Ok(threads)
}
