//! The paths of the HTTP interface: one table, with which requests are matched, and which docs/reference.md is
//! compared with.

use crate::http::Response;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// Hooks report events.
    PostEvents,
    /// The history.
    GetEvents,
    /// All sessions.
    GetSessions,
    /// One session.
    GetSession,
    /// What coord decided about a session.
    GetDecisions,
    /// A person's order to recover a session.
    PostRecover,
    /// A process claims to resume a session.
    ClaimResume,
    /// It could not become the client.
    FailResume,
    /// The coordinator's health.
    GetHealth,
    /// The coordinator's metrics.
    GetMetrics,
    /// A person's other orders.
    PostOperator,
    /// A message is sent.
    PostMessage,
    /// All messages.
    GetMessages,
    /// One message.
    GetMessage,
    /// A message is done, or something else becomes of it.
    PostVerb(&'static str),
    /// A consumer takes a message.
    PostClaim,
    /// A wake hook waits for a message.
    PostWake,
    /// A hook waits for the reply to its permission prompt.
    PostRequests,
    /// The open permission prompts.
    GetRequests,
    /// What became of the reply to a prompt.
    GetDecision,
    /// A person's reply to a prompt.
    PostDecision,
    /// Whether there is a passphrase.
    GetPassphrase,
    /// A terminal is unlocked.
    PostPassphrase,
    /// The relay asks for what is to be sent to other machines.
    PostOutbox,
    /// The relay brings what came from one.
    PostInbox,
    /// The relay says who tells of whose needs.
    PostNotices,
    /// The coordinator is to stop.
    PostDown,
}

/// Methods and paths. A segment in capitals stands for any one, and no path has two of them.
pub const ROUTES: [(&str, &str, Endpoint); 31] = [
    ("POST", "/v1/events", Endpoint::PostEvents),
    ("POST", "/v1/requests", Endpoint::PostRequests),
    ("POST", "/v1/wake", Endpoint::PostWake),
    ("GET", "/v1/events", Endpoint::GetEvents),
    ("GET", "/v1/sessions", Endpoint::GetSessions),
    ("GET", "/v1/sessions/ID", Endpoint::GetSession),
    ("GET", "/v1/sessions/ID/decisions", Endpoint::GetDecisions),
    ("POST", "/v1/sessions/ID/recover", Endpoint::PostRecover),
    ("POST", "/v1/resume/NONCE", Endpoint::ClaimResume),
    ("POST", "/v1/resume/NONCE/failed", Endpoint::FailResume),
    ("GET", "/healthz", Endpoint::GetHealth),
    ("GET", "/metrics", Endpoint::GetMetrics),
    ("POST", "/v1/operator", Endpoint::PostOperator),
    ("POST", "/v1/messages", Endpoint::PostMessage),
    ("GET", "/v1/messages", Endpoint::GetMessages),
    ("GET", "/v1/messages/ID", Endpoint::GetMessage),
    ("POST", "/v1/messages/ID/done", Endpoint::PostVerb("done")),
    ("POST", "/v1/messages/ID/fail", Endpoint::PostVerb("fail")),
    ("POST", "/v1/messages/ID/renew", Endpoint::PostVerb("renew")),
    ("POST", "/v1/messages/ID/retry", Endpoint::PostVerb("retry")),
    ("POST", "/v1/messages/ID/drop", Endpoint::PostVerb("drop")),
    ("POST", "/v1/queues/NAME/claim", Endpoint::PostClaim),
    ("GET", "/v1/requests", Endpoint::GetRequests),
    ("GET", "/v1/needs/ID/decision", Endpoint::GetDecision),
    ("POST", "/v1/needs/ID/decision", Endpoint::PostDecision),
    ("GET", "/v1/passphrase", Endpoint::GetPassphrase),
    ("POST", "/v1/passphrase", Endpoint::PostPassphrase),
    ("POST", "/v1/fleet/outbox", Endpoint::PostOutbox),
    ("POST", "/v1/fleet/inbox", Endpoint::PostInbox),
    ("POST", "/v1/fleet/notices", Endpoint::PostNotices),
    ("POST", "/v1/down", Endpoint::PostDown),
];

/// The endpoint of a request, and what stands in the place of the segment in capitals; else the error to answer with.
pub(super) fn find<'a>(method: &str, path: &[&'a str]) -> Result<(Endpoint, &'a str), Response> {
    let mut is_known = false;
    for (of, pattern, endpoint) in ROUTES {
        let Some(parameter) = matched(pattern, path) else { continue };
        if of == method {
            return Ok((endpoint, parameter));
        }
        is_known = true;
    }
    Err(if is_known {
        Response::error(405, "method_not_allowed", "this path takes another method")
    } else if path.first() == Some(&"v1") {
        Response::error(404, "not_found", "no such path")
    } else {
        Response::error(404, "not_found", "no such path; this is version 1 of the API")
    })
}

/// What stands in the place of the segment in capitals; empty if there is none. None if the path is another one.
fn matched<'a>(pattern: &str, path: &[&'a str]) -> Option<&'a str> {
    let mut parts = path.iter();
    let mut parameter = "";
    for wanted in pattern.trim_start_matches('/').split('/') {
        let part = parts.next()?;
        if wanted.bytes().all(|byte| byte.is_ascii_uppercase()) {
            parameter = part;
        } else if *part != wanted {
            return None;
        }
    }
    parts.next().is_none().then_some(parameter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_finds_its_endpoint_or_why_there_is_none() {
        for (method, path, expected) in [
            ("POST", &["v1", "events"][..], Ok((Endpoint::PostEvents, ""))),
            ("GET", &["v1", "sessions", "s/1"], Ok((Endpoint::GetSession, "s/1"))),
            ("POST", &["v1", "messages", "m", "done"], Ok((Endpoint::PostVerb("done"), "m"))),
            ("POST", &["v1", "resume", "n", "failed"], Ok((Endpoint::FailResume, "n"))),
            ("PUT", &["v1", "events"], Err(405)),
            ("GET", &["v1", "resume", "n"], Err(405)),
            ("POST", &["v1", "messages", "m", "burn"], Err(404)),
            ("GET", &["v1", "events", "x", "y"], Err(404)),
            ("GET", &["v1"], Err(404)),
            ("GET", &[""], Err(404)),
        ] {
            let found = find(method, path).map_err(|error| error.status);
            assert_eq!(found, expected, "{method} {path:?}");
        }
    }

    // Two rows for one request: the second would never be found.
    #[test]
    fn each_row_is_found_by_its_own_path() {
        for (method, pattern, endpoint) in ROUTES {
            let path: Vec<&str> = pattern.trim_start_matches('/').split('/').collect();
            assert_eq!(
                find(method, &path).map(|(found, _)| found).ok(),
                Some(endpoint),
                "{pattern}"
            );
        }
    }
}
