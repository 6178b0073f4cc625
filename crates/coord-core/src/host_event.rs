//! Decides whether an end was part of a host event (S0-25f, H-10). A reboot or shutdown of the machine, or the
//! death of a tmux server, is one event for all its sessions, not many ends or crashes.
//!
//! Sessions that their user ended stay stopped. A headless run always ends with `other`, so its end is an
//! interruption only if a turn was still open.

use alloc::vec::Vec;

use coord_model::{EndReason, Kind, Moment, ProcessRef, SessionKey};

use crate::effects::Effects;
use crate::records::{DeadServer, HostEvent, OwnerProof, Pending, Presence, Session, State};

/// Number of ends within the time limit that make a host event (H-10).
const MANY_ENDS: usize = 3;
/// Maximum number of remembered deaths of tmux servers.
const DEAD_SERVERS_MAX: usize = 16;

impl State {
    /// Handles a reboot: sessions that lived before it, or ended just before, were interrupted. `boot_at_ms` is
    /// the wall time of the new boot, in milliseconds since 1970.
    pub(crate) fn on_new_boot(&mut self, boot_at_ms: u64, at: Moment, fx: &mut Effects) {
        self.header.machine.begin_boot();
        let from_ms = boot_at_ms.saturating_sub(self.header.settings.interrupted_before_boot_ms);
        for key in self.keys() {
            let Some(mut session) = self.take(key) else { continue };
            session.begin_boot();
            let was_owed = session.recovery.pending.is_some();
            session.recovery.begin_boot(at);
            if self.is_local(&session) {
                session.owner.begin_boot(at);
            }
            if self.is_local(&session)
                && session.may_live()
                && session.left == Some(EndReason::Clear)
            {
                // H-36: no conversation is left to bring back.
                session.presence.end(EndReason::Clear, at);
            } else if self.is_local(&session) {
                let was_taken = match *session.presence {
                    Presence::Alive | Presence::Dying { .. } => true,
                    Presence::Ended { reason: Some(EndReason::Other), at: ended } => {
                        from_ms <= ended.wall_ms && session.kind != Some(Kind::Headless)
                    }
                    Presence::Crashed { .. } => was_owed,
                    Presence::Ended { .. }
                    | Presence::Interrupted { .. }
                    | Presence::Gone { .. } => false,
                };
                if was_taken {
                    interrupt(&mut session, HostEvent::NewBoot, at, fx);
                }
            }
            self.put(session);
        }
        for key in self.keys() {
            self.mark_two_owners(key);
        }
    }

    /// Handles the start or cancellation of a shutdown of the machine. Sessions may have ended before the shutdown
    /// was noticed. Returns the sessions that changed, or whose recovery the shutdown delays.
    pub(crate) fn on_shutdown(
        &mut self,
        under_way: bool,
        at: Moment,
        fx: &mut Effects,
    ) -> Vec<SessionKey> {
        self.header.shutdown = under_way.then_some(at);
        let taken = self.keys_of(|session| self.is_taken_by_shutdown(session));
        for key in &taken {
            self.interrupt_if(*key, HostEvent::Shutdown, fx, at, |_, _| true);
        }
        self.keys_of(|session| session.recovery.pending.is_some() || taken.contains(&session.key))
    }

    /// Whether this is an interactive session that ended without its user's order during the shutdown, or just
    /// before the shutdown was noticed.
    fn is_taken_by_shutdown(&self, session: &Session) -> bool {
        let Some(began) = self.header.shutdown else { return false };
        let Presence::Ended { reason: Some(EndReason::Other) | None, at: ended } =
            *session.presence
        else {
            return false;
        };
        began.awake.ms_since(ended.awake) <= self.header.settings.interrupted_within_ms
            && session.kind == Some(Kind::Interactive)
            && !session.recovery.pending.as_ref().is_some_and(Pending::is_ended_by_us)
            && is_end_proved(session)
    }

    /// Handles the exit of a watched process that may be a tmux server. It lived at least until `seen_ms`,
    /// milliseconds since
    /// 1970. Returns the sessions that ended with it.
    pub(crate) fn on_server_death(
        &mut self,
        process: ProcessRef,
        seen_ms: u64,
        at: Moment,
        fx: &mut Effects,
    ) -> Vec<SessionKey> {
        let within_ms = self.header.settings.interrupted_within_ms;
        let of_server = self.keys_of(|session| session.server(within_ms, at) == Some(process));
        if of_server.is_empty() {
            return of_server;
        }
        let dead = DeadServer { process, seen_ms, at };
        self.header.dead_servers.push(dead);
        if DEAD_SERVERS_MAX < self.header.dead_servers.len() {
            self.header.dead_servers.remove(0);
        }
        for key in &of_server {
            self.interrupt_if_taken(*key, dead, at, fx);
        }
        of_server
    }

    /// Decides whether an end or death was part of a host event. Returns the sessions that changed.
    pub(crate) fn on_end(
        &mut self,
        key: SessionKey,
        at: Moment,
        fx: &mut Effects,
    ) -> Vec<SessionKey> {
        let within_ms = self.header.settings.interrupted_within_ms;
        let Some(session) = self.get(key) else { return Vec::new() };
        let server = session.server(within_ms, at);
        let died = self.header.dead_servers.iter().rev().find(|dead| Some(dead.process) == server);
        if let Some(died) = died.copied()
            && at.awake.ms_since(died.at.awake) <= within_ms
        {
            self.interrupt_if_taken(key, died, at, fx);
            return Vec::from([key]);
        }
        if self.is_taken_by_shutdown(session) {
            self.interrupt_if(key, HostEvent::Shutdown, fx, at, |_, _| true);
            return Vec::from([key]);
        }
        let Presence::Ended { reason: Some(EndReason::Other), at: ended } = *session.presence
        else {
            return Vec::new();
        };
        let is_ours = session.recovery.pending.as_ref().is_some_and(Pending::is_under_way);
        if session.kind != Some(Kind::Interactive) || is_ours || !is_end_proved(session) {
            return Vec::new();
        }
        let is_near = |other: Moment| {
            ended.awake.ms_since(other.awake) <= within_ms
                && ended.wall_ms.abs_diff(other.wall_ms) <= within_ms
        };
        let ends = &mut self.header.recent_ends;
        ends.retain(|(other, of)| is_near(*other) && *of != key);
        ends.push((ended, key));
        if ends.len() < MANY_ENDS {
            return Vec::new();
        }
        let together: Vec<SessionKey> = ends.iter().map(|(_, key)| *key).collect();
        for key in &together {
            self.interrupt_if(*key, HostEvent::ManyEnds, fx, at, |_, _| true);
        }
        together
    }

    /// Marks a session as interrupted if the server may have ended it: the end came after the server was last
    /// seen. Clients may be ahead of the server by a certain time, which is allowed for.
    fn interrupt_if_taken(
        &mut self,
        key: SessionKey,
        dead: DeadServer,
        at: Moment,
        fx: &mut Effects,
    ) {
        let within_ms = self.header.settings.interrupted_within_ms;
        self.interrupt_if(key, HostEvent::TmuxServer, fx, at, |session, ended| {
            let is_headless = session.kind == Some(Kind::Headless);
            let by_itself =
                matches!(*session.presence, Presence::Ended { reason: Some(_), .. }) && is_headless;
            let is_near = at.awake.ms_since(ended.awake) <= within_ms
                && dead.seen_ms <= ended.wall_ms.saturating_add(within_ms)
                && ended.wall_ms <= dead.at.wall_ms.saturating_add(within_ms);
            let is_pending = session.recovery.pending.is_some();
            (is_near || is_pending) && !by_itself
        });
    }

    /// Marks a session as interrupted if it ended without its user's order and the condition holds.
    fn interrupt_if(
        &mut self,
        key: SessionKey,
        by: HostEvent,
        fx: &mut Effects,
        at: Moment,
        holds: impl Fn(&Session, Moment) -> bool,
    ) {
        let Some(mut session) = self.take(key) else { return };
        let was_taken = match *session.presence {
            Presence::Ended { reason: Some(EndReason::Other) | None, at: ended }
            | Presence::Crashed { at: ended }
            | Presence::Gone { at: ended } => holds(&session, ended),
            Presence::Dying { .. } => by == HostEvent::TmuxServer,
            Presence::Alive | Presence::Ended { .. } | Presence::Interrupted { .. } => false,
        };
        if was_taken {
            interrupt(&mut session, by, at, fx);
        }
        self.put(session);
    }
}

/// Whether an end counts towards a host event: a verified event reported it, or the process is gone (H-44).
fn is_end_proved(session: &Session) -> bool {
    let is_verified = session.last.as_ref().is_some_and(|last| last.verified);
    session.owner.as_ref().is_some_and(|owner| {
        let is_gone = matches!(owner.seen_alive, Some((false, _)));
        owner.proof != OwnerProof::Claimed && (is_verified || is_gone)
    })
}

fn interrupt(session: &mut Session, by: HostEvent, at: Moment, fx: &mut Effects) {
    let saw = match by {
        HostEvent::NewBoot => "the boot id changed",
        HostEvent::TmuxServer => "the session ended within seconds of its tmux server",
        HostEvent::ManyEnds => "three or more interactive sessions ended within seconds",
        HostEvent::Shutdown => "the session ended while the machine was shutting down",
    };
    session.presence.interrupt(by, at);
    fx.decide(session, "H-10", saw, "interrupted");
}
