//! The fake Claude Code: what it does, in which order it fires hooks, and what it writes to its
//! registry, its transcript and its screen meanwhile.
//!
//! It behaves as version 2.1.328 was measured to: an interrupt fires nothing; a queued prompt's
//! UserPromptSubmit carries the running turn's id, and all queued prompts become one turn with an id
//! of its own; `!cmd` ends with a Stop that no prompt began; a killed client leaves its registry
//! entry behind. A plan is drawn from chance as a whole, so one seed decides it. It ends at the latest
//! with a permission prompt, whose decision may come from elsewhere.

mod plan;
mod prompts;

pub(crate) use plan::WAKE;
pub(crate) use prompts::{Asked, AskedFor, Decision};

use std::ops::Range;

use coord_model::Screen;
use coord_testkit::Random;
use serde_json::{Value, json};

use self::plan::{Begin, Draft};

/// Milliseconds.
pub(crate) type Ms = u64;

/// What is true of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Truth {
    /// Its process is there, no prompt was taken.
    Started,
    /// At its prompt.
    Idle,
    /// A turn runs.
    Running,
    /// A permission dialog is open.
    AwaitingPermission,
    /// A question or another dialog is open.
    AwaitingInput,
    /// The turn ended, a background subagent works.
    Subagent,
    /// The turn ended, a background shell works.
    Shell,
    /// The last turn met a usage limit.
    Quota,
    /// The last turn met an authentication error.
    Authentication,
    /// The last turn met a billing error.
    Billing,
    /// Stopped by Ctrl-Z.
    Suspended,
    /// Its user ended it.
    Stopped,
    /// It ended by itself, by SIGTERM or by SIGHUP.
    Ended,
    /// It was killed.
    Crashed,
    /// The machine or its tmux server took it along.
    TakenAlong,
}

impl Truth {
    /// Whether its client waits for a prompt, whatever its last turn came to.
    pub(crate) fn is_at_rest(self) -> bool {
        let is_error = matches!(self, Self::Quota | Self::Authentication | Self::Billing);
        is_error || matches!(self, Self::Started | Self::Idle)
    }

    /// Whether its process is there.
    pub(crate) fn is_alive(self) -> bool {
        !matches!(self, Self::Stopped | Self::Ended | Self::Crashed | Self::TakenAlong)
    }
}

/// How a client ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// /exit.
    Exit,
    /// The end of a `-p` run, SIGTERM, SIGHUP.
    Other,
    /// SIGKILL, a crash.
    Kill,
}

/// One thing a client does at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Move {
    /// Something else is true of it now.
    Is(Truth),
    /// It fires a hook with this payload.
    Fires(Value),
    /// It writes its registry entry: status, and what it waits for.
    Registry(&'static str, Option<&'static str>),
    /// It writes a line to its transcript.
    Writes(Value),
    /// It paints.
    Paints(Screen),
    /// It is stopped by a signal, or goes on.
    Stops(bool),
    /// It removes its registry entry and bids farewell on its pane.
    TakesLeave,
    /// Its process is gone.
    Dies(End),
    /// Its user interrupts the turn; whether the agent had said anything in it.
    Interrupts { has_output: bool, is_shown: bool },
    /// Its conversation has another id from now on.
    Follows(String),
    /// It asks for permission: it fires the hooks, and its plan ends here.
    Asks(Box<Asked>),
    /// Its plan is over.
    NextPlan,
}

/// Moves and the moments at which they happen, milliseconds from now.
pub(crate) type Plan = Vec<(Ms, Move)>;

/// A client.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// Its session's id now.
    pub(crate) session_id: String,
    /// Its transcript.
    pub(crate) transcript: String,
    /// Interactive, or `-p`.
    pub(crate) is_interactive: bool,
    /// What is true of it.
    pub(crate) truth: Truth,
    /// The turn's id.
    prompt_id: Option<String>,
    /// Names for prompts, tools and agents.
    names: u64,
    /// Number of this client, for names that nobody else uses.
    number: u64,
    /// Background work that will report itself.
    background: Option<Truth>,
    turns: u32,
    /// Its turn goes on by a Stop hook's word, or was started by one.
    is_again: bool,
    /// Its transcript shows an interrupt of the turn that runs.
    is_shown: bool,
    /// The mode it runs in, as payloads name it.
    pub(crate) mode: &'static str,
    /// What a wake hook brought, to be made a prompt of.
    wake_text: Option<String>,
    /// What is true again when its turn is interrupted.
    rest: Truth,
    /// Conversations that this process had before.
    left: Vec<String>,
    /// A window in which its account is at its usage limit.
    pub(crate) window: Option<Range<Ms>>,
}

impl Client {
    /// A client that is about to start.
    pub(crate) fn new(number: u64, session_id: String, is_interactive: bool) -> Self {
        Self {
            transcript: transcript_of(&session_id),
            session_id,
            is_interactive,
            truth: Truth::Started,
            prompt_id: None,
            names: 0,
            number,
            background: None,
            turns: 0,
            is_again: false,
            is_shown: true,
            mode: "default",
            wake_text: None,
            rest: Truth::Idle,
            left: Vec::new(),
            window: None,
        }
    }

    /// Its start: the registry knows it before its first hook does.
    pub(crate) fn start(&mut self, source: &str, random: &mut Random) -> Plan {
        let mut draft = self.draft(0, random);
        draft.is(Truth::Started);
        draft.pass(330..340);
        draft.registry("", None);
        draft.pass(240..260);
        draft.registry("idle", None);
        draft.fires("SessionStart", &json!({"source": source}));
        draft.paints(Screen::Prompt);
        draft.pass(20..200);
        draft.next()
    }

    /// What it does next, from this moment on.
    pub(crate) fn next_plan(&mut self, now: Ms, random: &mut Random) -> Plan {
        if !self.is_interactive {
            return self.headless(now, random);
        }
        if let Some(work) = self.background.take() {
            return self.report(work, now, random);
        }
        let idle = idle_time(random);
        let mut draft = self.draft(now, random);
        if 60_100 < idle && draft.client.truth == Truth::Idle {
            draft.at = 60_100;
            draft.fires("Notification", &json!({"notification_type": "idle_prompt"}));
        }
        draft.at = idle;
        match draft.random.below(100) {
            0..68 => draft.turn(Begin::Prompt),
            68..74 => draft.turn(Begin::Bang),
            74..79 => draft.clear(),
            79..83 => draft.compact(),
            83..88 => draft.dialog(),
            88..92 => draft.suspend(),
            92 if !draft.client.left.is_empty() => draft.resume(),
            92..96 => draft.exit(),
            96..98 => draft.end(End::Kill),
            _ => draft.end(End::Other),
        }
        draft.next()
    }

    /// The answer to its Stop had something for its agent: the turn goes on.
    pub(crate) fn continues(&mut self, now: Ms, random: &mut Random) -> Plan {
        let mut draft = self.draft(now, random);
        draft.turn(Begin::Continued);
        draft.next()
    }

    /// A turn that a wake starts with this text.
    pub(crate) fn woken(&mut self, text: String, now: Ms, random: &mut Random) -> Plan {
        self.wake_text = Some(text);
        let mut draft = self.draft(now, random);
        draft.turn(Begin::Wake);
        draft.next()
    }

    /// The payload of a hook; `about` are the fields that this event has beside the common ones.
    fn payload(&self, event: &str, about: &Value) -> Value {
        let mut payload = json!({
            "session_id": self.session_id,
            "transcript_path": self.transcript,
            "cwd": "/home/dev/project",
            "hook_event_name": event,
        });
        if let (Some(payload), Some(about)) = (payload.as_object_mut(), about.as_object()) {
            if let Some(prompt_id) = self.prompt_id.clone().filter(|_| event != "SessionStart") {
                payload.insert("prompt_id".to_owned(), prompt_id.into());
            }
            payload.extend(about.clone());
            // The others do not name it (measured).
            if ["UserPromptSubmit", "Stop", "SubagentStop"].contains(&event) {
                payload.insert("permission_mode".to_owned(), self.mode.into());
            }
        }
        payload
    }

    /// The notification of a prompt that is open for six seconds.
    pub(crate) fn notification(&self) -> Value {
        self.payload("Notification", &json!({"notification_type": "permission_prompt"}))
    }

    fn draft<'a>(&'a mut self, now: Ms, random: &'a mut Random) -> Draft<'a> {
        let (plan, is_asking, is_again) = (Plan::new(), false, false);
        Draft { client: self, random, now, at: 0, plan, is_asking, is_again }
    }

    /// A run with `-p`.
    fn headless(&mut self, now: Ms, random: &mut Random) -> Plan {
        let mut draft = self.draft(now, random);
        if draft.client.turns == 0 {
            draft.turn(Begin::Prompt);
        } else {
            draft.end(End::Other);
        }
        draft.next()
    }

    /// Background work ends and reports itself: a prompt that nobody typed.
    fn report(&mut self, work: Truth, now: Ms, random: &mut Random) -> Plan {
        let mut draft = self.draft(now, random);
        draft.pass(1_000..600_000);
        if work == Truth::Subagent {
            let agent = draft.name("agent");
            if draft.random.chance(0.8) {
                let left = draft.random.below(3);
                draft.asks_in_background(agent, left);
                return draft.next();
            }
            draft.agent_ends(&agent);
        }
        draft.turn(Begin::Prompt);
        draft.next()
    }
}

/// The transcript of a conversation.
pub(crate) fn transcript_of(session_id: &str) -> String {
    format!("{}/projects/p/{session_id}.jsonl", crate::serving::CONFIG_DIR)
}

/// Mostly seconds, sometimes a coffee, sometimes the night.
fn idle_time(random: &mut Random) -> Ms {
    match random.below(100) {
        0..80 => random.range(500..90_000),
        80..97 => random.range(60_000..1_500_000),
        _ => random.range(1_000_000..8_000_000),
    }
}
