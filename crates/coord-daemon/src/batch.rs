//! `POST /v1/events`: accepts one envelope, or an array of envelopes. If one of them is bad, none is
//! accepted.
//!
//! A hook sends one envelope. An array may be long, so it is processed in pieces, and nobody waits for
//! all of it (H-49): first the whole array is checked, then its events are recorded.

use coord_host::process::Caller;
use coord_model::envelope::Envelope;
use coord_model::{HookEvent, HookKind, Now, Via};
use serde_json::value::RawValue;

use crate::coordinator::Coordinator;
use crate::http::{Request, Response};
use crate::request_error::RequestError;
use crate::routes::{Route, unavailable};
use crate::world::World;

/// Most events in one request.
const EVENTS_MAX: usize = 1000;

/// The events of one request, and the progress of processing them.
#[derive(Debug)]
pub(crate) struct Batch {
    caller: Caller,
    /// Whether the answer waits until the events are durable.
    is_synced: bool,
    is_one: bool,
    /// Events that are not checked yet.
    unchecked: std::vec::IntoIter<Box<RawValue>>,
    checked: Vec<(Envelope, Box<RawValue>)>,
    /// Events that are not recorded yet, once all are checked.
    taking: Option<std::vec::IntoIter<(Envelope, Box<RawValue>)>>,
}

impl Batch {
    /// Splits the body of a request into its events.
    pub(crate) fn of(request: &Request, caller: Caller) -> Result<Self, Response> {
        let texts = split(&request.body).map_err(|why| bad(&why))?;
        Ok(Self {
            caller,
            is_synced: request.query("sync").is_some(),
            is_one: texts.len() == 1,
            unchecked: texts.into_iter(),
            checked: Vec::new(),
            taking: None,
        })
    }

    /// Checks the next `n` events.
    fn check(&mut self, n: usize) -> Result<(), Response> {
        for text in self.unchecked.by_ref().take(n) {
            let envelope = Envelope::parse(text.get().as_bytes());
            self.checked.push((envelope.map_err(|error| bad(&error.to_string()))?, text));
        }
        if self.unchecked.len() == 0 {
            self.taking = Some(std::mem::take(&mut self.checked).into_iter());
        }
        Ok(())
    }
}

impl<W: World> Coordinator<W> {
    /// Processes all events of a request at once.
    pub(crate) fn post_events(&mut self, request: &Request, caller: Caller, now: Now) -> Route {
        let mut batch = match Batch::of(request, caller) {
            Ok(batch) => batch,
            Err(response) => return Route::Answer(response),
        };
        loop {
            if let Some(route) = self.go_on_with(&mut batch, EVENTS_MAX, now) {
                return route;
            }
        }
    }

    /// Checks or records the next `n` events. Returns the answer once all are recorded or one was
    /// refused.
    pub(crate) fn go_on_with(&mut self, batch: &mut Batch, n: usize, now: Now) -> Option<Route> {
        let Some(taking) = &mut batch.taking else {
            return batch.check(n).err().map(Route::Answer);
        };
        let events: Vec<_> = taking.by_ref().take(n).collect();
        let is_end = taking.len() == 0;
        for (envelope, text) in events {
            if let Some(route) = self.take_posted(envelope, text, batch, now) {
                return Some(route);
            }
        }
        let route = || {
            if batch.is_synced {
                return self.after_sync(Response::no_content());
            }
            Route::Answer(Response::no_content())
        };
        is_end.then(route)
    }

    /// Records one event. Returns an answer if the event was refused, or if messages leave in the
    /// answer.
    fn take_posted(
        &mut self,
        envelope: Envelope,
        text: Box<RawValue>,
        batch: &Batch,
        now: Now,
    ) -> Option<Route> {
        if !self.has_room_for(&envelope.event) {
            return Some(Route::Answer(unavailable("the disk is full")));
        }
        let provenance = self.provenance(&envelope, Some(batch.caller));
        self.offered = None;
        let event = HookEvent { provenance, ..HookEvent::new(envelope, text, Via::Socket) };
        let id = event.id;
        let is_status_line = matches!(event.kind, HookKind::StatusLine(_)) && event.is_verified();
        let status_line_of = is_status_line.then(|| event.session_id.clone());
        if let Err(error) = self.take_hook(event, now) {
            return Some(Route::Answer(RequestError::from(error).into()));
        }
        if let Some(session_id) = status_line_of.filter(|_| batch.is_one) {
            return Some(Route::Answer(self.answer_status_line(&session_id)));
        }
        // Messages are offered to a hook that sends a single event, and never to a batch.
        let offered = self.offered.take().filter(|one| batch.is_one && one.event == id)?;
        self.hand_to_hook(&offered, now)
    }
}

fn bad(why: &str) -> Response {
    Response::error(400, "bad_event", why)
}

/// Whether a body is an array.
pub(crate) fn is_array(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

fn split(body: &[u8]) -> Result<Vec<Box<RawValue>>, String> {
    let texts: Vec<Box<RawValue>> = if is_array(body) {
        serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?
    } else {
        vec![serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?]
    };
    if EVENTS_MAX < texts.len() {
        return Err(format!("{} events in one request, the limit is {EVENTS_MAX}", texts.len()));
    }
    Ok(texts)
}
