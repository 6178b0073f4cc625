//! Decides on a proof what is done next: end the living harness, place the resume, or nothing (S0-25 to S0-25f,
//! H-08, H-13, H-16 to H-18, H-33, H-34, H-36).

use alloc::format;

use coord_model::{
    Awake, Input, Moment, PaneState, ParentKind, Prompt, Proof, Screen, TranscriptState,
};

use super::guards::{Stop, launch};
use crate::records::{Obstacle, Pending, Session, State, Turn, Way};
use crate::subagent;

/// How long a shell may take to get its terminal back and paint its prompt, in milliseconds.
const SHELL_WITHIN_MS: u64 = 3_000;
/// Interval of the looks during that time, in milliseconds.
const SHELL_AGAIN_MS: u64 = 300;
/// First delay of the next look at an obstacle that only a person removes, in milliseconds. The delay grows up to
/// the maximum below: each look has a cost, and after a long wait the person is usually away.
const PERSON_AGAIN_MS: u64 = 20_000;
const PERSON_AGAIN_MAX_MS: u64 = 120_000;
/// How long a notice of an end stays valid after the grace period, in milliseconds. After that the user is
/// notified again.
const GRACE_KEPT_MS: u64 = 60_000;
/// How long an order by hand waits for the shell's prompt, in milliseconds. The order may have come from that very
/// shell.
const SHELL_BY_HAND_MS: u64 = 15_000;
/// Delay of the next check whether the machine has room, in milliseconds.
const ROOM_AGAIN_MS: u64 = 20_000;

/// Reason for a session that came to rest only a moment ago.
const JUST_IDLE: &str = "it has not been idle for long enough";

/// What a proof allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// End the living harness by SIGTERM (S0-25).
    End,
    /// Kill a harness that is proved hung and did not end on SIGTERM.
    Kill,
    /// Place the resume there.
    Place(Way),
    /// Notify the user first (H-06).
    Grace,
}

impl State {
    /// Judges a proof of a living harness at rest (H-08).
    pub(super) fn judge_living(
        &self,
        session: &Session,
        pending: &Pending,
        proof: &Proof,
        at: Moment,
    ) -> Result<Move, Stop> {
        let settings = &self.header.settings;
        let is_notified = self.is_notified_of_end(session, pending, proof, at)?;
        can_be_ended(self, session, proof, at)?;
        let is_prompt_shown = is_empty_prompt(&proof.pane);
        is_unoccupied(session, pending, proof, at)?;
        match proof.idle_since_ms {
            Some(since_ms) => {
                // If the clock was set back, an idle time that lies in the future is from before that change, and
                // so long enough ago.
                let was_set = self.header.clock_set_at.is_some();
                let is_past = |ms: &u64| *ms <= at.wall_ms || !was_set;
                let since_ms = Some(since_ms).filter(is_past);
                if let Some(until) = quiet_until(since_ms, settings.idle_quiet_ms, at) {
                    return Err(Stop::wait(Obstacle::JustIdle, JUST_IDLE, until));
                }
            }
            // Without a registry the screen shows an idle session. The last hook edge gives the age of that state
            // (H-53).
            None if pending.by_hand && is_prompt_shown => {
                if subagent::may_work(session) {
                    let why = "a subagent may work in the background";
                    return Err(for_person(session, Obstacle::Background, why, at));
                }
                let rested = session.edge_at.awake.plus_ms(settings.idle_quiet_ms);
                if at.awake < rested {
                    return Err(Stop::wait(Obstacle::JustIdle, JUST_IDLE, rested));
                }
            }
            None => {
                return Err(for_person(
                    session,
                    Obstacle::NotIdle,
                    "the client's registry does not report idle",
                    at,
                ));
            }
        }
        Ok(if is_notified { Move::End } else { Move::Grace })
    }

    /// H-54: whether the person who watches an opted-in session was notified that its living harness is going to
    /// be ended, and did not cancel that. An unattended session needs no notice, nor does one that a person asked
    /// for.
    pub(super) fn is_notified_of_end(
        &self,
        session: &Session,
        pending: &Pending,
        proof: &Proof,
        at: Moment,
    ) -> Result<bool, Stop> {
        if pending.by_hand || self.is_unattended(session) {
            return Ok(true);
        }
        let Some(began) = pending.graced_at.filter(|_| pending.is_graced) else { return Ok(false) };
        // tmux reports the time of keys in seconds.
        if proof.any_key_ms.is_some_and(|key_ms| began.wall_ms / 1_000 <= key_ms / 1_000) {
            return Err(Stop::close("H-54", "cancelled with a key"));
        }
        let was_set = self.header.clock_set_at.is_some_and(|set| began.awake <= set);
        let lasts_ms = self.header.settings.grace_ms.saturating_add(GRACE_KEPT_MS);
        Ok(!was_set && at.awake.ms_since(began.awake) <= lasts_ms)
    }

    /// Whether another living session came from this session's shell or has its pane. While that client is
    /// suspended, the shell is in the foreground.
    fn is_pane_of_another(&self, session: &Session) -> bool {
        let shell_of = |one: &Session| one.launch.as_ref().map(|launch| launch.parent.process);
        let shell = shell_of(session);
        let pane = session.proved_pane().map(|(pane, _)| (pane.socket, pane.pane));
        self.sessions().filter(|other| other.key != session.key && other.may_live()).any(|other| {
            let has_pane = |(socket, id): &(_, _)| {
                other.pane().is_some_and(|pane| pane.socket == *socket && pane.pane == *id)
            };
            (shell.is_some() && shell_of(other) == shell) || pane.as_ref().is_some_and(has_pane)
        })
    }

    /// Judges a proof of a dead harness.
    pub(super) fn judge_dead(
        &self,
        session: &Session,
        pending: &Pending,
        proof: &Proof,
        at: Moment,
    ) -> Result<Move, Stop> {
        if proof.is_alive {
            return Err(Stop::operator("G4", "the client was reported dead but is alive"));
        }
        let is_shown = proof.pane.signature().is_some_and(|name| !session.is_content(name));
        let has_signature = is_shown || session.has_own_signature();
        if !pending.is_ended_by_us() {
            self.comes_back(session, pending, has_signature)?;
        }
        can_resume(session, proof, at)?;
        if !proof.children.is_empty() {
            return Err(survivors(pending, proof, at));
        }
        let is_watched = !(pending.by_hand || self.is_unattended(session));
        let mut way = way(session, pending, proof, is_watched, at)?;
        if way == Way::Shell && self.is_pane_of_another(session) {
            if is_watched {
                return Err(Stop::operator("H-16", "another session's client is in the pane"));
            }
            way = Way::Window;
        }
        // A notice that was shown while the harness lived was about another act (H-54).
        let is_graced = pending.is_graced
            && pending
                .graced_at
                .is_none_or(|began| pending.died_at.is_none_or(|died| died.awake <= began.awake));
        if is_watched && !is_graced && !pending.is_ended_by_us() {
            return Ok(Move::Grace);
        }
        Ok(Move::Place(way))
    }
}

/// H-08: checks that the screen shows an empty prompt. A person who asks by hand may do so if only the registry
/// says idle, unless the turn of queued prompts may be about to begin: it says idle before that too.
fn is_unoccupied(
    session: &Session,
    pending: &Pending,
    proof: &Proof,
    at: Moment,
) -> Result<(), Stop> {
    let (obstacle, why) = match &proof.pane {
        pane if is_empty_prompt(pane) => return Ok(()),
        PaneState::Client { input: Input::Draft, .. } => {
            (Obstacle::Draft, "the input line holds a draft")
        }
        PaneState::Client { screen: Some(Screen::Prompt), .. }
        | PaneState::None
        | PaneState::Unreadable { .. }
            if pending.by_hand
                && proof.idle_since_ms.is_some()
                && !may_be_between_turns(session) =>
        {
            return Ok(());
        }
        PaneState::Client { .. } => {
            (Obstacle::NoPrompt, "the screen does not show an empty prompt")
        }
        PaneState::Other => (Obstacle::OtherInFront, "another program uses the terminal"),
        PaneState::None
        | PaneState::Unreadable { .. }
        | PaneState::NoServer
        | PaneState::Closed
        | PaneState::Dead
        | PaneState::Shell { .. } => (Obstacle::ScreenUnreadable, "the screen cannot be read"),
    };
    Err(for_person(session, obstacle, why, at))
}

/// Whether nothing but an idle client tells that its queued prompts were taken back. It may also hang before their turn.
fn may_be_between_turns(session: &Session) -> bool {
    matches!(*session.turn, Turn::Interrupted { had_queued: true, .. })
}

fn is_empty_prompt(pane: &PaneState) -> bool {
    matches!(pane, PaneState::Client { screen: Some(Screen::Prompt), input: Input::Empty, .. })
}

/// H-08: checks what forbids ending any living harness, whatever it does.
pub(super) fn can_be_ended(
    state: &State,
    session: &Session,
    proof: &Proof,
    at: Moment,
) -> Result<(), Stop> {
    if !proof.is_alive {
        return Err(Stop::until_event(Obstacle::Gone, "the client is already gone"));
    }
    can_resume(session, proof, at)?;
    let quiet_ms = state.header.settings.keys_quiet_ms;
    let datable_from = state.header.clock_set_at.map(|set| set.plus_ms(quiet_ms));
    if let Some(until) = datable_from.filter(|until| at.awake < *until) {
        let why = "the clock was set, so recent keys cannot be dated";
        return Err(Stop::wait(Obstacle::ClockSet, why, until));
    }
    if let Some(until) = quiet_until(proof.any_key_ms, quiet_ms, at) {
        return Err(Stop::wait(Obstacle::Keys, "somebody is at the terminal", until));
    }
    if !proof.children.is_empty() {
        return Err(for_person(
            session,
            Obstacle::Child,
            "a child of the client has the terminal",
            at,
        ));
    }
    Ok(())
}

/// H-13, H-36, H-11: checks what every resume needs.
fn can_resume(session: &Session, proof: &Proof, at: Moment) -> Result<(), Stop> {
    if let Some(other) = proof.owners.first() {
        let why = format!("process {} already holds the session", other.pid);
        return Err(Stop::operator("H-13", why));
    }
    if proof.is_task_stopped {
        return Err(for_person(session, Obstacle::TaskStopped, "the task was stopped", at));
    }
    launch(session)?;
    match proof.transcript {
        TranscriptState::Held => (),
        TranscriptState::Absent => {
            return Err(Stop::close("H-36", "nothing to resume: it has no transcript"));
        }
        TranscriptState::Empty => {
            return Err(Stop::close("H-36", "nothing to resume: its transcript has no turn"));
        }
        TranscriptState::Locked => {
            return Err(for_person(
                session,
                Obstacle::TranscriptLocked,
                "another process has locked the transcript",
                at,
            ));
        }
    }
    if !proof.has_cwd {
        return Err(Stop::operator("H-18", "its directory is gone or was replaced"));
    }
    if !proof.has_program {
        return Err(Stop::operator("H-18", "its program is gone"));
    }
    match &proof.want {
        Some(want) => Err(Stop::wait(Obstacle::Room, want, at.awake.plus_ms(ROOM_AGAIN_MS))),
        None => Ok(()),
    }
}

/// H-33: waits while processes of the dead harness's tools still run.
fn survivors(pending: &Pending, proof: &Proof, at: Moment) -> Stop {
    const PATIENCE_MS: u64 = 600_000;
    let n = proof.children.len();
    let why = format!("processes of its tools still run: {n}");
    let began = pending.died_at.map_or(at.awake, |died| died.awake);
    if PATIENCE_MS <= at.awake.ms_since(began) {
        return Stop::operator("H-33", why);
    }
    Stop::wait(Obstacle::Survivors, &why, at.awake.plus_ms(5_000))
}

/// Chooses where the resume is placed (S0-25e, H-18).
fn way(
    session: &Session,
    pending: &Pending,
    proof: &Proof,
    is_watched: bool,
    at: Moment,
) -> Result<Way, Stop> {
    // If typing is not proved safe, a new window harms nobody. If somebody watches, that person is notified
    // instead.
    let elsewhere = |why: &str| {
        if is_watched { Err(Stop::operator("H-18", why)) } else { Ok(Way::Window) }
    };
    match &proof.pane {
        PaneState::None => Err(Stop::operator("S0-25e", "the session had no tmux pane")),
        // The line is part of a tmux command wherever it is run.
        _ if !proof.is_line_plain => {
            let why = "the path of coordctl has special characters";
            Err(Stop::operator("H-18", why))
        }
        PaneState::Unreadable { why } => {
            let why = format!("the pane cannot be captured: {why}");
            Err(for_person(session, Obstacle::PaneUnreadable, &why, at))
        }
        PaneState::NoServer if pending.by_hand => Ok(Way::Window),
        PaneState::NoServer => Err(Stop::close("H-10", "its tmux server is gone")),
        PaneState::Closed if is_watched => Err(Stop::operator("S0-25e", "its pane is closed")),
        PaneState::Closed => Ok(Way::Window),
        // H-06: the person who watches the session cancelled the recovery with a key.
        PaneState::Dead if is_watched && key_since_death(session, proof) => {
            Err(Stop::operator("H-06", "a key was pressed after it died"))
        }
        PaneState::Dead => Ok(Way::Pane),
        PaneState::Client { .. } => Err(Stop::operator("H-16", "another client is in the pane")),
        PaneState::Other | PaneState::Shell { prompt: None, .. }
            if may_still_come(pending, at.awake) =>
        {
            let until = at.awake.plus_ms(SHELL_AGAIN_MS);
            let why = "the shell has not shown its prompt yet";
            Err(Stop::wait(Obstacle::NoShellPrompt, why, until))
        }
        PaneState::Other => elsewhere("another program is in front of the shell"),
        PaneState::Shell { has_typed: true, .. } => Err(typed_before(session, pending, at)),
        PaneState::Shell { prompt: None, .. } => {
            elsewhere("the shell line is not empty or its prompt is not recognized")
        }
        PaneState::Shell { prompt: Some(prompt), .. } => {
            shell(session, pending, proof, *prompt, at).map_or_else(
                |stop| if stop.is_final() { elsewhere(&stop.why) } else { Err(stop) },
                |()| Ok(Way::Shell),
            )
        }
    }
}

/// H-18: checks that the line may be typed into the shell.
fn shell(
    session: &Session,
    pending: &Pending,
    proof: &Proof,
    prompt: Prompt,
    at: Moment,
) -> Result<(), Stop> {
    let not = |why: &str| Err(Stop::operator("H-18", why));
    let launch = launch(session)?;
    if launch.parent.kind != ParentKind::Shell {
        return not("no shell in the pane started the client");
    }
    let first = session.proved_pane().map(|(_, proof)| proof.pane_pid);
    if first != Some(launch.parent.process.pid) {
        return not("the shell that started the client is not the pane's first process");
    }
    // A person who asks by hand has seen the shell since. An empty prompt, and no key for a while, are then
    // enough.
    if !pending.by_hand && key_since_death(session, proof) {
        return not("a key was pressed after it died");
    }
    if proof.is_synchronized {
        return Err(for_person(
            session,
            Obstacle::PaneSynchronized,
            "the pane is synchronized: other panes get the same input",
            at,
        ));
    }
    if proof.is_in_mode {
        return Err(for_person(session, Obstacle::PaneInMode, "the pane is in a tmux mode", at));
    }
    if pending.prompt.is_some_and(|first| first != prompt) {
        return not("the shell line changed after the death");
    }
    match quiet_until(proof.key_ms, 10_000, at) {
        Some(until) => {
            Err(Stop::wait(Obstacle::KeyInPane, "a key was pressed a moment ago", until))
        }
        None => Ok(()),
    }
}

/// Whether a key was pressed in the session's pane since the death. The death may have been noticed later than it
/// happened.
fn key_since_death(session: &Session, proof: &Proof) -> bool {
    let lived_until_s = session.owner.as_ref().map_or(0, |owner| owner.lived_until_ms) / 1_000;
    proof.key_ms.is_some_and(|key_ms| lived_until_s <= key_ms / 1_000)
}

/// H-34: coord's own line is in the shell's input, not claimed yet. Coord neither completes nor erases it.
fn typed_before(session: &Session, pending: &Pending, at: Moment) -> Stop {
    const PATIENCE_MS: u64 = 600_000;
    let why = "the resume line is in the shell, not sent";
    let waited_ms = at.awake.ms_since(pending.waits_since.awake);
    if PATIENCE_MS <= waited_ms && pending.obstacle == Some(Obstacle::TypedLine) {
        return Stop::operator("H-34", why);
    }
    for_person(session, Obstacle::TypedLine, why, at)
}

/// Waits for a person. The next look comes after as long as the recovery has waited for this obstacle already.
fn for_person(session: &Session, obstacle: Obstacle, why: &str, at: Moment) -> Stop {
    let pending = session.recovery.pending.as_ref();
    let same = pending.filter(|pending| pending.obstacle == Some(obstacle));
    let since = same.map_or(at, |pending| pending.waits_since);
    let waited_ms = at.awake.ms_since(since.awake);
    let again_ms = waited_ms.clamp(PERSON_AGAIN_MS, PERSON_AGAIN_MAX_MS);
    Stop::wait(obstacle, why, at.awake.plus_ms(again_ms))
}

fn may_still_come(pending: &Pending, awake: Awake) -> bool {
    let died = pending.died_at.map(|died| died.awake).unwrap_or_default();
    let within_ms = if pending.by_hand { SHELL_BY_HAND_MS } else { SHELL_WITHIN_MS };
    awake.ms_since(died) < within_ms
}

/// When `quiet_ms` have passed since `happened_ms`, wall time to the second; none if they have passed. A time in
/// the future counts as now.
fn quiet_until(happened_ms: Option<u64>, quiet_ms: u64, at: Moment) -> Option<Awake> {
    let age_ms = at.wall_ms.saturating_sub(happened_ms?);
    let left_ms = quiet_ms.saturating_add(1_000).checked_sub(age_ms).filter(|left| 0 < *left)?;
    Some(at.awake.plus_ms(left_ms))
}

impl Stop {
    fn is_final(&self) -> bool {
        !matches!(self.then, super::guards::Then::Wait(..))
    }
}
