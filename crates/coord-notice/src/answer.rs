//! Builds answers.

use std::time::Duration;

use coord_wire::notice::SendAnswer;

/// Said where there is nothing that a channel could take away.
pub(crate) const NOTHING_TO_WITHDRAW: &str = "nothing to withdraw";

/// Why something was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The reason in a few words, without secrets.
    pub(crate) why: String,
    /// Whether only a change of the configuration helps.
    pub(crate) is_refused: bool,
    /// How long the channel wants no further notice.
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    /// A failure that may pass.
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_refused: false, retry_after: None }
    }

    /// A failure that stays until the configuration changes.
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self { is_refused: true, ..Self::new(why) }
    }

    /// The answer after so many tries.
    pub(crate) fn answer(self, tries: u32) -> SendAnswer {
        let retry_after_ms = self.retry_after.and_then(|after| after.as_millis().try_into().ok());
        SendAnswer {
            is_sent: false,
            handle: None,
            saying: self.why,
            tries,
            is_refused: self.is_refused,
            is_nobody_there: false,
            retry_after_ms,
        }
    }
}

/// The answer to what was sent.
pub(crate) fn sent(saying: impl Into<String>, handle: Option<String>, tries: u32) -> SendAnswer {
    SendAnswer {
        is_sent: true,
        handle,
        saying: saying.into(),
        tries,
        is_refused: false,
        is_nobody_there: false,
        retry_after_ms: None,
    }
}
