//! What the client of a simulated run does and when, drawn before it begins. Decides nothing else.

use std::collections::BTreeMap;

use coord_core::{ErrorText, ExitStatus, ResultSeen, RunTasks, StreamFact};
use coord_testkit::Random;

use super::tree::Kind;

/// One thing that happens.
#[derive(Debug, Clone)]
pub(super) enum Doing {
    Says(StreamFact),
    /// A line that says nothing known.
    Speaks,
    Names(ErrorText),
    Starts {
        kind: Kind,
        key: u64,
    },
    /// What has this key uses so many thousandths of a core from now on.
    Works {
        key: u64,
        permille: u64,
    },
    Ends {
        key: u64,
    },
    /// Its output is at its end.
    Closes,
    Exits(ExitStatus),
    Dies(u32),
    Forwarded(i32),
}

/// Things to come, in their order.
pub(super) struct Plan {
    to_come: BTreeMap<(u64, u64), Doing>,
    count: u64,
}

const MINUTE: u64 = 60_000;

impl Plan {
    pub(super) fn draw(now_ms: u64, random: &mut Random) -> Self {
        let plan = Self { to_come: BTreeMap::new(), count: 0 };
        let mut drawing = Drawing { plan, random, ms: now_ms, shells: 0 };
        drawing.life();
        drawing.plan
    }

    pub(super) fn add(&mut self, ms: u64, doing: Doing) {
        self.count += 1;
        self.to_come.insert((ms, self.count), doing);
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.to_come.keys().next().map(|(ms, _)| *ms)
    }

    /// The next thing that is due.
    pub(super) fn take(&mut self, now_ms: u64) -> Option<Doing> {
        let first = self.to_come.first_entry().filter(|one| one.key().0 <= now_ms)?;
        Some(first.remove())
    }

    /// The client does nothing any more; what dies dies.
    pub(super) fn clear_client(&mut self) {
        self.to_come.retain(|_, doing| matches!(doing, Doing::Dies(_) | Doing::Exits(_)));
    }
}

struct Drawing<'a> {
    plan: Plan,
    random: &'a mut Random,
    ms: u64,
    shells: u32,
}

impl Drawing<'_> {
    fn now(&mut self, doing: Doing) {
        self.plan.add(self.ms, doing);
    }

    fn says(&mut self, fact: StreamFact) {
        self.now(Doing::Says(fact));
    }

    fn later(&mut self, from_ms: u64, to_ms: u64) {
        self.ms += self.random.range(from_ms..to_ms);
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    fn life(&mut self) {
        self.later(100, 5_000);
        if self.one_in(20) {
            return;
        }
        if self.one_in(8) {
            return self.without_a_stream();
        }
        for _ in 0..self.random.range(1..5) {
            if !self.turn() {
                return;
            }
            if self.one_in(2) {
                break;
            }
            self.later(10, 20 * MINUTE);
        }
        self.ending();
    }

    /// Another provider's client, of which only the bytes are seen.
    fn without_a_stream(&mut self) {
        for key in 0..self.random.range(0..20) {
            self.later(10, 4 * MINUTE);
            self.now(Doing::Speaks);
            if self.one_in(3) {
                self.tool(1_000 + key, false);
            }
        }
        self.ending();
    }

    /// A turn; false if it never ends.
    fn turn(&mut self) -> bool {
        self.says(StreamFact::Init { session_id: "s1".to_owned() });
        for key in 0..self.random.range(0..8) {
            self.later(10, 2 * MINUTE);
            let key = self.ms + key;
            match self.random.below(12) {
                0..=3 => self.says(StreamFact::Said),
                4..=6 => self.tool(key, true),
                7 => self.tries(),
                8 => self.request(key),
                9 => self.background(key),
                10 => self.leaves_something(key),
                _ => self.odd(),
            }
            if self.one_in(60) {
                return false;
            }
        }
        self.later(10, MINUTE);
        self.result();
        true
    }

    fn result(&mut self) {
        let is_error = self.one_in(6);
        let terminal_reason = if is_error { "api_error" } else { "completed" }.to_owned();
        self.says(StreamFact::Result(ResultSeen {
            is_error,
            subtype: "success".to_owned(),
            terminal_reason,
            api_error_status: is_error.then_some(500),
            turns: 1,
            ..ResultSeen::default()
        }));
    }

    fn permille(&mut self) -> u64 {
        *self.random.pick(&[0, 0, 5, 400, 900]).unwrap_or(&0)
    }

    fn tool(&mut self, key: u64, is_told: bool) {
        let permille = self.permille();
        if is_told {
            self.says(StreamFact::ToolBegan { call: key });
        }
        self.now(Doing::Starts { kind: Kind::Tool, key });
        self.now(Doing::Works { key, permille });
        let hours = self.one_in(10);
        self.later(100, if hours { 150 * MINUTE } else { 10 * MINUTE });
        if !is_told && self.one_in(3) {
            self.now(Doing::Works { key, permille: 0 });
        }
        self.now(Doing::Ends { key });
        if is_told {
            self.says(StreamFact::ToolEnded { call: key });
        }
    }

    fn tries(&mut self) {
        let errors = [Some("rate_limit"), Some("overloaded"), None];
        let error = self.random.pick(&errors).copied().flatten().map(str::to_owned);
        for _ in 0..self.random.range(1..12) {
            self.says(StreamFact::Retry { error: error.clone() });
            if self.one_in(4) {
                self.names();
            }
            self.later(500, 8 * MINUTE);
        }
    }

    fn names(&mut self) {
        let text = self.random.pick(&ErrorText::ALL).copied();
        self.now(Doing::Names(text.unwrap_or(ErrorText::TimedOut)));
    }

    fn request(&mut self, key: u64) {
        let call = self.one_in(2).then_some(key);
        self.says(StreamFact::ControlOpened { request: key, call });
        if self.one_in(12) {
            return;
        }
        self.later(1_000, 90 * MINUTE);
        self.says(match call {
            Some(call) => StreamFact::ToolEnded { call },
            None => StreamFact::ControlClosed { request: key },
        });
    }

    /// A shell in the background that outlives its turn, perhaps.
    fn background(&mut self, key: u64) {
        let permille = self.permille();
        self.shells += 1;
        self.lists();
        self.now(Doing::Starts { kind: Kind::Tool, key });
        self.now(Doing::Works { key, permille });
        let end_ms = self.ms + self.random.range(1_000..60 * MINUTE);
        if !self.one_in(3) {
            self.plan.add(end_ms, Doing::Ends { key });
            self.plan.add(end_ms, Doing::Says(StreamFact::Tasks(RunTasks::default())));
            self.shells = 0;
        }
    }

    fn lists(&mut self) {
        let others = u32::from(self.one_in(4));
        let tasks = RunTasks { shells: self.shells, others, subagents: 0 };
        self.says(StreamFact::Tasks(tasks));
    }

    fn leaves_something(&mut self, key: u64) {
        let kinds = [Kind::Daemon, Kind::Terminals, Kind::Nested, Kind::Orphan];
        let kind = *self.random.pick(&kinds).unwrap_or(&Kind::Daemon);
        self.now(Doing::Starts { kind, key });
    }

    fn odd(&mut self) {
        let after_ms = self.random.range(1_000..90 * MINUTE);
        match self.random.below(6) {
            0 => self.names(),
            1 => self.says(StreamFact::Wakeup { after_ms }),
            2 => self.says(StreamFact::Failed { error: "server_error".to_owned() }),
            3 => self.now(Doing::Forwarded(15)),
            4 => self.now(Doing::Speaks),
            _ => self.says(StreamFact::RateLimit { is_rejected: true, resets_ms: None }),
        }
    }

    /// It exits, dies, hangs, or closes its output and lives on.
    fn ending(&mut self) {
        self.later(10, 2_000);
        if self.one_in(3) {
            self.now(Doing::Closes);
            self.later(100, 30 * MINUTE);
        }
        match self.random.below(6) {
            0..=1 => self.now(Doing::Exits(ExitStatus::Code(0))),
            2 => self.now(Doing::Exits(ExitStatus::Code(1))),
            3 => self.now(Doing::Exits(ExitStatus::Signal(9))),
            _ => (),
        }
    }
}
