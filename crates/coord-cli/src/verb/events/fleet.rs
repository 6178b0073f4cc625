//! `coord events --fleet`: the history of all machines, from what the fleet's server holds (F-03). This machine's is read there too: one
//! clock orders all of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufWriter, Write as _};
use std::time::Duration;

use anyhow::anyhow;
use coord_fleet::{EngineError, Trouble};
use coord_model::MachineId;
use coord_relay::{Connection, FleetHistory, Settings, Told};
use coord_view::history::{Detail, Entry, Fold, Line};
use coord_wire::inspect::Session;
use serde::Serialize;

use super::{Args, ID_COLUMNS, Style, detail, first_lines};
use crate::context::Context;
use crate::out::{Failure, complain, print_json};
use crate::verb::fleet::check::ranges;
use crate::verb::fleet::{machines, member, own_name, server_failed};
use crate::verb::inspect::look;

/// Columns of a machine's and its session's name.
const NAME_COLUMNS: usize = 24;
/// The newest lines are looked for in so many batches first, and in ever more of them.
const BATCHES: u64 = 64;
/// `--follow` asks the server this often for more. A machine may not have it deliver the journals of others by itself.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let wanted = Wanted::new(args, context)?;
    let (config, identity, settings) = member(context)?;
    let own = identity.keys.machine();
    let names = Names::read((own, own_name(&config)), context);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let connection = Connection::open(&settings, own).await;
        let connection = connection.map_err(|error| failed(&settings, &error))?;
        let history = FleetHistory::new(connection.engine(), wanted.machine);
        let mut shown = Shown { args, wanted, names, history, settings, fold: None, any: false };
        shown.first().await?;
        shown.tell_troubles();
        if args.follow {
            shown.follow(context).await?;
        }
        shown.end()
    })
}

fn failed(settings: &Settings, error: &EngineError) -> Failure {
    let failure = server_failed(settings, error);
    if let Failure::NotReachable(text) = failure {
        let here = "coord events without --fleet shows this machine's history";
        return Failure::NotReachable(format!("{text}; {here}"));
    }
    failure
}

/// What is shown.
struct Wanted {
    /// The machine; none for all of them.
    machine: Option<MachineId>,
    /// The ids that its session has had; none for all sessions.
    ids: Option<BTreeSet<String>>,
    /// By the server's clock, in milliseconds since 1970.
    since_ms: u64,
    detail: Detail,
}

impl Wanted {
    fn new(args: &Args, context: &Context) -> Result<Self, Failure> {
        let since_ms = args.since.map_or(0, |ms| context.now.wall_ms.saturating_sub(ms));
        let all = Self { machine: None, ids: None, since_ms, detail: detail(args) };
        let Some(id) = &args.id else { return Ok(all) };
        let Some((machine, word)) = id.split_once('/') else {
            return Err(Failure::Failed(anyhow!(
                "--fleet shows one session as MACHINE/ID; for {id:?} of this machine, leave --fleet out"
            )));
        };
        let (machine, session) = machines::session(machine, word, context)?;
        let known = machine.sessions().into_iter().find(|one| one.session_id == session);
        let mut ids = BTreeSet::from([session]);
        ids.extend(known.into_iter().flat_map(|one| one.previous_ids));
        Ok(Self { machine: Some(machine.id), ids: Some(ids), ..all })
    }

    fn has(&self, line: &Line) -> bool {
        let is_of = |ids: &BTreeSet<String>| {
            line.session_id.as_ref().is_some_and(|session| ids.contains(session))
        };
        self.detail.has(line) && self.ids.as_ref().is_none_or(is_of)
    }
}

/// How machines and their sessions are called here.
struct Names {
    own: MachineId,
    machines: BTreeMap<MachineId, String>,
    sessions: BTreeMap<(MachineId, String), String>,
}

impl Names {
    fn read((own, own_name): (MachineId, String), context: &Context) -> Self {
        let mut names =
            Self { own, machines: BTreeMap::from([(own, own_name)]), sessions: BTreeMap::new() };
        // What has no name is called by its id.
        if let Ok(looked) = look(None, context) {
            names.add(own, looked.answer.sessions);
        }
        for machine in machines::all(context).unwrap_or_default() {
            names.add(machine.id, machine.sessions());
            names.machines.insert(machine.id, machine.name);
        }
        names
    }

    fn add(&mut self, machine: MachineId, sessions: Vec<Session>) {
        for session in sessions {
            let Some(name) = session.display_name else { continue };
            for id in session.previous_ids.into_iter().chain([session.session_id]) {
                self.sessions.insert((machine, id), name.clone());
            }
        }
    }

    fn machine(&self, machine: MachineId) -> String {
        self.machines.get(&machine).cloned().unwrap_or_else(|| machines::short(machine))
    }

    /// The session of a line, as `coord inspect --fleet` names it.
    fn session(&self, machine: MachineId, line: &Line) -> String {
        let short = |id: &str| id.chars().take(ID_COLUMNS).collect();
        let session = match &line.session_id {
            Some(id) => {
                self.sessions.get(&(machine, id.clone())).cloned().unwrap_or_else(|| short(id))
            }
            None => "-".to_owned(),
        };
        if machine == self.own { session } else { format!("{}/{session}", self.machine(machine)) }
    }
}

/// A line for programs: that of `coord events --json`, and whose it is.
#[derive(Serialize)]
struct JsonLine<'a> {
    host: &'a str,
    machine: MachineId,
    #[serde(flatten)]
    line: &'a Line,
}

/// The history as it is shown. Little of it is in memory at a time.
struct Shown<'a> {
    args: &'a Args,
    wanted: Wanted,
    names: Names,
    history: FleetHistory,
    settings: Settings,
    /// Lines of one machine that may fold into one, and the machine.
    fold: Option<(MachineId, Fold)>,
    /// Whether anything was printed.
    any: bool,
}

impl Shown<'_> {
    /// Shows what there is.
    async fn first(&mut self) -> Result<(), Failure> {
        let end = self.history.end().await;
        let end = end.map_err(|error| failed(&self.settings, &error))?;
        let begin = match self.wanted.since_ms {
            0 => 1,
            since_ms => {
                let place = self.history.place_since(since_ms, end).await;
                place.map_err(|error| failed(&self.settings, &error))?
            }
        };
        let Some(max) = first_lines(self.args) else {
            self.history.begin_at(begin);
            while let Some(entries) = self.next().await? {
                self.print(&entries)?;
            }
            let rest = self.finish();
            return self.print(&rest);
        };
        // Most of the time a few batches have as many lines.
        let mut batches = BATCHES;
        loop {
            let from = begin.max(end.saturating_add(1).saturating_sub(batches));
            self.history.begin_at(from);
            let mut newest = VecDeque::new();
            while let Some(entries) = self.next().await? {
                newest.extend(entries);
                newest.drain(..newest.len().saturating_sub(max));
            }
            newest.extend(self.finish());
            newest.drain(..newest.len().saturating_sub(max));
            if max <= newest.len() || from == begin {
                return self.print(newest.make_contiguous());
            }
            batches = batches.saturating_mul(8);
        }
    }

    /// Shows what comes, until it is killed.
    async fn follow(&mut self, context: &Context) -> Result<(), Failure> {
        let mut is_lost = false;
        loop {
            match self.next().await {
                Ok(Some(entries)) => {
                    let own = (self.names.own, self.names.machine(self.names.own));
                    self.names = Names::read(own, context);
                    self.print(&entries)?;
                    self.tell_troubles();
                    is_lost = false;
                    continue;
                }
                Ok(None) => is_lost = false,
                Err(Failure::NotReachable(_)) if is_lost => (),
                Err(Failure::NotReachable(text)) => {
                    complain("coord", &format!("{text}. Waiting for it"));
                    is_lost = true;
                }
                Err(failure) => return Err(failure),
            }
            // A line that is printed does not change.
            let rest = self.finish();
            self.print(&rest)?;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The entries that the next batches complete; `None` if there is no further batch yet.
    async fn next(&mut self) -> Result<Option<Vec<(MachineId, Entry)>>, Failure> {
        let told = self.history.next().await;
        let told = told.map_err(|error| failed(&self.settings, &error))?;
        let entries =
            |told: Vec<Told>| told.into_iter().flat_map(|one| self.entries(one)).collect();
        Ok(told.map(entries))
    }

    fn entries(&mut self, told: Told) -> Vec<(MachineId, Entry)> {
        let Told { machine, stored_ms, events } = told;
        if stored_ms < self.wanted.since_ms {
            return Vec::new();
        }
        let lines = events.into_iter().map(|(seq, json)| {
            Line::parse(&json).unwrap_or_else(|| Line::unreadable(seq, stored_ms))
        });
        let lines: Vec<Line> = lines.filter(|line| self.wanted.has(line)).collect();
        if self.args.json {
            return lines.into_iter().map(|line| (machine, Entry::of(line))).collect();
        }
        let is_other = self.fold.as_ref().is_some_and(|(of, _)| *of != machine);
        let mut entries = if is_other && !lines.is_empty() { self.finish() } else { Vec::new() };
        for line in lines {
            let (_, fold) = self.fold.get_or_insert_with(|| (machine, Fold::default()));
            entries.extend(fold.push(line).into_iter().map(|entry| (machine, entry)));
        }
        entries
    }

    fn finish(&mut self) -> Vec<(MachineId, Entry)> {
        let Some((machine, mut fold)) = self.fold.take() else { return Vec::new() };
        fold.finish().into_iter().map(|entry| (machine, entry)).collect()
    }

    fn print(&mut self, entries: &[(MachineId, Entry)]) -> Result<(), Failure> {
        let style = Style::new(self.args);
        let mut out = BufWriter::new(std::io::stdout().lock());
        for (machine, entry) in entries {
            self.any = true;
            let (machine, line) = (*machine, &entry.first);
            if self.args.json {
                let host = &self.names.machine(machine);
                print_json(&mut out, &JsonLine { host, machine, line })?;
            } else {
                let session = self.names.session(machine, line);
                style.text(&mut out, (&session, NAME_COLUMNS), entry)?;
            }
        }
        Ok(out.flush()?)
    }

    /// Says what is left out and what is missing, a line for each machine.
    fn tell_troubles(&mut self) {
        for (machine, Trouble { refused, missing, given_up }) in self.history.troubles() {
            let mut parts = Vec::new();
            if 0 < refused {
                parts.push(format!("{refused} batches are left out: damaged, or not signed by it"));
            }
            if !missing.is_empty() {
                parts.push(format!("records {} are missing on the server", ranges(&missing)));
            }
            if !parts.is_empty() {
                parts.push("on that machine: coord fleet check --republish".to_owned());
            }
            if !given_up.is_empty() {
                let all = ranges(&given_up);
                parts.push(format!("records {all} were dropped there before they were published"));
            }
            complain("coord", &format!("{}: {}", self.names.machine(machine), parts.join("; ")));
        }
    }

    /// Says so if there was nothing to show.
    fn end(&self) -> Result<(), Failure> {
        match &self.args.id {
            Some(id) if !self.any => Err(Failure::NoSuchSession(format!(
                "The fleet's server holds no events of {id:?}."
            ))),
            None if !self.any && !self.args.json => {
                Err(anyhow!("the fleet's server holds no such events. → coord fleet status").into())
            }
            Some(_) | None => Ok(()),
        }
    }
}
