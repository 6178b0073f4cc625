//! Calls of tools, and the permission prompts for them.
//!
//! A prompt behaves as version 2.1.330 was measured to. In the main thread and in a foreground subagent its dialog is on
//! the screen while its hook waits. A background subagent's dialog is built when its hooks have ended. Calls that are safe
//! in parallel, and questions, ask at once, and the registry says `waiting` until the last of them is decided. Esc rejects
//! all of them and ends the turn. What a hook decided stands in the transcript directly before the call's result, so for
//! an allowed call only when its tool has ended. A headless run shows no dialog: it waits for its hooks, and denies what
//! they do not decide. A client's plan ends with a prompt; the simulation tells how it was decided.

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
    /// Of a run without a terminal.
    is_headless: bool,
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
    pub(crate) input: Value,
}

/// What a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AskedFor {
    /// Permission to run its tool.
    #[default]
    Permission,
    /// The answers to its questions.
    Answers,
    /// Leave to carry out its plan.
    Plan,
}

impl Call {
    pub(crate) fn asked_for(&self) -> AskedFor {
        match self.tool {
            QUESTION => AskedFor::Answers,
            PLAN => AskedFor::Plan,
            _ => AskedFor::Permission,
        }
    }
}

/// The tools whose prompts ask for something else than permission.
const QUESTION: &str = "AskUserQuestion";
const PLAN: &str = "ExitPlanMode";

/// Who asks.
#[derive(Debug, Clone, PartialEq)]
enum By {
    Main,
    Foreground(Agent),
    /// A subagent in the background, by its id, and the calls that it still asks for before its end.
    Background {
        id: String,
        left: u64,
    },
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
    /// No hook decided it, and there is no terminal: it does not run.
    Unasked,
}

impl Decision {
    fn is_allowed(self) -> bool {
        match self {
            Self::Yes => true,
            Self::ByHook(reply) => reply != ReplyKind::Deny,
            Self::NoWithText | Self::Esc | Self::Unasked => false,
        }
    }
}

impl Asked {
    /// Nobody sees it before its hooks have ended.
    pub(crate) fn is_hidden_by_hooks(&self) -> bool {
        self.is_headless || matches!(self.by, By::Background { .. })
    }

    /// It never has a dialog.
    pub(crate) fn is_headless(&self) -> bool {
        self.is_headless
    }

    /// It is a subagent's, and its dialog is on the screen.
    pub(crate) fn is_of_foreground_agent(&self) -> bool {
        !self.is_headless && matches!(self.by, By::Foreground(_))
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
        draft.shows_dialog(AskedFor::Permission);
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
            (By::Background { id, left }, _) => {
                draft.is(Truth::Subagent);
                draft.registry("busy", None);
                draft.paints(Screen::Prompt);
                draft.results(asked, call, decision);
                if let Some(left) = left.checked_sub(1) {
                    draft.think();
                    draft.asks_in_background(id, left);
                } else {
                    draft.agent_ends(&id);
                    draft.turn(Begin::Prompt);
                }
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
        let input = match (call.asked_for(), event) {
            // What the person answered becomes part of the input (measured).
            (AskedFor::Answers, "PostToolUse") => {
                json!({"questions": call.input.get("questions"), "answers": {"so": "so"}})
            }
            // The client adds the plan after it reported the call (measured).
            (AskedFor::Plan, "PreToolUse") => json!({}),
            _ => call.input.clone(),
        };
        let mut about = json!({"tool_name": call.tool, "tool_input": input, "permission_mode": self.client.mode});
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
        if self.random.chance(if self.client.is_interactive { 0.4 } else { 0.3 }) {
            return self.asks(vec![call], By::Main, turn);
        }
        self.runs(&call, None);
        self.gives_back(&call.id, false);
        self.speaks("text");
    }

    /// Calls that the person decides instead of running a tool.
    fn asks_person(&mut self, tool: &'static str, inputs: Vec<Value>, turn: Turn) {
        self.client.rest = Truth::Idle;
        self.speaks("tool_use");
        self.pass(2..10);
        let calls: Vec<Call> =
            inputs.into_iter().map(|input| Call { input, ..self.call(tool) }).collect();
        for call in &calls {
            self.tool_event("PreToolUse", call, None);
        }
        self.asks(calls, By::Main, turn);
    }

    /// A call that asks, or two in one message.
    pub(super) fn question(&mut self, turn: Turn) {
        let n = if self.random.chance(0.3) { 2 } else { 1 };
        let inputs = (0..n).map(|_| self.questions()).collect();
        self.asks_person(QUESTION, inputs, turn);
    }

    /// One or two questions.
    fn questions(&mut self) -> Value {
        let of = self.name("question");
        let question = |n: u64, is_multiple: bool| {
            json!({
                "question": format!("{of}, part {n}?"),
                "header": "Part",
                "options": [{"label": "one", "description": "1"}, {"label": "two", "description": "2"}],
                "multiSelect": is_multiple,
            })
        };
        let many = self.random.range(1..3);
        let questions: Vec<Value> = (0..many).map(|n| question(n, self.random.coin())).collect();
        json!({"questions": questions})
    }

    /// A plan, which at times stands nowhere but in the client.
    pub(super) fn plan_to_approve(&mut self, turn: Turn) {
        let of = self.name("plan");
        let plan =
            json!({"plan": format!("1. {of}"), "planFilePath": format!("/home/dev/{of}.md")});
        let input = if self.random.chance(0.1) { json!({}) } else { plan };
        self.asks_person(PLAN, vec![input], turn);
    }

    fn runs(&mut self, call: &Call, agent: Option<&str>) {
        if call.asked_for() != AskedFor::Permission {
            self.pass(5..40);
            return self.tool_event("PostToolUse", call, agent);
        }
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
            By::Background { id, .. } => Some(id.clone()),
        };
        let asked_for = calls.first().map_or(AskedFor::Permission, Call::asked_for);
        for call in &mut calls {
            call.payload = self.request(call, agent.as_deref());
        }
        let is_headless = !self.client.is_interactive;
        let is_again = self.is_again;
        let asked = Asked { calls, by, turn: Some(turn), is_headless, results_until: 0, is_again };
        self.push(0, Move::Asks(Box::new(asked)));
        if !is_headless {
            self.shows_dialog(asked_for);
        }
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

    fn shows_dialog(&mut self, of: AskedFor) {
        let (truth, waiting_for, screen) = match of {
            AskedFor::Permission => {
                (Truth::AwaitingPermission, "permission prompt", Screen::Permission)
            }
            AskedFor::Answers => (Truth::AwaitingInput, "input needed", Screen::Question),
            // The registry says the same of both (measured).
            AskedFor::Plan => (Truth::AwaitingInput, "permission prompt", Screen::Plan),
        };
        self.is(truth);
        self.registry("waiting", Some(waiting_for));
        self.paints(screen);
    }

    /// What follows the decision of a call: its tool runs, and its result is written.
    fn results(&mut self, asked: &Asked, call: &Call, decision: Decision) {
        let agent = match &asked.by {
            By::Main => None,
            By::Foreground(agent) => Some(agent.id.as_str()),
            By::Background { id, .. } => Some(id.as_str()),
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
            let word = if kind == ReplyKind::Deny { "deny" } else { "allow" };
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
            By::Main | By::Background { .. } if self.random.chance(0.2) => {
                self.speaks("tool_use");
                self.pass(2..10);
                let again = Call { id: self.name("tool"), ..call.clone() };
                self.tool_event("PreToolUse", &again, None);
                self.is_again = true;
                return self.asks(vec![again], By::Main, turn);
            }
            By::Main | By::Background { .. } => self.speaks("text"),
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
            if self.random.chance(0.2) {
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
    pub(super) fn asks_in_background(&mut self, id: String, left: u64) {
        let mut inner = self.call("Bash");
        self.tool_event("PreToolUse", &inner, Some(&id));
        self.pass(80..120);
        inner.payload = self.request(&inner, Some(&id));
        let asked = Asked {
            calls: vec![inner],
            by: By::Background { id, left },
            turn: None,
            is_headless: false,
            results_until: 0,
            is_again: false,
        };
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
