//! The channels of the simulated machine: senders take their time, fail, hang, and outlive the coordinator that
//! started them. Their chance is their own, so that a world without channels is as it was.

use std::collections::VecDeque;

use coord_host::notices::Told;
use coord_model::{NeedId, SendAnswer};
use coord_testkit::Random;
use coord_wire::notice::{NoticeEvent, SendAct, SendRequest};

use super::MS;

/// What a person was told through a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The channel.
    pub channel: String,
    /// The need; none for a digest.
    pub id: Option<NeedId>,
    /// Whether it was told, or taken back.
    pub event: NoticeEvent,
    /// How often it had been told before.
    pub repeat: u32,
    /// Whether it is marked as a possible repeat.
    pub may_be_repeated: bool,
}

/// The channels.
#[derive(Debug, Default)]
pub struct Channels {
    /// None in a world in which every channel works at once.
    random: Option<Random>,
    under_way: Vec<Sender>,
    answers: VecDeque<Told>,
    shown: Vec<Shown>,
}

/// A sender at work.
#[derive(Debug)]
struct Sender {
    due_ns: u64,
    channel: String,
    number: Option<u64>,
    request: SendRequest,
    is_sent: bool,
    /// Whether the coordinator that started it still runs.
    is_awaited: bool,
}

impl Channels {
    /// Makes channels slow, failing and hanging.
    pub fn trouble(&mut self, random: Option<Random>) {
        self.random = random;
    }

    pub(super) fn send(
        &mut self,
        channel: String,
        number: Option<u64>,
        request: SendRequest,
        now_ns: u64,
    ) {
        let (mut took_ms, mut is_sent) = (20, true);
        if let Some(random) = &mut self.random {
            took_ms = random.range(5..800);
            match random.below(20) {
                0 | 1 => is_sent = false,
                2 => (took_ms, is_sent) = (request.within_ms, random.coin()),
                _ => (),
            }
        }
        let due_ns = now_ns.saturating_add(took_ms * MS);
        let sender = Sender { due_ns, channel, number, request, is_sent, is_awaited: true };
        self.under_way.push(sender);
    }

    pub(super) fn look(&mut self, need: NeedId) {
        let is_present = self.random.as_mut().is_some_and(|random| random.below(4) == 0);
        self.answers.push_back(Told::Presence { need, is_present });
    }

    /// The coordinator is gone; its senders go on.
    pub(super) fn forget_coordinator(&mut self) {
        self.answers.clear();
        self.under_way.iter_mut().for_each(|one| one.is_awaited = false);
    }

    /// The machine is gone, with its senders.
    pub(super) fn reboot(&mut self) {
        self.under_way.clear();
    }

    pub(super) fn next(&self) -> Option<u64> {
        let due = self.under_way.iter().map(|one| one.due_ns);
        due.chain((!self.answers.is_empty()).then_some(0)).min()
    }

    /// Ends the senders whose time has come.
    pub(super) fn serve(&mut self, now_ns: u64) {
        let (due, later) = std::mem::take(&mut self.under_way)
            .into_iter()
            .partition::<Vec<_>, _>(|one| one.due_ns <= now_ns);
        self.under_way = later;
        for sender in due {
            if let SendAct::Tell { notice, .. } = &sender.request.act
                && sender.is_sent
            {
                self.shown.push(Shown {
                    at_ns: sender.due_ns,
                    channel: sender.channel.clone(),
                    id: notice.id,
                    event: notice.event,
                    repeat: notice.repeat,
                    may_be_repeated: notice.may_be_repeated,
                });
            }
            if sender.is_awaited {
                let Sender { channel, number, is_sent, .. } = sender;
                let answer = SendAnswer {
                    is_sent,
                    handle: None,
                    saying: if is_sent { "shown" } else { "no answer" }.to_owned(),
                    tries: 1,
                    is_refused: false,
                    is_nobody_there: false,
                    retry_after_ms: None,
                };
                self.answers.push_back(Told::Answered { channel, number, answer });
            }
        }
    }

    pub(super) fn take(&mut self) -> Option<Told> {
        self.answers.pop_front()
    }

    /// What was shown since the last call.
    pub fn take_shown(&mut self) -> Vec<Shown> {
        std::mem::take(&mut self.shown)
    }
}
