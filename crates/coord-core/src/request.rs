//! Decides whether a request of the client may be answered from elsewhere than its terminal (H-23, H-38), and what
//! became of a reply.
//!
//! A hook waits only where waiting hides nothing: in the main thread of an interactive client, whose dialog is on the
//! screen meanwhile. It waits for as long as its prompt is a need. Nothing tells a hook that its prompt was answered at
//! the terminal (measured), so the end of the need ends it. A reply is for one hook process, and the first one counts.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use coord_model::{
    Awake, Decided, Effect, Event, HookEvent, HookKind, Kind, Moment, NeedKind, NoticeKind,
    ProcessRef, ReplyKind, ReplyOutcome, RequestId, SessionKey,
};

use crate::effects::Effects;
use crate::records::{Level, Need, Reply, Session, State, Wait};
use crate::recovery::{Stop, Then};

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
    /// A session of the client's own background supervisor asks.
    Background,
    /// The client is not known to run on this machine.
    Elsewhere,
    /// Two processes hold the session.
    TwoOwners,
    /// Nothing but hooks tells whether the prompt is open.
    NoRegistry,
    /// A dialog of the client's own.
    Dialog,
    /// A reply that this kind of prompt does not take.
    WrongVerb(NeedKind),
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
            Self::Background => {
                "answering background sessions is off ([approvals] background); `claude agents` shows it"
            }
            Self::Elsewhere => "it runs elsewhere",
            Self::TwoOwners => "two clients hold the session",
            Self::NoRegistry => "the client's registry cannot be read",
            Self::Dialog => "a dialog of the client itself",
            Self::WrongVerb(NeedKind::Question) => "it is a question; `coordctl answer` answers it",
            Self::WrongVerb(NeedKind::Plan) => "it is a plan, which is approved or denied",
            Self::WrongVerb(_) => "it is a permission prompt, which is approved or denied",
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
        let wait = wait_of(session, request);
        let is_hidden = wait.is_some_and(|wait| self.is_hidden(session, wait));
        // Said first: until such a hook has ended, the client shows no dialog.
        if wait.is_some_and(|wait| wait.agent.is_some()) && !is_hidden {
            return Err(NotAnswerable::Subagent);
        }
        if session.kind == Some(Kind::Headless) && !is_hidden {
            return Err(NotAnswerable::Headless);
        }
        if session.is_foreign && !self.header.settings.background_answers {
            return Err(NotAnswerable::Background);
        }
        let need = need_of(session, request).ok_or(NotAnswerable::Over)?;
        let wait = wait.ok_or(NotAnswerable::Over)?;
        if session.replies.iter().any(|reply| reply.request == request) {
            return Err(NotAnswerable::Replied);
        }
        if session.two_owners {
            return Err(NotAnswerable::TwoOwners);
        }
        if !self.is_local(session) || !session.may_live() {
            return Err(NotAnswerable::Elsewhere);
        }
        if session.registry.level().is_none() && !is_hidden {
            return Err(NotAnswerable::NoRegistry);
        }
        let is_reported = !wait.tool.is_empty() && ReplyKind::Deny.answers(need.kind);
        if is_reported { Ok(()) } else { Err(NotAnswerable::Dialog) }
    }

    /// Whether a reply may be handed over now: its dialog is on the screen too, unless the client shows none while a
    /// hook waits.
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
        // A question waits for input; older clients say of it what they say of a permission prompt (measured).
        let is_shown = level.is_some_and(Level::is_waiting);
        let wait = wait_of(session, request);
        let is_hidden = wait.is_some_and(|wait| self.is_hidden(session, wait));
        if is_shown || is_hidden { Ok(()) } else { Err(NotAnswerable::NotShown) }
    }

    /// How long the hook of this request may wait although the client shows no dialog meanwhile, in milliseconds
    /// (H-38): not at all, unless its owner has switched that on, somebody can be told, and the bound is not used up.
    pub(crate) fn hidden_wait_ms(
        &self,
        session: &Session,
        event: &HookEvent,
        at: Moment,
    ) -> Option<u64> {
        let bound_ms = self.header.settings.hidden_wait_ms;
        let is_request = event.kind == HookKind::PermissionRequest && event.is_proved();
        let left_ms = bound_ms.saturating_sub(session.hidden_waits.in_all_ms(at.awake));
        let may_wait = is_request && self.may_hide(session, event.agent.is_some());
        Some(left_ms).filter(|left_ms| may_wait && 0 < *left_ms)
    }

    /// Whether a hook may wait although the client shows no dialog meanwhile: its owner has switched that on, and
    /// somebody is told.
    fn may_hide(&self, session: &Session, is_of_agent: bool) -> bool {
        let settings = &self.header.settings;
        let is_switched_on = match session.kind {
            Some(Kind::Headless) => settings.headless_answers,
            Some(Kind::Interactive) => {
                let is_allowed = session.marks.asks_for_agents == Some(true);
                is_of_agent && is_allowed && self.is_unattended(session)
            }
            // It may be a headless run, whose prompts its owner did not allow to be hidden.
            None => false,
        };
        let kind = NoticeKind::Need(NeedKind::Permission);
        settings.remote_answers && is_switched_on && settings.notice.has_channel_for(kind)
    }

    /// Whether the hook of this prompt may go on to wait although the client shows no dialog meanwhile. Its owner may have
    /// switched that off in the meantime.
    fn is_hidden(&self, session: &Session, wait: &Wait) -> bool {
        wait.hidden_until.is_some() && self.may_hide(session, wait.agent.is_some())
    }

    /// Takes in that the hook of a request has ended, or never waited.
    pub(crate) fn on_request_hook_ended(
        &mut self,
        key: SessionKey,
        request: RequestId,
    ) -> Option<SessionKey> {
        let mut session = self.take(key)?;
        end_hidden(&mut session, |wait| wait.request == Some(request));
        self.put(session);
        Some(key)
    }

    /// Takes in that no hook is left that waited: they ended with the coordinator before this one. When that was is not
    /// known, so all that passed since its last record counts as waited.
    pub(crate) fn end_request_hooks(&mut self, unseen_ms: u64, at: Moment) {
        for key in self.keys_of(|session| hidden_until(session).is_some()) {
            if let Some(mut session) = self.take(key) {
                end_hidden(&mut session, |_| true);
                session.hidden_waits.end_unseen(unseen_ms, at);
                self.put(session);
            }
        }
    }

    /// Counts how long hooks waited while the client showed no dialog: in all for a headless run, and for the
    /// subagents of one turn.
    pub(crate) fn count_hidden_waits(&mut self, key: SessionKey, event: &Event, at: Moment) {
        let Some(session) = self.get(key) else { return };
        let mut counted = session.hidden_waits;
        let is_hidden = session.waits.iter().any(|wait| wait.hidden_until.is_some());
        counted.note(is_hidden, at);
        let is_prompt = |hook: &HookEvent| {
            hook.kind == HookKind::UserPromptSubmit && hook.agent.is_none() && hook.is_proved()
        };
        let begins = matches!(event, Event::Hook(hook) if is_prompt(hook));
        if begins && session.kind != Some(Kind::Headless) {
            counted.begin_turn();
        }
        if counted == session.hidden_waits {
            return;
        }
        if let Some(mut session) = self.take(key) {
            session.hidden_waits = counted;
            self.put(session);
        }
    }

    /// Whether this reply may be handed over now.
    fn may_reply(
        &self,
        session: &Session,
        request: RequestId,
        reply: ReplyKind,
    ) -> Result<(), NotAnswerable> {
        self.may_be_replied_to(session, request)?;
        let kind = need_of(session, request).map(|need| need.kind);
        match kind.filter(|kind| !reply.answers(*kind)) {
            Some(kind) => Err(NotAnswerable::WrongVerb(kind)),
            None => Ok(()),
        }
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
        self.may_reply(session, request, reply).map_err(refused)?;
        let (need, wait) = (need_of(session, request), wait_of(session, request));
        let kind = need.map_or(NeedKind::Permission, |need| need.kind);
        Ok(does(kind, wait.map_or("", |wait| &wait.tool), reply))
    }

    /// Takes a person's reply, and hands it to its hook.
    pub(crate) fn on_reply(
        &mut self,
        key: SessionKey,
        request: RequestId,
        (hook, kind, from): (ProcessRef, ReplyKind, &str),
        at: Moment,
        fx: &mut Effects,
    ) {
        let found = self.get(key).filter(|one| self.may_reply(one, request, kind).is_ok());
        let found = found.and_then(|one| Some((need_of(one, request)?, wait_of(one, request)?)));
        let Some((need, wait)) = found else { return };
        let (need, need_kind) = (need.id, need.kind);
        let (tool, call) = (wait.tool.clone(), wait.call.clone());
        let Some(mut session) = self.take(key) else { return };
        let did = format!("{request}: {}", does(need_kind, &tool, kind));
        let saw = format!("a person replied with coordctl on {from}");
        fx.decide_reply(&session, need, ("A-04", &saw), &did);
        self.tell_news(&mut session, NoticeKind::Replied, at);
        session.replies.remember(Reply {
            request,
            need,
            hook,
            kind,
            tool,
            call,
            at,
            outcome: None,
        });
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
        let reply = session.replies.iter().find(|one| one.request == request);
        let mut call = None;
        if let Some(reply) = reply.filter(|one| one.outcome.is_none()) {
            call.clone_from(&reply.call);
            let (outcome, saw, did) = match decided {
                Some(Decided::ByHook(verdict)) if verdict == reply.kind.verdict() => {
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
                    ReplyOutcome::NotSent,
                    "its hook had ended before it could be handed the reply",
                    "nothing was sent",
                ),
            };
            let (did, need) = (format!("{request}: {did}"), reply.need);
            session.replies.note_outcome(request, outcome);
            fx.decide_reply(&session, need, ("A-07", saw), &did);
        }
        // No hook reports a denial, and beside other prompts the registry still says that the client waits (measured).
        if decided.is_some() {
            session.waits.end_request(request);
            call.iter().for_each(|call| session.under_way.end_decided(call));
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

/// When the first hook of the session must not wait any longer because the client shows no dialog meanwhile.
pub(crate) fn hidden_until(session: &Session) -> Option<Awake> {
    session.waits.iter().filter_map(|wait| wait.hidden_until).min()
}

/// Ends the waits that have hidden a prompt for as long as they may: a headless run is denied, and the client shows the
/// dialog of a subagent.
pub(crate) fn end_hidden_waits(session: &mut Session, at: Moment, fx: &mut Effects) {
    if hidden_until(session).is_none_or(|until| at.awake < until) {
        return;
    }
    fx.decide(session, "H-38", "nobody replied in time", "coord's hook does not wait any longer");
    end_hidden(session, |wait| wait.hidden_until.is_some_and(|until| until <= at.awake));
}

/// Ends the waits of hooks that kept their prompts from everybody at a terminal. What was replied to is over, and so is a
/// prompt of a headless run, which is denied. The client shows the dialog of any other.
fn end_hidden(session: &mut Session, is_it: impl Fn(&Wait) -> bool) {
    let is_headless = session.kind == Some(Kind::Headless);
    let replied: Vec<RequestId> = session.replies.iter().map(|reply| reply.request).collect();
    let is_replied_to = |wait: &Wait| wait.request.is_some_and(|one| replied.contains(&one));
    session.waits.end_hidden(is_it, |wait| is_headless || is_replied_to(wait));
}

/// What a reply does, in words.
fn does(prompt: NeedKind, tool: &str, reply: ReplyKind) -> String {
    let did = reply.did();
    if prompt == NeedKind::Question {
        format!("the question is {did}")
    } else if prompt == NeedKind::Plan {
        format!("the plan is {did}")
    } else {
        format!("this one call of {tool} is {did}")
    }
}

fn need_of(session: &Session, request: RequestId) -> Option<&Need> {
    session.needs.iter().find(|need| need.request == Some(request))
}

fn wait_of(session: &Session, request: RequestId) -> Option<&Wait> {
    session.waits.iter().find(|wait| wait.request == Some(request))
}
