//! Collects the effects and decisions of one step, without repeating an effect.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::records::Session;
use coord_model::{Action, Decision, Effect, NeedChange, NeedId, NeedStep};

/// How long a notice that asks for nothing is shown, in milliseconds.
pub(crate) const SHOWN_MS: u32 = 5_000;

/// Age at which people are told of a hold, in milliseconds (H-35).
pub(crate) const TOLD_AFTER_MS: u64 = 1_800_000;

/// The effects and decisions of one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// Effects to perform, in this order, after the event is recorded.
    pub effects: Vec<Effect>,
    /// Decisions to record.
    pub decisions: Vec<Decision>,
}

impl Effects {
    /// Records a decision about `session`.
    pub(crate) fn decide(&mut self, session: &Session, rule: &'static str, saw: &str, did: &str) {
        self.decide_about(session.session_id.clone(), rule, saw, did);
    }

    /// Records a decision about a session or a message, by its id.
    pub(crate) fn decide_about(&mut self, id: String, rule: &'static str, saw: &str, did: &str) {
        let (saw, did) = (saw.to_owned(), did.to_owned());
        let (need, notice) = (None, None);
        self.decisions.push(Decision { session_id: id, rule: rule.into(), saw, did, need, notice });
    }

    /// Records that a need of `session` began or ended.
    pub(crate) fn decide_need(&mut self, session: &Session, change: NeedChange, saw: &str) {
        let did = match change.step {
            NeedStep::Begun => format!("{} begins: a person is needed", change.id),
            NeedStep::Dismissed => format!("{} is dismissed", change.id),
            NeedStep::Ended => format!("{} is over", change.id),
        };
        let (session_id, saw) = (session.session_id.clone(), saw.to_owned());
        let need = Some(change);
        let rule = "U-01".into();
        self.decisions.push(Decision { session_id, rule, saw, did, need, notice: None });
    }

    /// Records a decision about the notice of a need.
    pub(crate) fn decide_notice(&mut self, session_id: String, id: NeedId, saw: &str, did: &str) {
        let (saw, did) = (saw.to_owned(), did.to_owned());
        let (rule, notice) = ("N-04".into(), Some(id));
        self.decisions.push(Decision { session_id, rule, saw, did, need: None, notice });
    }

    /// Records a decision about a reply to a need.
    pub(crate) fn decide_reply(
        &mut self,
        session: &Session,
        need: NeedId,
        (rule, saw): (&'static str, &str),
        did: &str,
    ) {
        let (session_id, saw, did) = (session.session_id.clone(), saw.to_owned(), did.to_owned());
        let (rule, notice) = (rule.into(), Some(need));
        self.decisions.push(Decision { session_id, rule, saw, did, need: None, notice });
    }

    /// Records what the people at `session` are told, and shows it on its pane if it has one (H-35).
    pub(crate) fn notify(&mut self, session: &Session, rule: &'static str, saw: &str) {
        let pane = session.proved_pane().map(|(pane, _)| pane);
        let did = if pane.is_some() { "notice shown once" } else { "no pane to show it on" };
        if let Some(pane) = pane {
            self.act(Action::Notify { pane, text: format!("coord: {saw}"), for_ms: SHOWN_MS });
        }
        self.decide(session, rule, saw, did);
    }

    /// Requests an action after all earlier requests: a lock that was released earlier in the step may have been
    /// taken again since (H-13).
    pub(crate) fn act(&mut self, action: Action) {
        let effect = Effect::Act(Box::new(action));
        self.effects.retain(|asked| *asked != effect);
        self.effects.push(effect);
    }

    pub(crate) fn ask(&mut self, effect: Effect) {
        if !self.effects.contains(&effect) {
            self.effects.push(effect);
        }
    }
}
