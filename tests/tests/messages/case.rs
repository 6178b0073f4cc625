//! What the cases share: a person sends a message, and what became of it is looked at. Decides nothing.

use coord_tests::coord::coord;
use coord_tests::fake_api::Request;
use coord_tests::place::Place;
use coord_tests::wait::wait_until;
use coord_wire::message::{MessageInfo, Messages, Sent};

pub(crate) const WITH_BASH: [&str; 4] = ["--permission-mode", "manual", "--allowedTools", "Bash"];

/// A person sends it at a terminal of their own. Words that a shell takes apart are quoted by the case.
#[track_caller]
pub(crate) fn send(place: &mut Place, words: &[&str]) -> Sent {
    let id = place.id.clone();
    send_to(place, &id, words)
}

/// The same to another session.
#[track_caller]
pub(crate) fn send_to(place: &mut Place, id: &str, words: &[&str]) -> Sent {
    let printed = place.runs("coord", &[&["send", id], words, &["--json"]].concat());
    let line = printed.lines().next().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("coord send: {error}\n{printed}"))
}

/// A message as it is shown.
#[track_caller]
pub(crate) fn shown(place: &Place, id: &str) -> MessageInfo {
    let shown = coord(&place.home, &["queue", "show", id, "--json"]).expect_success().stdout;
    serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}\n{shown}"))
}

/// Waits until a message is as wanted.
#[track_caller]
pub(crate) fn message_when(
    place: &Place,
    id: &str,
    what: &str,
    fits: impl Fn(&MessageInfo) -> bool,
) -> MessageInfo {
    wait_until(&format!("message {id}: {what}"), || {
        let message = shown(place, id);
        if fits(&message) { Ok(message) } else { Err(Box::new(message)) }
    })
}

/// Waits until it is proved that it arrived.
#[track_caller]
pub(crate) fn when_delivered(place: &Place, id: &str) -> MessageInfo {
    message_when(place, id, "it is delivered", |message| message.state == "processed")
}

/// All messages for a session, newest first.
#[track_caller]
pub(crate) fn messages_for(place: &Place, id: &str) -> Vec<MessageInfo> {
    let list = coord(&place.home, &["queue", "--session", id, "--json"]).expect_success().stdout;
    let list: Messages =
        serde_json::from_str(&list).unwrap_or_else(|error| panic!("{error}\n{list}"));
    list.messages
}

/// The requests of the main model whose newest words hold this.
pub(crate) fn requests_with(place: &Place, words: &str) -> Vec<Request> {
    let is_one = |one: &Request| !one.is_background && one.last_user_text.contains(words);
    place.api.requests().into_iter().filter(is_one).collect()
}

/// What a person's message is framed with, id and quote, as the model reads it.
#[track_caller]
pub(crate) fn assert_framed(request: &Request, id: &str, text: &str) {
    let words = &request.last_user_text;
    for part in [
        format!("[coord] Message {id} was sent by a person at a terminal"),
        format!("\n> {text}\n"),
        format!("[coord] End of message {id}."),
    ] {
        assert!(words.contains(&part), "{part:?} in {words}");
    }
}
