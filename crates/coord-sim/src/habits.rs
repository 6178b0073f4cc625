//! How the people and clients of a simulated machine are: which sessions somebody watches, what crashes,
//! who types where, and what becomes of a resume.
//!
//! Each seed draws its own habits (swarm), most of them none. What can happen beside the faults of
//! [`crate::faults`]:
//!
//! * *Marks and orders*: sessions, or all of a directory, marked unattended or opted in; modes observe,
//!   signature and act; holds with and without a cap, releases, recoveries by hand, restores and resets
//!   at any time.
//! * *Crashes*: SIGKILL at any moment, again right after a recovery, several at once; a crash signature on
//!   the screen of the dead or the living, painted by the client or content of its conversation; tools that
//!   outlive their harness.
//! * *Terminals*: clients under their pane's shell, a shell within it, tmux itself, a wrapper that starts
//!   them again, Claude Code's own supervisor, or with a command line that cannot be used again; panes that
//!   are closed, kept dead, in copy mode, synchronized; lines half typed by keys or by scripts, some of which
//!   look like a prompt; programs in front; prompts that change; keys at any moment, more often in a grace and
//!   around an act.
//! * *Clients*: drafts, editors; resumes that fail, are slow, silent, come up with another id, meet the trust
//!   dialog, die within seconds; SIGTERM that is ignored; SessionEnd that is cancelled.
//! * *Users*: resume by hand in the same pane or another one, by id or by `--continue`, at any moment; run
//!   the line that resumed a session again.
//! * *The account*: a window in which every turn of every client ends at the usage limit; people who mark
//!   sessions unattended let them wait for its end.
//! * *Messages*: people, programs and agents send them to sessions of every mode, urgent, with a time to live,
//!   with keys, twice, very long; agents answer those that they read; parents, names and allowed senders are told.
//! * *Permission prompts*: in most seeds people reply from elsewhere, mostly with what they see, at times with what they
//!   saw long ago, two at once, and around the moment at which somebody answers at the terminal.
//! * *The machine*: too little memory, directories that are gone, transcripts and configuration directories
//!   that others have locked; SIGKILL of the coordinator between any two steps of a recovery.

use std::ops::Range;

use coord_testkit::Random;

/// The habits of one seed. Shares are of 1; the others are per hour.
#[derive(Debug, Clone)]
pub(crate) struct Habits {
    /// `recovery.mode`.
    pub(crate) mode: &'static str,
    /// Share of sessions that are marked unattended.
    pub(crate) unattended: f64,
    /// Share that are opted in.
    pub(crate) opted_in: f64,
    /// Share of places that are not a plain shell.
    pub(crate) odd_places: f64,
    /// Orders of a person.
    pub(crate) orders: f64,
    /// Crashes of one client.
    pub(crate) crashes: f64,
    /// Crashes of several.
    pub(crate) bursts: f64,
    /// Share of crashes with a signature on the screen.
    pub(crate) signed: f64,
    /// Share of crashes that a tool outlives.
    pub(crate) survivors: f64,
    /// Share of recoveries that are killed again.
    pub(crate) again: f64,
    /// What people and scripts do at terminals.
    pub(crate) people: f64,
    /// Share of a recovery's steps at which somebody does.
    pub(crate) meddling: f64,
    /// Share of a recovery's steps at which the coordinator is killed.
    pub(crate) step_kills: f64,
    /// Share of users that come back at once.
    pub(crate) quick_users: f64,
    /// Share that come back in another place.
    pub(crate) elsewhere: f64,
    /// Share of resumes that do not simply work.
    pub(crate) odd_resumes: f64,
    /// Share of clients that ignore SIGTERM.
    pub(crate) ignore_term: f64,
    /// What the machine is short of for a while.
    pub(crate) shortages: f64,
    /// Clients that hang for a while.
    pub(crate) hangs: f64,
    /// Messages to sessions, beside those with which agents answer.
    pub(crate) messages: f64,
    /// A window in which the account of all clients is at its usage limit, milliseconds.
    pub(crate) window: Option<Range<u64>>,
    /// Whether the path of coordctl has plain characters only.
    pub(crate) is_line_plain: bool,
    /// Whether another coordinator acts in the configuration directory.
    pub(crate) is_dir_locked: bool,
}

impl Habits {
    /// The habits of a seed.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mode = ["observe", "signature", "signature", "signature", "act", "act", "act"];
        let mode = random.pick(&mode).copied().unwrap_or("act");
        let mut some = |max: f64| if random.chance(0.4) { 0.0 } else { max * part(random) };
        Self {
            mode,
            unattended: some(1.0),
            opted_in: some(1.0),
            odd_places: some(0.6),
            orders: some(20.0),
            crashes: some(20.0),
            bursts: some(2.0),
            signed: some(1.0),
            survivors: some(0.5),
            again: some(0.7),
            people: some(60.0),
            meddling: some(0.5),
            step_kills: some(0.3),
            quick_users: some(0.5),
            elsewhere: some(0.3),
            odd_resumes: some(0.7),
            ignore_term: some(0.3),
            shortages: some(4.0),
            hangs: some(10.0),
            messages: some(120.0),
            window: window(random),
            is_line_plain: random.chance(0.95),
            is_dir_locked: random.chance(0.03),
        }
    }
}

/// From 20 minutes to 6 hours, in every third life or so.
fn window(random: &mut Random) -> Option<Range<u64>> {
    const MINUTE: u64 = 60_000;
    let from = random.range(2..70) * MINUTE;
    let length = random.range(20..361) * MINUTE;
    random.chance(0.35).then(|| from..from + length)
}

/// A part of the whole.
fn part(random: &mut Random) -> f64 {
    [0.1, 0.3, 0.6, 1.0].get(random.index(4)).copied().unwrap_or(1.0)
}
