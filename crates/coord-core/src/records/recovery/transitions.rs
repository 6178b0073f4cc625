//! What changes a session's recoveries: one method for each thing that can happen to them. Decides nothing.

use alloc::borrow::ToOwned;
use alloc::string::String;

use coord_model::{Awake, Moment, ProcessRef, Prompt, Signal};

use super::{Cause, Ending, Flag, Last, Pending, Recovery, Stage, Still, Way};
use crate::records::hold::Hold;
use crate::records::obstacle::Obstacle;
use crate::records::protected::Protected;

/// How a recovery begins and ends.
impl Protected<Recovery> {
    /// A recovery becomes pending. The transcript that an earlier look locked is released under its own session id
    /// (H-13).
    pub(crate) fn open(&mut self, mut pending: Pending) {
        if let Some(before) = self.0.pending.take() {
            pending.session_id = before.session_id;
        }
        self.0.pending = Some(pending);
    }

    /// A person asked for a recovery: what held earlier ones back is over.
    pub(crate) fn open_on_request(&mut self, pending: Pending) {
        self.0.needs_operator = None;
        self.0.cooldown = None;
        self.open(pending);
    }

    /// The death of this harness is a case. A pending recovery that touches nothing takes it over.
    pub(crate) fn judge_death(&mut self, process: ProcessRef, died: Moment, at: Moment) {
        self.0.judged = Some(process);
        let Some(pending) = &mut self.0.pending else { return };
        if !pending.is_under_way() {
            pending.died_at = Some(died);
            pending.cause = if pending.by_hand { pending.cause } else { Cause::Death };
            pending.stage = Stage::Waiting { until: at.awake };
        }
    }

    /// A detection came too soon after an attempt (S0-14).
    pub(crate) fn drop_detection(&mut self) {
        self.0.dropped = self.0.dropped.saturating_add(1);
    }

    /// The pending recovery is over. Its bookkeeping stays (S0-31).
    pub(crate) fn close(&mut self, ending: Ending, at: Moment) {
        self.0.pending = None;
        self.0.last = Some(Last { at, outcome: ending });
    }

    /// The resumed session proved itself (H-33).
    pub(crate) fn verify(&mut self, cooldown: Hold, at: Moment) {
        self.0.budget.succeeded();
        self.0.verified_at = Some(at.awake);
        self.0.needs_operator = None;
        self.0.cooldown = Some(cooldown);
    }

    /// An attempt failed. The recovery stays pending. If `harness` is another one, the resumed client died, and coord
    /// did not end it (H-06).
    pub(crate) fn fail(&mut self, why: &str, harness: Option<ProcessRef>, at: Moment) {
        self.0.budget.failed(at.awake);
        self.0.last = Some(Last { at, outcome: Ending::Failed { why: why.into() } });
        let Some(pending) = &mut self.0.pending else { return };
        if let Some(harness) = harness.filter(|harness| *harness != pending.harness) {
            pending.harness = harness;
            pending.died_at = Some(at);
            pending.ended_by_us = false;
            pending.still = None;
        }
        pending.begun = None;
        pending.changes = 0;
        pending.prompt = None;
        pending.stage = Stage::Waiting { until: at.awake };
    }

    /// The conversation of this dead harness continued elsewhere (H-42).
    pub(crate) fn pass_on(&mut self, harness: Option<ProcessRef>) {
        self.0.passed_on = harness;
    }

    /// Whether the conversation with this id was found empty (H-36).
    pub(crate) fn note_conversation(&mut self, session_id: &str, is_empty: bool) {
        self.0.nothing_left = is_empty.then(|| session_id.to_owned());
    }

    /// Another process holds the session: what was found of the conversation was of the one before.
    pub(crate) fn change_owner(&mut self) {
        self.0.nothing_left = None;
    }

    /// The machine was rebooted: what was in progress ended with the harness.
    pub(crate) fn begin_boot(&mut self, at: Moment) {
        self.0.cooldown = None;
        self.0.verified_at = None;
        if self.0.pending.is_some() {
            let why = "the machine was restarted".into();
            self.close(Ending::Closed { why }, at);
        }
    }

    /// A new coordinator started: the looks that the previous one requested are not answered any more.
    pub(crate) fn forget_looks(&mut self, at: Moment) {
        let Some(pending) = &mut self.0.pending else { return };
        match &mut pending.stage {
            Stage::Proving { .. } => pending.stage = Stage::Waiting { until: at.awake },
            Stage::Claimed { asked, .. } | Stage::Started { asked, is_sole: false, .. } => {
                *asked = None;
            }
            Stage::Waiting { .. }
            | Stage::Grace { .. }
            | Stage::Ending { .. }
            | Stage::Placing { .. }
            | Stage::Started { .. } => (),
        }
    }
}

/// What limits it, and who has to look.
impl Protected<Recovery> {
    /// A person has to look (G5, H-35).
    pub(crate) fn raise_flag(&mut self, flag: Flag) {
        self.0.needs_operator = Some(flag);
    }

    /// A limit on repeated acts led to the flag.
    pub(crate) fn mark_flag_as_limit(&mut self) {
        if let Some(flag) = &mut self.0.needs_operator {
            flag.is_limit = true;
        }
    }

    /// The session works for its user again (H-35).
    pub(crate) fn lift_flag(&mut self) {
        self.0.needs_operator = None;
    }

    /// A person resets what failed. Returns whether a person had to look.
    pub(crate) fn reset(&mut self) -> bool {
        self.0.budget.reset();
        if let Some(pending) = &mut self.0.pending {
            pending.begun = None;
        }
        self.0.cooldown = None;
        self.0.needs_operator.take().is_some()
    }

    /// A prompt of the user's opened a turn. The limits per turn start again (G5), and an attempt is over if its
    /// living harness outlived it.
    pub(crate) fn begin_turn(&mut self) {
        self.0.budget.next_turn();
        if let Some(pending) = self.0.pending.as_mut().filter(|pending| !pending.is_under_way()) {
            pending.begun = None;
        }
    }

    /// The task signalled a new iteration (S1-16).
    pub(crate) fn begin_iteration(&mut self) {
        self.0.budget.next_turn();
    }

    /// A prompt may be lost, because coord ended the client meanwhile (H-53).
    pub(crate) fn count_harm(&mut self) {
        self.0.harmed_prompts = self.0.harmed_prompts.saturating_add(1);
    }
}

/// What the pending recovery waits for. Without one, nothing changes.
impl Protected<Recovery> {
    /// It waits. Returns whether the obstacle or its words are news.
    pub(crate) fn wait(&mut self, obstacle: Obstacle, why: &str, until: Awake, at: Moment) -> bool {
        let Some(pending) = &mut self.0.pending else { return false };
        pending.stage = Stage::Waiting { until };
        let is_new = pending.obstacle != Some(obstacle);
        if is_new {
            pending.obstacle = Some(obstacle);
            pending.waits_since = at;
            pending.is_notified = false;
        }
        let is_news = is_new || pending.waits_for != why;
        if is_news {
            pending.waits_for = why.into();
        }
        is_news
    }

    /// The step in progress waits for a person, and goes on by itself then.
    pub(crate) fn wait_in_step(&mut self, obstacle: Obstacle, why: &str, at: Moment) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.obstacle = Some(obstacle);
        pending.waits_for = why.into();
        pending.waits_since = at;
    }

    /// Its user was told that it waits (H-35).
    pub(crate) fn note_notified(&mut self) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.is_notified = true;
    }

    /// Its user was told, and can cancel it (H-06).
    pub(crate) fn begin_grace(&mut self, until: Awake, why: &str, at: Moment) {
        self.wait_in_step(Obstacle::Grace, why, at);
        let Some(pending) = &mut self.0.pending else { return };
        pending.stage = Stage::Grace { until };
        pending.is_graced = false;
        pending.graced_at = Some(at);
    }

    /// Its user had the time to cancel it.
    pub(crate) fn end_grace(&mut self) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.is_graced = true;
    }

    /// An act was not performed because something had changed. Returns how often in a row that happened before.
    pub(crate) fn count_change(&mut self) -> u32 {
        let Some(pending) = &mut self.0.pending else { return 0 };
        let before = pending.changes;
        pending.changes = before.saturating_add(1);
        before
    }
}

/// What was seen by its looks. Without a pending recovery, nothing changes.
impl Protected<Recovery> {
    /// A look was requested, for this session id. Returns the id that the last one was for.
    pub(crate) fn begin_look(
        &mut self,
        number: u64,
        session_id: &str,
        lives: bool,
        at: Moment,
    ) -> Option<String> {
        let pending = self.0.pending.as_mut()?;
        pending.stage = Stage::Proving { number, since: at.awake, lives };
        Some(core::mem::replace(&mut pending.session_id, session_id.into()))
    }

    /// A look at the client that was resumed was requested.
    pub(crate) fn begin_look_at_resumed(&mut self, number: u64) {
        let Some(pending) = &mut self.0.pending else { return };
        if let Stage::Claimed { asked, .. } | Stage::Started { asked, .. } = &mut pending.stage {
            *asked = Some(number);
        }
    }

    /// The shell showed a prompt. The first one after the death counts (H-18).
    pub(crate) fn note_prompt(&mut self, prompt: Prompt) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.prompt.get_or_insert(prompt);
    }

    /// What was last seen of the main thread of the living harness. If a case is withdrawn after SIGTERM, its attempt is
    /// over: the next one is charged again (G5).
    pub(crate) fn note_still(&mut self, still: Option<Still>) {
        let Some(pending) = &mut self.0.pending else { return };
        let is_asked =
            |still: &Option<Still>| still.as_ref().is_some_and(|one| one.asked_at.is_some());
        if is_asked(&pending.still) && !is_asked(&still) {
            pending.begun = None;
        }
        pending.still = still;
    }

    /// The harness is dead: that it did nothing is no evidence any more.
    pub(crate) fn forget_still(&mut self) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.still = None;
    }

    /// The harness showed life after SIGTERM. The attempt is over: the next one is charged again.
    pub(crate) fn withdraw_still(&mut self) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.still = None;
        pending.begun = None;
    }

    /// The hung harness did not end on SIGTERM.
    pub(crate) fn note_outlived(&mut self, at: Moment) {
        let Some(pending) = &mut self.0.pending else { return };
        if let Some(still) = &mut pending.still {
            still.asked_at = Some(at.awake);
        }
    }
}

/// The steps that touch the world. Without a pending recovery, nothing changes.
impl Protected<Recovery> {
    /// Such a step begins. The first one of an attempt is charged; for a later one, returns when the last began.
    pub(crate) fn begin_step(&mut self, at: Moment) -> Option<Awake> {
        let pending = self.0.pending.as_mut()?;
        pending.obstacle = None;
        pending.waits_for.clear();
        let before = pending.begun.replace(at.awake);
        if before.is_none() {
            pending.attempts = pending.attempts.saturating_add(1);
            self.0.budget.charge(at.awake);
        }
        before
    }

    /// The living harness is to be sent this signal. Returns whether it hangs.
    pub(crate) fn begin_end(&mut self, number: u64, signal: Signal, at: Moment) -> bool {
        let Some(pending) = &mut self.0.pending else { return false };
        pending.stage = Stage::Ending { number, since: at.awake, signal };
        pending.prompt_ms = None;
        let is_hung = pending.still.is_some();
        pending.was_working |= is_hung;
        is_hung
    }

    /// The signal was sent.
    pub(crate) fn note_signalled(&mut self) {
        let Some(pending) = &mut self.0.pending else { return };
        if matches!(pending.stage, Stage::Ending { .. }) {
            pending.ended_by_us = true;
        }
    }

    /// The harness that was to be signalled is dead, and it is known whether it crashed before.
    pub(crate) fn note_ended(&mut self, has_crashed: bool, at: Moment) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.ended_by_us |= !has_crashed;
        pending.died_at = Some(at);
        pending.stage = Stage::Waiting { until: at.awake };
    }

    /// A prompt was entered after coord had decided to end the harness (H-53).
    pub(crate) fn note_late_prompt(&mut self, wall_ms: u64) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.prompt_ms = Some(wall_ms);
    }

    /// The harness outlived the signal, and its user continues with it. Its next end is not coord's doing.
    pub(crate) fn outlive_signal(&mut self) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.ended_by_us = false;
    }

    /// The line that resumes this session id is placed.
    pub(crate) fn place(
        &mut self,
        number: u64,
        session_id: &str,
        nonce: &str,
        way: Way,
        at: Moment,
    ) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.typed = (way == Way::Shell).then(|| nonce.to_owned());
        pending.session_id = session_id.into();
        pending.stage = Stage::Placing { number, since: at.awake, nonce: nonce.into(), way };
    }

    /// A process claimed the line and becomes the client.
    pub(crate) fn claim(&mut self, process: ProcessRef, at: Moment) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.stage = Stage::Claimed { process, since: at.awake, asked: None };
        pending.typed = None;
        pending.claimed = Some(process);
        pending.is_start_heard = false;
    }

    /// An unproved SessionStart named the process that claimed the line (H-44).
    pub(crate) fn note_start_heard(&mut self) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.is_start_heard = true;
    }

    /// The client reported its start.
    pub(crate) fn start(&mut self, process: ProcessRef, at: Moment) {
        let Some(pending) = &mut self.0.pending else { return };
        pending.stage = Stage::Started { process, since: at.awake, asked: None, is_sole: false };
    }

    /// A look found no other owner (H-13).
    pub(crate) fn note_sole(&mut self) {
        let Some(pending) = &mut self.0.pending else { return };
        if let Stage::Started { is_sole, .. } = &mut pending.stage {
            *is_sole = true;
        }
    }
}
