//! Decides whether an effect may touch the world: the one gate every effect passes.
//!
//! In `observe` the decision is recorded and an acting effect is not performed (architecture 11).
//! Looking is always allowed, where looking is safe is the adapters' matter (H-27). The match has
//! no wildcard: an effect that acts cannot be added without deciding here what it needs.

use coord_model::{Action, Effect, Mode};

/// The gate's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Do it.
    Perform,
    /// Record that it would have been done.
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
            | Effect::RemoveBody { .. }
            | Effect::Offer { .. }
            | Effect::SeekMessages { .. }
            | Effect::SeekLast { .. }
            | Effect::Tell { .. }
            | Effect::LockConfigDir { .. },
            Mode::Observe | Mode::Signature | Mode::Act,
        ) => Admission::Perform,
        (Effect::Act(action), mode) => admit_action(mode, action),
    }
}

fn admit_action(mode: Mode, action: &Action) -> Admission {
    match (action, mode) {
        (
            Action::Prove { .. } | Action::Release { .. },
            Mode::Observe | Mode::Signature | Mode::Act,
        )
        | (
            Action::End { .. }
            | Action::TypeResume { .. }
            | Action::RespawnPane { .. }
            | Action::NewWindow { .. }
            | Action::Wake { .. }
            | Action::WriteStop { .. }
            | Action::RemoveStop { .. }
            | Action::Notify { .. },
            Mode::Signature | Mode::Act,
        ) => Admission::Perform,
        (
            Action::End { .. }
            | Action::TypeResume { .. }
            | Action::RespawnPane { .. }
            | Action::NewWindow { .. }
            | Action::Wake { .. }
            | Action::WriteStop { .. }
            | Action::RemoveStop { .. }
            | Action::Notify { .. },
            Mode::Observe,
        ) => Admission::RecordOnly,
    }
}
