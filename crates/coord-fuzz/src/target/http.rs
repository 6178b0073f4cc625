//! A request: whole at its last byte and not before, bounded, and the same whether it came alone or
//! with the next one behind it; or an answer that says what is wrong.

use super::{Target, assert_is_one_line};
use coord_daemon::http::{Parsed, parse};
use coord_wire::api::ErrorAnswer;
use coord_wire::limits::{BODY_BYTES_MAX, HEAD_BYTES_MAX};

pub(super) const TARGET: Target = Target {
    name: "http",
    seeds,
    dictionary: &[
        "Content-Length: 5\r\n",
        "Content-Length: 0\r\n",
        "content-length:\t7\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n",
        " HTTP/1.0\r\n",
        "\r\n\r\n",
        "GET /v1/sessions/%2e%2e?since=%zz&session=%e9 HTTP/1.1\r\n",
        "POST /v1/events HTTP/1.1\r\n",
        "X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
    ],
    repair: None,
    run,
};

/// Prefixes tried of each request.
const CUTS: usize = 24;

fn seeds() -> Vec<Vec<u8>> {
    [
        "GET /healthz HTTP/1.1\r\n\r\n",
        "POST /v1/events HTTP/1.1\r\nHost: coord\r\nContent-Length: 12\r\n\r\n[{\"v\":1}]   GET /metrics HTTP/1.1\r\n\r\n",
        "GET /v1/events?session=a%20b&since=3 HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /v1/sessions/253f?x= HTTP/1.0\r\nAccept: */*\r\nUser-Agent: curl\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n",
    ]
    .map(Vec::from)
    .to_vec()
}

fn run(input: &[u8]) -> String {
    match parse(input) {
        Parsed::Partial => {
            assert!(input.len() < HEAD_BYTES_MAX + BODY_BYTES_MAX, "waits for ever");
            "partial".to_owned()
        }
        Parsed::Bad(answer) => {
            assert!(matches!(answer.status, 400 | 413), "{}", answer.status);
            let error: ErrorAnswer =
                serde_json::from_slice(&answer.body).expect("an error in its one form");
            assert_is_one_line(&error.error.message, 200);
            let words = error.error.message;
            format!("{} {}", answer.status, words.replace(|c: char| c.is_ascii_digit(), ""))
        }
        Parsed::Whole(request, used) => {
            assert!(used <= input.len() && request.body.len() <= BODY_BYTES_MAX);
            assert!(used - request.body.len() <= HEAD_BYTES_MAX, "a head over its limit");
            assert!(input[..used].ends_with(&request.body), "another body");
            let texts: usize =
                request.query.iter().map(|(name, value)| name.len() + value.len()).sum();
            assert!(texts <= 3 * used, "a query longer than its request");
            assert_eq!(
                lengths(&input[..used - request.body.len()]),
                request.body.len().to_string()
            );
            for step in 0..CUTS.min(used) {
                let cut = used - 1 - step * used / CUTS;
                assert_eq!(parse(&input[..cut]), Parsed::Partial, "whole before its end, at {cut}");
            }
            let again = parse(&input[..used]);
            let query = request.query.len().min(4);
            let outcome = format!(
                "whole, query {query}, body {}, {}",
                !request.body.is_empty(),
                request.keep_alive
            );
            assert_eq!(again, Parsed::Whole(request, used), "another request when it comes alone");
            outcome
        }
    }
}

/// What the head says of the body's length: there is one way to read it.
fn lengths(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut said: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("content-length:"))
        .map(|value| value.trim_matches([' ', '\t', '\r']))
        .collect();
    said.dedup();
    assert!(said.len() <= 1, "two lengths: {said:?}");
    let said = said.first().copied().unwrap_or("0");
    let stripped = said.trim_start_matches('0');
    if stripped.is_empty() && !said.is_empty() { "0".to_owned() } else { stripped.to_owned() }
}
