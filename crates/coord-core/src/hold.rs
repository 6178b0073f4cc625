//! Decides when the people at a session are told that a hold on it lasts (H-35).
//!
//! This covers a person's hold, that of a stop file, and a wait for a usage limit or for the API; each is told once.
//! What a recovery waits for is told by `recovery`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use coord_model::{Awake, Moment};

use crate::effects::{Effects, TOLD_AFTER_MS};
use crate::quota;
use crate::records::{Session, State, WaitedFor};

impl State {
    /// When the people at the session are told of a hold next.
    pub(crate) fn hold_told_at(&self, session: &Session) -> Option<Awake> {
        self.untold_holds(session).map(|untold| untold.told_at()).min()
    }

    /// Tells the people at the session of each hold on it that has lasted for half an hour.
    pub(crate) fn tell_of_holds(&self, session: &mut Session, at: Moment, fx: &mut Effects) {
        let due = self.untold_holds(session).filter(|untold| untold.told_at() <= at.awake);
        let due: Vec<(Awake, String)> = due.map(|untold| (untold.since, untold.words())).collect();
        for (since, words) in due {
            session.told_hold = session.told_hold.max(Some(since));
            fx.notify(session, "H-35", &words);
        }
    }

    /// The holds on the session that last for so long, and of which nobody was told.
    fn untold_holds<'a>(&'a self, session: &'a Session) -> impl Iterator<Item = Untold<'a>> {
        let holds = [&*session.held, &session.task.stop, &self.header.machine.held];
        let holds = holds.into_iter().flatten().filter_map(|hold| {
            let untold = Untold { since: hold.since.awake, action: "", why: &hold.reason };
            hold.lasts(untold.told_at()).then_some(untold)
        });
        // After an API error, coord waits only if it may wake the session; otherwise the session is idle.
        let quota = quota::waiting(session).filter(|quota| {
            quota.waited_for == WaitedFor::Quota || self.quota_at(session).is_some()
        });
        let quota = quota.map(|quota| Untold {
            since: quota.since.awake,
            action: "waits for ",
            why: quota.waited_for.words(),
        });
        let is_told_here = session.may_live() && !session.is_foreign;
        let is_told_here = is_told_here && session.recovery.pending.is_none();
        let is_new = move |untold: &Untold| session.told_hold < Some(untold.since);
        holds.chain(quota).filter(move |untold| is_told_here && is_new(untold))
    }
}

/// A hold of which nobody was told.
struct Untold<'a> {
    since: Awake,
    /// What the session does meanwhile; empty if `why` says it.
    action: &'static str,
    why: &'a str,
}

impl Untold<'_> {
    fn told_at(&self) -> Awake {
        self.since.plus_ms(TOLD_AFTER_MS)
    }

    fn words(&self) -> String {
        let Self { action, why, .. } = self;
        format!("on hold for half an hour: {action}{why}")
    }
}
