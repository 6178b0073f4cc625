//! Hooks that wait for a person's reply to the request that they reported (A-01 to A-04, H-23, H-38).
//!
//! Such a hook is a connection that is answered late: with what the hook is to print, or with nothing, which ends it
//! and leaves the prompt to its terminal. The core decides which hook may wait and which reply is let through. This
//! module keeps what a hook asks for beside its connection, in memory only (G11), and hands a reply over once the order
//! is durable.

mod printed;

use std::collections::BTreeMap;
use std::hash::Hasher as _;

use coord_core::{Need, NotAnswerable, Session, Wait};
use coord_host::process::Caller;
use coord_host::transcript::DecisionWish;
use coord_model::{Command, Decided, Event, NeedId, NeedKind, Now, RequestId, SessionKey};
use coord_view::sessions;
use coord_wire::api::{DecisionRequest, OpenRequest, OpenRequests, ReplyShown, RequestAsk};
use coord_wire::inspect;
use siphasher::sip::SipHasher24;

use self::printed::printed;
use crate::coordinator::Coordinator;
use crate::http::{Request, Response};
use crate::passphrase;
use crate::request_error::RequestError;
use crate::routes::Route;
use crate::waiters::WaiterId;
use crate::world::World;

/// Most hooks that wait at once; a user has a few prompts open.
const HOOKS_MAX: usize = 256;
/// Longest input that is kept for a person to see, in bytes: a longer one cannot be read whole on a terminal.
pub const INPUT_BYTES_MAX: usize = 64 * 1024;
/// How long a hook may wait before its prompt is known to be open, in nanoseconds.
const OPENS_WITHIN_NS: u64 = 5_000_000_000;

/// The hooks that wait, and replies on their way to them.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    waiting: BTreeMap<WaiterId, Waiting>,
    /// Answers that are not sent yet: what the hook prints, or nothing.
    answers: Vec<(WaiterId, Option<String>)>,
    /// What the hook prints for the reply that is being recorded. It is in no record (G11).
    printed: Option<String>,
    /// Replies that wait for their record to be synced.
    handing: Vec<Handing>,
    /// The requests whose clients show no dialog as long as a hook waits.
    hidden: BTreeMap<RequestId, Hidden>,
}

/// A request whose hook waits, or is to come.
#[derive(Debug)]
struct Hidden {
    session: SessionKey,
    /// When it was reported, in nanoseconds of CLOCK_MONOTONIC.
    since_ns: u64,
    /// Whether its hook has come.
    has_come: bool,
}

/// A hook.
#[derive(Debug)]
struct Waiting {
    ask: RequestAsk,
    /// When it came, in nanoseconds of CLOCK_MONOTONIC.
    since_ns: u64,
    /// Whether its prompt was known to be open at some time.
    was_open: bool,
}

#[derive(Debug)]
struct Handing {
    seq: u64,
    session: SessionKey,
    request: RequestId,
    printed: String,
}

impl Requests {
    /// Removes a hook whose connection is closed.
    pub(crate) fn forget(&mut self, id: WaiterId) {
        self.waiting.remove(&id);
    }

    /// The hook that waits for a reply to this request.
    fn hook_of(&self, request: RequestId) -> Option<(WaiterId, &Waiting)> {
        let mut all = self.waiting.iter();
        all.find(|(_, one)| one.ask.request == request).map(|(id, one)| (*id, one))
    }

    fn end(&mut self, id: WaiterId) {
        if self.waiting.remove(&id).is_some() {
            self.answers.push((id, None));
        }
    }
}

impl<W: World> Coordinator<W> {
    /// `POST /v1/requests`: a hook asks to wait for a reply.
    pub(crate) fn post_requests(&self, request: &Request, caller: Caller) -> Route {
        let mut ask: RequestAsk = match serde_json::from_slice(&request.body) {
            Ok(ask) => ask,
            Err(error) => return Route::Answer(RequestError::bad(error).into()),
        };
        let is_child = caller.pid == ask.hook.pid && caller.parent == Some(ask.harness.pid);
        let is_there = self.world.is_alive(ask.harness) && self.world.is_alive(ask.hook);
        if !is_child || !is_there {
            let message = "only a hook of the session's own client may wait for a reply";
            return Route::Answer(Response::error(403, "not_its_client", message));
        }
        ask.input = ask.input.filter(|input| input.get().len() <= INPUT_BYTES_MAX);
        Route::WaitForReply(ask)
    }

    /// Lets the connection of a hook wait for a reply.
    pub fn begin_request(&mut self, id: WaiterId, ask: RequestAsk, now: Now) {
        self.requests.waiting.insert(id, Waiting { ask, since_ns: now.mono_ns, was_open: false });
        if HOOKS_MAX < self.requests.waiting.len() {
            self.requests.end(id);
        }
    }

    /// The answers that are due: what a hook prints, or nothing for a hook that need not wait any longer.
    pub fn take_request_answers(&mut self, now: Now) -> Vec<(WaiterId, Option<String>)> {
        self.hand_replies(now);
        if !self.requests.waiting.is_empty() {
            self.end_waits(now);
        }
        self.tell_ended_hooks(now);
        std::mem::take(&mut self.requests.answers)
    }

    /// Ends the hooks that need not wait any longer.
    fn end_waits(&mut self, now: Now) {
        // Without the secret nobody could reply (H-22), and on a full disk no reply could be recorded.
        let may_reply = self.has_passphrase() && !self.is_full() && !self.is_read_only();
        let wait_ns = self.engine.state().header().settings.reply_wait_ms.saturating_mul(1_000_000);
        let mut over = Vec::new();
        let mut waiting = std::mem::take(&mut self.requests.waiting);
        for (id, one) in &mut waiting {
            let is_over = match self.may_wait(&one.ask) {
                Ok(()) if wait_ns <= now.mono_ns.saturating_sub(one.since_ns) => true,
                Ok(()) => {
                    let is_real = one.was_open || self.is_as_reported(&one.ask);
                    one.was_open = true;
                    !is_real || !may_reply
                }
                // Its reply waits for the disk.
                Err(NotAnswerable::Replied) => {
                    self.requests.handing.iter().all(|it| it.request != one.ask.request)
                }
                // Its event is on its way through the spool, or the client's registry lags behind it. Without a dialog
                // nobody could answer meanwhile.
                Err(NotAnswerable::Over) if may_reply && !one.was_open && one.ask.has_dialog => {
                    let is_late = OPENS_WITHIN_NS <= now.mono_ns.saturating_sub(one.since_ns);
                    is_late || self.is_of_another(&one.ask)
                }
                Err(_) => true,
            };
            if is_over {
                over.push(*id);
            }
        }
        self.requests.waiting = waiting;
        over.into_iter().for_each(|id| self.requests.end(id));
    }

    /// Notes a request whose client shows no dialog as long as its hook waits, to tell the core when the hook has ended
    /// (H-38): nothing else does.
    pub(crate) fn await_hidden_hook(&mut self, session_id: &str, request: RequestId, now: Now) {
        let is_it = |wait: &Wait| wait.request == Some(request) && wait.hidden_until.is_some();
        let mut sessions = self.engine.state().sessions_with_id(session_id);
        let Some(found) = sessions.find(|one| one.waits.iter().any(is_it)) else { return };
        let hidden = Hidden { session: found.key, since_ns: now.mono_ns, has_come: false };
        self.requests.hidden.insert(request, hidden);
    }

    fn tell_ended_hooks(&mut self, now: Now) {
        let mut all = std::mem::take(&mut self.requests.hidden);
        let mut ended = Vec::new();
        all.retain(|request, one| {
            let is_there = self.requests.hook_of(*request).is_some();
            one.has_come |= is_there;
            let is_late = OPENS_WITHIN_NS <= now.mono_ns.saturating_sub(one.since_ns);
            let is_over = !is_there && (one.has_come || is_late);
            if is_over {
                ended.push((one.session, *request));
            }
            !is_over
        });
        self.requests.hidden = all;
        for (session, request) in ended {
            let Some(found) = self.engine.state().session(session) else { continue };
            if found.waits.iter().any(|wait| wait.request == Some(request)) {
                let session_id = found.session_id.clone();
                self.record_or_owe(Event::RequestHookEnded { session_id, session, request }, now);
            }
        }
    }

    /// The exact input of a request, as the hook that waits has it.
    pub(crate) fn input_of(&self, request: RequestId) -> Option<&str> {
        self.requests.hook_of(request)?.1.ask.input.as_ref().map(|input| input.get())
    }

    fn may_wait(&self, ask: &RequestAsk) -> Result<(), NotAnswerable> {
        let state = self.engine.state();
        // Nothing that is not known yet could let it wait.
        if !state.header().settings.remote_answers {
            return Err(NotAnswerable::Off);
        }
        let held = state.session_of(ask.harness);
        let session = held.filter(|session| session.session_id == ask.session_id);
        let session = session.ok_or(NotAnswerable::Over)?;
        state.may_be_answered(session, ask.request)
    }

    /// Whether its event is known, in a record that carries another conversation of the client, since no hook told of
    /// the change. No reply could name it.
    fn is_of_another(&self, ask: &RequestAsk) -> bool {
        let held = self.engine.state().session_of(ask.harness);
        held.filter(|session| session.session_id != ask.session_id).is_some_and(|session| {
            session.waits.iter().any(|wait| wait.request == Some(ask.request))
        })
    }

    /// Whether the input that would be shown is the one that was reported: another child of the client could claim to
    /// wait, with an input of its own.
    fn is_as_reported(&self, ask: &RequestAsk) -> bool {
        let session = self.engine.state().session_of(ask.harness);
        let waits = session.iter().flat_map(|session| &session.waits);
        let mut digests = waits.filter(|wait| wait.request == Some(ask.request));
        let (Some(digest), Some(input)) =
            (digests.find_map(|wait| wait.digest), ask.input.as_deref())
        else {
            return true;
        };
        let mut hasher = SipHasher24::new_with_key(&self.text_key);
        hasher.write(input.get().as_bytes());
        hasher.finish() == digest
    }

    /// Queues a reply until the disk has its order.
    pub(crate) fn hand_later(&mut self, session: SessionKey, request: RequestId) {
        let seq = self.engine.journal().next_seq().saturating_sub(1);
        if let Some(printed) = self.requests.printed.take() {
            self.requests.handing.push(Handing { seq, session, request, printed });
        }
    }

    /// Hands over the replies whose orders are durable. A hook that is gone takes none along.
    fn hand_replies(&mut self, now: Now) {
        let synced = self.engine.journal().synced_through();
        let due: Vec<Handing> =
            self.requests.handing.extract_if(.., |one| one.seq <= synced).collect();
        for Handing { session, request, printed, .. } in due {
            let Some((id, _)) = self.requests.hook_of(request) else {
                self.record_decided(session, request, None, now);
                continue;
            };
            self.requests.waiting.remove(&id);
            self.requests.answers.push((id, Some(printed)));
            self.seek_decisions(session);
        }
    }

    /// Looks how the calls were decided to which a person replied.
    pub(crate) fn seek_decisions(&mut self, key: SessionKey) {
        let Some(session) = self.engine.state().session(key) else { return };
        let calls = session.unproved_replies();
        let calls: BTreeMap<RequestId, String> =
            calls.filter_map(|one| Some((one.request, one.call.clone()?))).collect();
        let Some(process) = session.owner.as_ref().map(|owner| owner.id.process) else { return };
        if calls.is_empty() {
            return;
        }
        let (path, config_dir) = (session.transcript_path.clone(), session.config_dir.clone());
        self.world.watch_transcript(process, &path);
        self.world.seek_decisions(DecisionWish { session: key, path, config_dir, calls });
    }

    /// Whether a look in the session's transcript may find how a call was decided.
    pub(crate) fn seeks_decisions(&self, key: SessionKey) -> bool {
        let session = self.engine.state().session(key);
        session.is_some_and(|one| one.unproved_replies().any(|reply| reply.call.is_some()))
    }

    /// Records how calls were decided.
    pub(crate) fn on_decisions_seen(
        &mut self,
        session: SessionKey,
        decided: &[(RequestId, Decided)],
        now: Now,
    ) {
        for (request, decided) in decided {
            self.record_decided(session, *request, Some(*decided), now);
        }
    }

    fn record_decided(
        &mut self,
        session: SessionKey,
        request: RequestId,
        decided: Option<Decided>,
        now: Now,
    ) {
        let Some(found) = self.engine.state().session(session) else { return };
        if found.unproved_replies().all(|reply| reply.request != request) {
            return;
        }
        let session_id = found.session_id.clone();
        self.record_or_owe(Event::ReplySeen { session_id, session, request, decided }, now);
    }

    /// `GET /v1/requests`: the open prompts, for a person only, since the exact input is among it.
    pub(crate) fn get_requests(&self, caller: Caller, now: Now) -> Route {
        if let Err(refusal) = self.check_caller(caller) {
            return Route::Answer(refusal.into());
        }
        Route::Answer(Response::json(&self.open_requests(now)))
    }

    /// The open prompts, for a caller that was checked.
    pub fn open_requests(&self, now: Now) -> OpenRequests {
        let mut requests = Vec::new();
        for session in self.engine.state().sessions() {
            let prompts = session.needs.iter().filter(|need| need.kind.is_prompt());
            requests.extend(prompts.map(|need| self.open_request(session, need, now)));
        }
        OpenRequests { now_ms: now.wall_ms, requests }
    }

    fn open_request(&self, session: &Session, need: &Need, now: Now) -> OpenRequest {
        let state = self.engine.state();
        let hook = need.request.and_then(|request| self.requests.hook_of(request));
        let may = need.request.map_or(Err(NotAnswerable::Dialog), |request| {
            state.may_be_replied_to(session, request)
        });
        let why_not = match (may, hook) {
            (Ok(()), _) if !self.has_passphrase() => {
                Some("no passphrase is set; `coordctl passphrase` sets one".to_owned())
            }
            (Ok(()), Some(_)) => None,
            (Ok(()), None) => Some("coord's hook does not wait for it".to_owned()),
            (Err(why), _) => Some(why.words().to_owned()),
        };
        let wait = session.waits.iter().find(|wait| wait.request == need.request);
        OpenRequest {
            id: need.request.map(|request| request.to_string()),
            need: need.id,
            kind: need.kind,
            session_id: session.session_id.clone(),
            name: session.called_or_id(),
            cwd: session.cwd.clone(),
            tool: wait.map_or_else(String::new, |wait| wait.tool.clone()),
            since_ms: need.since.wall_ms,
            hook: hook.map(|(_, one)| one.ask.hook),
            input: hook.and_then(|(_, one)| one.ask.input.clone()),
            why_not,
            place: Some(sessions::place(session)),
            agent: wait.and_then(|wait| wait.agent.as_ref()).map(|id| kind_of(session, id)),
            left_ms: hook.map(|(_, one)| self.left_ms(one, wait, now)),
        }
    }

    /// For how long a hook goes on to wait, in milliseconds.
    fn left_ms(&self, hook: &Waiting, wait: Option<&Wait>, now: Now) -> u64 {
        let state = self.engine.state();
        let waited_ms = now.mono_ns.saturating_sub(hook.since_ns) / 1_000_000;
        let left_ms = state.header().settings.reply_wait_ms.saturating_sub(waited_ms);
        let awake = state.moment(now).awake;
        let hidden = wait.and_then(|wait| wait.hidden_until);
        hidden.map_or(left_ms, |until| until.ms_since(awake).min(left_ms))
    }

    /// A session as people see it, with the requests that can be answered from elsewhere. A hook that comes or ends
    /// makes no record, so nobody who follows the journal would learn of it: whether one waits is told by the verbs.
    pub(crate) fn with_requests(&self, session: &Session, now: Now) -> inspect::Session {
        let state = self.engine.state();
        let mut shown = sessions::session(state, session, now);
        if session.needs.iter().all(|need| need.request.is_none()) || !self.has_passphrase() {
            return shown;
        }
        for need in &mut shown.needs {
            let found = session.needs.iter().find(|one| one.id.to_string() == need.id);
            let Some((kind, request)) = found.and_then(|one| Some((one.kind, one.request?))) else {
                continue;
            };
            if state.may_be_replied_to(session, request).is_ok() {
                let verb = if kind == NeedKind::Question { "answer" } else { "approve" };
                need.command = Some(format!("coordctl {verb} {request}"));
                need.request = Some(request.to_string());
            }
        }
        shown.need = shown.needs.first().cloned();
        shown
    }

    /// `GET /v1/needs/{id}/decision`: what became of the newest reply to a prompt.
    pub(crate) fn get_decision(&self, id: &str) -> Response {
        let Some(need) = id.parse::<NeedId>().ok() else {
            return RequestError::bad(format!("{id} is not the id of a need")).into();
        };
        let Some(session) = self.engine.state().session(need.session) else {
            return Response::error(404, "not_found", "no such need");
        };
        let is_open = session.needs.iter().any(|one| one.id == need);
        let reply = session.replies.iter().rev().find(|reply| reply.need == need);
        Response::json(&ReplyShown {
            is_open,
            can_be_proved: reply.is_some_and(|one| one.call.is_some()),
            outcome: reply.and_then(|one| one.outcome),
        })
    }

    /// `POST /v1/needs/{id}/decision`: a person's reply.
    pub(crate) fn post_decision(
        &mut self,
        id: &str,
        request: &Request,
        caller: Caller,
        now: Now,
    ) -> Route {
        if let Err(refusal) = self.check_caller(caller) {
            tracing::warn!(%refusal, "a decision was refused");
            return Route::Answer(refusal.into());
        }
        let asked: DecisionRequest = match serde_json::from_slice(&request.body) {
            Ok(asked) => asked,
            Err(error) => return Route::Answer(RequestError::bad(error).into()),
        };
        if !self.is_unlocked(caller, now) {
            return Route::Answer(RequestError::PassphraseNeeded.into());
        }
        match self.reply(id, &asked, (passphrase::terminal_of(caller), now)) {
            Ok(()) => self.after_sync(Response::no_content()),
            Err(response) => Route::Answer(response),
        }
    }

    /// Takes the reply of a person who was checked, given on the terminal `from`. It is handed over once its order is
    /// durable.
    ///
    /// # Errors
    /// The reply is not taken: the answer for its giver.
    pub fn reply(
        &mut self,
        id: &str,
        asked: &DecisionRequest,
        (from, now): (String, Now),
    ) -> Result<(), Response> {
        let over = |why: &str| Response::error(409, "over", why);
        let need = id.parse::<NeedId>().map_err(|_| over("not the id of a need"))?;
        let state = self.engine.state();
        let session = state.session(need.session);
        let found = session.and_then(|one| one.needs.iter().find(|found| found.id == need));
        let request =
            found.and_then(|found| found.request).ok_or_else(|| over("the prompt is over"))?;
        let waits = self.requests.hook_of(request).filter(|(_, one)| one.ask.hook == asked.hook);
        let Some((_, one)) = waits else {
            return Err(over("the hook that was shown does not wait any more"));
        };
        let (hook, reply) = (asked.hook, asked.reply);
        let command = Command::Reply { session: need.session, request, hook, reply, from };
        if let Some(why) = state.would(&command).into_iter().find(|one| one.refused_by.is_some()) {
            return Err(over(&why.words));
        }
        let printed =
            printed(&one.ask, asked).map_err(|why| Response::from(RequestError::bad(why)))?;
        let session_id = session.map(|one| one.session_id.clone());
        let what = format!("{} {request}", asked.reply.verb());
        self.requests.printed = Some(printed);
        let recorded = self.record(&Event::Operator { session_id, what, command }, now);
        self.requests.printed = None;
        recorded.map_err(|error| RequestError::from(error).into())
    }
}

/// The type of a subagent, else its id.
fn kind_of(session: &Session, id: &str) -> String {
    let subagent = session.subagents.iter().find(|one| one.id == id);
    let kind = subagent.map(|one| one.kind.as_str()).filter(|kind| !kind.is_empty());
    kind.unwrap_or(id).to_owned()
}
