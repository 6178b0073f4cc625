//! Calls of tools, and the permission prompts for them.
//!
//! A prompt behaves as version 2.1.330 was measured to. In the main thread and in a foreground subagent its dialog is on
//! the screen while its hook waits. A background subagent's dialog is built when its hooks have ended. Calls that are safe
//! in parallel ask at once, and the registry says `waiting` until the last of them is decided. Esc rejects all of them
//! and ends the turn. What a hook decided stands in the transcript directly before the call's result, so for an allowed
//! call only when its tool has ended. A plan ends with a prompt; the simulation tells how it was decided.

use coord_model::{ReplyKind, Screen};
use coord_testkit::Random;
use serde_json::{Value, json};

use super::plan::{Begin, Draft, Turn};
use super::{Client, Move, Ms, Plan, Truth};

/// A prompt: its calls, and what its client was at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) calls: Vec<Call>,
    by: By,
    turn: Option<Turn>,
    /// The results of the calls that are decided are there by then.
    results_until: Ms,
    /// The same call was decided just before.
    pub(crate) is_again: bool,
}

/// A call that asks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    /// The payload of its PermissionRequest.
    pub(crate) payload: Value,
    tool: &'static str,
    input: Value,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq)]
enum By {
    Main,
    Foreground(Agent),
    /// A subagent in the background, by its id.
    Background(String),
}

/// A subagent in the foreground.
#[derive(Debug, Clone, PartialEq)]
struct Agent {
    id: String,
    /// The call that started it.
    call: String,
    /// Calls that it still has before its end.
    left: u64,
}

/// How a call was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// At the terminal: it runs.
    Yes,
    /// At the terminal: it does not, and the agent is told why.
    NoWithText,
    /// Esc, or No without a text: the turn ends.
    Esc,
    /// What its hook printed.
    ByHook(ReplyKind),
}

impl Decision {
    fn is_allowed(self) -> bool {
        matches!(self, Self::Yes | Self::ByHook(ReplyKind::Allow))
    }
}

impl Asked {
    /// Its dialog is built only when its hooks have ended.
    pub(crate) fn is_hidden_by_hooks(&self) -> bool {
        matches!(self.by, By::Background(_))
    }

    /// Esc ends the turn.
    pub(crate) fn can_be_interrupted(&self) -> bool {
        self.by == By::Main
    }
}

impl Client {
    /// The dialog of a background subagent is built.
    pub(crate) fn shows_dialog(&mut self, now: Ms, random: &mut Random) -> Plan {
        let mut draft = self.draft(now, random);
        draft.shows_dialog();
        draft.is_asking = true;
        draft.next()
    }

    /// One of several calls is decided, and others of its prompt are open.
    pub(crate) fn one_decided(
        &mut self,
        asked: &mut Asked,
        (call, decision): (&Call, Decision),
        now: Ms,
        random: &mut Random,
    ) -> Plan {
        let mut draft = self.draft(now, random);
        draft.results(asked, call, decision);
        asked.results_until = asked.results_until.max(now + draft.at);
        draft.is_asking = true;
        draft.next()
    }

    /// A prompt is over with the decision of its last call.
    pub(crate) fn decided(
        &mut self,
        asked: &Asked,
        (call, decision): (&Call, Decision),
        now: Ms,
        random: &mut Random,
    ) -> Plan {
        let mut draft = self.draft(now, random);
        match (asked.by.clone(), asked.turn) {
            (By::Main, Some(turn)) if decision == Decision::Esc => {
                for call in &asked.calls {
                    draft.gives_back(&call.id, true);
                }
                draft.over(turn.is_queued, true);
            }
            (By::Background(agent), _) => {
                draft.is(Truth::Subagent);
                draft.registry("busy", None);
                draft.paints(Screen::Prompt);
                draft.results(asked, call, decision);
                draft.agent_ends(&agent);
                draft.turn(Begin::Prompt);
            }
            (by, turn) => {
                draft.is(Truth::Running);
                draft.registry("busy", None);
                draft.paints(Screen::Working);
                draft.results(asked, call, decision);
                draft.at = draft.at.max(asked.results_until.saturating_sub(now));
                if let Some(turn) = turn {
                    draft.after_prompt(by, call, turn);
                }
            }
        }
        draft.next()
    }
}

impl Draft<'_> {
    pub(super) fn tool_event(&mut self, event: &str, call: &Call, agent: Option<&str>) {
        let mut about = json!({"tool_name": call.tool, "tool_input": call.input, "permission_mode": self.client.mode});
        if let Some(about) = about.as_object_mut() {
            about.insert("tool_use_id".to_owned(), call.id.as_str().into());
            if let Some(agent) = agent {
                about.insert("agent_id".to_owned(), agent.into());
            }
        }
        self.fires(event, &about);
    }

    pub(super) fn call(&mut self, tool: &'static str) -> Call {
        let id = self.name("tool");
        let input = json!({"of": id});
        Call { id, payload: Value::Null, tool, input }
    }

    /// A tool call of the main thread, or several that are safe in parallel.
    pub(super) fn tool(&mut self, turn: Turn) {
        // A model that calls a tool was reached.
        self.client.rest = Truth::Idle;
        self.speaks("tool_use");
        self.pass(2..10);
        if self.client.is_interactive && self.random.chance(0.08) {
            let n = 2 + self.random.below(2);
            let calls: Vec<Call> = (0..n).map(|_| self.call("Read")).collect();
            for call in &calls {
                self.tool_event("PreToolUse", call, None);
            }
            return self.asks(calls, By::Main, turn);
        }
        let call = self.call("Bash");
        self.tool_event("PreToolUse", &call, None);
        if self.client.is_interactive && self.random.chance(0.4) {
            return self.asks(vec![call], By::Main, turn);
        }
        self.runs(&call, None);
        self.gives_back(&call.id, false);
        self.speaks("text");
    }

    fn runs(&mut self, call: &Call, agent: Option<&str>) {
        if call.tool == "Read" {
            self.pass(20..400);
        } else {
            self.work();
        }
        let event = if self.random.chance(0.1) { "PostToolUseFailure" } else { "PostToolUse" };
        self.tool_event(event, call, agent);
    }

    /// What a tool gave back goes into the next request.
    pub(super) fn gives_back(&mut self, call: &str, is_error: bool) {
        let result = json!({"type": "tool_result", "tool_use_id": call, "content": "so", "is_error": is_error});
        self.writes("user", &json!([result]));
    }

    /// A permission prompt.
    fn asks(&mut self, mut calls: Vec<Call>, by: By, turn: Turn) {
        self.pass(80..120);
        let agent = match &by {
            By::Main => None,
            By::Foreground(agent) => Some(agent.id.clone()),
            By::Background(agent) => Some(agent.clone()),
        };
        for call in &mut calls {
            call.payload = self.request(call, agent.as_deref());
        }
        let asked =
            Asked { calls, by, turn: Some(turn), results_until: 0, is_again: self.is_again };
        self.push(0, Move::Asks(Box::new(asked)));
        self.shows_dialog();
        self.is_asking = true;
    }

    /// The payload of a request, which names no call (measured).
    pub(super) fn request(&self, call: &Call, agent: Option<&str>) -> Value {
        let mut about = json!({"tool_name": call.tool, "tool_input": call.input, "permission_mode": self.client.mode});
        if let Some((about, agent)) = about.as_object_mut().zip(agent) {
            about.insert("agent_id".to_owned(), agent.into());
        }
        self.client.payload("PermissionRequest", &about)
    }

    fn shows_dialog(&mut self) {
        self.is(Truth::AwaitingPermission);
        self.registry("waiting", Some("permission prompt"));
        self.paints(Screen::Permission);
    }

    /// What follows the decision of a call: its tool runs, and its result is written.
    fn results(&mut self, asked: &Asked, call: &Call, decision: Decision) {
        let agent = match &asked.by {
            By::Main => None,
            By::Foreground(agent) => Some(agent.id.as_str()),
            By::Background(agent) => Some(agent.as_str()),
        };
        if decision.is_allowed() {
            self.runs(call, agent);
        } else {
            self.pass(200..400);
        }
        // A subagent's calls are in its own transcript.
        if agent.is_some() {
            return;
        }
        if let Decision::ByHook(kind) = decision {
            let word = if kind == ReplyKind::Allow { "allow" } else { "deny" };
            let note = json!({"type": "attachment", "attachment": {
                "type": "hook_permission_decision", "decision": word, "toolUseID": call.id, "hookEvent": "PermissionRequest",
            }});
            self.push(28, Move::Writes(note));
        }
        self.gives_back(&call.id, !decision.is_allowed());
    }

    /// A turn goes on after its prompt: at times with the very same call once more.
    fn after_prompt(&mut self, by: By, call: &Call, mut turn: Turn) {
        (turn.has_output, self.client.is_shown) = (true, true);
        match by {
            By::Foreground(agent) => self.agent_goes_on(agent, turn),
            By::Main | By::Background(_) if self.random.chance(0.2) => {
                self.speaks("tool_use");
                self.pass(2..10);
                let again = Call { id: self.name("tool"), ..call.clone() };
                self.tool_event("PreToolUse", &again, None);
                self.is_again = true;
                return self.asks(vec![again], By::Main, turn);
            }
            By::Main | By::Background(_) => self.speaks("text"),
        }
        if !self.is_asking {
            self.goes_on(turn);
        }
    }

    /// A subagent in the foreground.
    pub(super) fn subagent(&mut self, turn: Turn) {
        let (call, id) = (self.name("tool"), self.name("agent"));
        self.speaks("tool_use");
        self.pass(2..10);
        let agent = Agent { id, call, left: self.random.below(4) };
        self.tool_event("PreToolUse", &of_agent(&agent), None);
        self.fires("SubagentStart", &about(&agent.id));
        self.agent_goes_on(agent, turn);
    }

    /// What is left of a subagent in the foreground, up to its end or to its next prompt.
    fn agent_goes_on(&mut self, mut agent: Agent, turn: Turn) {
        while 0 < agent.left {
            agent.left -= 1;
            self.think();
            let inner = self.call("Bash");
            self.tool_event("PreToolUse", &inner, Some(&agent.id));
            if self.client.is_interactive && self.random.chance(0.2) {
                return self.asks(vec![inner], By::Foreground(agent), turn);
            }
            self.runs(&inner, Some(&agent.id));
        }
        self.fires("SubagentStop", &about(&agent.id));
        self.pass(1..50);
        self.tool_event("PostToolUse", &of_agent(&agent), None);
        self.gives_back(&agent.call, false);
    }

    /// A subagent in the background asks: its dialog is not built yet.
    pub(super) fn asks_in_background(&mut self, agent: String) {
        let mut inner = self.call("Bash");
        self.tool_event("PreToolUse", &inner, Some(&agent));
        self.pass(80..120);
        inner.payload = self.request(&inner, Some(&agent));
        let by = By::Background(agent);
        let asked = Asked { calls: vec![inner], by, turn: None, results_until: 0, is_again: false };
        self.push(0, Move::Asks(Box::new(asked)));
        self.is_asking = true;
    }

    /// A subagent in the background ends.
    pub(super) fn agent_ends(&mut self, agent: &str) {
        let about = json!({"agent_id": agent, "agent_type": "general-purpose", "background_tasks": [{"type": "subagent", "status": "running"}], "session_crons": []});
        self.fires("SubagentStop", &about);
        self.pass(20..200);
    }
}

fn about(agent: &str) -> Value {
    json!({"agent_id": agent, "agent_type": "general-purpose"})
}

/// The call that started a subagent.
fn of_agent(agent: &Agent) -> Call {
    let (id, input) = (agent.call.clone(), json!({"of": agent.call}));
    Call { id, payload: Value::Null, tool: "Agent", input }
}
