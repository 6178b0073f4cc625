//! The HTTP API over the socket (interfaces.md): maps each request to what answers it.

mod table;

use coord_core::Refused;
use coord_host::process::Caller;
use coord_model::{MessageId, Now};
use coord_view::history::{Of, Wanted};
use coord_view::lookup::{self, LookupError};
use coord_wire::api::{PASSPHRASE_NEEDED, RequestAsk};
use coord_wire::exchange::{ELSEWHERE, FORBIDDEN};
use coord_wire::inspect::{Inspect, SCHEMA};

use crate::coordinator::Coordinator;
use crate::http::{Request, Response, decode};
use crate::request_error::RequestError;
use crate::waiters::Ask;
use crate::world::World;
pub use table::{Endpoint, ROUTES};

/// How a request is to be answered.
#[derive(Debug)]
pub enum Route {
    /// Send this response.
    Answer(Response),
    /// Send this response once the journal is synced up to the record.
    AfterSync(u64, Response),
    /// Send this response, which contains messages, once the journal is synced up to the record. Each
    /// message comes with the fence of its lease, and is taken back if the peer leaves before that.
    Handed(u64, Response, Vec<(MessageId, u64)>),
    /// Read the history on another thread.
    History(Wanted),
    /// Let the wake hook wait for its answer.
    Wait(Ask),
    /// Let the hook wait for a person's reply to its request.
    WaitForReply(RequestAsk),
    /// Send the answer once the passphrase is verified.
    Verified,
    /// Answer 204 and stop the coordinator.
    Down,
}

impl<W: World> Coordinator<W> {
    /// Routes one request.
    pub fn route(&mut self, request: &Request, caller: Caller, now: Now) -> Route {
        if caller.pid == 0 {
            let message = "this coordinator is in another pid namespace than its caller";
            return Route::Answer(Response::error(FORBIDDEN, ELSEWHERE, message));
        }
        let path = segments(&request.path);
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let (endpoint, id) = match table::find(&request.method, &path) {
            Ok(found) => found,
            Err(error) => return Route::Answer(error),
        };
        Route::Answer(match endpoint {
            Endpoint::PostEvents => return self.post_events(request, caller, now),
            Endpoint::GetEvents => return self.get_events(request),
            Endpoint::GetSessions => Response::json(&self.inspect(now)),
            Endpoint::GetSession => self.get_session(id, now),
            Endpoint::GetDecisions => return self.get_decisions(id),
            Endpoint::PostRecover => return self.post_recover(id, request, caller, now),
            Endpoint::ClaimResume => return self.claim_resume(id, request, caller, now),
            Endpoint::FailResume => return self.fail_resume(request, caller, now),
            Endpoint::GetHealth => Response::json(&self.health(now)),
            Endpoint::GetMetrics => self.metrics(now),
            Endpoint::PostOperator => return self.post_operator(request, caller, now),
            Endpoint::PostMessage => return self.post_message(request, caller, now),
            Endpoint::GetMessages => answer(self.get_messages(request, now)),
            Endpoint::GetMessage => answer(self.get_message(id, caller, now)),
            Endpoint::PostVerb(verb) => return self.post_verb(id, verb, request, caller, now),
            Endpoint::PostClaim => return self.post_claim(id, request, now),
            Endpoint::PostWake => return self.post_wake(request, caller),
            Endpoint::PostRequests => return self.post_requests(request, caller),
            Endpoint::GetRequests => return self.get_requests(caller, now),
            Endpoint::GetDecision => self.get_decision(id),
            Endpoint::PostDecision => return self.post_decision(id, request, caller, now),
            Endpoint::GetPassphrase => self.get_passphrase(caller, now),
            Endpoint::PostPassphrase => return self.post_passphrase(request, caller, now),
            Endpoint::PostOutbox => return self.post_outbox(request, caller, now),
            Endpoint::PostInbox => return self.post_inbox(request, caller, now),
            Endpoint::PostNotices => return self.post_notices(request, caller, now),
            Endpoint::PostDown => return self.post_down(caller),
        })
    }

    fn get_session(&self, id: &str, now: Now) -> Response {
        let found = match lookup::find(self.engine.state(), id) {
            Ok(found) => found,
            Err(why) => return RequestError::from(why).into(),
        };
        Response::json(&Inspect {
            schema: SCHEMA,
            coordinator: self.head(now),
            sessions: found.into_iter().map(|one| self.with_requests(one, now)).collect(),
            accounts: Vec::new(),
            runs: Vec::new(),
        })
    }

    fn get_events(&self, request: &Request) -> Route {
        let since = request.query("since").map_or(Ok(0), str::parse::<u64>);
        let Ok(from_seq) = since else {
            let message = "since takes the position of an event, such as since=120";
            return Route::Answer(RequestError::bad(message).into());
        };
        let of = match request.query("session").map(|id| self.of_session(id)).transpose() {
            Ok(of) => of,
            Err(why) => return Route::Answer(RequestError::from(why).into()),
        };
        Route::History(Wanted { from_seq, of, ..Wanted::default() })
    }

    fn get_decisions(&self, id: &str) -> Route {
        match lookup::find(self.engine.state(), id) {
            Ok(found) => {
                let of = Some(Of::Ids(lookup::ids(&found)));
                Route::History(Wanted { of, decisions_only: true, ..Wanted::default() })
            }
            Err(why) => Route::Answer(RequestError::from(why).into()),
        }
    }

    /// Selects a session's events. If no session has the id any more, the events of all ids that begin
    /// with it are selected.
    fn of_session(&self, id: &str) -> Result<Of, LookupError> {
        match lookup::find(self.engine.state(), id) {
            Ok(found) => Ok(Of::Ids(lookup::ids(&found))),
            Err(LookupError::Unknown { id, .. }) => Ok(Of::Beginning(id)),
            Err(why) => Err(why),
        }
    }

    /// Sends the response once everything recorded so far is durable.
    pub(crate) fn after_sync(&self, response: Response) -> Route {
        Route::AfterSync(self.engine.journal().next_seq().saturating_sub(1), response)
    }
}

fn answer(result: Result<Response, RequestError>) -> Response {
    result.unwrap_or_else(Into::into)
}

/// The segments of a path, percent-decoded.
pub(crate) fn segments(path: &str) -> Vec<String> {
    path.trim_matches('/').split('/').map(decode).collect()
}

impl From<RequestError> for Response {
    fn from(error: RequestError) -> Self {
        let (status, code) = match &error {
            RequestError::Bad(_) => (400, "bad_request"),
            RequestError::OnlyAPerson => (FORBIDDEN, "only_a_person"),
            RequestError::Forbidden { code, .. } => (FORBIDDEN, *code),
            RequestError::Session(error) => (404, error.code()),
            RequestError::IdTooShort { .. } => (404, "id_too_short"),
            RequestError::AmbiguousId { .. } => (404, "ambiguous_id"),
            RequestError::NoSuchMessage(_) | RequestError::Message(Refused::Gone) => {
                (404, "no_such_message")
            }
            RequestError::Message(Refused::Taken { .. } | Refused::NotHeld { .. }) => {
                (409, "lease_over")
            }
            RequestError::Message(Refused::WorkedOn { .. }) => (409, "worked_on"),
            RequestError::Message(Refused::Done) => (409, "done"),
            RequestError::KeyInUse(_) => (409, "key_in_use"),
            RequestError::TaskTaken { .. } => (409, "task_taken"),
            RequestError::WrongPassphrase => (FORBIDDEN, "wrong_passphrase"),
            RequestError::TooManyTries { .. } => (429, "too_many_tries"),
            RequestError::PassphraseNeeded => (401, PASSPHRASE_NEEDED),
            RequestError::NoPassphrase => (409, "no_passphrase"),
            RequestError::PassphraseFile(_) => (409, "passphrase_file"),
            RequestError::ReceiverFull { .. } | RequestError::TextsFull { .. } => (429, "full"),
            // On a 503, hooks write the event to the spool.
            RequestError::NotKept(_)
            | RequestError::DiskFull
            | RequestError::NotRecorded(_)
            | RequestError::NotVerified(_) => {
                tracing::error!(%error, "not taken");
                (503, "unavailable")
            }
        };
        Self::error(status, code, &error.to_string())
    }
}

/// A response with status 503, for hooks and commands that should retry or spool.
pub(crate) fn unavailable(why: &str) -> Response {
    Response::error(503, "unavailable", why)
}
