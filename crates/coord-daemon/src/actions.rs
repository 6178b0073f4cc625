//! Performs the core's actions, and records their outcomes. An act waits until the decision behind it is
//! durable (G1); a look does not.

use coord_core::{PlacedResume, Way, resume_words};
use coord_host::executor::Reply;
use coord_host::process::Caller;
use coord_model::{Action, ActionClass, Event, Intent, Now, Outcome, ProcessRef, SessionKey};
use coord_wire::api::{ResumeClaim, ResumeOrder};

use crate::coordinator::Coordinator;
use crate::http::{Request, Response};
use crate::routes::Route;
use crate::world::World;

impl<W: World> Coordinator<W> {
    /// Performs an action now, or queues it until the disk has its decision.
    pub(crate) fn perform_action(&mut self, action: Action) {
        // A lock is released only after the acts for which it is held (H-13).
        let is_behind = matches!(action, Action::Release { .. }) && !self.acts.is_empty();
        match action.class() {
            ActionClass::Look | ActionClass::Notice if !is_behind => self.world.act(action),
            ActionClass::Look | ActionClass::Notice | ActionClass::Once(_) => {
                let decided = self.engine.journal().next_seq().saturating_sub(1);
                self.acts.push_back((decided, action));
            }
        }
    }

    /// Records the outcome of an action that the gate did not admit, so that nothing waits for it.
    pub(crate) fn observe_action(&mut self, action: &Action, now: Now) {
        match action.class() {
            ActionClass::Once(intent) => self.record_outcome(intent, Outcome::Observed, now),
            ActionClass::Look | ActionClass::Notice => {
                tracing::info!(?action, "not performed: observing");
            }
        }
    }

    /// Performs the acts whose decisions are durable. While the journal cannot be synced, none is
    /// performed (H-11).
    pub(crate) fn act_on_synced(&mut self, now: Now) {
        let synced = self.engine.journal().synced_through();
        while self.acts.front().is_some_and(|(decided, _)| *decided <= synced) {
            match self.acts.pop_front() {
                Some((_, Action::Wake { intent, text })) => self.wake(intent, &text, now),
                Some((_, action)) => self.world.act(action),
                None => (),
            }
        }
        self.tell_synced(now);
        self.wake_with_messages(now);
    }

    fn wake(&mut self, intent: Intent, text: &str, now: Now) {
        let outcome = if self.hand_over(intent.session, text) {
            Outcome::Done
        } else {
            Outcome::Failed { why: "no wake hook waits in the session".to_owned() }
        };
        self.record_outcome(intent, outcome, now);
    }

    /// Records the result of an action.
    pub(crate) fn on_reply(&mut self, reply: Reply, now: Now) {
        match reply {
            Reply::Proved(intent, proof) => {
                let Some(session_id) = self.id_of(intent.session) else { return };
                self.record_or_owe(Event::Proved { session_id, intent, proof }, now);
            }
            Reply::Acted(intent, outcome) => self.record_outcome(intent, outcome, now),
        }
    }

    pub(crate) fn record_outcome(&mut self, intent: Intent, outcome: Outcome, now: Now) {
        let Some(session_id) = self.id_of(intent.session) else { return };
        self.record_or_owe(Event::Acted { session_id, intent, outcome }, now);
    }

    fn id_of(&self, key: SessionKey) -> Option<String> {
        self.engine.state().session(key).map(|session| session.session_id.clone())
    }

    /// `POST /v1/resume/NONCE`: the calling process becomes the session's client.
    ///
    /// The process gets its instructions once the claim is durable. From then on the nonce is void.
    pub(crate) fn claim_resume(
        &mut self,
        nonce: &str,
        request: &Request,
        caller: Caller,
        now: Now,
    ) -> Route {
        let Ok(claim) = serde_json::from_slice::<ResumeClaim>(&request.body) else {
            return refuse(400, "bad_request", "the body names pid and start_time");
        };
        let process = claim.process();
        let state = self.engine.state();
        let Some(placed) = state.resume_placed(nonce) else {
            let why = "this command is no longer valid: the session was resumed, or another attempt replaced this one";
            return refuse(409, "void", why);
        };
        let is_caller = caller.pid == process.pid && self.world.is_alive(process);
        if !is_caller || !self.is_its_place(&placed, process, caller) {
            let why = "this command works only where coord typed it: in the session's own shell, pane or window";
            return refuse(409, "void", why);
        }
        let session = placed.session;
        let Some(launch) = &session.launch else {
            return refuse(409, "void", "coord does not know how the session was started");
        };
        let place = launch.cwd.clone();
        let config_dir = launch.config_dir.clone().unwrap_or_else(|| session.config_dir.clone());
        let variables = launch.variables.clone();
        let has_own_dir = variables.iter().any(|name| name == "CLAUDE_CONFIG_DIR");
        let order = ResumeOrder {
            session_id: session.session_id.clone(),
            argv: resume_words(launch, &session.session_id, session.permission_mode.as_deref()),
            cwd: place,
            config_dir: has_own_dir.then(|| config_dir.clone()),
            config_dir_in_use: config_dir,
            variables,
        };
        let entry = Event::ResumeClaimed {
            session_id: session.session_id.clone(),
            session: session.key,
            nonce: nonce.to_owned(),
            process,
        };
        if let Err(error) = self.record(&entry, now) {
            return refuse(503, "unavailable", &error.to_string());
        }
        let seq = self.engine.journal().next_seq().saturating_sub(1);
        Route::AfterSync(seq, Response::json(&order))
    }

    /// Whether a process runs where the line was typed (H-50): as a child of the session's shell, or as
    /// the first process of a pane of the session's tmux server.
    fn is_its_place(&self, placed: &PlacedResume<'_>, process: ProcessRef, caller: Caller) -> bool {
        match placed.way {
            Way::Shell => {
                let shell = placed.session.launch.as_ref().map(|one| one.parent.process.pid);
                shell.is_some() && caller.parent == shell
            }
            Way::Pane | Way::Window => {
                let Some(pane) = &placed.pane else { return false };
                let server = self.world.pane_server(process, &pane.socket);
                let is_any = placed.any_server && server.is_some();
                server == caller.parent && (is_any || server == Some(pane.server.pid))
            }
        }
    }

    /// `POST /v1/resume/NONCE/failed`: the process that claimed the nonce gave up.
    pub(crate) fn fail_resume(&mut self, request: &Request, caller: Caller, now: Now) -> Route {
        #[derive(serde::Deserialize)]
        struct Failure {
            why: String,
        }
        let Ok(Failure { why }) = serde_json::from_slice(&request.body) else {
            return refuse(400, "bad_request", "the body names why");
        };
        let Some(session) = self.engine.state().resume_claimed_by(caller.pid) else {
            return refuse(409, "void", "no resume of this process is under way");
        };
        let why: String = why.chars().filter(|one| !one.is_control()).take(200).collect();
        let (session_id, session) = (session.session_id.clone(), session.key);
        let failed = Event::ResumeFailed { session_id, session, why };
        match self.record(&failed, now) {
            Ok(()) => Route::Answer(Response::no_content()),
            Err(error) => refuse(503, "unavailable", &error.to_string()),
        }
    }
}

fn refuse(status: u16, code: &'static str, why: &str) -> Route {
    Route::Answer(Response::error(status, code, why))
}
