//! What each service expects and answers, by its public documentation.
//!
//! * ntfy: publishing as JSON, to the server's root; with a sequence id (ntfy 2.16), which updates and deletes. An
//!   older server ignores the id and shows a second notification.
//! * Slack: an incoming webhook. It answers no id, so nothing can be taken away.
//! * Discord: Execute Webhook with `wait=true`, Delete Webhook Message.
//! * Telegram: sendMessage and deleteMessage of the bot API. The token is part of the path.

use std::time::Duration;

use coord_model::NoticeKind;
use coord_wire::notice::{Notice, NoticeEvent, Shape};
use serde_json::{Value, json};

use super::address::Address;
use super::client::Reply;
use crate::answer::Failure;
use crate::text::without_markup;
use crate::wording;

/// Longest content of a message of Discord, in characters.
const DISCORD_CHARS_MAX: usize = 2000;
/// Longest text of a message of Telegram (4096 characters) and ntfy (4096 bytes), in bytes.
const TEXT_BYTES_MAX: usize = 4000;
/// Longest topic and sequence id of ntfy, in characters.
const NTFY_ID_CHARS_MAX: usize = 64;
/// ntfy's priorities.
const NTFY_DEFAULT: u8 = 3;
const NTFY_HIGH: u8 = 4;
/// Longest time that a service may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A request to a service: a POST with a body, a DELETE without.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) url: String,
    pub(super) body: Option<String>,
    pub(super) bearer: Option<String>,
    pub(super) idempotency_key: Option<String>,
}

/// A service at an address.
pub(super) struct Service {
    shape: Shape,
    address: Address,
    token: Option<String>,
    chat: Option<String>,
}

impl Service {
    /// Checks that what the service needs is there.
    pub(super) fn new(
        shape: Shape,
        address: Address,
        token: Option<String>,
        chat: Option<String>,
    ) -> Result<Self, Failure> {
        let refused = |why: &str| Err(Failure::refused(why));
        match shape {
            Shape::Ntfy if !is_ntfy_id(address.parts().1) => {
                return refused("the address does not end with a topic of ntfy");
            }
            Shape::Telegram if chat.as_deref().is_none_or(str::is_empty) => {
                return refused("telegram needs a chat");
            }
            Shape::Telegram if !token.as_deref().is_some_and(is_bot_token) => {
                return refused("telegram needs the token of a bot");
            }
            Shape::Generic | Shape::Ntfy | Shape::Slack | Shape::Discord | Shape::Telegram => (),
        }
        if token.as_deref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return refused("the token is unusable");
        }
        Ok(Self { shape, address, token, chat })
    }

    /// The request that tells a notice.
    pub(super) fn notice(&self, notice: &Notice, is_repeat: bool) -> Request {
        let is_repeat = is_repeat || notice.may_be_repeated;
        let message = || wording::message(notice, is_repeat);
        match self.shape {
            Shape::Generic => {
                let notice = Notice { may_be_repeated: is_repeat, ..notice.clone() };
                let body = serde_json::to_string(&notice).unwrap_or_default();
                Request {
                    url: self.address.whole(),
                    body: Some(body),
                    bearer: self.token.clone(),
                    idempotency_key: idempotency_key(&notice),
                }
            }
            Shape::Ntfy => self.ntfy(notice, is_repeat),
            Shape::Slack => {
                let body = json!({"text": without_markup(&message()), "mrkdwn": false});
                self.post(self.address.whole(), &body)
            }
            Shape::Discord => {
                let content = without_markdown(&message(), DISCORD_CHARS_MAX);
                let body = json!({"content": content, "allowed_mentions": {"parse": []}});
                self.post(self.address.with("", Some("wait=true")), &body)
            }
            Shape::Telegram => {
                let text = cut(message(), TEXT_BYTES_MAX);
                let body = json!({"chat_id": self.chat_id(), "text": text});
                self.post(self.telegram("sendMessage"), &body)
            }
        }
    }

    /// Whether the service is told that a need is over, in the same way as of the need.
    pub(super) fn tells_withdrawals(&self) -> bool {
        self.shape == Shape::Generic
    }

    /// Whether a later notice of the same need is a new message, so that the earlier one has to be deleted.
    pub(super) fn posts_anew(&self) -> bool {
        matches!(self.shape, Shape::Discord | Shape::Telegram)
    }

    /// Whether the service recognizes a request that arrives twice.
    pub(super) fn is_idempotent(&self, notice: &Notice) -> bool {
        match self.shape {
            Shape::Generic => idempotency_key(notice).is_some(),
            Shape::Ntfy => sequence_id(notice).is_some(),
            Shape::Slack | Shape::Discord | Shape::Telegram => false,
        }
    }

    /// The request that takes an earlier notice away, if there is one.
    pub(super) fn withdrawal(&self, notice: &Notice, handle: Option<&str>) -> Option<Request> {
        match self.shape {
            Shape::Generic | Shape::Slack => None,
            Shape::Ntfy => {
                let id = handle.filter(|handle| is_ntfy_id(handle)).map(str::to_owned);
                let id = id.or_else(|| sequence_id(notice))?;
                Some(Request {
                    body: None,
                    ..self.post(self.address.with(&format!("/{id}"), None), &Value::Null)
                })
            }
            Shape::Discord => {
                let url =
                    self.address.with(&format!("/messages/{}", handle.filter(is_number)?), None);
                Some(Request { body: None, ..self.post(url, &Value::Null) })
            }
            Shape::Telegram => {
                let id: i64 = handle.filter(is_number)?.parse().ok()?;
                let body = json!({"chat_id": self.chat_id(), "message_id": id});
                Some(self.post(self.telegram("deleteMessage"), &body))
            }
        }
    }

    /// What the service calls the notice that it took. A failure if another one answered.
    pub(super) fn handle(&self, reply: &Reply, notice: &Notice) -> Result<Option<String>, Failure> {
        if !reply.is_whole {
            return Ok(None);
        }
        let body = || serde_json::from_slice::<Value>(&reply.body).unwrap_or_default();
        let unknown = |name: &str| Failure::new(format!("its answer is not one of {name}"));
        match self.shape {
            Shape::Generic | Shape::Slack => Ok(None),
            Shape::Ntfy => {
                match body()["id"].as_str() {
                    Some(id) => Ok(sequence_id(notice)
                        .or_else(|| Some(id.to_owned()).filter(|id| is_ntfy_id(id)))),
                    None => Err(unknown("ntfy")),
                }
            }
            Shape::Discord => match body()["id"].as_str().filter(is_number) {
                Some(id) => Ok(Some(id.to_owned())),
                None => Err(unknown("Discord")),
            },
            Shape::Telegram => match (&body()["ok"], body()["result"]["message_id"].as_i64()) {
                (Value::Bool(true), Some(id)) => Ok(Some(id.to_string())),
                _ => Err(unknown("Telegram")),
            },
        }
    }

    fn ntfy(&self, notice: &Notice, is_repeat: bool) -> Request {
        let (root, topic) = self.address.parts();
        let is_need = matches!(notice.event, NoticeEvent::Need | NoticeEvent::Digest);
        let kind = notice.kind.map(NoticeKind::name);
        let tags: Vec<&str> = std::iter::once("coord").chain(kind).collect();
        let mut body = json!({
            "topic": topic,
            "title": wording::sentence(notice, is_repeat),
            "message": cut(wording::details_and_host(notice), TEXT_BYTES_MAX),
            "tags": tags,
            "priority": if is_need { NTFY_HIGH } else { NTFY_DEFAULT },
        });
        if let (Some(id), Some(body)) = (sequence_id(notice), body.as_object_mut()) {
            body.insert("sequence_id".to_owned(), id.into());
        }
        self.post(root, &body)
    }

    fn post(&self, url: String, body: &Value) -> Request {
        // Elsewhere the token is part of the address, or there is none.
        let bearer = self.token.clone().filter(|_| self.shape == Shape::Ntfy);
        Request { url, body: Some(body.to_string()), bearer, idempotency_key: None }
    }

    fn telegram(&self, method: &str) -> String {
        let token = self.token.as_deref().unwrap_or_default();
        self.address.with(&format!("/bot{token}/{method}"), None)
    }

    /// A chat is a number, or the name of a channel.
    fn chat_id(&self) -> Value {
        let chat = self.chat.as_deref().unwrap_or_default();
        chat.parse::<i64>().map_or_else(|_| chat.into(), Into::into)
    }
}

/// How long a service wants no further request: by the header, in seconds, or by the body of Telegram or Discord.
/// A date in the header is not read.
pub(super) fn retry_after(reply: &Reply) -> Option<Duration> {
    let by_header = reply.retry_after.as_deref().and_then(|value| value.trim().parse::<u64>().ok());
    let by_header = by_header.map(Duration::from_secs);
    let by_body = || {
        let body: Value = serde_json::from_slice(&reply.body).ok()?;
        let seconds = [&body["parameters"]["retry_after"], &body["retry_after"]];
        let seconds = seconds.into_iter().find_map(Value::as_f64)?;
        Duration::try_from_secs_f64(seconds).ok()
    };
    by_header.or_else(by_body).map(|after| after.min(RETRY_AFTER_MAX))
}

/// The same for each copy of one notice, and for no other.
fn idempotency_key(notice: &Notice) -> Option<String> {
    let event = if notice.event == NoticeEvent::Withdrawn { "withdrawn" } else { "told" };
    let host = plain(&notice.host);
    notice.id.map(|id| format!("coord-{host}-{id}-{event}-{}", notice.repeat))
}

/// The same for each notice of a need: ntfy's clients replace the earlier one.
fn sequence_id(notice: &Notice) -> Option<String> {
    let id = plain(&notice.id?.to_string());
    let host = plain(&notice.host);
    let room = NTFY_ID_CHARS_MAX.saturating_sub("coord--".len() + id.len());
    Some(format!("coord-{}-{id}", host.chars().take(room).collect::<String>()))
}

/// A text as a part of an id.
fn plain(text: &str) -> String {
    let part = |one: char| if one.is_ascii_alphanumeric() || one == '-' { one } else { '_' };
    text.chars().take(NTFY_ID_CHARS_MAX).map(part).collect()
}

fn is_ntfy_id(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=NTFY_ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_part)
}

/// Whether a text is a number, so that it is safe in an address.
fn is_number(text: &&str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a token is safe in an address: a number, a colon, letters.
fn is_bot_token(token: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b":_-".contains(&byte);
    !token.is_empty() && token.bytes().all(is_part)
}

/// The first bytes of a text, up to the end of a character.
fn cut(mut text: String, bytes_max: usize) -> String {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// A text in which nothing is Markdown, a mention or a link, of at most so many characters.
fn without_markdown(text: &str, chars_max: usize) -> String {
    let mut escaped = String::new();
    let mut n_chars = 0;
    for one in text.chars() {
        let is_mark = "\\*_~`|>#[]()<:@-+.!".contains(one);
        n_chars += if is_mark { 2 } else { 1 };
        if chars_max < n_chars {
            break;
        }
        if is_mark {
            escaped.push('\\');
        }
        escaped.push(one);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_escaped_and_cut_between_characters() {
        let shown = without_markdown("**a** https://x @everyone <@1> # b", 999);
        assert_eq!(shown, r"\*\*a\*\* https\://x \@everyone \<\@1\> \# b");
        assert_eq!(without_markdown("ab**", 5), r"ab\*");
        assert_eq!(without_markdown(&"*".repeat(5000), DISCORD_CHARS_MAX).len(), DISCORD_CHARS_MAX);
    }

    #[test]
    fn a_service_says_how_long_to_wait() {
        let after = |header: Option<&str>, body: &str| {
            let reply = Reply {
                status: 429,
                retry_after: header.map(str::to_owned),
                body: body.as_bytes().to_vec(),
                is_whole: true,
            };
            retry_after(&reply).map(|after| after.as_millis())
        };
        assert_eq!(after(Some("7"), ""), Some(7000));
        assert_eq!(after(None, r#"{"parameters":{"retry_after":5}}"#), Some(5000));
        assert_eq!(after(None, r#"{"retry_after":0.5}"#), Some(500));
        assert_eq!(after(Some("99999999999"), ""), Some(RETRY_AFTER_MAX.as_millis()));
        for odd in [r#"{"retry_after":-1}"#, r#"{"retry_after":1e999}"#, "[]", "no", ""] {
            assert_eq!(after(Some("Wed, 21 Oct 2026 07:28:00 GMT"), odd), None, "{odd}");
        }
    }

    #[test]
    fn ids_of_ntfy_are_within_its_limits() {
        assert!(is_ntfy_id("a_B-9") && is_ntfy_id(&"x".repeat(64)));
        for odd in ["", "a/b", "a.b", "é", &"x".repeat(65)] {
            assert!(!is_ntfy_id(odd), "{odd}");
        }
    }
}
