//! The clients of the simulated fleet's sessions: they take prompts, and with them what waits for the session. A text reaches
//! an agent when its model answers a request that holds it.

use coord_host::process::Caller;
use coord_model::{Kind, MessageId, ProcessRef};
use serde_json::{Value, json};

use super::place::{Place, wrong};
use crate::Violation;
use crate::hooks::{Hook, envelope};
use crate::messages::{Framed, framed_in};
use crate::serving::{CONFIG_DIR, Post, Posted};

const TERMINAL: u64 = 34_816;
/// A hook waits for so many turns of the coordinator's loop.
const PATIENCE: u32 = 50;
/// How often a turn goes on because of what its end brought.
const STOPS_MAX: u32 = 4;

/// What becomes of a text behind the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hearing {
    /// The model reads it.
    Answered,
    /// It stands in a request that the user interrupts, to leave.
    Interrupted,
    /// The hook is killed before it can print it.
    Lost,
}

/// The session's id.
pub(super) fn session(number: u8, k: u8) -> String {
    format!("{number:08}-0000-4000-8000-{k:012}")
}

fn transcript(session: &str) -> String {
    format!("{CONFIG_DIR}/projects/p/{session}.jsonl")
}

impl Place {
    /// A client opens the session; does nothing if one has it.
    pub(super) fn begins(&mut self, k: u8) -> Result<(), Violation> {
        if self.clients.contains_key(&k) {
            return Ok(());
        }
        self.last_pid += 10;
        let client = self.machine.get().spawn(self.last_pid, Kind::Interactive, TERMINAL);
        let source = if self.last_pid < 1_030 { "startup" } else { "resume" };
        self.clients.insert(k, client);
        self.reports(k, json!({"hook_event_name": "SessionStart", "source": source}), Hearing::Lost)
            .map(drop)
    }

    /// The session ends.
    pub(super) fn ends(&mut self, k: u8, is_told: bool) -> Result<(), Violation> {
        if is_told {
            let ended = json!({"hook_event_name": "SessionEnd", "reason": "prompt_input_exit"});
            self.reports(k, ended, Hearing::Lost)?;
        }
        if let Some(client) = self.clients.remove(&k) {
            self.machine.get().end(client);
        }
        (0..3).try_for_each(|_| self.turn().map(drop))
    }

    /// A prompt and the turn behind it. Returns what its model has read.
    pub(super) fn prompt(&mut self, k: u8, hearing: Hearing) -> Result<Vec<Framed>, Violation> {
        let mut read = Vec::new();
        if !self.clients.contains_key(&k) {
            return Ok(read);
        }
        let user = json!({"type": "user", "message": {"role": "user", "content": "go on"}});
        let (mut event, mut is_on) = ("UserPromptSubmit", false);
        self.writes(k, &user);
        for _ in 0..STOPS_MAX {
            let handed = self.reports(
                k,
                json!({"hook_event_name": event, "stop_hook_active": is_on}),
                hearing,
            )?;
            let text = handed.as_deref().unwrap_or_default();
            if !text.is_empty() {
                let line = json!({"type": "attachment", "isSidechain": false, "attachment": {
                    "type": "hook_additional_context", "content": [text], "hookEvent": event,
                    "hookName": event,
                }});
                self.writes(k, &line);
            }
            if hearing == Hearing::Interrupted && !text.is_empty() {
                return self.ends(k, true).map(|()| read);
            }
            if event == "Stop" && text.is_empty() {
                return Ok(read);
            }
            is_on = event == "Stop";
            let answer = json!({"type": "assistant", "message": {
                "role": "assistant", "content": [{"type": "text"}]
            }});
            self.writes(k, &answer);
            read.extend(framed_in(text));
            event = "Stop";
        }
        Ok(read)
    }

    fn writes(&mut self, k: u8, line: &Value) {
        let path = transcript(&session(self.number, k));
        self.machine.get().write_transcript(&path, &line.to_string());
    }

    /// A hook of the session's client; the text that it prints, if any.
    fn reports(
        &mut self,
        k: u8,
        payload: Value,
        hearing: Hearing,
    ) -> Result<Option<String>, Violation> {
        self.turn()?;
        let Some(client) = self.clients.get(&k).copied() else { return Ok(None) };
        let (id, post) = self.hook(k, client, payload)?;
        match self.serving()?.take(id, &post) {
            Posted::Answered(200..300) => return Ok(None),
            Posted::Answered(status) => return Err(wrong(format!("a hook was answered {status}"))),
            Posted::Handed(_) => (),
        }
        if hearing == Hearing::Lost {
            self.serving()?.hang_up(id);
            return Ok(None);
        }
        for _ in 0..PATIENCE {
            self.turn()?;
            let handed = self.serving()?.take_handed();
            if let Some((_, text)) = handed.into_iter().find(|(of, _)| *of == id) {
                return Ok(Some(text));
            }
        }
        Err(wrong("a hook's answer does not come"))
    }

    fn hook(
        &self,
        k: u8,
        client: ProcessRef,
        mut payload: Value,
    ) -> Result<(u128, Post), Violation> {
        let session = session(self.number, k);
        let path = transcript(&session);
        if let Some(fields) = payload.as_object_mut() {
            fields.insert("session_id".to_owned(), json!(session));
            fields.insert("permission_mode".to_owned(), json!("default"));
            fields.insert("transcript_path".to_owned(), json!(path));
        }
        let hook = Hook::of_client(&self.machine.get(), client);
        let body = envelope(&hook, &payload).and_then(|envelope| serde_json::to_vec(&envelope));
        let body = body.map_err(|error| wrong(error.to_string()))?;
        let caller = Caller { pid: hook.pid, parent: Some(client.pid) };
        Ok((hook.id, Post { body, caller }))
    }

    /// A person releases whatever waits for one (H-21).
    pub(super) fn releases(&mut self) -> Result<(), Violation> {
        let state = self.serving()?.coordinator().state();
        let waits = |one: &&coord_core::Message| one.is_pending() && state.waits_for_person(one);
        let ids: Vec<MessageId> = state.messages().filter(waits).map(|one| one.id).collect();
        for id in ids {
            let released = self.post(&format!("/v1/messages/{id}/retry"), &json!({}))?;
            released.map_err(|refused| wrong(format!("{id} is not released: {refused:?}")))?;
        }
        Ok(())
    }
}
