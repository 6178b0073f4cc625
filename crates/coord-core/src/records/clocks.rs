//! Visits every time that the state stores. After a restart, none of them refers to a clock that no longer exists
//! (H-32). Decides nothing else.
//!
//! Each type names all of its fields: a new field that is not named here does not compile. Fields after `until`
//! are deadlines, and may lie in the future. Every other time is that of something that happened.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use coord_model::{
    Address, Awake, Background, EndReason, Fate, Host, Kind, Launch, MachineId, MessageId, Moment,
    NeedId, NeedKind, Now, PaneProof, PaneState, ProcessRef, Prompt, RegistryStatus, RequestId,
    Same, Screen, Sender, SessionKey, SessionState, Settings, Signal, TmuxPane, Via,
};

/// A deadline that time alone never reaches: an event will come instead.
pub(crate) const NEVER: Awake = Awake(u64::MAX);

/// The meaning of a stored time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// When something happened.
    Past,
    /// When something is due, or ends.
    Deadline,
}

/// A value that may store times.
pub(crate) trait Clocks {
    /// Visits each of them. A value with several fields gives each field its own role; `role` is that of a bare
    /// time.
    fn clocks(&mut self, role: Role, visit: &mut dyn FnMut(Role, &mut Awake));
}

/// Moves stored times to the clock of a new boot. What happened counts as happened now, and a wait keeps its
/// remaining time. `before` is the last moment of the old boot.
pub(crate) fn rebase(stored: &mut (impl Clocks + ?Sized), before: Awake, now: Awake) {
    stored.clocks(Role::Past, &mut |role, time| match role {
        Role::Past => *time = now,
        Role::Deadline if *time == NEVER => (),
        Role::Deadline => *time = Awake(now.0.saturating_add(time.0.saturating_sub(before.0))),
    });
}

/// Limits past times to `now`, after a restart. The clock stops while the coordinator is down and continues from
/// the last record. What was noted after that record counts as happened now.
pub(crate) fn set_back(stored: &mut (impl Clocks + ?Sized), now: Awake) {
    stored.clocks(Role::Past, &mut |role, time| match role {
        Role::Past => *time = (*time).min(now),
        Role::Deadline => (),
    });
}

impl Clocks for Awake {
    fn clocks(&mut self, role: Role, visit: &mut dyn FnMut(Role, &mut Awake)) {
        visit(role, self);
    }
}

impl Clocks for Moment {
    fn clocks(&mut self, role: Role, visit: &mut dyn FnMut(Role, &mut Awake)) {
        let Self { awake, wall_ms: _ } = self;
        visit(role, awake);
    }
}

impl<T: Clocks> Clocks for Option<T> {
    fn clocks(&mut self, role: Role, visit: &mut dyn FnMut(Role, &mut Awake)) {
        self.iter_mut().for_each(|one| one.clocks(role, visit));
    }
}

impl<T: Clocks> Clocks for Vec<T> {
    fn clocks(&mut self, role: Role, visit: &mut dyn FnMut(Role, &mut Awake)) {
        self.iter_mut().for_each(|one| one.clocks(role, visit));
    }
}

impl<T: Clocks, const N: usize> Clocks for [T; N] {
    fn clocks(&mut self, role: Role, visit: &mut dyn FnMut(Role, &mut Awake)) {
        self.iter_mut().for_each(|one| one.clocks(role, visit));
    }
}

impl<T: Clocks> Clocks for Box<T> {
    fn clocks(&mut self, role: Role, visit: &mut dyn FnMut(Role, &mut Awake)) {
        (**self).clocks(role, visit);
    }
}

impl<K, T: Clocks> Clocks for BTreeMap<K, T> {
    fn clocks(&mut self, role: Role, visit: &mut dyn FnMut(Role, &mut Awake)) {
        self.values_mut().for_each(|one| one.clocks(role, visit));
    }
}

impl<A: Clocks, B: Clocks> Clocks for (A, B) {
    fn clocks(&mut self, role: Role, visit: &mut dyn FnMut(Role, &mut Awake)) {
        let (a, b) = self;
        a.clocks(role, visit);
        b.clocks(role, visit);
    }
}

/// `struct Type { fields } until { deadlines }`, or `enum Type { Variant { fields } until { deadlines } .. }`.
macro_rules! clocks {
    (struct $type:ty { $($past:ident),* $(,)? } until { $($due:ident),* $(,)? }) => {
        impl $crate::records::clocks::Clocks for $type {
            fn clocks(
                &mut self,
                _: $crate::records::clocks::Role,
                visit: &mut dyn FnMut($crate::records::clocks::Role, &mut coord_model::Awake),
            ) {
                let Self { $($past,)* $($due,)* } = self;
                $($crate::records::clocks::Clocks::clocks($past, $crate::records::clocks::Role::Past, visit);)*
                $($crate::records::clocks::Clocks::clocks($due, $crate::records::clocks::Role::Deadline, visit);)*
            }
        }
    };
    (enum $type:ty {
        $($variant:ident { $($at:tt: $past:ident),* } until { $($due_at:tt: $due:ident),* })*
    }) => {
        impl $crate::records::clocks::Clocks for $type {
            fn clocks(
                &mut self,
                _: $crate::records::clocks::Role,
                visit: &mut dyn FnMut($crate::records::clocks::Role, &mut coord_model::Awake),
            ) {
                let _used = &visit;
                match self {
                    $(Self::$variant { $($at: $past,)* $($due_at: $due,)* } => {
                        $($crate::records::clocks::Clocks::clocks($past, $crate::records::clocks::Role::Past, visit);)*
                        $($crate::records::clocks::Clocks::clocks($due, $crate::records::clocks::Role::Deadline, visit);)*
                    })*
                }
            }
        }
    };
    (none in $($type:ty),* $(,)?) => {
        $(impl $crate::records::clocks::Clocks for $type {
            fn clocks(
                &mut self,
                _: $crate::records::clocks::Role,
                _: &mut dyn FnMut($crate::records::clocks::Role, &mut coord_model::Awake),
            ) {}
        })*
    };
}
pub(crate) use clocks;

clocks!(none in
    bool, u32, u64, String, Now, Settings, Host, SessionKey, ProcessRef, EndReason, Kind, Via, Background, TmuxPane, PaneProof,
    Screen, RegistryStatus, Launch, PaneState, Prompt, SessionState, Signal, MessageId, Address, Sender, Same, RequestId, NeedId, NeedKind,
    Fate, BTreeSet<(MachineId, MessageId)>,
);
