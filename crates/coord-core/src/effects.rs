//! What one step asks for and has decided: collects effects without repeating one.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::records::Session;
use coord_model::{Action, Decision, Effect};

/// A text that asks for nothing is shown for so long, in milliseconds.
pub(crate) const SHOWN_MS: u32 = 5_000;

/// What one step asks for and has decided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// To be done, in this order, after the event is recorded.
    pub effects: Vec<Effect>,
    /// To be recorded.
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
        self.decisions.push(Decision { session_id: id, rule: rule.into(), saw, did });
    }

    /// Asks for an action, behind all that was asked for before: a lock that was given back earlier in the
    /// step may have been taken again since (H-13).
    pub(crate) fn do_it(&mut self, action: Action) {
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
