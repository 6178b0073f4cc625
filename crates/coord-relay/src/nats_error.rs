//! What the server's errors mean.

use coord_fleet::EngineError;
use serde::Deserialize;

/// "wrong last sequence": another batch was appended meanwhile.
const WRONG_LAST_SEQUENCE: u32 = 10071;
/// A stream took no message; the description says why.
const STORE_FAILED: u32 = 10077;
/// No resources, no memory, no storage.
const EXHAUSTED: [u32; 3] = [10023, 10028, 10047];

/// An error in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ApiError {
    /// As in HTTP.
    pub(crate) code: u16,
    /// Which error it is.
    #[serde(default)]
    pub(crate) err_code: u32,
    /// The server's words.
    #[serde(default)]
    pub(crate) description: String,
}

impl From<ApiError> for EngineError {
    fn from(error: ApiError) -> Self {
        let ApiError { code: _, err_code, description } = error;
        let is_full =
            ["maximum", "exceeded", "no space"].iter().any(|one| description.contains(one));
        match err_code {
            WRONG_LAST_SEQUENCE => Self::Conflict,
            STORE_FAILED if is_full => Self::Full(description),
            _ if EXHAUSTED.contains(&err_code) => Self::Full(description),
            _ => Self::Other(description),
        }
    }
}

/// A permission that is missing. The server says so beside the answers, and does not say which request it refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The subject.
    pub(crate) subject: String,
    /// `publish` or `subscribe`.
    pub(crate) what: &'static str,
}

impl Refusal {
    /// As an engine's error.
    pub(crate) fn error(self) -> EngineError {
        EngineError::Denied { subject: self.subject, what: self.what }
    }
}

/// The missing permission that an error of the server names; none if it is another error.
pub(crate) fn refusal(text: &str) -> Option<Refusal> {
    let (_, text) = text.split_once("Permissions Violation for ")?;
    let (verb, rest) = text.split_once(" to ")?;
    let what = match verb {
        "Publish" => "publish",
        "Subscription" => "subscribe",
        _ => return None,
    };
    let subject = rest.split('"').nth(1)?.to_owned();
    Some(Refusal { subject, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_is_read_from_the_servers_words() {
        let read = |text: &str| refusal(text).map(|one| (one.subject, one.what));
        let violation = "nats: Permissions Violation for ";
        for (end, subject, what) in [
            ("Publish to \"a.b\"", "a.b", "publish"),
            ("Subscription to \"a.>\"", "a.>", "subscribe"),
            ("Subscription to \"a\" using queue \"q\"", "a", "subscribe"),
        ] {
            assert_eq!(read(&format!("{violation}{end}")), Some((subject.to_owned(), what)));
        }
        for odd in ["nats: authorization violation", "nats: Permissions Violation for Publish to a"]
        {
            assert_eq!(read(odd), None, "{odd}");
        }
    }

    #[test]
    fn an_error_of_an_answer_is_read() {
        let read = |err_code, description: &str| {
            EngineError::from(ApiError { code: 400, err_code, description: description.to_owned() })
        };
        assert_eq!(read(10071, "wrong last sequence: 3"), EngineError::Conflict);
        assert!(matches!(read(10077, "maximum bytes exceeded"), EngineError::Full(_)));
        assert!(matches!(read(10047, "insufficient storage resources"), EngineError::Full(_)));
        assert!(matches!(read(10077, "store is closed"), EngineError::Other(_)));
        assert!(matches!(read(10059, "stream not found"), EngineError::Other(_)));
    }
}
