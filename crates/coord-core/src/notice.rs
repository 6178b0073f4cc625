//! Decides when people are told of a need, through which channel, and when a notice is taken back (N-01 to N-04).
//!
//! Each channel has its own notices and does one thing at a time, so a channel that hangs delays no other one. What
//! is told is recorded before it is told. After a restart in between it is told once more, marked as a repeat.

use alloc::format;
use alloc::string::ToString as _;
use alloc::vec::Vec;

use coord_model::{
    Awake, ChannelClass, Effect, Event, Moment, NeedId, NoticeChannel, NoticeKind, SendAnswer,
    SessionKey, Tell, TellAct,
};

use crate::effects::Effects;
use crate::quiet::quiet_until;
use crate::records::{
    ChannelState, Failing, HeardNeed, NEVER, Need, Notice, NoticeStage, NoticeWait, Sending,
    Session, State, Window,
};

/// Notices of a channel within [`LATELY_MS`]; more are gathered in one.
const LATELY_MAX: u32 = 5;
/// Length of that time, milliseconds.
const LATELY_MS: u64 = 10_000;
const HOUR_MS: u64 = 3_600_000;
/// How long a look for a person may take, milliseconds. Nobody is kept uninformed because tmux hangs.
const LOOK_MS: u64 = 3_000;
/// How long a sender may live after the coordinator that started it, milliseconds.
const SENDER_MS: u64 = 12_000;
/// How long a notice waits for the look at the session's work, milliseconds.
const WORK_MS: u64 = 1_500;
/// How long another machine may need to take a need on, milliseconds.
const TAKEN_MS: u64 = 60_000;
/// Delay after a failed attempt, milliseconds; doubled after each further one.
const AGAIN_MS: u64 = 30_000;
/// Delay after which a channel looks again for somebody whom it can tell, milliseconds.
const NOBODY_MS: u64 = 60_000;
/// Longest delay after failed attempts.
const AGAIN_MAX_MS: u64 = 600_000;
/// Failures in a row after which a notice is not taken back any more: over an hour.
const WITHDRAWALS_MAX: u32 = 12;

impl State {
    /// A need began: it gets a notice on each channel that sends its kind.
    pub(crate) fn begin_notices(&mut self, need: &Need) {
        self.add_notices(need.id, NoticeKind::Need(need.kind), need.since);
    }

    /// Something happened that needs nobody.
    pub(crate) fn tell_news(&mut self, session: &mut Session, kind: NoticeKind, at: Moment) {
        let settings = &self.header.settings.notice;
        if settings.has_channel_for(kind) {
            let id = session.next_need();
            self.add_notices(id, kind, at);
        }
    }

    /// A need is over, or a person dismissed it: what was told is taken back, and what was not is not told.
    pub(crate) fn end_notices(&mut self, id: NeedId, how: &str) {
        let settings = &self.header.settings.notice;
        for (name, channel) in &mut self.header.notices.channels {
            let can_withdraw =
                settings.channels.iter().any(|one| one.name == *name && one.can_withdraw);
            let Some(notice) = channel.notices.get_mut(&id) else { continue };
            let is_under_way = notice.stage == NoticeStage::Sending;
            let may_stand = 0 < notice.count || notice.may_be_repeated;
            if is_under_way || may_stand && can_withdraw {
                notice.over = Some(how.to_string());
            } else {
                channel.notices.remove(&id);
            }
        }
    }

    /// Adapts the channels to the configuration. A channel learns of the needs that are open and that it did not tell
    /// before, and forgets what it is not to tell any more.
    pub(crate) fn follow_channels(&mut self, at: Moment) {
        let settings = &self.header.settings.notice;
        let mut before = core::mem::take(&mut self.header.notices.channels);
        for channel in &settings.channels {
            let mut state = before.remove(&channel.name).unwrap_or_default();
            // What failed may work now.
            (state.failures, state.not_before) = (0, None);
            state.notices.retain(|_, notice| {
                let stays = notice.over.is_some() || notice.stage == NoticeStage::Sending;
                stays || settings.sends(channel, notice.kind)
            });
            self.header.notices.channels.insert(channel.name.clone(), state);
        }
        let open = self.sessions().flat_map(|session| session.open_needs().cloned());
        let open: Vec<Need> = open.collect();
        for need in &open {
            self.begin_notices(need);
        }
        for (id, HeardNeed { need, .. }) in self.header.elsewhere.needs.clone() {
            let since = Moment { wall_ms: need.since_ms, ..at };
            self.add_notices(id, NoticeKind::Need(need.kind), since);
        }
    }

    /// The coordinator restarted: it is not known whether what was under way was told (N-03).
    pub(crate) fn resume_notices(&mut self, at: Moment) {
        for channel in self.header.notices.channels.values_mut() {
            channel.sending = None;
            for notice in channel.notices.values_mut() {
                let is_sending = notice.stage == NoticeStage::Sending;
                notice.may_be_repeated |= is_sending;
                let until = at.awake.plus_ms(if is_sending { SENDER_MS } else { 0 });
                if !matches!(notice.stage, NoticeStage::Waiting { .. }) {
                    notice.stage = NoticeStage::Waiting { until, because: NoticeWait::Sender };
                }
            }
        }
        self.judge_quiet_again(at);
        self.follow_channels(at);
    }

    /// The local clock changed, or the quiet hours did: what waits for their end is judged again.
    pub(crate) fn judge_quiet_again(&mut self, at: Moment) {
        self.end_waits(NoticeWait::Quiet, at);
    }

    /// What waits for this is judged again.
    pub(crate) fn end_waits(&mut self, wait: NoticeWait, at: Moment) {
        let channels = self.header.notices.channels.values_mut();
        for notice in channels.flat_map(|channel| channel.notices.values_mut()) {
            notice.end_wait(wait, at);
        }
    }

    /// Changes the notices of a need.
    pub(crate) fn each_notice(&mut self, id: NeedId, change: impl Fn(&mut Notice)) {
        let channels = self.header.notices.channels.values_mut();
        channels.filter_map(|channel| channel.notices.get_mut(&id)).for_each(change);
    }

    /// Nothing is told of the need any more, and what was told stands.
    pub(crate) fn forget_notices(&mut self, id: NeedId) {
        for channel in self.header.notices.channels.values_mut() {
            channel.notices.remove(&id);
        }
    }

    /// The look at a session's work was answered: its notices need not wait for that any longer.
    pub(crate) fn tell_of_work(&mut self, session: SessionKey) {
        let settings = &self.header.settings.notice;
        for channel in self.header.notices.channels.values_mut() {
            let notices = channel.notices.iter_mut().filter(|(id, _)| id.session == session);
            for (_, notice) in notices.filter(|(_, notice)| waits_for(notice, NoticeWait::Work)) {
                let until = notice.since.awake.plus_ms(settings.delay_ms(notice.kind));
                notice.stage = NoticeStage::Waiting { until, because: NoticeWait::Delay };
            }
        }
    }

    pub(crate) fn add_notices(&mut self, id: NeedId, kind: NoticeKind, since: Moment) {
        let settings = &self.header.settings.notice;
        let delayed_until = since.awake.plus_ms(settings.delay_ms(kind));
        let seen_by = since.awake.plus_ms(WORK_MS);
        let is_looking = self.get(id.session).is_some_and(|one| one.work.is_requested());
        let (until, because) = if delayed_until < seen_by && is_looking {
            (seen_by, NoticeWait::Work)
        } else {
            (delayed_until, NoticeWait::Delay)
        };
        for channel in settings.channels.iter().filter(|one| settings.sends(one, kind)) {
            let Some(state) = self.header.notices.channels.get_mut(&channel.name) else { continue };
            state.notices.entry(id).or_insert_with(|| Notice {
                kind,
                since,
                count: 0,
                told_at: None,
                handle: None,
                may_be_repeated: false,
                was_postponed: false,
                over: None,
                stage: NoticeStage::Waiting { until, because },
            });
        }
    }

    /// When the next notice is due.
    pub(crate) fn notice_deadline(&self) -> Option<Awake> {
        self.header.notices.channels.values().filter_map(channel_deadline).min()
    }

    /// Tells what is due.
    pub(crate) fn tell_due(&mut self, at: Moment, fx: &mut Effects) {
        if self.notice_deadline().is_none_or(|due| at.awake < due) {
            return;
        }
        let channels = self.header.settings.notice.channels.clone();
        for channel in &channels {
            let Some(mut state) = self.header.notices.channels.remove(&channel.name) else {
                continue;
            };
            if channel_deadline(&state).is_some_and(|due| due <= at.awake) {
                self.tell_through(channel, &mut state, at, fx);
            }
            self.header.notices.channels.insert(channel.name.clone(), state);
        }
    }

    fn tell_through(
        &self,
        channel: &NoticeChannel,
        state: &mut ChannelState,
        at: Moment,
        fx: &mut Effects,
    ) {
        // It ended while the attempt to tell it was under way, and that attempt failed.
        let may_stand = |notice: &Notice| 0 < notice.count || notice.may_be_repeated;
        state.notices.retain(|_, notice| notice.over.is_none() || may_stand(notice));
        let is_over = |notice: &Notice| {
            notice.over.is_some() && due_of(notice).is_some_and(|due| due <= at.awake)
        };
        let over = state.notices.iter().find(|(_, notice)| is_over(notice));
        if let Some((id, notice)) = over.map(|(id, notice)| (*id, notice.clone())) {
            return self.withdraw(channel, state, (id, notice), at, fx);
        }
        self.leave_elsewhere(channel, state, at, fx);
        self.hold_in_quiet_hours(channel, state, at, fx);
        self.look_for_person(channel, state, at, fx);
        let due = due_now(state, at.awake);
        let held = |wait| {
            due.iter().any(|id| state.notices.get(id).is_some_and(|one| waits_for(one, wait)))
        };
        let is_gathered = held(NoticeWait::Quiet) || held(NoticeWait::Rate);
        if due.is_empty() {
            return;
        }
        renew(&mut state.lately, LATELY_MS, at.awake);
        renew(&mut state.this_hour, HOUR_MS, at.awake);
        let room = LATELY_MAX.saturating_sub(state.lately.n);
        let is_many =
            1 < due.len() && (is_gathered || usize::try_from(room).unwrap_or(0) < due.len());
        let full_until = if channel.per_hour <= state.this_hour.n {
            Some(state.this_hour.since.plus_ms(HOUR_MS))
        } else if room == 0 || is_many && 0 < state.lately.n {
            Some(state.lately.since.plus_ms(LATELY_MS))
        } else {
            None
        };
        if let Some(until) = full_until {
            let why = "rate limit; the notices that wait are sent as one";
            self.postpone(channel, state, &due, (until, NoticeWait::Rate), why, fx);
        } else {
            state.lately.n = state.lately.n.saturating_add(1);
            state.this_hour.n = state.this_hour.n.saturating_add(1);
            let n = if is_many { due.len() } else { 1 };
            self.send(channel, state, due.into_iter().take(n).collect(), at, fx);
        }
    }

    /// While another machine tells of this one's needs, the channels here are silent about those that it has taken on. A
    /// need that it has not taken on after a while is told here: words get lost between machines (F-02).
    fn leave_elsewhere(
        &self,
        channel: &NoticeChannel,
        state: &mut ChannelState,
        at: Moment,
        fx: &mut Effects,
    ) {
        let Some(notifier) = &self.header.elsewhere.notifier else { return };
        let why = format!("{} tells of it", notifier.name);
        for id in due_now(state, at.awake) {
            let Some(notice) = state.notices.get(&id) else { continue };
            let until = if self.header.elsewhere.taken.contains(&id) {
                NEVER
            } else if id.is_elsewhere() || waits_for(notice, NoticeWait::Elsewhere) {
                continue;
            } else {
                at.awake.plus_ms(TAKEN_MS)
            };
            if matches!(notice.kind, NoticeKind::Need(_)) {
                self.postpone(channel, state, &[id], (until, NoticeWait::Elsewhere), &why, fx);
            }
        }
    }

    fn hold_in_quiet_hours(
        &self,
        channel: &NoticeChannel,
        state: &mut ChannelState,
        at: Moment,
        fx: &mut Effects,
    ) {
        let settings = &self.header.settings.notice;
        let Some(hours) = settings.quiet else { return };
        let Some(end_ms) = quiet_until(hours, &self.header.notices.local, at.wall_ms) else {
            return;
        };
        let until = at.awake.plus_ms(end_ms.saturating_sub(at.wall_ms).max(1));
        let is_held = |id: &NeedId| {
            let notice = state.notices.get(id);
            notice.is_some_and(|one| !settings.quiet_except.contains(&one.kind))
        };
        let held: Vec<NeedId> = due_now(state, at.awake).into_iter().filter(is_held).collect();
        let why = "quiet hours; the notice is sent when they end";
        self.postpone(channel, state, &held, (until, NoticeWait::Quiet), why, fx);
    }

    /// Begins the looks for a person, which desktop and push wait for (N-04). A look without an answer found nobody.
    fn look_for_person(
        &self,
        channel: &NoticeChannel,
        state: &mut ChannelState,
        at: Moment,
        fx: &mut Effects,
    ) {
        if channel.class == ChannelClass::Tmux {
            return;
        }
        for id in due_now(state, at.awake) {
            let Some(notice) = state.notices.get_mut(&id) else { continue };
            let is_asked = notice.was_postponed
                || matches!(notice.stage, NoticeStage::Looking { .. })
                || waits_for(notice, NoticeWait::NobodyThere)
                || waits_for(notice, NoticeWait::Rate);
            let pane = self.get(id.session).and_then(Session::proved_pane);
            if let Some((pane, _)) = pane.filter(|_| !is_asked) {
                notice.stage = NoticeStage::Looking { until: at.awake.plus_ms(LOOK_MS) };
                fx.ask(Effect::LookForPresence { need: id, pane });
            }
        }
    }

    /// A look for a person was answered: a desktop shows nothing to who is looking at the pane, a push waits once.
    fn on_presence(&mut self, id: NeedId, is_present: bool, at: Moment, fx: &mut Effects) {
        let settings = self.header.settings.notice.clone();
        for channel in &settings.channels {
            let Some(mut state) = self.header.notices.channels.remove(&channel.name) else {
                continue;
            };
            if let Some(notice) = state.notices.get_mut(&id)
                && matches!(notice.stage, NoticeStage::Looking { .. })
            {
                notice.stage = now(at, NoticeWait::NobodyThere);
                let (wait_ms, why) = match channel.class {
                    ChannelClass::Desktop => (
                        self.again_after_ms(1),
                        "the pane is visible on a terminal in use; no desktop notice",
                    ),
                    ChannelClass::Push | ChannelClass::Tmux => (
                        settings.present_ms,
                        "the pane is visible on a terminal in use; the notice waits",
                    ),
                };
                if is_present {
                    notice.was_postponed = channel.class == ChannelClass::Push;
                    let until = at.awake.plus_ms(wait_ms);
                    let wait = (until, NoticeWait::Presence);
                    self.postpone(channel, &mut state, &[id], wait, why, fx);
                }
            }
            self.header.notices.channels.insert(channel.name.clone(), state);
        }
    }

    fn postpone(
        &self,
        channel: &NoticeChannel,
        state: &mut ChannelState,
        ids: &[NeedId],
        (until, because): (Awake, NoticeWait),
        why: &str,
        fx: &mut Effects,
    ) {
        for id in ids {
            let Some(notice) = state.notices.get_mut(id) else { continue };
            let is_known = waits_for(notice, because);
            notice.stage = NoticeStage::Waiting { until, because };
            if !is_known {
                self.decide_notice(
                    *id,
                    why,
                    &format!("postpone the notice on {}", channel.name),
                    fx,
                );
            }
        }
    }

    fn send(
        &self,
        channel: &NoticeChannel,
        state: &mut ChannelState,
        ids: Vec<NeedId>,
        at: Moment,
        fx: &mut Effects,
    ) {
        let n = ids.len();
        let mut one = None;
        for id in &ids {
            let Some(notice) = state.notices.get_mut(id) else { continue };
            notice.stage = NoticeStage::Sending;
            one = Some(TellAct::One {
                id: *id,
                kind: notice.kind,
                since_ms: notice.since.wall_ms,
                repeat: notice.count,
                may_be_repeated: notice.may_be_repeated,
                handle: notice.handle.clone(),
            });
            let seconds = at.awake.ms_since(notice.since.awake) / 1000;
            let saw = match (n, notice.count) {
                (1, 0) => format!("open for {seconds} s"),
                (1, _) => format!("still open, for {seconds} s"),
                (_, _) => format!("open for {seconds} s, like {} others", n.saturating_sub(1)),
            };
            self.decide_notice(*id, &saw, &format!("send a notice through {}", channel.name), fx);
        }
        let act = match one {
            Some(one) if n == 1 => one,
            Some(_) => TellAct::Digest { ids: ids.clone() },
            None => return,
        };
        ask(channel, state, (act, ids), at, fx);
    }

    fn withdraw(
        &self,
        channel: &NoticeChannel,
        state: &mut ChannelState,
        (id, notice): (NeedId, Notice),
        at: Moment,
        fx: &mut Effects,
    ) {
        if let Some(kept) = state.notices.get_mut(&id) {
            kept.stage = NoticeStage::Sending;
        }
        let how = notice.over.unwrap_or_default();
        self.decide_notice(id, &how, &format!("withdraw the notice from {}", channel.name), fx);
        let Notice { kind, handle, .. } = notice;
        let act = TellAct::Withdraw { id, kind, how, handle };
        ask(channel, state, (act, Vec::from([id])), at, fx);
    }

    /// Applies what a channel answered, or what notices depend on.
    pub(crate) fn on_notice_event(&mut self, event: &Event, at: Moment, fx: &mut Effects) {
        if let Event::NoticeSent { channel, number, answer, .. } = event {
            self.on_notice_sent(channel, *number, answer, at);
        } else if let Event::PresenceSeen { need, is_present } = event {
            self.on_presence(*need, *is_present, at, fx);
        } else if let Event::LocalClock { offsets } = event {
            self.header.notices.local.clone_from(offsets);
            self.judge_quiet_again(at);
        }
    }

    /// A channel answered (N-03).
    fn on_notice_sent(&mut self, name: &str, number: u64, answer: &SendAnswer, at: Moment) {
        let Some(mut state) = self.header.notices.channels.remove(name) else { return };
        if let Some(sending) = state.sending.take_if(|one| one.number == number) {
            self.note_answer(&mut state, &sending, answer, at);
        }
        self.header.notices.channels.insert(name.to_string(), state);
    }

    fn note_answer(
        &self,
        state: &mut ChannelState,
        sending: &Sending,
        answer: &SendAnswer,
        at: Moment,
    ) {
        if answer.is_sent {
            (state.failures, state.failing, state.not_before) = (0, None, None);
        } else if answer.is_nobody_there {
            state.failing = None;
            state.not_before = Some(at.awake.plus_ms(NOBODY_MS));
        } else {
            state.failures = state.failures.saturating_add(1);
            let since = state.failing.as_ref().map_or(at, |failing| failing.since);
            let (reason, is_refused) = (answer.saying.clone(), answer.is_refused);
            state.failing = Some(Failing { since, reason, is_refused });
            let doubled = AGAIN_MS.saturating_mul(1 << state.failures.saturating_sub(1).min(8));
            let delay_ms = if answer.is_refused { 0 } else { doubled.min(AGAIN_MAX_MS) };
            let delay_ms = delay_ms.max(answer.retry_after_ms.unwrap_or(0));
            state.not_before = (0 < delay_ms).then(|| at.awake.plus_ms(delay_ms));
        }
        if let Some(after_ms) = answer.retry_after_ms {
            state.not_before = Some(at.awake.plus_ms(after_ms));
        }
        for id in &sending.ids {
            let Some(mut notice) = state.notices.remove(id) else { continue };
            if self.note_answer_of(&mut notice, sending, answer, (at, state.failures)) {
                state.notices.insert(*id, notice);
            }
        }
    }

    /// Whether something is still to be done for the notice.
    fn note_answer_of(
        &self,
        notice: &mut Notice,
        sending: &Sending,
        answer: &SendAnswer,
        (at, failures): (Moment, u32),
    ) -> bool {
        if sending.is_withdrawal {
            notice.stage = now(at, NoticeWait::Failure);
            let is_done = answer.is_sent || answer.is_refused;
            return !is_done && failures < WITHDRAWALS_MAX;
        }
        if answer.is_sent {
            notice.count = notice.count.saturating_add(1);
            notice.told_at = Some(at);
            notice.may_be_repeated = false;
            if answer.handle.is_some() {
                notice.handle.clone_from(&answer.handle);
            }
        }
        let is_need = matches!(notice.kind, NoticeKind::Need(_));
        if answer.is_sent || answer.is_refused {
            let until = at.awake.plus_ms(self.again_after_ms(notice.count.max(1)));
            notice.stage = NoticeStage::Waiting { until, because: NoticeWait::Repeat };
            return is_need;
        }
        notice.stage = now(at, NoticeWait::Failure);
        true
    }

    /// How long after the `n`th time an open need is told again.
    pub(crate) fn again_after_ms(&self, n: u32) -> u64 {
        let settings = &self.header.settings.notice;
        let doubled = settings.again_ms.saturating_mul(1 << n.saturating_sub(1).min(16));
        doubled.min(settings.again_max_ms)
    }

    fn decide_notice(&self, id: NeedId, saw: &str, did: &str, fx: &mut Effects) {
        let session_id = self.get(id.session).map(|one| one.session_id.clone());
        let session_id = session_id.or_else(|| self.header.elsewhere.name(id)).unwrap_or_default();
        fx.decide_notice(session_id, id, saw, did);
    }
}

fn ask(
    channel: &NoticeChannel,
    state: &mut ChannelState,
    (act, ids): (TellAct, Vec<NeedId>),
    at: Moment,
    fx: &mut Effects,
) {
    state.last_number = state.last_number.saturating_add(1);
    let number = state.last_number;
    let is_withdrawal = matches!(act, TellAct::Withdraw { .. });
    state.sending = Some(Sending { number, since: at, ids, is_withdrawal });
    fx.ask(Effect::Tell(Tell { channel: channel.name.clone(), number, act }.into()));
}

fn now(at: Moment, because: NoticeWait) -> NoticeStage {
    NoticeStage::Waiting { until: at.awake, because }
}

fn waits_for(notice: &Notice, wait: NoticeWait) -> bool {
    matches!(notice.stage, NoticeStage::Waiting { because, .. } if because == wait)
}

/// When a notice has to be told, or taken back, as far as it depends on itself.
fn due_of(notice: &Notice) -> Option<Awake> {
    match notice.stage {
        NoticeStage::Sending => None,
        // A sender of the former coordinator may still tell it.
        NoticeStage::Waiting { until, because: NoticeWait::Sender } => Some(until),
        NoticeStage::Waiting { .. } | NoticeStage::Looking { .. } if notice.over.is_some() => {
            Some(Awake::default())
        }
        NoticeStage::Waiting { until, .. } | NoticeStage::Looking { until } => Some(until),
    }
}

fn channel_deadline(channel: &ChannelState) -> Option<Awake> {
    if channel.sending.is_some() {
        return None;
    }
    let first = channel.notices.values().filter_map(due_of).min()?;
    Some(first.max(channel.not_before.unwrap_or_default()))
}

/// The notices that are due, those of the oldest needs first.
fn due_now(state: &ChannelState, now: Awake) -> Vec<NeedId> {
    let is_due = |notice: &Notice| due_of(notice).is_some_and(|due| due <= now);
    let due = state.notices.iter().filter(|(_, notice)| is_due(notice));
    let mut due: Vec<(Moment, NeedId)> = due.map(|(id, notice)| (notice.since, *id)).collect();
    due.sort_unstable();
    due.into_iter().map(|(_, id)| id).collect()
}

/// Begins a new count if the window is over.
fn renew(window: &mut Window, length_ms: u64, now: Awake) {
    if window.n == 0 || window.since.plus_ms(length_ms) <= now {
        *window = Window { since: now, n: 0 };
    }
}
