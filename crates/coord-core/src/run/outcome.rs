//! Judges how a run ended, from fields, and never from text that an agent could print (S2-18, R-14).
//!
//! The order is: wrong arguments, a used-up limit, authentication and billing, the user's own cancel, a resume
//! that was impossible, the result, and only then a crash.

use alloc::format;
use alloc::string::String;

use super::{ExitReason, ResultSeen, Run};

/// The program that runs. It decides which time limits may be shortened (H-09) and what exit codes mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Claude Code.
    Claude,
    /// Anything else.
    Other,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl ExitStatus {
    /// In words for people.
    pub fn words(self) -> String {
        match self {
            Self::Code(code) => format!("exit code {code}"),
            Self::Signal(signal) => format!("signal {signal}"),
        }
    }

    /// The signal, even if a shell or the client turned it into an exit code.
    fn signal(self) -> Option<i32> {
        match self {
            Self::Signal(signal) => Some(signal),
            Self::Code(code) => code.checked_sub(128).filter(|signal| (1..=64).contains(signal)),
        }
    }
}

/// A known error text (S2-03).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorText {
    /// "No messages returned"
    NoMessages,
    /// "ECONNRESET"
    ConnectionReset,
    /// "ETIMEDOUT"
    TimedOut,
}

impl ErrorText {
    /// All error texts.
    pub const ALL: [Self; 3] = [Self::NoMessages, Self::ConnectionReset, Self::TimedOut];

    /// The text, which is matched in upper or lower case.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoMessages => "No messages returned",
            Self::ConnectionReset => "ECONNRESET",
            Self::TimedOut => "ETIMEDOUT",
        }
    }
}

/// What is known of an end beside the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How the process ended, and why.
    pub exit: (ExitStatus, ExitReason),
    /// The program that ran.
    pub provider: Provider,
    /// Whether it had to continue an old conversation.
    pub is_resume: bool,
    /// Bytes on its standard output.
    pub stdout_bytes: u64,
    /// What its standard error reports, if that is known.
    pub complaint: Option<Complaint>,
    /// Whether its whole standard output, which is no stream, is the one line that the client writes at a used-up
    /// limit.
    pub is_limit_line: bool,
}

/// What a standard error reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Complaint {
    /// Wrong arguments: it begins like the client's message about them.
    Arguments,
    /// The conversation does not exist.
    NoConversation,
    /// A used-up limit: a text that the agent's configuration names for it, outside of what the prompt says
    /// (S2-17).
    Limit,
}

/// The outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunOutcome {
    /// It completed its turn.
    Done,
    /// It ended without completing its turn, and nobody wanted that.
    Crash,
    /// It ended well and gave no result (S2-02).
    NoResult,
    /// Its limit is used up (S2-15).
    Exhausted,
    /// Its login is refused.
    Authentication,
    /// Its account is not paid for.
    Billing,
    /// Its user ended it.
    Cancelled,
    /// Its arguments are wrong (S2-01).
    Usage,
    /// Its conversation cannot be continued.
    PoisonedResume,
}

impl RunOutcome {
    /// All outcomes.
    pub const ALL: [Self; 9] = [
        Self::Done,
        Self::Crash,
        Self::NoResult,
        Self::Exhausted,
        Self::Authentication,
        Self::Billing,
        Self::Cancelled,
        Self::Usage,
        Self::PoisonedResume,
    ];

    /// The name of the outcome.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Crash => "crash",
            Self::NoResult => "no_result",
            Self::Exhausted => "exhausted",
            Self::Authentication => "authentication",
            Self::Billing => "billing",
            Self::Cancelled => "cancelled",
            Self::Usage => "usage",
            Self::PoisonedResume => "poisoned_resume",
        }
    }
}

/// An outcome, and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The outcome.
    pub outcome: RunOutcome,
    /// When a used-up limit ends, milliseconds since 1970; none if the stream did not say.
    pub resets_ms: Option<u64>,
    /// The reason, in words.
    pub because: String,
}

/// Judges an end.
pub fn judge(run: &Run, ended: &Ended) -> Judged {
    let result = run.last_result.as_ref().map(|(_, result)| result);
    let (outcome, because) = usage(run, ended)
        .or_else(|| limits(run, result, ended))
        .or_else(|| cancelled(result, ended))
        .or_else(|| poisoned(run, result, ended))
        .or_else(|| by_result(result))
        .unwrap_or_else(|| without_result(run, ended));
    let resets_ms = run.resets_ms.filter(|_| outcome == RunOutcome::Exhausted);
    Judged { outcome, resets_ms, because }
}

type Found = Option<(RunOutcome, String)>;

fn usage(run: &Run, ended: &Ended) -> Found {
    let (status, reason) = ended.exit;
    if reason == ExitReason::NotStarted {
        return Some((RunOutcome::Usage, String::from("the run cannot be started")));
    }
    // If there is nothing to resume, the client answers with a result line, without having begun.
    let has_begun = run.session_id.is_some();
    let is_usage = match (ended.provider, status) {
        (Provider::Claude, ExitStatus::Code(1)) => {
            ended.complaint == Some(Complaint::Arguments) && !has_begun
        }
        // The codes of sysexits and of many programs, and those of a shell for a program that does not exist.
        (Provider::Other, ExitStatus::Code(2 | 64)) | (_, ExitStatus::Code(126 | 127)) => {
            ended.stdout_bytes == 0
        }
        (_, ExitStatus::Code(_) | ExitStatus::Signal(_)) => false,
    };
    is_usage.then(|| (RunOutcome::Usage, format!("{}, wrong arguments", status.words())))
}

fn limits(run: &Run, result: Option<&ResultSeen>, ended: &Ended) -> Found {
    let (status, _) = ended.exit;
    let is_failed = result.map_or(status != ExitStatus::Code(0), |result| result.is_error);
    if !is_failed {
        return None;
    }
    let code = result.and_then(|result| result.api_error_status);
    let name = run.failure.as_deref();
    let found = match (name, code) {
        (Some("rate_limit"), _) | (_, Some(429)) => RunOutcome::Exhausted,
        (Some("billing_error"), _) | (_, Some(402)) => RunOutcome::Billing,
        (Some("authentication_failed" | "oauth_org_not_allowed"), _) | (_, Some(401)) => {
            RunOutcome::Authentication
        }
        (_, _) if run.is_rejected || ended.complaint == Some(Complaint::Limit) => {
            RunOutcome::Exhausted
        }
        (_, _) if is_text_of_a_limit(run, ended) => RunOutcome::Exhausted,
        (_, _) => return None,
    };
    let because = match (name, code) {
        (Some(name), _) => format!("client error {name}"),
        (None, Some(code)) => format!("the API answered {code}"),
        (None, None) if run.is_rejected => {
            String::from("the account's usage limit rejects requests")
        }
        (None, None) if ended.complaint == Some(Complaint::Limit) => {
            String::from("the configured text for a reached usage limit")
        }
        (None, None) => String::from("the client's only line says that its usage limit is reached"),
    };
    Some((found, because))
}

/// Whether the client itself reports a used-up limit in text mode. The line is on standard output, where the agent
/// writes too. But a client whose agent answered exits with 0, whatever the answer was (measured).
fn is_text_of_a_limit(run: &Run, ended: &Ended) -> bool {
    let is_clients = ended.provider == Provider::Claude && !run.has_stream;
    is_clients && ended.exit == (ExitStatus::Code(1), ExitReason::Exited) && ended.is_limit_line
}

fn cancelled(result: Option<&ResultSeen>, ended: &Ended) -> Found {
    let (status, reason) = ended.exit;
    let is_aborted = result.is_some_and(|result| result.terminal_reason.starts_with("aborted"));
    let is_interrupt = status.signal() == Some(2);
    let is_forwarded = reason == ExitReason::ForwardedSignal
        && (status.signal().is_some() || result.is_none_or(|result| result.is_error));
    if is_aborted {
        return Some((RunOutcome::Cancelled, String::from("the turn was interrupted")));
    }
    (is_interrupt || is_forwarded)
        .then(|| (RunOutcome::Cancelled, format!("{}, {}", status.words(), reason.word())))
}

/// A conversation that cannot be continued fails at once, or never answers (S3-23).
fn poisoned(run: &Run, result: Option<&ResultSeen>, ended: &Ended) -> Found {
    if !ended.is_resume {
        return None;
    }
    let is_refused = run.failure.as_deref() == Some("invalid_request")
        || result.is_some_and(|result| result.is_error && result.api_error_status == Some(400));
    let is_silent = ended.exit.1 == ExitReason::FirstResult && run.results == 0;
    let because = if ended.complaint == Some(Complaint::NoConversation) {
        "there is no such conversation"
    } else if is_refused {
        "the API rejects the conversation"
    } else if is_silent {
        "the run never answered"
    } else {
        return None;
    };
    Some((RunOutcome::PoisonedResume, because.into()))
}

fn by_result(result: Option<&ResultSeen>) -> Found {
    let result = result?;
    let reason = &result.terminal_reason;
    let is_done = !result.is_error || reason == "max_turns" || result.subtype == "error_max_turns";
    let outcome = if is_done { RunOutcome::Done } else { RunOutcome::Crash };
    let is_error = if result.is_error { "an error result" } else { "a result" };
    Some((outcome, format!("{is_error}, {reason}, {} turns", result.turns)))
}

fn without_result(run: &Run, ended: &Ended) -> (RunOutcome, String) {
    let (status, reason) = ended.exit;
    let why = |what: &str| format!("{what}, {}, {}", status.words(), reason.word());
    if run.results > 0 {
        // The turn after the result gave none of its own, so the first result stands.
        return (RunOutcome::Done, why("a result, but none for a later turn"));
    }
    if reason.is_forced() {
        // Coord ended it, which is no crash (S3-24), and there was no result.
        return (RunOutcome::NoResult, why("ended without a result"));
    }
    match status {
        ExitStatus::Code(0) if run.has_stream => {
            (RunOutcome::NoResult, why("a stream without a result"))
        }
        ExitStatus::Code(0) if ended.stdout_bytes == 0 => (RunOutcome::NoResult, why("no output")),
        ExitStatus::Code(0) => (RunOutcome::Done, why("output")),
        ExitStatus::Code(_) | ExitStatus::Signal(_) => (RunOutcome::Crash, why("no result")),
    }
}
