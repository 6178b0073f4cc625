//! People who reply from elsewhere: they look at what is open, and reply some time later, at times with what they saw
//! long ago, at about the time at which somebody answers at the terminal, or two of them at once.

use coord_model::NeedId;
use coord_wire::api::DecisionRequest;

use super::replies::{Shown, fits};
use super::{Step, Taken};
use crate::act_checks::violation;
use crate::checks::Violation;
use crate::serving::Serving;
use crate::simulation::{MS, SECOND, Simulation, Time, WORK_END, What};

/// Nobody replies sooner after a look.
const REACTION: Time = 310 * MS;
/// Share of replies that come from somewhere else at first.
const UNSEEN: f64 = 0.05;

impl Simulation {
    /// A prompt is open that will be answered at the terminal, or be over, after so long, if nobody is faster.
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
        self.at(looks_after, What::Request(Step::Looks(replies_at)));
    }

    /// A person looks, chooses, and replies later.
    pub(super) fn looks_at_requests(&mut self, replies_at: Time) {
        let Some(serving) = self.serving.as_ref().filter(|_| self.stalled_until <= self.time)
        else {
            return;
        };
        let open = serving.open_requests().requests;
        let shown: Vec<Shown> = open.iter().filter_map(Shown::of).collect();
        let Some(new) = self.random.pick(&shown).cloned() else { return };
        let before = self.requests.remembered.replace(new.clone());
        let seen = match before {
            Some(old) if self.random.chance(0.1) => match self.random.below(3) {
                0 => Shown { need: new.need, ..old },
                1 => Shown { hook: new.hook, ..old },
                _ => old,
            },
            Some(_) | None => new.clone(),
        };
        let after = replies_at.saturating_sub(self.time).max(REACTION);
        let asked = seen.reply(&mut self.random);
        self.at(after, What::Request(Step::Replies(seen.need, asked.clone())));
        if self.random.chance(0.15) {
            let is_same = self.random.coin();
            let other = if is_same { asked } else { new.denial(&mut self.random) };
            let other = DecisionRequest { hook: new.hook, ..other };
            let later = if self.random.coin() { 0 } else { self.random.below(50 * MS) };
            self.at(after + later, What::Request(Step::Replies(new.need, other)));
            self.counts("two replies at once");
        }
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

    /// The replies of a turn: one at most is taken for each hook, and none that does not fit its prompt.
    pub(super) fn put_replies(&mut self, serving: &mut Serving) -> Result<(), Violation> {
        for (need, asked) in std::mem::take(&mut self.requests.replies) {
            if self.random.chance(UNSEEN) {
                self.replies_unseen(serving, need, &asked)?;
            }
            let answer = serving.reply(need, &asked);
            self.note(|| {
                let what = answer.as_ref().map_err(|response| response.status);
                format!("  REPLY {need} {:?} to pid {}: {what:?}", asked.reply, asked.hook.pid)
            });
            let call = self.requests.hooks.get(&asked.hook).and_then(|hook| hook.call.as_ref());
            let call = call.and_then(|call| self.requests.calls.get(call));
            let is_wrong = call.is_some_and(|call| !fits(call, &asked));
            let pid = asked.hook.pid;
            if answer.is_err() {
                self.counts(if is_wrong { "refused, since it does not fit" } else { "refused" });
                continue;
            }
            if is_wrong {
                return violation("A-02", format!("{asked:?} was taken, and does not fit"));
            }
            self.counts("taken");
            let hook = asked.hook;
            let taken = Taken { asked, is_handed: false };
            if self.requests.taken.insert(hook, taken).is_some() {
                return violation("A-04", format!("a second reply to pid {pid} was taken"));
            }
        }
        Ok(())
    }

    /// Somebody replies whom the coordinator cannot see at a terminal (H-22).
    fn replies_unseen(
        &mut self,
        serving: &mut Serving,
        need: NeedId,
        asked: &DecisionRequest,
    ) -> Result<(), Violation> {
        let status = serving.reply_unseen(need, asked);
        self.note(|| format!("  REPLY {need} by nobody at a terminal: {status:?}"));
        self.counts("refused at the door");
        if status.is_none_or(|status| status < 400) {
            return violation(
                "H-22",
                format!("{need}: a reply of nobody at a terminal: {status:?}"),
            );
        }
        Ok(())
    }
}
