//! Carries out what the core decided to tell people: gives each notice its words and its channel, once the decision
//! is durable, and records what became of it (N-03). Keeps what tmux's status lines show up to date (N-07).

use std::collections::{BTreeMap, BTreeSet};

use coord_config::{ChannelWay, Detail};
use coord_core::Session;
use coord_host::notices::Told;
use coord_model::{Event, NeedId, Now, QuietHours, SendAnswer, Tell, TellAct, TmuxPane};
use coord_view::notice::{self, Words};
use coord_wire::notice::{Channel, PaneState, SendAct, SendRequest, TmuxState};

use crate::coordinator::Coordinator;
use crate::world::World;

/// How long a sender may take, milliseconds.
const WITHIN_MS: u64 = 10_000;
/// How long what a status line shows is true, in seconds: a coordinator that is gone renews it no more.
const TRUE_FOR_S: u64 = 150;
/// When it is renewed, and when it is shown after a change of a need and of a state, in nanoseconds.
const RENEW_NS: u64 = 60_000_000_000;
const NEED_SHOWN_NS: u64 = 1_000_000_000;
const STATE_SHOWN_NS: u64 = 10_000_000_000;
/// Time between two looks at the local clock, in nanoseconds.
const CLOCK_NS: u64 = 3_600_000_000_000;

/// What each pane shows, by the server's socket and the pane.
type Panes = BTreeMap<(String, String), PaneShown>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct PaneShown {
    state: String,
    /// The kind of the oldest need.
    attention: Option<String>,
}

/// What the status lines show, and when the local clock was read.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    text: String,
    panes: Panes,
    at_ns: u64,
    /// When it was last compared with the sessions, and the number of the newest record then.
    compared_ns: u64,
    seq: u64,
    /// Whether a state has changed that is not shown yet.
    is_behind: bool,
    /// Whether a sender is at work.
    is_under_way: bool,
    clock_read_ns: Option<u64>,
    quiet: Option<QuietHours>,
    /// Notices that were sent since the start, and those that were not.
    pub(crate) sent: u64,
    pub(crate) failed: u64,
}

impl<W: World> Coordinator<W> {
    /// Queues a request to a channel until the disk has its decision.
    pub(crate) fn tell_later(&mut self, tell: Tell) {
        let decided = self.engine.journal().next_seq().saturating_sub(1);
        self.tells.push_back((decided, tell));
    }

    /// Sends the notices whose decisions are durable.
    pub(crate) fn tell_synced(&mut self, now: Now) {
        let synced = self.engine.journal().synced_through();
        while self.tells.front().is_some_and(|(decided, _)| *decided <= synced) {
            if let Some((_, tell)) = self.tells.pop_front() {
                self.tell(tell, now);
            }
        }
    }

    fn tell(&mut self, tell: Tell, now: Now) {
        let Words { mut notice, line } = self.words(&tell.act, now);
        let handle = match &tell.act {
            TellAct::One { handle, .. } | TellAct::Withdraw { handle, .. } => handle.clone(),
            TellAct::Digest { .. } => None,
        };
        let what = (line.clone(), ids_of(&tell.act));
        let number = tell.number;
        let Some(channel) = self.channel(&tell.channel) else {
            let why = "the channel is not in the configuration any more";
            let answer = SendAnswer { is_refused: true, ..SendAnswer::failed(why) };
            return self.record_sent(tell.channel, number, (answer, what), now);
        };
        self.telling.insert((tell.channel.clone(), number), what);
        if let Some(input) = self.input_to_tell(&tell) {
            notice.text = format!("{}: {input}", notice.text);
        }
        let act = SendAct::Tell { notice: Box::new(notice), line, handle };
        let request = SendRequest { channel, act, within_ms: WITHIN_MS };
        self.world.send_notice(tell.channel, Some(number), request);
    }

    /// The exact input of a permission request, where the channel is to tell it and a hook waits with it (N-05).
    fn input_to_tell(&self, tell: &Tell) -> Option<String> {
        let TellAct::One { id, .. } = &tell.act else { return None };
        let channels = self.config.channels();
        let channel = channels.iter().find(|one| one.name == tell.channel)?;
        let session = self.engine.state().session(id.session)?;
        let need = session.needs.iter().find(|need| need.id == *id)?;
        let input = self.input_of(need.request?)?;
        (channel.detail == Detail::Input).then(|| notice::input(input))
    }

    fn words(&self, act: &TellAct, now: Now) -> Words {
        let state = self.engine.state();
        notice::words(act, notice::From { state, host: &self.here.host, home: &self.home, now })
    }

    /// Handles what a sender or a look for a person found.
    pub(crate) fn on_told(&mut self, told: Told, now: Now) {
        match told {
            Told::Presence { need, is_present } => {
                self.record_or_owe(Event::PresenceSeen { need, is_present }, now);
            }
            Told::Answered { channel, number: Some(number), answer } => {
                let key = (channel.clone(), number);
                let what = self.telling.remove(&key).unwrap_or_default();
                self.record_sent(channel, number, (answer, what), now);
            }
            Told::Answered { number: None, answer, .. } => {
                self.shown.is_under_way = false;
                if !answer.is_sent {
                    // It is shown again at the next renewal.
                    self.shown.panes.clear();
                }
            }
        }
    }

    fn record_sent(
        &mut self,
        channel: String,
        number: u64,
        (answer, (what, needs)): (SendAnswer, (String, Vec<NeedId>)),
        now: Now,
    ) {
        if !answer.is_nobody_there {
            let shown = &mut self.shown;
            let count = if answer.is_sent { &mut shown.sent } else { &mut shown.failed };
            *count = count.saturating_add(1);
        }
        self.record_or_owe(Event::NoticeSent { channel, number, answer, what, needs }, now);
    }

    /// A channel of the configuration, as its sender needs it.
    fn channel(&self, name: &str) -> Option<Channel> {
        let channels = self.config.channels();
        channels.iter().find(|one| one.name == name).map(|one| one.channel(self.sockets()))
    }

    /// The tmux servers of the known sessions. The world leaves out those that may not be used.
    fn sockets(&self) -> Vec<String> {
        let panes = self.engine.state().sessions().filter_map(Session::pane);
        let sockets: BTreeSet<&String> = panes.map(|pane| &pane.socket).collect();
        sockets.into_iter().cloned().collect()
    }

    /// Records the local clock's distance from UTC if quiet hours need it and it may have changed.
    pub(crate) fn read_local_clock(&mut self, now: Now) {
        let quiet = self.engine.state().header().settings.notice.quiet;
        let is_old = self
            .shown
            .clock_read_ns
            .is_none_or(|read| CLOCK_NS <= now.mono_ns.saturating_sub(read));
        if quiet.is_none() || (!is_old && self.shown.quiet == quiet) {
            return;
        }
        (self.shown.clock_read_ns, self.shown.quiet) = (Some(now.mono_ns), quiet);
        let offsets = self.world.local_offsets(now.wall_ms);
        if self.engine.state().header().notices.local != offsets {
            self.record_or_owe(Event::LocalClock { offsets }, now);
        }
    }

    /// When the status lines have to be compared with the sessions, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) fn show_at(&self) -> Option<u64> {
        let shown = &self.shown;
        let at_ns = if shown.seq != self.newest() {
            shown.compared_ns.saturating_add(NEED_SHOWN_NS)
        } else if shown.is_behind {
            shown.at_ns.saturating_add(STATE_SHOWN_NS)
        } else {
            shown.at_ns.saturating_add(RENEW_NS)
        };
        (!shown.is_under_way).then_some(at_ns)
    }

    fn newest(&self) -> u64 {
        self.engine.journal().next_seq().saturating_sub(1)
    }

    fn shows_state(&self) -> bool {
        let channels = self.config.channels();
        let has_tmux = channels.iter().any(|one| matches!(one.way, ChannelWay::Tmux { .. }));
        has_tmux && self.engine.state().sessions().any(|session| session.pane().is_some())
    }

    /// Shows in the status lines what has changed: needs within a second, states within ten.
    pub(crate) fn show_state(&mut self, now: Now) {
        if self.show_at().is_none_or(|at| now.mono_ns < at) {
            return;
        }
        let since_ns = now.mono_ns.saturating_sub(self.shown.at_ns);
        (self.shown.compared_ns, self.shown.seq) = (now.mono_ns, self.newest());
        if !self.shows_state() {
            self.shown.at_ns = now.mono_ns;
            return;
        }
        let (text, panes) = self.state_to_show();
        let needs = |panes: &Panes| -> Vec<_> {
            let kinds = panes.iter().map(|(pane, shown)| (pane.clone(), shown.attention.clone()));
            kinds.filter(|(_, kind)| kind.is_some()).collect()
        };
        let is_urgent = text != self.shown.text || needs(&panes) != needs(&self.shown.panes);
        self.shown.is_behind = panes != self.shown.panes;
        let is_due = self.shown.is_behind && STATE_SHOWN_NS <= since_ns;
        if !is_urgent && !is_due && since_ns < RENEW_NS {
            return;
        }
        self.shown.is_behind = false;
        let changed = changed_panes(&self.shown.panes, &panes);
        (self.shown.text, self.shown.panes) = (text.clone(), panes);
        (self.shown.at_ns, self.shown.is_under_way) = (now.mono_ns, true);
        let until_s = now.wall_ms / 1000 + TRUE_FOR_S;
        let act = SendAct::ShowState(TmuxState { text, until_s, panes: changed });
        let (program, sockets) = (String::new(), self.sockets());
        let channel = Channel::Tmux { program, sockets, bell: false };
        let request = SendRequest { channel, act, within_ms: WITHIN_MS };
        self.world.send_notice(String::new(), None, request);
    }

    fn state_to_show(&self) -> (String, Panes) {
        let mut panes = BTreeMap::new();
        let mut n = 0_usize;
        for session in self.engine.state().sessions() {
            let need = session.open_needs().next();
            n += usize::from(need.is_some());
            let Some(TmuxPane { socket, pane, .. }) = session.pane() else { continue };
            if !session.may_live() && need.is_none() {
                continue;
            }
            let state = coord_view::list::state_name(session.shown.state);
            let attention = need.map(|need| need.kind.name().to_owned());
            panes.insert((socket.clone(), pane.clone()), PaneShown { state, attention });
        }
        n += self.engine.state().header().elsewhere.needs.len();
        let text = match n {
            0 => String::new(),
            1 => "1 needs you".to_owned(),
            n => format!("{n} need you"),
        };
        (text, panes)
    }
}

/// What differs; a pane without a session any more shows nothing.
fn changed_panes(before: &Panes, after: &Panes) -> Vec<PaneState> {
    let gone = before.keys().filter(|pane| !after.contains_key(*pane));
    let gone = gone.map(|(socket, pane)| PaneState {
        socket: socket.clone(),
        pane: pane.clone(),
        state: None,
        attention: None,
    });
    let changed = after.iter().filter(|(pane, shown)| before.get(*pane) != Some(shown));
    let changed = changed.map(|((socket, pane), shown)| PaneState {
        socket: socket.clone(),
        pane: pane.clone(),
        state: Some(shown.state.clone()),
        attention: shown.attention.clone(),
    });
    gone.chain(changed).collect()
}

fn ids_of(act: &TellAct) -> Vec<NeedId> {
    match act {
        TellAct::One { id, .. } | TellAct::Withdraw { id, .. } => vec![*id],
        TellAct::Digest { ids } => ids.clone(),
    }
}
