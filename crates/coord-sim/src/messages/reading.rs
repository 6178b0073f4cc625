//! What becomes of a message behind the coordinator: a hook prints it or is killed, the client takes it into
//! its conversation, and its model answers a request that holds it, or never does (measured: F2, F3, F29).

use std::collections::VecDeque;

use coord_model::ProcessRef;
use serde_json::{Value, json};

use super::framed_in;
use crate::checks::Violation;
use crate::client::{End, WAKE};
use crate::hook_runs::{EXCHANGE, MISS, Run};
use crate::simulation::{MS, SECOND, Simulation, Time, What};

/// A client goes on without the answer of a hook that takes longer, or does something else by then.
const PATIENCE: Time = 250 * MS;
/// What a hook brought stands behind what the client itself has written by then.
const BEHIND: Time = 40 * MS;

/// A text that stands in a conversation, in no request yet that was answered.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    text: String,
    /// Whatever becomes of the prompt behind it.
    stays: bool,
}

/// A hook's answer on its way to its client.
#[derive(Debug)]
pub(crate) struct Hearing {
    run: Run,
    text: String,
}

/// Lines that a client has not written to its transcript yet: when it will, where, and what.
pub(crate) type Unwritten = VecDeque<(Time, String, String)>;

impl Simulation {
    /// A hook waits for its answer, for as long as it may.
    pub(crate) fn waits_for_answer(&mut self, run: Run) {
        let id = run.id;
        self.messages.waiting.insert(id, run);
        self.at(EXCHANGE, What::GivesUp(id));
    }

    /// A hook's time is over: if it waits still, it spools.
    pub(crate) fn gives_up(&mut self, id: u128) {
        let Some(run) = self.messages.waiting.remove(&id) else { return };
        self.note(|| format!("  {id:x} {} gives up", run.event));
        self.missed_until = self.time + MISS;
        if let Some(serving) = &mut self.serving {
            serving.hang_up(id);
        }
        if !run.is_gone {
            self.spool(run);
        }
    }

    /// The coordinator is gone: whoever waits for it spools.
    pub(crate) fn hang_up_hooks(&mut self) {
        for (_, run) in std::mem::take(&mut self.messages.waiting) {
            if !run.is_gone {
                self.at(MS, What::Spools(run));
            }
        }
    }

    /// The machine is gone, and with it whoever waited.
    pub(crate) fn forget_messages(&mut self) {
        self.messages.waiting.clear();
        self.messages.sends.clear();
    }

    /// Hooks were given a text for their agents.
    pub(crate) fn on_handed(&mut self, handed: Vec<(u128, String)>) -> Result<(), Violation> {
        for (id, text) in handed {
            self.check_left(&text)?;
            let Some(run) = self.messages.waiting.remove(&id) else { continue };
            self.note(|| format!("  {id:x} {} HANDED {text:?}", run.event));
            self.charge_stop(&run)?;
            if run.is_gone {
                continue;
            }
            if run.is_slow {
                self.missed_until = self.time + MISS;
                self.at(EXCHANGE, What::Spools(run));
                continue;
            }
            if run.is_killed_at_answer() {
                continue;
            }
            self.acknowledge(&run);
            let after = self.random.range(MS..5 * MS);
            let behind = (run.fired + BEHIND).saturating_sub(self.time);
            self.at(after.max(behind), What::Hears(Box::new(Hearing { run, text })));
        }
        Ok(())
    }

    /// A client takes what its hook has printed.
    pub(crate) fn hears(&mut self, hearing: Hearing) {
        let Hearing { run, text } = hearing;
        let Some(place) = self.place_of_client(&run.owner.0, run.owner.1) else { return };
        let is_late = run.fired + PATIENCE < self.time || self.hung_at(run.owner.1).is_some();
        let Some(one) = self.running(place) else { return };
        // A prompt that is queued can be pulled back, and what was given to it is in no request then (F29).
        if is_late || one.session_id != run.session_id || run.is_queued {
            return self
                .note(|| format!("place {place}: does not hear the answer to {}", run.event));
        }
        self.note(|| format!("place {place}: hears the answer to {}", run.event));
        let event = &run.event;
        let line = json!({"type": "attachment", "isSidechain": false, "attachment": {
            "type": "hook_additional_context", "content": [text], "hookEvent": event, "hookName": event,
        }});
        self.write_transcript(place, line);
        self.takes_in(place, text, run.event == "SessionStart");
        if run.event == "Stop" && !self.has_fires(place) {
            self.goes_on(place);
        }
    }

    /// The answer to its Stop makes a client's turn go on.
    fn goes_on(&mut self, place: usize) {
        self.drop_plan(place);
        let now_ms = self.time / MS;
        let Some(one) = self.places.get_mut(place).and_then(|one| one.client.as_mut()) else {
            return;
        };
        one.is_woken = true;
        let plan = one.client.continues(now_ms, &mut self.random);
        self.follow(place, plan);
    }

    fn takes_in(&mut self, place: usize, text: String, stays: bool) {
        if let Some(one) = self.running(place) {
            one.contexts.push(Context { text, stays });
        }
    }

    /// What wake hooks brought in the midst of a turn goes into its next request, behind a tool (F3).
    pub(crate) fn takes_held(&mut self, place: usize, payload: &Value) {
        let is_main = payload.get("agent_id").is_none();
        let is_tool = payload.get("hook_event_name").is_some_and(|name| name == "PostToolUse");
        let Some(one) = self.running(place).filter(|_| is_main && is_tool) else { return };
        for text in std::mem::take(&mut one.held) {
            let attachment = json!({"type": "queued_command", "prompt": text});
            let line = json!({"type": "attachment", "attachment": attachment});
            self.write_transcript(place, line);
            self.takes_in(place, text, false);
        }
    }

    /// A client says, or does, what stands in this line of its transcript.
    pub(crate) fn says(&mut self, place: usize, line: &Value) {
        let text = line.pointer("/message/content").and_then(Value::as_str);
        match line.get("type").and_then(Value::as_str) {
            Some("assistant") => self.answers(place),
            Some("user") => {
                if let Some(text) = text.filter(|text| text.starts_with(WAKE)) {
                    self.takes_in(place, text.to_owned(), false);
                }
            }
            Some(_) | None => (),
        }
    }

    /// Its model answers a request: it has read whatever stood in it.
    fn answers(&mut self, place: usize) {
        let Some(one) = self.running(place) else { return };
        let session_id = one.session_id.clone();
        for context in std::mem::take(&mut one.contexts) {
            for framed in framed_in(&context.text) {
                self.note(|| format!("place {place}: {session_id} reads {}", framed.id));
                let read = self.messages.read.entry(framed.id).or_default();
                read.times += 1;
                read.as_new += u32::from(!framed.is_repeat);
                self.meter.messages.read += 1;
                self.meter.messages.repeats += u64::from(1 < read.times);
                // Whichever of the two comes first: one that was held back for long is not the second.
                let is_twice = 1 < read.as_new;
                if is_twice && !self.messages.doubled.contains(&session_id) {
                    let what = format!("{session_id}: read {} again, as if it were new", framed.id);
                    self.messages.wrong = Some(Violation::new("H-30", what));
                }
                if let Some(from) = &framed.from {
                    self.replies(&session_id, from);
                }
            }
        }
    }

    /// Its user interrupts the turn. Before any output that takes out of the conversation what stood in the
    /// request (F29); later it may stay there.
    pub(crate) fn is_interrupted(&mut self, place: usize, has_output: bool) {
        let is_kept = has_output && self.random.coin();
        if let Some(one) = self.running(place) {
            one.contexts.retain(|context| is_kept || context.stays);
        }
    }

    /// Another conversation is its client's from now on.
    pub(crate) fn follows(&mut self, place: usize, session_id: &str) {
        let left = self.messages.left.remove(session_id).unwrap_or_default();
        let clients = self.places.iter().filter_map(|one| one.client.as_ref());
        if 1 < clients.filter(|one| one.session_id == session_id).count() {
            self.messages.doubled.insert(session_id.to_owned());
        }
        if let Some(one) = self.running(place) {
            one.contexts = left;
            let mode = one.client.mode;
            self.messages.modes.insert(session_id.to_owned(), mode);
        }
    }

    /// A client ends: what it had to write it writes, if it can.
    pub(crate) fn leaves_conversation(&mut self, place: usize, end: End) {
        if end != End::Kill {
            self.lands(place, Time::MAX);
        }
        let id = self.running(place).map(|one| one.session_id.clone());
        self.leaves(place, id);
    }

    /// Whoever opens a conversation again finds what stands in its transcript.
    pub(crate) fn leaves(&mut self, place: usize, session_id: Option<String>) {
        let contexts = self.running(place).map(|one| std::mem::take(&mut one.contexts));
        if let Some((id, contexts)) = session_id.zip(contexts) {
            self.messages.left.insert(id, contexts);
        }
    }

    /// How much later a line stands in its transcript.
    pub(crate) fn lag(&mut self) -> Time {
        let max = if self.random.chance(0.05) { 2 * SECOND } else { 100 * MS };
        self.random.below(max)
    }

    /// A client writes the lines whose time has come.
    pub(crate) fn lands(&mut self, place: usize, until: Time) {
        let machine = self.machine.clone();
        let Some(one) = self.running(place) else { return };
        while one.unwritten.front().is_some_and(|(due, ..)| *due <= until) {
            if let Some((_, path, line)) = one.unwritten.pop_front() {
                machine.get().write_transcript(&path, &line);
            }
        }
    }

    /// The place of a client of this boot.
    pub(crate) fn place_of_client(&self, boot: &str, process: ProcessRef) -> Option<usize> {
        let is_its = |client: &crate::living::Running| client.process == process;
        let mut all = self.places.iter();
        let found = all.position(|one| one.client.as_ref().is_some_and(is_its));
        found.filter(|_| self.boot() == boot)
    }
}
