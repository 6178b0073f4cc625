//! Plans: what a client does next, drawn from chance, with the hooks, registry writes, screens and
//! transcript lines that the real one was measured to make of it.

use coord_model::Screen;
use coord_testkit::Random;
use serde_json::{Value, json};

use super::{Client, End, Move, Ms, Plan, Truth};

/// Begins such a prompt as no user types.
pub(crate) const WAKE: &str = "<task-notification>";

/// How a turn begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    Prompt,
    /// A text that the wake hook was handed: the client makes a prompt of it.
    Wake,
    /// Prompts that were queued in the turn before.
    Queued,
    /// `!cmd`.
    Bang,
    /// The answer to its Stop made the turn before go on.
    Continued,
}

/// How far a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    begin: Begin,
    /// Steps that it still has before its end.
    left: u64,
    pub(super) is_queued: bool,
    pub(super) has_output: bool,
}

/// A plan in the making.
pub(super) struct Draft<'a> {
    pub(super) client: &'a mut Client,
    pub(super) random: &'a mut Random,
    /// The moment of the plan's begin.
    pub(super) now: Ms,
    pub(super) at: Ms,
    pub(super) plan: Plan,
    /// It ends with an open prompt: what is decided there continues it.
    pub(super) is_asking: bool,
    /// Its prompt is for the call that was decided just before.
    pub(super) is_again: bool,
}

impl Draft<'_> {
    pub(super) fn pass(&mut self, ms: std::ops::Range<Ms>) {
        self.at += self.random.range(ms);
    }

    pub(super) fn push(&mut self, after: Ms, a_move: Move) {
        self.plan.push((self.at + after, a_move));
    }

    pub(super) fn is(&mut self, truth: Truth) {
        self.client.truth = truth;
        self.push(0, Move::Is(truth));
    }

    pub(super) fn registry(&mut self, status: &'static str, waiting_for: Option<&'static str>) {
        let after = self.random.range(38..110);
        self.push(after, Move::Registry(status, waiting_for));
    }

    pub(super) fn paints(&mut self, screen: Screen) {
        let after = self.random.range(40..300);
        self.push(after, Move::Paints(screen));
    }

    pub(super) fn name(&mut self, of: &str) -> String {
        self.client.names += 1;
        format!("{of}-{}-{}", self.client.number, self.client.names)
    }

    /// Fires a hook; `about` are the fields that this event has beside the common ones.
    pub(super) fn fires(&mut self, event: &str, about: &Value) {
        let payload = self.client.payload(event, about);
        self.push(0, Move::Fires(payload));
    }

    pub(super) fn writes(&mut self, kind: &str, content: &Value) {
        let line = json!({"type": kind, "message": {"role": kind, "content": content}});
        self.push(30, Move::Writes(line));
    }

    /// The agent says something, or calls a tool.
    pub(super) fn speaks(&mut self, kind: &str) {
        let line = json!({"type": "assistant", "message": {"role": "assistant", "content": [{"type": kind}]}});
        self.push(0, Move::Writes(line));
    }

    /// What stands at the beginning of a turn in its transcript.
    fn begins(&mut self, begin: Begin) {
        match begin {
            Begin::Prompt | Begin::Wake => {
                let text = self.client.wake_text.take().filter(|_| begin == Begin::Wake);
                self.pass(50..100);
                self.fires("UserPromptSubmit", &json!({"prompt": "x"}));
                self.writes("user", &text.map_or("x".to_owned(), |text| in_wake(&text)).into());
            }
            Begin::Bang => self.writes("user", &"<bash-input>ls</bash-input>".into()),
            Begin::Queued | Begin::Continued => (),
        }
    }

    /// One turn, with whatever happens in it, and the turns of prompts that were queued in it.
    pub(super) fn turn(&mut self, begin: Begin) {
        self.client.turns += 1;
        // An interrupted `!cmd` says nothing of the error that the turn before it met.
        self.client.rest = if begin == Begin::Bang { self.client.truth } else { Truth::Idle };
        self.is(Truth::Running);
        self.registry("busy", None);
        self.paints(Screen::Working);
        if !matches!(begin, Begin::Bang | Begin::Continued) {
            self.client.prompt_id = Some(self.name("prompt"));
        }
        self.client.is_again = matches!(begin, Begin::Wake | Begin::Continued);
        self.begins(begin);
        let has_output = matches!(begin, Begin::Queued | Begin::Continued);
        // A queued prompt and an interrupt read as the interrupt of the turn before (measured).
        self.client.is_shown = begin != Begin::Queued;
        let left = self.random.below(5);
        self.goes_on(Turn { begin, left, is_queued: false, has_output });
    }

    /// What is left of a turn, up to its end or to its next permission prompt.
    pub(super) fn goes_on(&mut self, mut turn: Turn) {
        let begin = turn.begin;
        while 0 < turn.left {
            turn.left -= 1;
            self.think();
            if begin != Begin::Bang && self.is_limited() {
                return self.fails("rate_limit", Truth::Quota, turn.is_queued);
            }
            match self.random.below(20) {
                0..11 => self.tool(turn),
                11 if self.client.is_interactive => self.question(turn),
                12 if self.client.is_interactive => self.plan_to_approve(turn),
                13..16 => self.subagent(turn),
                16..18 if self.client.is_interactive && begin != Begin::Bang => {
                    self.fires("UserPromptSubmit", &json!({"prompt": "later"}));
                    turn.is_queued = true;
                }
                18 if self.random.chance(0.3) => return self.end(End::Kill),
                _ => self.speaks("text"),
            }
            if self.is_asking {
                return;
            }
            (turn.has_output, self.client.is_shown) = (true, true);
        }
        self.think();
        if begin != Begin::Bang && self.is_limited() {
            return self.fails("rate_limit", Truth::Quota, turn.is_queued);
        }
        let Turn { is_queued, has_output, .. } = turn;
        match self.random.below(100) {
            0..14 if self.client.is_interactive => self.interrupted(is_queued, has_output),
            14..20 if begin != Begin::Bang => self.failure(is_queued),
            20..22 => self.end(End::Kill),
            22..23 if self.client.is_interactive => self.exit(),
            _ => self.stop(is_queued),
        }
    }

    /// Whether its account is at its usage limit then.
    fn is_limited(&self) -> bool {
        let window = self.client.window.as_ref();
        window.is_some_and(|window| window.contains(&(self.now + self.at)))
    }

    pub(super) fn think(&mut self) {
        if self.is_limited() {
            self.pass(300..8_000);
        } else if self.random.chance(0.02) {
            self.pass(600_000..1_500_000);
        } else {
            self.pass(300..30_000);
        }
    }

    pub(super) fn work(&mut self) {
        if self.random.chance(0.03) {
            self.pass(600_000..1_800_000);
        } else {
            self.pass(100..40_000);
        }
    }

    /// Esc: no hook. Before any output neither screen nor transcript keep a mark.
    pub(super) fn interrupted(&mut self, is_queued: bool, has_output: bool) {
        self.over(is_queued, has_output);
    }

    /// The turn ends without a hook: interrupted, or a call refused.
    pub(super) fn over(&mut self, is_queued: bool, has_output: bool) {
        if is_queued {
            // The client writes the queued prompt before the interrupt (measured).
            self.writes("user", &"later".into());
        }
        if has_output {
            let text = json!([{"type": "text", "text": "[Request interrupted by user]"}]);
            self.writes("user", &text);
        }
        let is_shown = self.client.is_shown;
        self.push(29, Move::Interrupts { has_output, is_shown });
        self.ends_or_goes_on(is_queued, self.client.rest, "idle", Screen::Prompt);
    }

    pub(super) fn failure(&mut self, is_queued: bool) {
        let (error, truth) = match self.random.below(5) {
            0 | 1 => ("rate_limit", Truth::Quota),
            2 => ("authentication_failed", Truth::Authentication),
            3 => ("billing_error", Truth::Billing),
            _ => ("server_error", Truth::Idle),
        };
        self.fails(error, truth, is_queued);
    }

    /// The API refuses: the client writes the error in the agent's place (measured).
    fn fails(&mut self, error: &str, truth: Truth, is_queued: bool) {
        let line = json!({
            "type": "assistant", "isApiErrorMessage": true, "error": error,
            "message": {"role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error"}]},
        });
        self.push(0, Move::Writes(line));
        self.fires("StopFailure", &json!({"error": error}));
        self.writes_queued(is_queued);
        self.ends_or_goes_on(is_queued, truth, "idle", Screen::Error);
    }

    pub(super) fn stop(&mut self, is_queued: bool) {
        let work = match self.random.below(20) {
            0 | 1 if self.client.is_interactive => Some(Truth::Subagent),
            2 if self.client.is_interactive => Some(Truth::Shell),
            _ => None,
        };
        let work = work.filter(|_| !is_queued);
        let tasks = match work {
            Some(Truth::Subagent) => json!([{"type": "subagent", "status": "running"}]),
            Some(_) => json!([{"type": "shell", "command": "make"}]),
            None => json!([]),
        };
        self.writes("assistant", &json!([{"type": "text", "text": "done"}]));
        let about = json!({"stop_hook_active": self.client.is_again, "background_tasks": tasks, "session_crons": []});
        self.fires("Stop", &about);
        self.writes_queued(is_queued);
        self.client.background = work;
        let (truth, status) = match work {
            Some(Truth::Subagent) => (Truth::Subagent, "busy"),
            Some(_) => (Truth::Shell, "shell"),
            None => (Truth::Idle, "idle"),
        };
        self.ends_or_goes_on(is_queued, truth, status, Screen::Prompt);
    }

    /// Queued prompts begin the next turn behind the last word of this one.
    fn writes_queued(&mut self, is_queued: bool) {
        if is_queued {
            let line = json!({"type": "user", "message": {"role": "user", "content": "later"}});
            self.push(32, Move::Writes(line));
        }
    }

    /// A turn is over: its queued prompts become the next one, or `truth` holds.
    pub(super) fn ends_or_goes_on(
        &mut self,
        is_queued: bool,
        truth: Truth,
        status: &'static str,
        screen: Screen,
    ) {
        if is_queued {
            self.registry("idle", None);
            self.pass(110..200);
            return self.turn(Begin::Queued);
        }
        self.is(truth);
        self.registry(status, None);
        self.paints(screen);
        self.pass(300..400);
    }

    pub(super) fn clear(&mut self) {
        let session_id = self.name("session");
        self.goes_over(session_id, "clear");
    }

    /// /resume: the process goes over to a conversation that it had before.
    pub(super) fn resume(&mut self) {
        let at = self.random.index(self.client.left.len());
        let session_id = self.client.left.remove(at);
        self.goes_over(session_id, "resume");
    }

    pub(super) fn goes_over(&mut self, session_id: String, why: &str) {
        self.fires("SessionEnd", &json!({"reason": why}));
        self.pass(20..80);
        let before = std::mem::replace(&mut self.client.session_id, session_id.clone());
        self.client.left.push(before);
        self.client.transcript = super::transcript_of(&session_id);
        self.push(0, Move::Follows(session_id));
        self.client.prompt_id = None;
        self.is(Truth::Idle);
        self.registry("idle", None);
        self.fires("SessionStart", &json!({"source": why}));
        self.pass(300..400);
    }

    pub(super) fn compact(&mut self) {
        let before = self.client.truth;
        self.is(Truth::Running);
        self.registry("busy", None);
        self.paints(Screen::Working);
        self.fires("PreCompact", &json!({"trigger": "manual"}));
        self.pass(2_000..30_000);
        for _ in 0..2 {
            let agent = self.name("agent");
            self.fires("SubagentStop", &json!({"agent_id": agent, "agent_type": ""}));
        }
        self.fires("SessionStart", &json!({"source": "compact"}));
        self.pass(5..50);
        self.fires("PostCompact", &json!({"trigger": "manual"}));
        self.is(before);
        self.registry("idle", None);
        self.paints(Screen::Prompt);
        self.pass(300..400);
    }

    /// /config and its like: no hook.
    pub(super) fn dialog(&mut self) {
        let before = self.client.truth;
        self.is(Truth::AwaitingInput);
        self.registry("waiting", Some("dialog open"));
        self.paints(Screen::Dialog);
        self.pass(2_000..60_000);
        self.is(before);
        self.registry("idle", None);
        self.paints(Screen::Prompt);
        self.pass(300..400);
    }

    /// Ctrl-Z: no hook, and the registry stays as it was.
    pub(super) fn suspend(&mut self) {
        let before = self.client.truth;
        self.push(0, Move::Stops(true));
        self.is(Truth::Suspended);
        self.paints(Screen::Suspended);
        self.pass(2_000..900_000);
        self.push(0, Move::Stops(false));
        self.is(before);
        self.paints(Screen::Prompt);
        self.pass(300..400);
    }

    /// /exit; its SessionEnd hook may be cancelled (measured).
    pub(super) fn exit(&mut self) {
        if !self.random.chance(0.1) {
            self.fires("SessionEnd", &json!({"reason": "prompt_input_exit"}));
        }
        self.pass(150..500);
        self.push(0, Move::TakesLeave);
        self.pass(50..300);
        self.push(0, Move::Dies(End::Exit));
    }

    pub(super) fn end(&mut self, end: End) {
        if end == End::Other {
            self.fires("SessionEnd", &json!({"reason": "other"}));
            self.pass(100..700);
            self.push(0, Move::TakesLeave);
            self.pass(50..300);
        }
        self.push(0, Move::Dies(end));
    }

    /// Puts the moves in order, and the next plan behind them.
    pub(super) fn next(mut self) -> Plan {
        self.pass(1..20);
        self.plan.sort_by_key(|(at, _)| *at);
        let last = self.plan.last().map_or(0, |(at, _)| *at);
        let is_over = |(_, one): &(Ms, Move)| matches!(one, Move::Dies(_));
        if let Some(end) = self.plan.iter().position(is_over) {
            self.plan.truncate(end + 1);
        } else if !self.is_asking {
            self.plan.push((last.max(self.at), Move::NextPlan));
        }
        self.plan
    }
}

/// The prompt that the client makes of a wake hook's text (measured).
fn in_wake(text: &str) -> String {
    format!(
        "{WAKE}\n<summary>Stop hook feedback</summary>\n</task-notification>\n<system-reminder>\nStop hook blocking error from command \"Stop\": {text}\n</system-reminder>"
    )
}
