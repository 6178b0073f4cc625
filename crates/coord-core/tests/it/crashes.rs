//! Sessions in panes that crash, and the proofs that are taken of them.
#![expect(clippy::unwrap_used, reason = "test support: a failure here is a failed test")]

use coord_core::{Pending, Stage};
use coord_model::{
    Action, Command, Effect, Event, Input, Intent, Kind, Launch, Mode, Outcome, PaneSeen,
    PaneState, Parent, ParentKind, Place, ProcessSeen, Prompt, Proof, RegistryStatus, Screen,
    SessionKey, Settings, Subject, TranscriptState,
};

use crate::world::{
    PROMPT, RESUME, STOP, World, blank, entry, its, order, pane, present, process, start_of,
};

pub(crate) const PID: u32 = 100;
/// The client that a resume starts.
pub(crate) const NEXT: u32 = 200;
const SHELL: u32 = 50;

/// An interactive session in a proved pane whose shell started it; settling is over.
pub(crate) fn at_rest() -> World {
    let mut world = World::new();
    world.open_in("s1", PID, Kind::Interactive, Some(pane(7)));
    world.launched(PID, launch());
    let config_dir = "/home/dev/.claude".into();
    world.take(&Event::ConfigDirLock { config_dir, held: true });
    world.says("s1", PID, RegistryStatus::Idle);
    world.screen(PID, Screen::Prompt);
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(2.0);
    world.hook("s1", PID, STOP);
    world.says("s1", PID, RegistryStatus::Idle);
    world.pass(200.0);
    world
}

pub(crate) fn unattended() -> World {
    let mut world = at_rest();
    world.attend(true);
    world
}

/// Somebody watches it and wants it back.
pub(crate) fn opted_in() -> World {
    let mut world = at_rest();
    let marks = coord_model::MarkChange { recover: Some(true), ..Default::default() };
    let whom = coord_model::Whom::Session(world.key());
    world.command(Command::Attend { whom, marks });
    world
}

/// In the midst of a turn.
pub(crate) fn in_a_turn() -> World {
    let mut world = unattended();
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(3.0);
    world
}

pub(crate) fn launch() -> Launch {
    Launch {
        parent: Parent { process: process(SHELL), kind: ParentKind::Shell },
        program: vec!["/usr/bin/claude".into()],
        flags: vec!["--model".into(), "opus".into()],
        unfit: None,
        cwd: Place { path: "/home/dev/project".into(), device: 1, inode: 2 },
        config_dir: None,
        variables: Vec::new(),
    }
}

pub(crate) const EMPTY: PaneState =
    PaneState::Client { screen: Some(Screen::Prompt), input: Input::Empty, signature: None };

pub(crate) const SHELL_PROMPT: PaneState = PaneState::Shell {
    prompt: Some(Prompt { column: 10, digest: 7 }),
    signature: None,
    has_typed: false,
};

/// A proof of a dead harness whose shell waits at its prompt.
pub(crate) fn dead(world: &World) -> Proof {
    Proof {
        looked_ns: world.mono_ns(0.0),
        is_alive: false,
        idle_since_ms: None,
        ran_ns: None,
        owners: Vec::new(),
        children: Vec::new(),
        pane: SHELL_PROMPT,
        key_ms: None,
        any_key_ms: None,
        is_in_mode: false,
        is_synchronized: false,
        transcript: TranscriptState::Held,
        has_cwd: true,
        has_program: true,
        want: None,
        nonce: format!("nonce{}", world.decisions.len()),
        is_line_plain: true,
        is_task_stopped: false,
        last_words: None,
    }
}

/// A proof of a harness that has been at its empty prompt for long, with nobody there.
pub(crate) fn living(world: &World) -> Proof {
    let idle_since_ms = Some(world.now().wall_ms - 100_000);
    Proof { is_alive: true, idle_since_ms, pane: EMPTY, ..dead(world) }
}

impl World {
    pub(crate) fn key(&self) -> SessionKey {
        self.session("s1").key
    }

    pub(crate) fn launched(&mut self, pid: u32, launch: Launch) {
        self.take(&Event::ProcessSeen(ProcessSeen {
            process: process(pid),
            alive: true,
            kind: Some(Kind::Interactive),
            is_stopped: false,
            forked_from: None,
            launch: Some(Box::new(launch)),
        }));
    }

    pub(crate) fn says(&mut self, id: &str, pid: u32, status: RegistryStatus) {
        let found = entry(id, Some(status), self.now().wall_ms);
        self.registry(pid, found, false);
    }

    /// A person at a terminal asks for something.
    pub(crate) fn command(&mut self, command: Command) {
        self.take(&order(command));
    }

    pub(crate) fn attend(&mut self, unattended: bool) {
        let marks = coord_model::MarkChange { unattended: Some(unattended), ..Default::default() };
        let whom = coord_model::Whom::Session(self.key());
        self.command(Command::Attend { whom, marks });
    }

    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.configure(Settings { mode, ..Settings::default() });
    }

    /// A coordinator with these settings takes over, and has settled.
    pub(crate) fn configure(&mut self, settings: Settings) {
        let host = self.state.header().host.clone().unwrap();
        self.take(&start_of(host, settings));
        let config_dir = "/home/dev/.claude".into();
        self.take(&Event::ConfigDirLock { config_dir, held: true });
        self.seen_alive(PID);
        self.pass(31.0);
    }

    /// Its harness is killed: the registry entry stays behind.
    pub(crate) fn crash(&mut self, pid: u32) {
        self.die(pid, present("s1"));
    }

    /// The words of a crash on the screen of the living harness, which are not in its transcript.
    pub(crate) fn signature(&mut self) {
        let signature = Some("RangeError: Maximum call stack size exceeded".into());
        let screen = Some(Screen::Prompt);
        self.seen_on_pane(PID, its(PaneSeen { screen, signature, ..blank() }), false);
    }

    pub(crate) fn is_content(&mut self, is: bool) {
        self.take(&Event::TranscriptRead {
            process: process(PID),
            interrupted_ms: None,
            has_signature: Some(is),
            failure: None,
        });
    }

    pub(crate) fn pending(&self) -> Option<&Pending> {
        self.session("s1").recovery.pending.as_ref()
    }

    pub(crate) fn outcome(&self) -> Option<&'static str> {
        self.session("s1").recovery.last.as_ref().map(|last| last.outcome.word())
    }

    pub(crate) fn waits_for(&self) -> &str {
        &self.pending().unwrap().waits_for
    }

    /// What was asked for since the last look, without what only observes.
    pub(crate) fn actions(&mut self) -> Vec<Action> {
        let effects = core::mem::take(&mut self.effects);
        let actions = effects.into_iter().filter_map(|effect| {
            if let Effect::Act(action) = effect { Some(*action) } else { None }
        });
        actions.collect()
    }

    /// The look that is asked for.
    #[track_caller]
    pub(crate) fn asked(&mut self) -> (Intent, Subject) {
        let actions = self.actions();
        let asked = actions.iter().rev().find_map(|action| {
            let Action::Prove { intent, subject } = action else { return None };
            Some((*intent, subject.clone()))
        });
        asked.unwrap_or_else(|| panic!("no look was asked for: {actions:?}"))
    }

    /// The look that is asked for finds this. What is done then.
    #[track_caller]
    pub(crate) fn prove(&mut self, proof: Proof) -> Vec<Action> {
        let (intent, _) = self.asked();
        self.take(&Event::Proved { session_id: String::new(), intent, proof: Box::new(proof) });
        self.actions().into_iter().filter(is_act).collect()
    }

    /// The one act that is asked for on this proof.
    #[track_caller]
    pub(crate) fn act(&mut self, proof: Proof) -> (Intent, Action) {
        let mut acts = self.prove(proof);
        assert_eq!(acts.len(), 1, "{acts:?}, {:?}", self.pending());
        let action = acts.remove(0);
        (intent_of(&action), action)
    }

    pub(crate) fn acted(&mut self, intent: Intent, outcome: Outcome) {
        self.take(&Event::Acted { session_id: String::new(), intent, outcome });
    }

    /// The line was typed, and its process becomes the client.
    #[track_caller]
    pub(crate) fn claim(&mut self, pid: u32) {
        let Some(Stage::Placing { nonce, .. }) =
            self.pending().map(|pending| pending.stage.clone())
        else {
            panic!("nothing was placed: {:?}", self.pending());
        };
        let session = self.key();
        self.take(&Event::ResumeClaimed {
            session_id: String::new(),
            session,
            nonce,
            process: process(pid),
        });
    }

    /// Found dead, its resume is typed and becomes the client `pid`.
    #[track_caller]
    pub(crate) fn resume_as(&mut self, pid: u32) {
        let proof = dead(self);
        let (intent, _) = self.act(proof);
        self.acted(intent, Outcome::Done);
        self.claim(pid);
    }

    /// The client that became of it reports its start and stands at its prompt.
    pub(crate) fn comes_up(&mut self, pid: u32) {
        self.hook("s1", pid, RESUME);
        self.launched(pid, launch());
        self.says("s1", pid, RegistryStatus::Idle);
    }

    /// From the crash to the resumed client, verified.
    #[track_caller]
    pub(crate) fn comes_back(&mut self, pid: u32) {
        self.resume_as(pid);
        self.comes_up(pid);
        self.pass(3.5);
        let proof = living(self);
        assert_eq!(self.prove(proof), []);
        self.pass(2.0);
        assert_eq!(self.outcome(), Some("verified"), "{:?}", self.pending());
    }
}

pub(crate) fn is_act(action: &Action) -> bool {
    matches!(action.class(), coord_model::ActionClass::Once(_))
}

pub(crate) fn intent_of(action: &Action) -> Intent {
    match action {
        Action::End { intent, .. }
        | Action::TypeResume { intent, .. }
        | Action::RespawnPane { intent, .. }
        | Action::NewWindow { intent, .. }
        | Action::Wake { intent, .. }
        | Action::Prove { intent, .. } => *intent,
        Action::Release { .. }
        | Action::WriteStop { .. }
        | Action::RemoveStop { .. }
        | Action::Notify { .. } => panic!("no step: {action:?}"),
    }
}
