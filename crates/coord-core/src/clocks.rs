//! Visits every time that the state stores, so that a start of the coordinator leaves none of them on a clock
//! that is gone (H-32). Decides nothing else.
//!
//! Each type names all of its fields: a field that is added and not named here does not compile. Fields behind
//! `until` are deadlines, and may lie in the future; every other time is of something that happened.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use coord_model::{
    Address, Awake, Background, EndReason, Host, Kind, Launch, MessageId, Moment, Now, PaneProof,
    PaneState, ProcessRef, Prompt, RegistryStatus, Same, Screen, Sender, SessionKey, SessionState,
    Settings, TmuxPane, Via,
};

use crate::facts::{PaneFact, PaneView, RegistryFact, Signature};
use crate::fusion::Source;
use crate::hold::Hold;
use crate::host_event::{DeadServer, HostEvent};
use crate::operator::Marks;
use crate::owner::{Owner, OwnerId, OwnerProof};
use crate::permission::{Over, Wait, WaitKind};
use crate::queue::{Inbox, Lease, Message, MessageState, QueueHead, Sought};
use crate::quota::{QuotaWait, WaitedFor};
use crate::recovery::{
    Cause, Ending, Flag, Last, Machine, NEVER, Obstacle, Pending, Recovery, Stage, Still, Way,
};
use crate::rest::Rest;
use crate::session::{Counts, EarlyEnd, LastEvent, Presence, Session, Stamp, Starter, Turn};
use crate::stall::{Stall, UnderWay};
use crate::state::{Counters, Header};
use crate::status::ShownState;
use crate::task::{StopFile, Task};

/// What a stored time stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// When something happened.
    Past,
    /// When something is due, or over.
    Deadline,
}

/// Something that may store times.
pub(crate) trait Clocks {
    /// Visits each of them. A value of several fields gives each its own role; `role` is that of a bare time.
    fn clocks(&mut self, role: Role, visit: &mut dyn FnMut(Role, &mut Awake));
}

/// A new boot, whose clock began anew: what happened counts as happened now, and a wait lasts for the rest of its
/// time. `before` is the last moment of the old boot.
pub(crate) fn rebase(stored: &mut (impl Clocks + ?Sized), before: Awake, now: Awake) {
    stored.clocks(Role::Past, &mut |role, time| match role {
        Role::Past => *time = now,
        Role::Deadline if *time == NEVER => (),
        Role::Deadline => *time = Awake(now.0.saturating_add(time.0.saturating_sub(before.0))),
    });
}

/// The clock stands while the coordinator is down, and goes on from the last record: what it had noted after that
/// record counts as happened now.
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
        impl $crate::clocks::Clocks for $type {
            fn clocks(
                &mut self,
                _: $crate::clocks::Role,
                visit: &mut dyn FnMut($crate::clocks::Role, &mut coord_model::Awake),
            ) {
                let Self { $($past,)* $($due,)* } = self;
                $($crate::clocks::Clocks::clocks($past, $crate::clocks::Role::Past, visit);)*
                $($crate::clocks::Clocks::clocks($due, $crate::clocks::Role::Deadline, visit);)*
            }
        }
    };
    (enum $type:ty {
        $($variant:ident { $($at:tt: $past:ident),* } until { $($due_at:tt: $due:ident),* })*
    }) => {
        impl $crate::clocks::Clocks for $type {
            fn clocks(
                &mut self,
                _: $crate::clocks::Role,
                visit: &mut dyn FnMut($crate::clocks::Role, &mut coord_model::Awake),
            ) {
                let _used = &visit;
                match self {
                    $(Self::$variant { $($at: $past,)* $($due_at: $due,)* } => {
                        $($crate::clocks::Clocks::clocks($past, $crate::clocks::Role::Past, visit);)*
                        $($crate::clocks::Clocks::clocks($due, $crate::clocks::Role::Deadline, visit);)*
                    })*
                }
            }
        }
    };
    (none in $($type:ty),* $(,)?) => {
        $(impl $crate::clocks::Clocks for $type {
            fn clocks(
                &mut self,
                _: $crate::clocks::Role,
                _: &mut dyn FnMut($crate::clocks::Role, &mut coord_model::Awake),
            ) {}
        })*
    };
}
pub(crate) use clocks;

clocks!(none in
    bool, u32, u64, String, Now, Settings, Host, Counters, SessionKey, OwnerId, OwnerProof, ProcessRef, Stamp, EndReason, Kind,
    Via, Background, Counts, Starter, Source, HostEvent, TmuxPane, PaneProof, Screen, RegistryStatus, Launch, Marks,
    WaitKind, Over, Obstacle, UnderWay, PaneState, Prompt, StopFile, WaitedFor, Inbox, SessionState, Cause, Ending, Way, coord_model::Signal,
    MessageId, Address, Sender, Same, Sought,
);

clocks!(struct Header {
    host, settings, next_key, last, paused_ns, settling, counters, config_dirs, recent_ends, early_ends, dead_servers,
    shutdown, unseen_since_ms, started_at, clock_set_at, machine, queue,
} until {});

clocks!(struct Session {
    key, session_id, previous_ids, host, config_dir, kind, owner, former_owners, two_owners, forked_from, tmux, pane,
    look, signature, old_signatures, presence, left, turn, turn_id, waits, under_way, stall, quota, rest, task, reminded_at, over,
    background, failure, cwd, transcript_path, permission_mode, boot, edge, edge_at, contested, last, sign, registry,
    is_foreign, old_pane, launch, marks, wakes, starter, inbox, held, recovery, counts, shown,
} until {});

clocks!(struct Owner {
    id, seen_alive, is_stopped, has_told, has_reported, has_named_mode, may_have_left, lived_until_ms, ended_elsewhere_ms, proof, registry_session,
} until {});
clocks!(struct LastEvent { name, stamp, verified, via } until {});
clocks!(struct EarlyEnd { session_id, owner, reason, last, at } until {});
clocks!(struct DeadServer { process, seen_ms, at } until {});
clocks!(struct Hold { reason, since } until { until });
clocks!(struct Wait { agent, tool, digest, kind, since } until {});
clocks!(struct Signature { name, at, is_content, is_weighed } until {});
clocks!(struct PaneView { at, pane, proof, screen, looks } until {});
clocks!(struct Stall { digest, since, at, count } until {});
clocks!(struct QuotaWait { since, waited_for, resets_ms, probes } until { until });
clocks!(struct Rest {
    asked, is_seen, answering, answers, is_summary_asked, is_at_limit, prompted_ms,
} until {});
clocks!(struct Task { is_read, signal, stop, wrote, looked } until {});
clocks!(struct ShownState { state, since, rule, because } until {});
clocks!(struct Flag { reason, since, is_limit } until {});
clocks!(struct Last { at, outcome } until {});
clocks!(struct Still { ran_ns, since, asked_at, pane } until {});
clocks!(struct Recovery {
    pending, budget, last, needs_operator, cooldown, dropped, verified_at, passed_on, judged, harmed_prompts,
    nothing_left,
} until {});
clocks!(struct Pending {
    cause, harness, session_id, detected_at, died_at, by_hand, when_idle, was_working, ended_by_us, attempts, begun, changes,
    obstacle, waits_for, waits_since, is_told, is_graced, graced_at, prompt_ms, still, prompt, typed, claimed, is_start_heard,
    stage,
} until {});
clocks!(struct Machine {
    last_number, under_way, starts, deaths, failures, breaker, is_for_deaths, held, marks,
} until {});
clocks!(struct QueueHead {
    next_number, next_fence, sent, folded, processed, failed, ran_out, swept,
} until {});
clocks!(struct Message {
    id, number, to, from, is_urgent, depth, is_released, same, bytes, sent, folded, attempts, maybe_duplicate,
    last_failure, state,
} until { expires });
clocks!(struct Lease { holder, since, fence, sought } until { until });

clocks!(enum Presence {
    Alive {} until {}
    Dying { since: since, asks_pane: asks, is_fresh: fresh } until {}
    Ended { reason: reason, at: at } until {}
    Interrupted { by: by, at: at } until {}
    Crashed { at: at } until {}
    Gone { at: at } until {}
});
clocks!(enum Turn {
    None {} until {}
    Open { since: since, queued: queued } until {}
    Closed { at: at } until {}
    Interrupted { at: at, by: by } until {}
});
clocks!(enum RegistryFact {
    Unknown {} until {}
    Present { at: at, status: status, changed_ms: changed, seen_changing: seen } until {}
    Removed { at: at } until {}
    LeftBehind { at: at } until {}
});
clocks!(enum PaneFact {
    Unknown {} until {}
    Unreadable { at: at, why: why } until {}
    Its { 0: view } until {}
    NotThere { at: at } until {}
});
clocks!(enum Stage {
    Waiting {} until { until: until }
    Grace {} until { until: until }
    Proving { number: number, since: since, lives: lives } until {}
    Ending { number: number, since: since, signal: signal } until {}
    Placing { number: number, since: since, nonce: nonce, way: way } until {}
    Claimed { process: process, since: since, asked: asked } until {}
    Started { process: process, since: since, asked: asked, is_sole: sole } until {}
});
clocks!(enum MessageState {
    Pending {} until { not_before: until }
    Processing { 0: lease } until {}
    Processed { at: at, fence: fence } until { until: until }
    Failed { at: at, reason: reason } until { until: until }
});
