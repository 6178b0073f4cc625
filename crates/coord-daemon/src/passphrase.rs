//! `GET` and `POST /v1/passphrase`: decides when a passphrase may be tried, and which terminals are unlocked
//! (H-22, A-08).
//!
//! A right passphrase unlocks the caller's terminal for 8 hours; a restart forgets it, and so does another
//! passphrase. A wrong one delays the next try of everybody, so that guessing takes years. One try is
//! verified at a time, on a thread of its own.

use coord_host::passphrase::{BYTES_MAX, HashError, Passphrase, PassphraseHash};
use coord_host::process::{Caller, terminal_name};
use coord_model::{Now, ProcessRef};
use coord_wire::api::{PassphraseStatus, PassphraseTry};

use crate::coordinator::Coordinator;
use crate::http::{Request, Response};
use crate::operator::caller::{self, Processes, Refusal};
use crate::request_error::RequestError;
use crate::routes::Route;
use crate::world::World;

/// How long a terminal stays unlocked, in seconds.
const UNLOCKED_S: u64 = 8 * 60 * 60;
/// Longest delay after a wrong try, in seconds.
const DELAY_MAX_S: u64 = 60;
const S_NS: u64 = 1_000_000_000;

/// A terminal, for as long as its present session of processes has it: a later one may get the same device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Terminal {
    /// The device number in `/proc/PID/stat`.
    device: i64,
    /// The leader of the session.
    leader: ProcessRef,
}

impl Terminal {
    /// The caller's; none if the caller has none, or if it or its session's leader has ended.
    fn of(table: &impl Processes, caller: Caller) -> Option<Self> {
        let own = table.stat(caller.pid).filter(|stat| !stat.is_zombie && stat.tty != 0)?;
        if caller.parent != Some(own.ppid) {
            return None;
        }
        let leader = table.stat(own.session).filter(|leader| {
            !leader.is_zombie && leader.session == own.session && leader.tty == own.tty
        })?;
        let leader = ProcessRef { pid: own.session, start_time: leader.start_time };
        Some(Self { device: own.tty, leader })
    }
}

/// What people call the terminal of a caller.
pub(crate) fn terminal_of(caller: Caller) -> String {
    let terminal = Terminal::of(&caller::Machine, caller);
    terminal.map_or_else(|| "an unknown terminal".to_owned(), |one| terminal_name(one.device))
}

/// A terminal that was unlocked.
struct Grant {
    terminal: Terminal,
    /// What the passphrase was verified against.
    hash: PassphraseHash,
    since: Now,
}

impl Grant {
    /// Neither a sleep of the machine nor a clock that was set back makes it last longer.
    fn is_valid(&self, now: Now) -> bool {
        let awake_ns = now.mono_ns.saturating_sub(self.since.mono_ns);
        let passed_ms = now.wall_ms.saturating_sub(self.since.wall_ms);
        awake_ns < UNLOCKED_S * S_NS && passed_ms < UNLOCKED_S * 1000
    }
}

/// Which terminals are unlocked, and when the next try is let in.
#[derive(Default)]
pub(crate) struct Unlocks {
    grants: Vec<Grant>,
    /// The try that is being verified: its terminal, and what it must match.
    verifying: Option<(Terminal, PassphraseHash)>,
    /// Wrong tries since the start.
    wrong_tries: u64,
    /// Wrong tries since the last right one.
    wrong_in_a_row: u32,
    /// No try is let in before this time, in nanoseconds of CLOCK_MONOTONIC.
    next_try_ns: u64,
    /// The answer to the last try, until it is sent.
    answer: Option<Response>,
}

impl Unlocks {
    /// Lets a try in.
    ///
    /// # Errors
    /// Another one is being verified, or a wrong one was given shortly before.
    fn admit(
        &mut self,
        terminal: Terminal,
        hash: PassphraseHash,
        now: Now,
    ) -> Result<(), RequestError> {
        let left_ns = self.next_try_ns.saturating_sub(now.mono_ns);
        if 0 < left_ns || self.verifying.is_some() {
            return Err(RequestError::TooManyTries { seconds: left_ns.div_ceil(S_NS).max(1) });
        }
        self.verifying = Some((terminal, hash));
        Ok(())
    }

    /// Applies the result of the try that was let in.
    ///
    /// # Errors
    /// The passphrase is wrong, or could not be verified.
    fn judge(&mut self, verified: Result<bool, HashError>, now: Now) -> Result<(), RequestError> {
        let Some((terminal, hash)) = self.verifying.take() else {
            return Err(RequestError::WrongPassphrase);
        };
        if verified.map_err(RequestError::NotVerified)? {
            (self.wrong_in_a_row, self.next_try_ns) = (0, 0);
            self.grants.retain(|grant| grant.terminal != terminal && grant.is_valid(now));
            self.grants.push(Grant { terminal, hash, since: now });
            return Ok(());
        }
        let delay_s =
            1_u64.checked_shl(self.wrong_in_a_row).map_or(DELAY_MAX_S, |s| s.min(DELAY_MAX_S));
        self.next_try_ns = now.mono_ns.saturating_add(delay_s * S_NS);
        self.wrong_in_a_row = self.wrong_in_a_row.saturating_add(1);
        self.wrong_tries = self.wrong_tries.saturating_add(1);
        let terminal = terminal_name(terminal.device);
        let (wrong_tries, in_a_row) = (self.wrong_tries, self.wrong_in_a_row);
        tracing::warn!(terminal, wrong_tries, in_a_row, delay_s, "a wrong passphrase was given");
        Err(RequestError::WrongPassphrase)
    }

    fn is_unlocked(&self, terminal: Terminal, hash: &PassphraseHash, now: Now) -> bool {
        let is_it = |grant: &Grant| grant.terminal == terminal && grant.hash == *hash;
        self.grants.iter().any(|grant| is_it(grant) && grant.is_valid(now))
    }

    /// The answer to the try that was verified, once.
    pub(crate) fn take_answer(&mut self) -> Option<Response> {
        self.answer.take()
    }
}

impl<W: World> Coordinator<W> {
    /// Whether the caller's terminal was unlocked with the present passphrase within the last 8 hours.
    pub(crate) fn is_unlocked(&self, caller: Caller, now: Now) -> bool {
        let terminal = Terminal::of(&caller::Machine, caller);
        let hash = self.world.passphrase().ok().flatten();
        let both = terminal.zip(hash);
        both.is_some_and(|(terminal, hash)| self.unlocks.is_unlocked(terminal, &hash, now))
    }

    /// Whether a passphrase is set, in a file that can be used.
    pub(crate) fn has_passphrase(&self) -> bool {
        self.world.passphrase().is_ok_and(|hash| hash.is_some())
    }

    /// Wrong passphrases that were given since the coordinator started.
    pub(crate) fn wrong_tries(&self) -> u64 {
        self.unlocks.wrong_tries
    }

    /// `GET /v1/passphrase`: whether one is set, and whether the caller's terminal is unlocked.
    pub(crate) fn get_passphrase(&self, caller: Caller, now: Now) -> Response {
        Response::json(&PassphraseStatus {
            is_set: self.has_passphrase(),
            is_unlocked: self.is_unlocked(caller, now),
            wrong_tries: self.wrong_tries(),
            problem: self.world.passphrase().err().map(|error| error.to_string()),
        })
    }

    /// `POST /v1/passphrase`: unlocks the caller's terminal if the passphrase is right. The answer comes
    /// once it is verified.
    pub(crate) fn post_passphrase(&mut self, request: &Request, caller: Caller, now: Now) -> Route {
        match self.begin_try(request, caller, now) {
            Ok(()) => Route::Verified,
            Err(error) => Route::Answer(error.into()),
        }
    }

    fn begin_try(
        &mut self,
        request: &Request,
        caller: Caller,
        now: Now,
    ) -> Result<(), RequestError> {
        self.check_caller(caller).inspect_err(|refusal| {
            tracing::warn!(%refusal, "a passphrase was refused unread");
        })?;
        let terminal = Terminal::of(&caller::Machine, caller).ok_or(Refusal::Unseen)?;
        // What the parser says might quote the passphrase.
        let bad = |_| RequestError::bad("the body must be {\"passphrase\": \"...\"}");
        let PassphraseTry { passphrase } = serde_json::from_slice(&request.body).map_err(bad)?;
        let passphrase = Passphrase::new(passphrase.into_owned());
        if BYTES_MAX < passphrase.as_str().len() {
            let why = format!("a passphrase has {BYTES_MAX} bytes at most");
            return Err(RequestError::Bad(why));
        }
        let hash = self.world.passphrase()?.ok_or(RequestError::NoPassphrase)?;
        self.unlocks.admit(terminal, hash.clone(), now)?;
        self.world.verify_passphrase(passphrase, hash);
        Ok(())
    }

    /// Handles the result of a try, whose answer is then ready.
    pub(crate) fn on_verified(&mut self, verified: Result<bool, HashError>, now: Now) {
        let judged = self.unlocks.judge(verified, now);
        self.unlocks.answer = Some(match judged {
            Ok(()) => Response::no_content(),
            Err(error) => error.into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_host::process::Stat;
    use std::collections::BTreeMap;

    const HOUR_MS: u64 = 3_600_000;

    fn at_ms(ms: u64) -> Now {
        Now { mono_ns: ms * 1_000_000, wall_ms: 1_000_000_000_000 + ms }
    }

    fn terminal(pid: u32) -> Terminal {
        Terminal { device: 34816, leader: ProcessRef { pid, start_time: 5 } }
    }

    fn hash(text: &str) -> PassphraseHash {
        PassphraseHash::of(&Passphrase::new(text.to_owned())).unwrap()
    }

    /// The status and the message of a refusal.
    fn said(error: RequestError) -> (u16, String) {
        let response = Response::from(error);
        (response.status, String::from_utf8(response.body).unwrap())
    }

    // H-22, A-08: one terminal, eight hours, one passphrase.
    #[test]
    fn a_08_a_right_passphrase_unlocks_its_terminal_for_eight_hours() {
        let (mut unlocks, right, other) = (Unlocks::default(), hash("first one"), hash("another"));
        unlocks.admit(terminal(7), right.clone(), at_ms(0)).unwrap();
        assert!(!unlocks.is_unlocked(terminal(7), &right, at_ms(0)), "not before it is verified");
        unlocks.judge(Ok(true), at_ms(1000)).unwrap();
        let is_unlocked = |terminal, hash, now| unlocks.is_unlocked(terminal, hash, now);
        assert!(is_unlocked(terminal(7), &right, at_ms(1000)));
        assert!(is_unlocked(terminal(7), &right, at_ms(8 * HOUR_MS + 999)));
        assert!(!is_unlocked(terminal(7), &right, at_ms(8 * HOUR_MS + 1000)));
        assert!(!is_unlocked(terminal(7), &other, at_ms(2000)), "the passphrase was changed");
        for (what, another) in [
            ("another session on the device", terminal(8)),
            ("another device", Terminal { device: 34817, ..terminal(7) }),
            (
                "a pid reused",
                Terminal { leader: ProcessRef { pid: 7, start_time: 6 }, ..terminal(7) },
            ),
        ] {
            assert!(!is_unlocked(another, &right, at_ms(2000)), "{what}");
        }
        let asleep = Now { wall_ms: at_ms(9 * HOUR_MS).wall_ms, ..at_ms(2000) };
        assert!(!is_unlocked(terminal(7), &right, asleep), "the machine slept");
        let set_back = Now { wall_ms: 0, ..at_ms(9 * HOUR_MS) };
        assert!(!is_unlocked(terminal(7), &right, set_back), "the clock was set back");
        // Once more on the same terminal: from then on.
        unlocks.admit(terminal(7), right.clone(), at_ms(HOUR_MS)).unwrap();
        unlocks.judge(Ok(true), at_ms(HOUR_MS)).unwrap();
        assert!(unlocks.is_unlocked(terminal(7), &right, at_ms(9 * HOUR_MS - 1)));
        assert_eq!(unlocks.grants.len(), 1);
        unlocks.admit(terminal(8), right.clone(), at_ms(9 * HOUR_MS)).unwrap();
        unlocks.judge(Ok(true), at_ms(9 * HOUR_MS)).unwrap();
        assert_eq!(unlocks.grants.len(), 1, "what has ended is not kept");
    }

    // H-22: a wrong try delays everybody, twice as long each time, up to a minute.
    #[test]
    fn h_22_wrong_tries_delay_the_next_one() {
        let (mut unlocks, right) = (Unlocks::default(), hash("first one"));
        let mut now_ms = 0;
        for (n, delay_s) in [1, 2, 4, 8, 16, 32, 60, 60].into_iter().enumerate() {
            unlocks.admit(terminal(7), right.clone(), at_ms(now_ms)).unwrap();
            let wrong = said(unlocks.judge(Ok(false), at_ms(now_ms)).unwrap_err());
            assert_eq!(wrong.0, 403);
            assert!(wrong.1.contains("Wrong passphrase; nothing was sent."), "{}", wrong.1);
            assert!(wrong.1.contains("\"wrong_passphrase\""), "{}", wrong.1);
            for (later_ms, left_s) in [(0, delay_s), (1, delay_s), (delay_s * 1000 - 1, 1)] {
                let now = at_ms(now_ms + later_ms);
                let early = said(unlocks.admit(terminal(8), right.clone(), now).unwrap_err());
                assert_eq!(early.0, 429);
                assert!(early.1.contains(&format!("try again in {left_s} s")), "{}", early.1);
                assert!(early.1.contains("\"too_many_tries\""), "{}", early.1);
            }
            now_ms += delay_s * 1000;
            assert_eq!(unlocks.wrong_tries, n as u64 + 1);
        }
        unlocks.admit(terminal(7), right.clone(), at_ms(now_ms)).unwrap();
        unlocks.judge(Ok(true), at_ms(now_ms)).unwrap();
        // A right one ends the delays.
        unlocks.admit(terminal(7), right.clone(), at_ms(now_ms)).unwrap();
        unlocks.judge(Ok(false), at_ms(now_ms)).unwrap_err();
        unlocks.admit(terminal(7), right, at_ms(now_ms + 1000)).unwrap();
        assert_eq!(unlocks.wrong_tries, 9);
    }

    #[test]
    fn one_try_is_verified_at_a_time() {
        let (mut unlocks, right) = (Unlocks::default(), hash("first one"));
        unlocks.admit(terminal(7), right.clone(), at_ms(0)).unwrap();
        let second = said(unlocks.admit(terminal(8), right.clone(), at_ms(0)).unwrap_err());
        assert!(second.0 == 429 && second.1.contains("try again in 1 s"), "{}", second.1);
        unlocks.judge(Ok(false), at_ms(0)).unwrap_err();
        unlocks.judge(Ok(true), at_ms(0)).unwrap_err();
        assert!(!unlocks.is_unlocked(terminal(7), &right, at_ms(0)), "nobody asked for that");
    }

    /// Pid and terminal, session and parent of each process, which began at the tick of its pid.
    struct Table(BTreeMap<u32, (i64, u32, u32)>);

    impl Processes for Table {
        fn stat(&self, pid: u32) -> Option<Stat> {
            let (tty, session, parent) = *self.0.get(&pid)?;
            Some(Stat {
                ppid: parent,
                group: pid,
                session,
                cpu_ticks: 0,
                front: 0,
                tty,
                start_time: u64::from(pid),
                is_zombie: false,
                is_stopped: false,
                is_before_exec: false,
            })
        }

        fn program(&self, _: u32) -> String {
            String::new()
        }

        fn environment(&self, _: u32) -> Vec<u8> {
            Vec::new()
        }
    }

    #[test]
    fn a_terminal_is_its_device_and_the_leader_of_its_session() {
        let caller = Caller { pid: 30, parent: Some(20) };
        let of = |rows: &[(u32, (i64, u32, u32))]| {
            Terminal::of(&Table(rows.iter().copied().collect()), caller)
        };
        let leader = ProcessRef { pid: 10, start_time: 10 };
        let shell = (20, (7, 10, 10));
        for (what, rows, wanted) in [
            (
                "a child of the shell",
                &[(30, (7, 10, 20)), shell, (10, (7, 10, 1))][..],
                Some(Terminal { device: 7, leader }),
            ),
            ("no terminal", &[(30, (0, 10, 20)), shell, (10, (0, 10, 1))], None),
            ("its parent has ended", &[(30, (7, 10, 1)), (10, (7, 10, 1))], None),
            ("the leader has ended", &[(30, (7, 10, 20)), shell], None),
            ("a leader outside this namespace", &[(30, (7, 0, 20)), shell], None),
            ("the leader has left the terminal", &[(30, (7, 10, 20)), (10, (0, 10, 1))], None),
            ("gone", &[shell, (10, (7, 10, 1))], None),
        ] {
            assert_eq!(of(rows), wanted, "{what}");
        }
    }
}
