//! What the page of `coord dashboard` costs with 500 sessions at 50 events a second: processor time of its process, what
//! one page that is shown gets, and processor time of the browser that shows it (W-02). While no page is shown, it costs
//! nothing.

mod browser;

use super::Bench;
use super::events::{Events, sync, take};
use super::place::{load, pass};
use super::sandbox::Sandbox;
use super::socket::Socket;
use super::table::{Goal, Table};
use super::top::Cost;
use anyhow::{Context, bail};
use coord_daemon::engine::Engine;
use coord_host::process::stat;
use coord_model::ProcessRef;
use coord_store::{RealDisk, now};
use serde_json::value::RawValue;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SESSIONS: usize = 500;
const EVENTS_PER_S: u32 = 50;
/// No answer takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let sandbox = Sandbox::new(bench)?;
    let mut feed = Feed::new(bench)?;
    let mut engine = sandbox.engine()?;
    feed.begin(&mut engine)?;
    drop(engine);
    let coordinator = sandbox.serve()?;
    let window = Duration::from_secs(if bench.quick { 10 } else { 60 });
    process(&sandbox, bench, &mut feed, window, table)?;
    for name in browser::NAMES {
        let page = Page::start(&sandbox, bench)?;
        let mut events = |what| feed.send(&sandbox, window, what);
        browser::measure(name, &page.url(), window, &mut events, table)?;
    }
    coordinator.down()
}

/// What the page's own process takes.
fn process(
    sandbox: &Sandbox,
    bench: &Bench,
    feed: &mut Feed,
    window: Duration,
    table: &mut Table,
) -> anyhow::Result<()> {
    let page = Page::start(sandbox, bench)?;
    let (before, begun) = (page.cost()?, Instant::now());
    pass(begun + window / 2);
    let hidden = page.cost()?.since(&before);
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let what = "dashboard: no page is shown";
    let detail = format!("{:.3} s of a core", hidden.used_s);
    table.row(what, hidden.wakes / minutes, "wake-ups/min", Goal::None, detail);
    let read = page.read()?;
    for what in [What::Tools, What::Turns] {
        let (before, begun) = (page.cost()?, Instant::now());
        let read_before = read.load(Ordering::Relaxed);
        feed.send(sandbox, window, what)?;
        let busy = page.cost()?.since(&before);
        let seconds = begun.elapsed().as_secs_f64();
        let bytes = read.load(Ordering::Relaxed).saturating_sub(read_before);
        let bytes = bytes.to_string().parse::<f64>()?;
        let detail = format!(
            "{:.1} wake-ups/s, {:.0} bytes/s to the page; {seconds:.0} s; load {}",
            busy.wakes / seconds,
            bytes / seconds,
            load()
        );
        let what = format!("dashboard: {SESSIONS} sessions, {EVENTS_PER_S} {}/s", what.name());
        let share = 100.0 * busy.used_s / seconds;
        table.row(what, share, "% of a core", Goal::AtMost(5.0, 2.5), detail);
    }
    Ok(())
}

/// What happens in the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Tools end, which changes no state.
    Tools,
    /// Turns end and begin, each of which moves its session to another group.
    Turns,
    /// A turn begins in each session, all at once.
    Prompts,
}

impl What {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tools => "tool events",
            Self::Turns => "changes of state",
            Self::Prompts => "prompts",
        }
    }
}

/// Sends events of all sessions in turn, evenly over a time.
struct Feed {
    events: Events,
    clients: Clients,
    /// Changes of state that were sent so far.
    turns: usize,
}

impl Feed {
    fn new(bench: &Bench) -> anyhow::Result<Self> {
        Ok(Self { events: Events::new(bench)?, clients: Clients::start(SESSIONS)?, turns: 0 })
    }

    /// A turn is open in each session.
    fn begin(&mut self, engine: &mut Engine<RealDisk>) -> anyhow::Result<()> {
        for session in 0..SESSIONS {
            for event in ["SessionStart", "UserPromptSubmit", "PostToolUse"] {
                take(engine, self.make(event, session)?, now())?;
            }
        }
        sync(engine)
    }

    fn make(&mut self, event: &str, session: usize) -> anyhow::Result<Box<RawValue>> {
        self.events.make_of(event, session, self.clients.process(session)?)
    }

    fn send(&mut self, sandbox: &Sandbox, window: Duration, what: What) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut socket = Socket::open(&sandbox.paths)?;
        if what == What::Prompts {
            for session in 0..SESSIONS {
                socket.post(&self.make("UserPromptSubmit", session)?, true)?;
            }
            self.turns = 0;
            return Ok(());
        }
        for n in 1.. {
            let at = Duration::from_secs(1) / EVENTS_PER_S * n;
            if window < at {
                break;
            }
            let (event, number) = if what == What::Tools {
                ("PostToolUse", usize::try_from(n)?)
            } else {
                let is_open = (self.turns / SESSIONS).is_multiple_of(2);
                self.turns += 1;
                (if is_open { "Stop" } else { "UserPromptSubmit" }, self.turns)
            };
            // Sessions that follow each other here are far from each other in the list.
            let event = self.make(event, number.wrapping_mul(7919) % SESSIONS)?;
            socket.post(&event, true)?;
            pass(begun + at);
        }
        Ok(())
    }
}

/// Living processes that the sessions belong to, so that all of them are listed. They end with this.
pub(super) struct Clients(Vec<Child>);

impl Clients {
    /// So many processes.
    pub(super) fn start(n: usize) -> anyhow::Result<Self> {
        let mut clients = Self(Vec::new());
        for _ in 0..n {
            let mut command = Command::new("cat");
            command.env_clear().env("PATH", "/usr/bin:/bin");
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            clients.0.push(command.spawn().context("cat")?);
        }
        Ok(clients)
    }

    /// The process of this session.
    pub(super) fn process(&self, session: usize) -> anyhow::Result<ProcessRef> {
        process_of(self.0.get(session).context("a client")?)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for client in &mut self.0 {
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}

fn process_of(client: &Child) -> anyhow::Result<ProcessRef> {
    let stat = stat(client.id()).context("a client has ended")?;
    Ok(ProcessRef { pid: client.id(), start_time: stat.start_time })
}

/// The process, which ends with this.
struct Page {
    child: Child,
    at: SocketAddr,
    code: String,
}

impl Page {
    fn start(sandbox: &Sandbox, bench: &Bench) -> anyhow::Result<Self> {
        let mut command = Command::new(&bench.programs.coord);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", sandbox.root());
        command.arg("dashboard").args(sandbox.arguments());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("coord dashboard")?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("its output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let found = line.strip_prefix("Open http://").and_then(|rest| rest.split_once("/#c="));
        let (at, rest) = found.with_context(|| line.clone())?;
        let code = rest.split(' ').next().unwrap_or_default().to_owned();
        Ok(Self { at: at.parse()?, code, child })
    }

    fn cost(&self) -> anyhow::Result<Cost> {
        Cost::of(self.child.id())
    }

    fn url(&self) -> String {
        format!("http://{}/#c={}", self.at, self.code)
    }

    fn connect(&self, request: &str) -> anyhow::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&self.at, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request.as_bytes())?;
        Ok(stream)
    }

    /// Shows the page; the bytes that it gets are counted.
    fn read(&self) -> anyhow::Result<Arc<AtomicU64>> {
        let at = self.at;
        let own = format!("Host: {at}\r\nOrigin: http://{at}\r\nSec-Fetch-Site: same-origin\r\n");
        let body = format!("{{\"code\": \"{}\"}}", self.code);
        let mut answer = String::new();
        let head = format!(
            "{own}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close",
            body.len()
        );
        self.connect(&format!("POST /api/token HTTP/1.1\r\n{head}\r\n\r\n{body}"))?
            .read_to_string(&mut answer)?;
        let token = answer.split("\"token\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let token = token.with_context(|| answer.clone())?;
        let ask = format!("GET /api/stream HTTP/1.1\r\n{own}Coord-Token: {token}\r\n\r\n");
        let mut stream = self.connect(&ask)?;
        let counted = Arc::new(AtomicU64::new(0));
        let own = Arc::clone(&counted);
        std::thread::spawn(move || {
            let mut buffer = [0; 8 * 1024];
            while let Ok(n) = stream.read(&mut buffer) {
                if n == 0 {
                    break;
                }
                own.fetch_add(u64::try_from(n).unwrap_or_default(), Ordering::Relaxed);
            }
        });
        let begun = Instant::now();
        // The first lines are all there is.
        while counted.load(Ordering::Relaxed) < 10_000 {
            if PATIENCE < begun.elapsed() {
                bail!("the page gets nothing");
            }
            pass(Instant::now() + Duration::from_millis(100));
        }
        Ok(counted)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
