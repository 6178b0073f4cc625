//! People who reply from elsewhere: they look at what is open, and reply some time later, at times with what they saw
//! long ago, at about the time at which somebody answers at the terminal, or two of them at once.

use coord_model::{NeedId, ProcessRef, ReplyKind};
use coord_wire::api::DecisionRequest;

use super::{Step, Taken};
use crate::act_checks::violation;
use crate::checks::Violation;
use crate::serving::Serving;
use crate::simulation::{MS, SECOND, Simulation, Time, WORK_END, What};

/// Nobody replies sooner after a look.
const REACTION: Time = 310 * MS;

/// What a person saw of a prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    need: NeedId,
    hook: ProcessRef,
}

impl Simulation {
    /// A dialog is on the screen that will be answered at the terminal after so long, if nobody is faster.
    pub(super) fn people_see(&mut self, open: Time) {
        if !self.is_remote() || WORK_END <= self.time {
            return;
        }
        let answered_at = self.time + open;
        let (looks_after, replies_at) = match self.random.below(10) {
            0..4 => {
                let after = self.random.range(200 * MS..15 * SECOND);
                (after, self.time + after + self.random.below(5 * SECOND))
            }
            4..7 => {
                let before = self.random.range(500 * MS..4 * SECOND).min(open);
                let race = self.random.range(0..400 * MS);
                (open - before, (answered_at + race).saturating_sub(200 * MS))
            }
            7 => {
                let after = self.random.range(200 * MS..SECOND);
                (after, answered_at + self.random.below(30 * SECOND))
            }
            _ => return,
        };
        let reply = if self.random.chance(0.7) { ReplyKind::Allow } else { ReplyKind::Deny };
        self.at(looks_after, What::Request(Step::Looks(replies_at, reply)));
    }

    /// A person looks, chooses, and replies later.
    pub(super) fn looks_at_requests(&mut self, replies_at: Time, reply: ReplyKind) {
        let Some(serving) = self.serving.as_ref().filter(|_| self.stalled_until <= self.time)
        else {
            return;
        };
        let open = serving.open_requests().requests.into_iter();
        let answerable = open.filter(|one| one.why_not.is_none());
        let shown: Vec<Shown> =
            answerable.filter_map(|one| Some(Shown { need: one.need, hook: one.hook? })).collect();
        let Some(new) = self.random.pick(&shown).copied() else { return };
        let before = self.requests.remembered.replace(new);
        let seen = match before {
            Some(old) if self.random.chance(0.1) => match self.random.below(3) {
                0 => Shown { need: new.need, ..old },
                1 => Shown { hook: new.hook, ..old },
                _ => old,
            },
            Some(_) | None => new,
        };
        let after = replies_at.saturating_sub(self.time).max(REACTION);
        self.plans_reply(after, seen, reply);
        if self.random.chance(0.15) {
            let other = if self.random.coin() { reply } else { ReplyKind::Deny };
            let later = if self.random.coin() { 0 } else { self.random.below(50 * MS) };
            self.plans_reply(after + later, new, other);
            self.counts("two replies at once");
        }
    }

    fn plans_reply(&mut self, after: Time, seen: Shown, reply: ReplyKind) {
        let is_told = reply == ReplyKind::Deny && self.random.coin();
        let message = is_told.then(|| format!("not {}", self.random.below(1_000)));
        let asked = DecisionRequest { hook: seen.hook, reply, message, answers: Vec::new() };
        self.at(after, What::Request(Step::Replies(seen.need, asked)));
    }

    /// A reply comes to the coordinator; where none runs, its giver is told so.
    pub(super) fn replies_to_request(&mut self, need: NeedId, asked: DecisionRequest) {
        let stalled = self.stalled_until.saturating_sub(self.time);
        if self.serving.is_none() {
            return;
        }
        if 0 < stalled {
            return self.at(stalled, What::Request(Step::Replies(need, asked)));
        }
        self.requests.replies.push((need, asked));
    }

    /// The replies of a turn: one at most is taken for each hook.
    pub(super) fn put_replies(&mut self, serving: &mut Serving) -> Result<(), Violation> {
        for (need, asked) in std::mem::take(&mut self.requests.replies) {
            let answer = serving.reply(need, &asked);
            self.note(|| {
                let what = answer.as_ref().map_err(|response| response.status);
                format!("  REPLY {need} {:?} to pid {}: {what:?}", asked.reply, asked.hook.pid)
            });
            if answer.is_err() {
                self.counts("refused");
                continue;
            }
            self.counts("taken");
            let hook = asked.hook;
            let taken = Taken { asked, is_handed: false };
            if self.requests.taken.insert(hook, taken).is_some() {
                return violation("A-04", format!("a second reply to pid {} was taken", hook.pid));
            }
        }
        Ok(())
    }
}
