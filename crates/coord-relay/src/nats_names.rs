//! How streams, subjects and keys are called, on the server and in its permissions.

use coord_fleet::{Item, Parcel, StateKey};
use coord_model::MachineId;
use data_encoding::HEXLOWER;

/// The stream of all journals.
pub(crate) const JOURNAL: &str = "COORD_JOURNAL";
/// The queue of messages.
pub(crate) const MESSAGES: &str = "COORD_MSG";
/// The queue of fates.
pub(crate) const FATES: &str = "COORD_FATE";
/// The bucket with the states of sessions.
pub(crate) const SESSIONS: &str = "COORD_SESSIONS";
/// The bucket with the machines' beats.
pub(crate) const HOSTS: &str = "COORD_HOSTS";

/// Begins a token that is not the name itself but its bytes as hexadecimal digits.
const ENCODED: char = '=';

/// The subject of a machine's journal.
pub(crate) fn journal(machine: MachineId) -> String {
    format!("coord.v1.journal.{machine}")
}

/// The subjects of all machines' journals.
pub(crate) fn journals() -> String {
    "coord.v1.journal.*".to_owned()
}

/// The machine whose journal a subject is; none if it is no journal's.
pub(crate) fn journal_of(subject: &str) -> Option<MachineId> {
    MachineId::parse(subject.strip_prefix("coord.v1.journal.")?)
}

/// The stream that a bucket is.
pub(crate) fn bucket_stream(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// What a machine's inbox prefix is: it receives answers and deliveries below it, and nobody else may listen there.
pub(crate) fn inbox(owner: &str) -> String {
    format!("_INBOX_coord.{owner}")
}

/// The consumer of a machine, in both queues.
pub(crate) fn consumer(machine: MachineId) -> String {
    machine.to_string()
}

/// What a machine's consumer of a queue takes.
pub(crate) fn filter(queue: &str, machine: MachineId) -> String {
    if queue == MESSAGES {
        format!("coord.v1.msg.{machine}.>")
    } else {
        format!("coord.v1.fate.{machine}.>")
    }
}

/// The subject of an item from a machine.
pub(crate) fn parcel(from: MachineId, parcel: &Parcel) -> String {
    let to = parcel.to;
    match &parcel.item {
        Item::Message(session) => format!("coord.v1.msg.{to}.{from}.{}", token(session)),
        Item::Fate => format!("coord.v1.fate.{to}.{from}"),
    }
}

/// What the subject of an item says of it: who sent it, and what it is. A subject that no machine of the fleet would
/// choose says something too: whoever takes the item refuses it by its seal, and counts it.
pub(crate) fn item(subject: &str) -> (Option<MachineId>, Item) {
    let mut tokens = subject.split('.').skip(2);
    let (kind, _to, from) = (tokens.next(), tokens.next(), tokens.next());
    let from = from.and_then(MachineId::parse);
    if kind == Some("fate") {
        return (from, Item::Fate);
    }
    let session = tokens.next().unwrap_or_default();
    (from, Item::Message(name(session).unwrap_or_else(|| session.to_owned())))
}

/// The subject of a key.
pub(crate) fn key(key: &StateKey) -> String {
    let StateKey { machine, session } = key;
    match session {
        Some(session) => format!("$KV.{SESSIONS}.{machine}.{}", token(session)),
        None => format!("$KV.{HOSTS}.{machine}"),
    }
}

/// The key of a subject; none if it is not one.
pub(crate) fn state_key(subject: &str) -> Option<StateKey> {
    let (bucket, key) = subject.strip_prefix("$KV.")?.split_once('.')?;
    match (bucket, key.split_once('.')) {
        (SESSIONS, Some((machine, session))) => {
            Some(StateKey { machine: MachineId::parse(machine)?, session: Some(name(session)?) })
        }
        (HOSTS, None) => Some(StateKey { machine: MachineId::parse(key)?, session: None }),
        _ => None,
    }
}

/// A name as one token of a subject, which is also valid in a key.
fn token(name: &str) -> String {
    let is_plain = |one: u8| one.is_ascii_alphanumeric() || matches!(one, b'-' | b'_');
    if !name.is_empty() && name.bytes().all(is_plain) {
        return name.to_owned();
    }
    format!("{ENCODED}{}", HEXLOWER.encode(name.as_bytes()))
}

/// The name of a token; none if no name is written so.
fn name(token: &str) -> Option<String> {
    match token.strip_prefix(ENCODED) {
        Some(digits) => {
            let bytes = HEXLOWER.decode(digits.as_bytes()).ok()?;
            String::from_utf8(bytes).ok()
        }
        None => Some(token.to_owned()).filter(|name| !name.is_empty() && !name.contains('.')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: MachineId = MachineId(7);
    const OTHER: MachineId = MachineId(0xff);

    #[test]
    fn every_session_id_is_one_token_and_comes_back() {
        let plain = "0f6b-AZ_9";
        assert_eq!(token(plain), plain);
        for odd in [plain, "", ".", "a.b", "*", ">", "=61", "ä ö", "a\nb", " "] {
            let token = token(odd);
            let is_valid = |one: u8| one.is_ascii_alphanumeric() || b"-_=".contains(&one);
            assert!(!token.is_empty() && token.bytes().all(is_valid), "{token}");
            assert_eq!(name(&token).as_deref(), Some(odd));
            let of = StateKey { machine: OWN, session: Some(odd.to_owned()) };
            assert_eq!(state_key(&key(&of)), Some(of));
            let item_of = Item::Message(odd.to_owned());
            let sent = Parcel { to: OTHER, item: item_of.clone(), bytes: Vec::new() };
            assert_eq!(item(&parcel(OWN, &sent)), (Some(OWN), item_of));
        }
    }

    #[test]
    fn what_is_not_named_so_is_nothing() {
        assert_eq!(journal_of(&journal(OWN)), Some(OWN));
        assert_eq!(journal_of(&journals()), None);
        let fate = Parcel { to: OTHER, item: Item::Fate, bytes: Vec::new() };
        assert_eq!(item(&parcel(OWN, &fate)), (Some(OWN), Item::Fate));
        assert_eq!(item("coord.v1.fate.x.y"), (None, Item::Fate));
        assert_eq!(item("coord.v1.msg.x.y.=6"), (None, Item::Message("=6".to_owned())));
        assert_eq!(item(""), (None, Item::Message(String::new())));
        for odd in ["", "$KV.COORD_HOSTS.x", "$KV.COORD_SESSIONS.x.y", "$KV.OTHER.x"] {
            assert_eq!(state_key(odd), None, "{odd}");
        }
        let deep = format!("$KV.{SESSIONS}.{OWN}.a.b");
        assert_eq!(state_key(&deep), None);
    }
}
