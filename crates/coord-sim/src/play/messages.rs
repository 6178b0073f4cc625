//! Messages in a scenario: they are sent, leave in a hook's answer or by a wake hook, and stand in their
//! client's transcript then, as it writes them (measured). Whether its agent answers is the file's to say.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use coord_model::ProcessRef;
use serde_json::{Map, Value, json};

use super::client::Fired;
use super::doings::Doing;
use super::player::Player;
use crate::scenario::Letter;
use crate::serving::{Post, Posted, Serving, WakeHook, paths};

const MS: u64 = 1_000_000;
/// A hook waits so long for its answer (H-37).
const EXCHANGE: u64 = 150 * MS;
/// What it printed stands in the transcript by then, behind what the client itself had to write.
const STANDS_AFTER: u64 = 200 * MS;

/// Messages and those who wait for them.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Ids by the names that the file gives them.
    named: BTreeMap<String, String>,
    /// Hooks that wait for an answer, by their events.
    asking: BTreeMap<u128, Asking>,
}

/// A hook that waits.
#[derive(Debug)]
struct Asking {
    post: Post,
    session: String,
    event: String,
    process: ProcessRef,
}

impl Messages {
    /// The id of a message that was sent.
    pub(super) fn id(&self, name: &str) -> Result<&str> {
        let id = self.named.get(name);
        id.map(String::as_str).with_context(|| format!("no step sends a message named {name:?}"))
    }
}

impl Player {
    /// Somebody sends a message.
    pub(super) fn send(&mut self, letter: &Letter) -> Result<()> {
        let serving = self.serving.as_mut().context("command: the coordinator is down")?;
        serving.begin_turn();
        let sent = serving.send(&letter.ask, letter.from.clone());
        serving.end_turn(false);
        self.messages.named.insert(letter.name.clone(), sent.context("command")?.id);
        self.turn(&[], false);
        Ok(())
    }

    /// Hands an event to the coordinator, or else to the spool, as its hook does.
    pub(super) fn deliver(&mut self, fired: Fired) -> Result<()> {
        let Fired { post, id, session, event, process, .. } = fired;
        let posted = self.serving.as_mut().map(|serving| {
            serving.begin_turn();
            serving.take(id, &post)
        });
        let asking = Asking { post, session, event, process };
        match posted {
            Some(Posted::Handed(_)) => {
                self.messages.asking.insert(id, asking);
                self.doings.add(self.clock.at_ns + EXCHANGE, Doing::GivesUp { process, id });
                self.ends_turn();
                Ok(())
            }
            Some(Posted::Answered(204)) => {
                self.ends_turn();
                Ok(())
            }
            Some(Posted::Answered(_)) | None => {
                self.ends_turn();
                self.spools(id, &asking)
            }
        }
    }

    /// A hook's time is over: if it waits still, it spools.
    pub(super) fn gives_up(&mut self, id: u128) -> Result<()> {
        match self.messages.asking.remove(&id) {
            Some(asking) => self.spools(id, &asking),
            None => Ok(()),
        }
    }

    /// The coordinator is gone: whoever waits for it spools.
    pub(super) fn hang_up(&mut self) -> Result<()> {
        self.refuse_claims();
        let all = std::mem::take(&mut self.messages.asking);
        all.iter().try_for_each(|(id, asking)| self.spools(*id, asking))
    }

    fn spools(&mut self, id: u128, asking: &Asking) -> Result<()> {
        let (disk, dir) = (self.machine.get().disk.clone(), paths().spool());
        match crate::hooks::spool(&disk, &dir, id, &asking.post.body, usize::MAX) {
            Ok(_) => drop(self.turn(&[], true)),
            Err(error) => {
                let lost = format!("neither the coordinator nor the spool took it: {error}");
                self.show_lost(&asking.session, &lost)?;
            }
        }
        Ok(())
    }

    /// What hooks and wake hooks were handed reaches their clients.
    pub(super) fn take_messages(&mut self) -> Result<()> {
        let wakes = self.serving.as_mut().map(Serving::take_wakes);
        for (WakeHook { session_id, harness, .. }, text) in wakes.unwrap_or_default() {
            let session = &session_id;
            self.show_effect(json!({"kind": "answer_hook", "session": session, "text": text}))?;
            let text = format!(
                "<task-notification>\n<summary>Stop hook feedback</summary>\n</task-notification>\n<system-reminder>\nStop hook blocking error from command \"Stop\": {text}\n</system-reminder>"
            );
            let message = json!({"role": "user", "content": text});
            self.stands(harness, session, &json!({"type": "user", "message": message}));
        }
        let handed = self.serving.as_mut().map(Serving::take_handed);
        for (id, text) in handed.unwrap_or_default() {
            let Some(Asking { session, event, process, .. }) = self.messages.asking.remove(&id)
            else {
                continue;
            };
            let effect =
                json!({"kind": "answer_hook", "session": session, "event": event, "text": text});
            self.show_effect(effect)?;
            let attachment = json!({"type": "hook_additional_context", "content": [text], "hookEvent": event, "hookName": event});
            self.stands(
                process,
                &session,
                &json!({"type": "attachment", "attachment": attachment}),
            );
        }
        Ok(())
    }

    fn stands(&mut self, process: ProcessRef, session: &str, line: &Value) {
        let mut line: Map<String, Value> = line.as_object().cloned().unwrap_or_default();
        line.insert("sessionId".to_owned(), session.into());
        line.insert("isSidechain".to_owned(), false.into());
        let writes = Doing::Writes { process, line: Value::Object(line) };
        self.doings.add(self.clock.at_ns + STANDS_AFTER, writes);
    }
}
