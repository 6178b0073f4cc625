//! Decides whether an effect may touch the world: the one gate that every effect passes.
//!
//! In `observe` the decision is recorded, and an acting effect is not performed (architecture 11). Looking is
//! always allowed; the adapters decide where looking is safe (H-27). The match has no wildcard, so an effect that
//! acts cannot be added without a decision here on what it needs.

use coord_model::{Action, ActionClass, Effect, Mode};

/// The answer of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Perform the effect.
    Perform,
    /// Only record that it would have been performed.
    RecordOnly,
}

/// Whether `effect` may be performed in `mode`.
pub fn admit(mode: Mode, effect: &Effect) -> Admission {
    match (effect, mode) {
        (
            Effect::WatchProcess { .. }
            | Effect::ReadRegistry { .. }
            | Effect::WatchRegistry { .. }
            | Effect::CapturePane { .. }
            | Effect::ReadTranscript { .. }
            | Effect::ReadTask { .. }
            | Effect::LookAtWork { .. }
            | Effect::RemoveBody { .. }
            | Effect::Offer { .. }
            | Effect::SeekMessages { .. }
            | Effect::SeekLast { .. }
            | Effect::SeekDecisions { .. }
            | Effect::HandReply { .. }
            | Effect::SendNotice { .. }
            | Effect::Tell(_)
            | Effect::LookForPresence { .. }
            | Effect::LockConfigDir { .. },
            Mode::Observe | Mode::Signature | Mode::Act,
        ) => Admission::Perform,
        (Effect::Act(action), mode) => admit_action(mode, action),
    }
}

fn admit_action(mode: Mode, action: &Action) -> Admission {
    match (action.class(), mode) {
        (ActionClass::Look, Mode::Observe | Mode::Signature | Mode::Act)
        | (ActionClass::Notice | ActionClass::Once(_), Mode::Signature | Mode::Act) => {
            Admission::Perform
        }
        (ActionClass::Notice | ActionClass::Once(_), Mode::Observe) => Admission::RecordOnly,
    }
}
