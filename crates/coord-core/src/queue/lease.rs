//! Decides who has a message, and until when (S4-02, S4-03, S4-11 to S4-14).
//!
//! A claim is a lease. It ends when its holder reports a result, or at its deadline, whichever is first. A stale
//! fence changes nothing.

use alloc::format;

use coord_model::{Awake, MessageId, Moment};

use super::Refused;
use crate::effects::Effects;
use crate::records::{Lease, Message, MessageState, Sought, State};

/// Interval at which all leases are checked, whatever the deadlines say, in milliseconds (S4-11).
const SWEEP_MS: u64 = 60_000;
/// The longest lease, milliseconds: a consumer that works for longer renews it.
pub const LEASE_MS_MAX: u64 = 24 * 3_600_000;

impl State {
    /// The next message of a queue; none if no message can be handed out.
    pub fn next_in_queue(&self, name: &str) -> Option<&Message> {
        self.messages.next(&coord_model::Address::Queue(name.into()))
    }

    /// Checks that this lease of the message is valid.
    ///
    /// # Errors
    /// The message does not exist, or the lease is no longer valid.
    pub fn held(&self, id: MessageId, fence: u64) -> Result<&Message, Refused> {
        let message = self.messages.get(id).ok_or(Refused::Gone)?;
        match message.lease() {
            Some(lease) if lease.fence == fence => Ok(message),
            Some(lease) => Err(Refused::Taken { holder: lease.holder.clone() }),
            None => Err(Refused::NotHeld { state: message.word() }),
        }
    }

    /// Messages that are worked on: their number, how many of them for long, and how many past their deadline
    /// (S4-18).
    pub fn worked_on(&self, now: Awake) -> [usize; 3] {
        let slow_ms = self.header.settings.queue.slow_ms;
        let mut counts: [usize; 3] = [0; 3];
        for lease in self.messages.leased().filter_map(Message::lease) {
            let is_slow = slow_ms < now.ms_since(lease.since.awake);
            let is_stuck = lease.until < now;
            for (count, counted) in counts.iter_mut().zip([true, is_slow, is_stuck]) {
                *count = count.saturating_add(usize::from(counted));
            }
        }
        counts
    }

    /// Number of messages that are still worked on one sweep after their deadline: always 0 (G3).
    pub(crate) fn overdue_leases(&self, now: Awake) -> u64 {
        let leases = self.messages.leased().filter_map(Message::lease);
        let overdue = leases.filter(|lease| lease.until.plus_ms(SWEEP_MS) < now);
        u64::try_from(overdue.count()).unwrap_or(u64::MAX)
    }

    pub(super) fn claim(&mut self, id: MessageId, holder: &str, lease_ms: u64, at: Moment) {
        if !self.messages.get(id).is_some_and(Message::is_ready) {
            return;
        }
        self.grant_lease(id, holder, None, lease_ms.min(LEASE_MS_MAX), at);
    }

    /// Gives a lease on the message. Any earlier lease is lost.
    pub(super) fn grant_lease(
        &mut self,
        id: MessageId,
        holder: &str,
        sought: Option<Sought>,
        lease_ms: u64,
        at: Moment,
    ) {
        let fence = self.header.queue.next_fence.saturating_add(1);
        self.header.queue.next_fence = fence;
        let until = at.awake.plus_ms(lease_ms);
        self.messages.change(id, |message| {
            message.attempts = message.attempts.saturating_add(1);
            let lease = Lease { holder: holder.into(), since: at, until, fence, sought };
            message.state = MessageState::Processing(lease);
        });
    }

    pub(super) fn renew(&mut self, id: MessageId, fence: u64, lease_ms: u64, at: Moment) {
        if self.held(id, fence).is_err() {
            return;
        }
        self.messages.change(id, |message| {
            if let MessageState::Processing(lease) = &mut message.state {
                // A renewal never shortens the lease.
                lease.until = lease.until.max(at.awake.plus_ms(lease_ms.min(LEASE_MS_MAX)));
            }
        });
    }

    /// When the leases are checked next; none if there are none.
    pub(super) fn sweep_at(&self) -> Option<Awake> {
        self.messages.leased().next().map(|_| self.header.queue.swept.plus_ms(SWEEP_MS))
    }

    /// Checks all leases, so that none outlives its deadline even if its timer was lost.
    pub(super) fn sweep(&mut self, at: Moment, fx: &mut Effects) {
        if self.sweep_at().is_none_or(|due| at.awake < due) {
            return;
        }
        self.header.queue.swept = at.awake;
        let is_over = |one: &&Message| one.lease().is_some_and(|lease| lease.until <= at.awake);
        let over: alloc::vec::Vec<MessageId> =
            self.messages.leased().filter(is_over).map(|one| one.id).collect();
        for id in over {
            self.end_lease(id, at, fx);
        }
    }

    /// Ends a lease whose deadline has passed, or whose holder died with the machine. The message may be done, or
    /// half done (S4-25).
    pub(super) fn end_lease(&mut self, id: MessageId, at: Moment, fx: &mut Effects) {
        if self.look_again(id, at, fx) || self.send_again(id, fx) {
            return;
        }
        self.forget_wake(id);
        let Some(lease) = self.messages.get(id).and_then(Message::lease) else { return };
        let why = match lease.sought {
            None => format!("the lease of {} ran out", lease.holder),
            Some(_) => "the transcript does not show whether it arrived".into(),
        };
        let ran_out = &mut self.header.queue.ran_out;
        *ran_out = ran_out.saturating_add(1);
        self.give_back(id, &why, true, at, fx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::step;
    use alloc::string::String;
    use alloc::string::ToString;
    use coord_model::{Address, Event, NewMessage, Now, QueueEvent, Same, Sender};

    fn happens(event: QueueEvent) -> Event {
        Event::Message { id: String::new(), what: String::new(), event }
    }

    fn at(seconds: u64) -> Now {
        Now { mono_ns: seconds * 1_000_000_000, wall_ms: seconds * 1_000 }
    }

    // S4-11, G3: a lease whose timer was lost ends one sweep after its deadline, and no later.
    #[test]
    fn the_sweep_finds_what_a_timer_missed() {
        let mut state = State::default();
        let id = MessageId::from_random(1);
        let new = NewMessage {
            id,
            to: Address::Queue("a".into()),
            from: Sender::Agent,
            is_urgent: false,
            depth: 0,
            same: Same::Text(1),
            bytes: 1,
            ttl_ms: None,
        };
        let claimed = QueueEvent::Claimed { id, holder: "b".to_string(), lease_ms: 30_000 };
        step(&mut state, &happens(QueueEvent::Sent(new)), at(1_000));
        step(&mut state, &happens(claimed), at(1_000));
        state.messages.lose_deadlines();
        let swept = state.next_deadline().map(|ns| ns / 1_000_000_000);
        assert_eq!(swept, Some(1_060), "while somebody has one, it is looked for");
        step(&mut state, &Event::Due, at(1_059));
        assert_eq!(state.message(id).map(Message::word), Some("processing"));
        assert_eq!(state.overdue_leases(state.moment(at(1_059)).awake), 0);
        assert_eq!(state.overdue_leases(state.moment(at(1_091)).awake), 1, "it would count");
        step(&mut state, &Event::Due, at(1_060));
        assert_eq!(state.message(id).map(Message::word), Some("pending"));
    }
}
