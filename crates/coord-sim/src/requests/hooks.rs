//! The hook of a permission request: it reports its event, asks to wait, looks at the registry once more, prints what it
//! was answered with, and ends. It ends without a word if the coordinator does, or its client.

use coord_model::{Kind, ProcessRef, ReplyKind, RequestId};
use serde_json::Value;

use super::Step;
use super::hidden::Hides;
use super::replies::reply_in;
use crate::checks::Violation;
use crate::serving::{CONFIG_DIR, RequestHook, Serving};
use crate::simulation::{MS, Simulation, Time, What};

/// What a hook does next it does after so long.
const SOON: std::ops::Range<u64> = MS..5 * MS;

/// Now and then the machine is busy, and its prompt is over by the time that it looks once more.
const SLOW: std::ops::Range<u64> = 5 * MS..400 * MS;

/// The life of such a hook.
#[derive(Debug)]
pub(super) struct HookLife {
    pub(super) ask: RequestHook,
    /// The call that it asks for.
    pub(super) call: Option<String>,
    /// Since when it waits, until it is answered.
    pub(super) waits_since: Option<Time>,
    /// The coordinator knew its prompt as open while it waited.
    pub(super) was_known: bool,
    /// The coordinator could see its dialog on the screen since then.
    pub(super) was_shown: bool,
    /// The coordinator did not know which call it asks for while another prompt with the same input was open.
    pub(super) may_be_anothers: bool,
    /// Since when the coordinator can see that the hook need not wait.
    pub(super) needless_since: Option<Time>,
    /// For how long it kept its prompt from everybody at a terminal.
    pub(super) hides: Hides,
}

impl HookLife {
    pub(super) fn is_waiting(&self) -> bool {
        self.waits_since.is_some()
    }
}

impl Simulation {
    /// The hook of a client's request is a process that stays. Which one.
    pub(crate) fn start_request_hook(
        &mut self,
        (place, id, pid): (usize, u128, u32),
        payload: &Value,
        call: Option<&str>,
    ) -> Option<ProcessRef> {
        if payload.get("hook_event_name").is_none_or(|name| name != "PermissionRequest") {
            return None;
        }
        let one = self.running(place)?;
        let (harness, session_id) = (one.process, one.session_id.clone());
        let is_interactive = one.client.is_interactive;
        if self.machine.get().processes.contains_key(&pid) {
            return None;
        }
        let process = self.machine.get().spawn(pid, Kind::Headless, 0);
        if let Some(one) = self.machine.get().processes.get_mut(&pid) {
            (one.parent, one.is_client, one.config_dir) = (harness.pid, false, None);
        }
        let input = payload.get("tool_input").map(Value::to_string).unwrap_or_default();
        let request = RequestId(id);
        // It cannot tell a subagent in the foreground, whose dialog is there, from one in the background.
        let has_dialog = is_interactive && payload.get("agent_id").is_none();
        let ask = RequestHook { request, session_id, harness, process, has_dialog, input };
        if let Some(call) = call {
            self.requests.of_request.insert(request, call.to_owned());
            if let Some(truth) = self.requests.calls.get_mut(call) {
                truth.hooks += 1;
            }
        }
        let life = HookLife {
            ask,
            call: call.map(str::to_owned),
            waits_since: None,
            was_known: false,
            was_shown: false,
            may_be_anothers: false,
            needless_since: None,
            hides: Hides::default(),
        };
        self.requests.hooks.insert(process, life);
        Some(process)
    }

    /// A hook's event is delivered: it asks to wait.
    pub(crate) fn request_hook_goes_on(&mut self, hook: Option<ProcessRef>) {
        if let Some(hook) = hook {
            let after = self.random.range(SOON);
            self.at(after, What::Request(Step::HookAsks(hook)));
        }
    }

    /// A hook is killed.
    pub(crate) fn request_hook_ends(&mut self, hook: Option<ProcessRef>) {
        if let Some(hook) = hook {
            self.at(0, What::Request(Step::HookEnds(hook, None)));
        }
    }

    pub(super) fn hook_asks(&mut self, hook: ProcessRef) {
        if !self.requests.hooks.contains_key(&hook) {
            return;
        }
        let stalled = self.stalled_until.saturating_sub(self.time);
        if self.serving.is_none() {
            self.request_hook_ends(Some(hook));
        } else if 0 < stalled {
            self.at(stalled, What::Request(Step::HookAsks(hook)));
        } else {
            self.requests.asks.push(hook);
        }
    }

    /// Hooks ask, and people reply, in a turn of the coordinator's loop.
    pub(crate) fn put_requests(&mut self, serving: &mut Serving) -> Result<(), Violation> {
        for hook in std::mem::take(&mut self.requests.asks) {
            let time = self.time;
            let Some(life) = self.requests.hooks.get_mut(&hook) else { continue };
            let is_waiting = serving.wait_for_reply(&life.ask);
            life.waits_since = is_waiting.then_some(time);
            if !is_waiting {
                self.request_hook_ends(Some(hook));
            }
        }
        self.put_replies(serving)
    }

    /// Hooks were answered.
    pub(crate) fn on_replies(
        &mut self,
        answers: Vec<(ProcessRef, Option<String>)>,
    ) -> Result<(), Violation> {
        for (hook, text) in answers {
            self.check_answered(hook, text.as_deref())?;
            if let Some(life) = self.requests.hooks.get_mut(&hook) {
                life.waits_since = None;
            }
            let is_slow = self.random.chance(0.2);
            let after = self.random.range(if is_slow { SLOW } else { SOON });
            self.at(after, What::Request(Step::HookHears(hook, text)));
        }
        Ok(())
    }

    /// A hook prints what it was answered with, if the client still says that it waits.
    pub(super) fn hook_hears(&mut self, hook: ProcessRef, text: Option<&str>) {
        let Some(life) = self.requests.hooks.get(&hook) else { return };
        let (harness, has_dialog) = (life.ask.harness, life.ask.has_dialog);
        let reply = text.and_then(reply_in);
        // Of a prompt without a dialog the registry says nothing.
        let is_waiting = !has_dialog || self.says_waiting(harness).unwrap_or(false);
        if reply.is_some() {
            self.note(|| format!("  pid {} is to print {reply:?}", hook.pid));
            if !is_waiting {
                self.counts("kept back by the second look");
            }
        }
        let after = self.random.range(SOON);
        let printed = reply.filter(|_| is_waiting);
        self.at(after, What::Request(Step::HookEnds(hook, printed)));
    }

    /// A hook ends: only now its client reads what it printed, and builds a dialog that the hook kept back.
    pub(super) fn hook_ends(
        &mut self,
        hook: ProcessRef,
        printed: Option<ReplyKind>,
    ) -> Result<(), Violation> {
        let Some(life) = self.requests.hooks.remove(&hook) else { return Ok(()) };
        self.machine.get().end(hook);
        self.check_hidden(&life)?;
        self.counts_hidden(&life, printed);
        let boot = self.boot();
        let Some(place) = self.place_of_client(&boot, life.ask.harness) else { return Ok(()) };
        if let Some((printed, call)) = printed.zip(life.call.as_deref()) {
            self.decides_by_hook(place, (call, life.ask.request), printed);
        }
        self.shows_when_free(place);
        Ok(())
    }

    /// The coordinator is gone, and the hooks that waited for it end.
    pub(crate) fn hang_up_requests(&mut self) {
        let waiting = self.requests.hooks.iter_mut().filter(|(_, life)| life.is_waiting());
        let mut gone: Vec<ProcessRef> = Vec::new();
        for (hook, life) in waiting {
            life.waits_since = None;
            gone.push(*hook);
        }
        if !gone.is_empty() {
            self.counts("coordinator gone beside a waiting hook");
        }
        gone.append(&mut self.requests.asks);
        self.requests.replies.clear();
        for hook in gone {
            let after = self.random.range(SOON);
            self.at(after, What::Request(Step::HookEnds(hook, None)));
        }
    }

    /// Whether a client's own registry entry says that it waits; none without such an entry.
    pub(super) fn says_waiting(&self, client: ProcessRef) -> Option<bool> {
        let machine = self.machine.get();
        let text = machine.registries.get(CONFIG_DIR)?.entries.get(&client.pid)?;
        let entry: Value = serde_json::from_str(text).ok()?;
        let is_its = entry.get("procStart")?.as_str()? == client.start_time.to_string();
        let status = entry.get("status").filter(|_| is_its)?.as_str()?;
        Some(status == "waiting")
    }
}
