//! Decides whether a request of the client may be answered from elsewhere than its terminal (H-23, H-38), and what
//! became of a reply.
//!
//! A hook waits only where waiting hides nothing: in the main thread of an interactive client, whose dialog is on the
//! screen meanwhile. It waits for as long as its prompt is a need. Nothing tells a hook that its prompt was answered at
//! the terminal (measured), so the end of the need ends it. A reply is for one hook process, and the first one counts.

use alloc::format;
use alloc::string::String;

use coord_model::{
    Decided, Effect, Kind, Moment, NeedKind, ProcessRef, RegistryStatus, ReplyKind, ReplyOutcome,
    RequestId, SessionKey,
};

use crate::effects::Effects;
use crate::records::{Need, Reply, Session, State, Wait};
use crate::recovery::{Stop, Then};

/// Replies that are remembered for each session, the newest.
const REPLIES_MAX: usize = 8;

/// Why a request cannot be answered from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAnswerable {
    /// Answering from elsewhere is switched off.
    Off,
    /// Its prompt is over, or no hook reported it.
    Over,
    /// A person has replied already.
    Replied,
    /// A subagent asks: waiting could hide its dialog (measured).
    Subagent,
    /// A headless run asks.
    Headless,
    /// The client is not known to run on this machine.
    Elsewhere,
    /// Two processes hold the session.
    TwoOwners,
    /// Nothing but hooks tells whether the prompt is open.
    NoRegistry,
    /// A kind of prompt that only its terminal answers.
    OnlyThere,
    /// The client's registry does not say that it waits.
    NotShown,
}

impl NotAnswerable {
    /// The reason, in words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Off => "remote answering is off ([approvals] remote)",
            Self::Over => "the prompt is over",
            Self::Replied => "a reply was sent already",
            Self::Subagent => "a subagent asks; waiting could hide its dialog",
            Self::Headless => "headless waiting is off",
            Self::Elsewhere => "it runs elsewhere",
            Self::TwoOwners => "two clients hold the session",
            Self::NoRegistry => "the client's registry cannot be read",
            Self::OnlyThere => "only its terminal answers this kind of prompt",
            Self::NotShown => "the client does not say that it waits",
        }
    }
}

impl State {
    /// Whether a hook may wait for a reply to this request, or be handed one.
    ///
    /// # Errors
    /// Why it may not.
    pub fn may_be_answered(
        &self,
        session: &Session,
        request: RequestId,
    ) -> Result<(), NotAnswerable> {
        if !self.header.settings.remote_answers {
            return Err(NotAnswerable::Off);
        }
        let wait = wait_of(session, request).ok_or(NotAnswerable::Over)?;
        // Whatever else is known of its prompt: until its hooks have ended, a background subagent has none.
        if wait.agent.is_some() {
            return Err(NotAnswerable::Subagent);
        }
        let need = need_of(session, request).ok_or(NotAnswerable::Over)?;
        if session.replies.iter().any(|reply| reply.request == request) {
            return Err(NotAnswerable::Replied);
        }
        if session.kind == Some(Kind::Headless) {
            return Err(NotAnswerable::Headless);
        }
        if session.two_owners {
            return Err(NotAnswerable::TwoOwners);
        }
        if !self.is_local(session) || !session.may_live() {
            return Err(NotAnswerable::Elsewhere);
        }
        if session.registry.level().is_none() {
            return Err(NotAnswerable::NoRegistry);
        }
        let is_call = need.kind == NeedKind::Permission && !wait.tool.is_empty();
        if is_call { Ok(()) } else { Err(NotAnswerable::OnlyThere) }
    }

    /// Whether a reply may be handed over now: its dialog is on the screen too.
    ///
    /// # Errors
    /// Why it may not.
    pub fn may_be_replied_to(
        &self,
        session: &Session,
        request: RequestId,
    ) -> Result<(), NotAnswerable> {
        self.may_be_answered(session, request)?;
        let level = session.registry.level();
        let is_shown = level.is_some_and(|level| level.status == RegistryStatus::WaitingPermission);
        if is_shown { Ok(()) } else { Err(NotAnswerable::NotShown) }
    }

    /// What a reply would do.
    pub(crate) fn would_reply(
        &self,
        session: &Session,
        request: RequestId,
        reply: ReplyKind,
    ) -> Result<String, Stop> {
        let refused =
            |why: NotAnswerable| Stop { rule: "A-04", why: why.words().into(), then: Then::Close };
        self.may_be_replied_to(session, request).map_err(refused)?;
        let tool = wait_of(session, request).map_or("", |wait| &wait.tool);
        Ok(format!("this one call of {tool} is {}", reply.did()))
    }

    /// Takes a person's reply, and hands it to its hook.
    pub(crate) fn on_reply(
        &mut self,
        key: SessionKey,
        request: RequestId,
        (hook, kind): (ProcessRef, ReplyKind),
        at: Moment,
        fx: &mut Effects,
    ) {
        let found = self.get(key).filter(|one| self.may_be_replied_to(one, request).is_ok());
        let found = found.and_then(|one| Some((need_of(one, request)?, wait_of(one, request)?)));
        let Some((need, wait)) = found else { return };
        let (need, tool, call) = (need.id, wait.tool.clone(), wait.call.clone());
        let Some(mut session) = self.take(key) else { return };
        let did = format!("{request}: {tool} is {}, once", kind.did());
        fx.decide(&session, "A-04", "a person replied with coordctl", &did);
        if session.replies.len() == REPLIES_MAX {
            session.replies.remove(0);
        }
        session.replies.push(Reply { request, need, hook, kind, tool, call, at, outcome: None });
        fx.ask(Effect::HandReply { session: key, request, reply: kind });
        self.put(session);
    }

    /// Notes how a call was decided to which a person replied.
    pub(crate) fn on_decided(
        &mut self,
        key: SessionKey,
        request: RequestId,
        decided: Option<Decided>,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let mut session = self.take(key)?;
        let reply = session.replies.iter_mut().find(|one| one.request == request);
        if let Some(reply) = reply.filter(|one| one.outcome.is_none()) {
            let (outcome, saw, did) = match decided {
                Some(Decided::ByHook(kind)) if kind == reply.kind => {
                    (ReplyOutcome::Taken, "the transcript has the client's own note", "taken")
                }
                Some(Decided::ByHook(_)) => (
                    ReplyOutcome::Refused,
                    "the transcript says that a hook decided otherwise",
                    "refused by the client",
                ),
                Some(Decided::AtTerminal) => (
                    ReplyOutcome::TerminalFirst,
                    "the call has a result, and no note of a hook's decision",
                    "the terminal was first: the reply changed nothing",
                ),
                None => (
                    ReplyOutcome::NotSeen,
                    "its hook was gone, or nothing was written of the call",
                    "not seen: nothing shows that the reply reached the client",
                ),
            };
            reply.outcome = Some(outcome);
            let did = format!("{request}: {did}");
            fx.decide(&session, "A-07", saw, &did);
        }
        self.put(session);
        Some(key)
    }
}

impl Session {
    /// The replies of which nothing is known yet.
    pub fn unproved_replies(&self) -> impl Iterator<Item = &Reply> {
        self.replies.iter().filter(|reply| reply.outcome.is_none())
    }
}

fn need_of(session: &Session, request: RequestId) -> Option<&Need> {
    session.needs.iter().find(|need| need.request == Some(request))
}

fn wait_of(session: &Session, request: RequestId) -> Option<&Wait> {
    session.waits.iter().find(|wait| wait.request == Some(request))
}
