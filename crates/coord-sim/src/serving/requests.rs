//! Hooks that wait for a person's reply, and the people who reply, as `coord serve` sees them on its socket. Decides
//! nothing.

use coord_daemon::http::{Request, Response};
use coord_daemon::routes::Route;
use coord_daemon::waiters::WaiterId;
use coord_host::process::Caller;
use coord_model::{NeedId, Now, ProcessRef, RequestId};
use coord_wire::api::{DecisionRequest, OpenRequests};
use serde_json::json;

use super::{Asker, Serving};

/// No process has such a pid, on whatever machine: the coordinator looks for callers in the real process table.
const UNSEEN: Caller = Caller { pid: u32::MAX, parent: None };

/// A hook that has reported a permission request.
#[derive(Debug, Clone)]
pub struct RequestHook {
    /// The request: the id of the event that it reported.
    pub request: RequestId,
    /// The session.
    pub session_id: String,
    /// The client that started it.
    pub harness: ProcessRef,
    /// Its process.
    pub process: ProcessRef,
    /// Whether the client shows a dialog while it waits.
    pub has_dialog: bool,
    /// The tool's input, as JSON.
    pub input: String,
}

/// A hook's process, and what it is to print; nothing if it is to end in silence.
pub type Answered = (ProcessRef, Option<String>);

impl Serving {
    /// A hook asks to wait for a reply. Whether it waits.
    pub fn wait_for_reply(&mut self, hook: &RequestHook) -> bool {
        let now = self.machine.get().now;
        let mut ask = json!({
            "request": hook.request,
            "session_id": hook.session_id,
            "harness": hook.harness,
            "hook": hook.process,
            "has_dialog": hook.has_dialog,
        });
        let input = serde_json::from_str(&hook.input).ok();
        if let Some((ask, input)) = ask.as_object_mut().zip(input) {
            ask.insert("input".to_owned(), input);
        }
        let request = Request {
            method: "POST".to_owned(),
            path: "/v1/requests".to_owned(),
            query: Vec::new(),
            body: ask.to_string().into_bytes(),
            keep_alive: false,
        };
        let caller = Caller { pid: hook.process.pid, parent: Some(hook.harness.pid) };
        let Route::WaitForReply(ask) = self.coordinator.route(&request, caller, now) else {
            return false;
        };
        self.hooks += 1;
        self.coordinator.begin_request(WaiterId(self.hooks), ask, now);
        self.requests.insert(self.hooks, hook.process);
        true
    }

    /// Answers to such hooks since the last call.
    pub fn take_replies(&mut self) -> Vec<Answered> {
        // Whoever replied is told by now too.
        drop(self.take_of(|asker| (asker == Asker::Person).then_some(())));
        std::mem::take(&mut self.replies)
    }

    /// What a person sees of the open prompts.
    pub fn open_requests(&self) -> OpenRequests {
        let now = self.machine.get().now;
        self.coordinator.open_requests(now)
    }

    /// A person whose terminal is unlocked replies.
    ///
    /// # Errors
    /// The reply is not taken: the answer.
    pub fn reply(&mut self, need: NeedId, asked: &DecisionRequest) -> Result<(), Response> {
        let now = self.machine.get().now;
        self.coordinator.reply(&need.to_string(), asked, ("/dev/pts/7".to_owned(), now))?;
        let told = self.answer_once_synced(Asker::Person, Response::no_content());
        told.map_err(|error| Response::error(500, "internal", &error.to_string()))
    }

    /// Somebody replies whose process is not to be seen. The status of the answer.
    pub fn reply_unseen(&mut self, need: NeedId, asked: &DecisionRequest) -> Option<u16> {
        let request = Request {
            method: "POST".to_owned(),
            path: format!("/v1/needs/{need}/decision"),
            query: Vec::new(),
            body: serde_json::to_vec(asked).unwrap_or_default(),
            keep_alive: false,
        };
        match self.route(&request, UNSEEN) {
            Route::Answer(response) => Some(response.status),
            Route::Handed(..)
            | Route::AfterSync(..)
            | Route::History(_)
            | Route::Wait(_)
            | Route::WaitForReply(_)
            | Route::Verified
            | Route::Down => None,
        }
    }

    /// Hooks that have ended wait no longer.
    pub(super) fn forget_request_hooks(&mut self) {
        let lives = |process: &ProcessRef| self.machine.get().is_alive(*process);
        let gone = self.requests.iter().filter(|(_, process)| !lives(process));
        let gone: Vec<usize> = gone.map(|(number, _)| *number).collect();
        for number in gone {
            self.requests.remove(&number);
            self.coordinator.end_wait(WaiterId(number));
        }
    }

    pub(super) fn answer_request_hooks(&mut self, now: Now) {
        for (WaiterId(number), text) in self.coordinator.take_request_answers(now) {
            let process = self.requests.remove(&number);
            self.replies.extend(process.map(|process| (process, text)));
        }
    }
}
