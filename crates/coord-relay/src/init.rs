//! Sets a server up for a fleet: streams, buckets, and the queues' consumers of each machine. Whatever is created is
//! read back and compared field by field, since servers ignore fields that they do not know (F-01).

use core::fmt;
use std::time::Duration;

use coord_fleet::EngineError;
use coord_model::MachineId;
use serde_json::{Map, Value, json};

use crate::nats::Link;
use crate::nats_error::ApiError;
use crate::nats_names::{
    FATES, HOSTS, JOURNAL, MESSAGES, SESSIONS, bucket_stream, consumer, filter,
};
use crate::settings::Settings;

/// The inbox prefix of whoever sets servers up.
const ADMINISTRATOR: &str = "administrator";
/// "stream not found" and "consumer not found".
const NOT_FOUND: [u32; 2] = [10059, 10014];
/// From which version of the server on a field is known; fields that every supported server knows are not here.
const NEEDS: [(&str, &str); 14] = [
    ("allow_atomic", "2.12"),
    ("allow_direct", "2.9"),
    ("allow_msg_counter", "2.12"),
    ("allow_msg_schedules", "2.12"),
    ("allow_msg_ttl", "2.11"),
    ("compression", "2.10"),
    ("consumer_limits", "2.10"),
    ("filter_subjects", "2.10"),
    ("first_seq", "2.10"),
    ("metadata", "2.10"),
    ("pause_until", "2.11"),
    ("priority_groups", "2.11"),
    ("subject_delete_marker_ttl", "2.11"),
    ("subject_transform", "2.10"),
];

/// How much the server keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all journals together; the oldest go first.
    pub journal_bytes: u64,
    /// Age of a batch.
    pub journal_age: Duration,
    /// Bytes of all messages that wait; more are refused.
    pub message_bytes: u64,
    /// Bytes of all fates that wait; more are refused.
    pub fate_bytes: u64,
    /// Age of a message or a fate that waits.
    pub message_age: Duration,
    /// Bytes of all sessions' states; more are refused.
    pub state_bytes: u64,
    /// An item that is not settled within this time comes again.
    pub settle_within: Duration,
    /// Copies in a cluster.
    pub replicas: u8,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            journal_bytes: 1 << 30,
            journal_age: Duration::from_secs(24 * 60 * 60),
            message_bytes: 256 << 20,
            fate_bytes: 64 << 20,
            message_age: Duration::from_secs(7 * 24 * 60 * 60),
            state_bytes: 256 << 20,
            settle_within: Duration::from_secs(30),
            replicas: 1,
        }
    }
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What was created: streams, and consumers as `STREAM/CONSUMER`.
    pub created: Vec<String>,
    /// What was there as it is to be.
    pub unchanged: Vec<String>,
    /// The server's version.
    pub server_version: Option<String>,
}

/// What the server has instead of what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The stream, or the consumer as `STREAM/CONSUMER`.
    pub of: String,
    /// Whether it was created just now: the server then ignored the field. Else it was there before.
    pub is_new: bool,
    /// The field.
    pub field: String,
    /// What was asked.
    pub asked: String,
    /// What the server has; `null` if it has no such field.
    pub there: String,
    /// The version of the server that the field needs, where that is known.
    pub needs: Option<&'static str>,
    /// The server's version.
    pub server_version: Option<String>,
}

/// Why a server is not set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitError {
    /// It is not reached, or refuses something.
    Engine(EngineError),
    /// It has something else than what was asked.
    Different(Box<Difference>),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, is_new, field, asked, there, needs, server_version } = self;
        write!(f, "{of}: `{field}` is {there} on the server, and must be {asked}")?;
        if !is_new {
            f.write_str("; it was there before, and was not changed")?;
        }
        if let Some(version) = needs {
            write!(f, "; the field needs server {version}")?;
        }
        match server_version {
            Some(version) => write!(f, " (the server is {version})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error @ EngineError::Full(_)) => {
                write!(f, "{error}. Give it more: max_file_store of 2GB is enough to begin with")
            }
            Self::Engine(error) => fmt::Display::fmt(error, f),
            Self::Different(difference) => fmt::Display::fmt(difference, f),
        }
    }
}

impl core::error::Error for InitError {}

impl From<EngineError> for InitError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Sets a server up, with the login of an administrator. What is there is compared and never changed, so a second run
/// changes nothing.
///
/// # Errors
/// The server is not reached, refuses something, or has something else than what was asked.
pub async fn init(
    administrator: &Settings,
    machines: &[MachineId],
    limits: &Limits,
) -> Result<Report, InitError> {
    let mut setup = Setup::open(administrator).await?;
    for config in streams(limits) {
        setup.stream(&config).await?;
    }
    for machine in machines {
        setup.machine(*machine, limits).await?;
    }
    Ok(setup.report)
}

/// Sets a server up for one more machine.
///
/// # Errors
/// As of [`init`].
pub async fn add_machine(
    administrator: &Settings,
    machine: MachineId,
    limits: &Limits,
) -> Result<Report, InitError> {
    let mut setup = Setup::open(administrator).await?;
    setup.machine(machine, limits).await?;
    Ok(setup.report)
}

/// The streams, as the server is asked for them.
fn streams(limits: &Limits) -> [Value; 5] {
    let stream = |name: &str, subject: &str, bytes: u64, more: Value| {
        let common = json!({
            "name": name,
            "subjects": [subject],
            "storage": "file",
            "num_replicas": limits.replicas,
            "max_bytes": bytes,
        });
        merged(common, more)
    };
    let queue = |name: &str, subject: &str, bytes: u64| {
        let age = nanos(limits.message_age);
        let more = json!({"retention": "workqueue", "discard": "new", "max_age": age});
        stream(name, subject, bytes, more)
    };
    let bucket = |name: &str, bytes: u64| {
        let more = json!({
            "retention": "limits",
            "discard": "new",
            "max_msgs_per_subject": 1,
            "allow_rollup_hdrs": true,
            "deny_delete": true,
            "allow_direct": true,
        });
        stream(&bucket_stream(name), &format!("$KV.{name}.>"), bytes, more)
    };
    let journal = json!({
        "retention": "limits",
        "discard": "old",
        "max_age": nanos(limits.journal_age),
        "allow_direct": true,
    });
    [
        stream(JOURNAL, "coord.v1.journal.*", limits.journal_bytes, journal),
        queue(MESSAGES, "coord.v1.msg.>", limits.message_bytes),
        queue(FATES, "coord.v1.fate.>", limits.fate_bytes),
        bucket(SESSIONS, limits.state_bytes),
        bucket(HOSTS, limits.state_bytes),
    ]
}

/// A machine's consumer of a queue, as the server is asked for it.
fn queue_consumer(queue: &str, machine: MachineId, limits: &Limits) -> Value {
    json!({
        "name": consumer(machine),
        "durable_name": consumer(machine),
        "filter_subject": filter(queue, machine),
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "ack_wait": nanos(limits.settle_within),
        // Whether an item is taken never depends on how often it came.
        "max_deliver": -1,
        "max_ack_pending": -1,
    })
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn merged(mut one: Value, more: Value) -> Value {
    if let (Value::Object(one), Value::Object(more)) = (&mut one, more) {
        one.extend(more);
    }
    one
}

/// A server that is being set up.
struct Setup {
    link: Link,
    report: Report,
}

impl Setup {
    async fn open(administrator: &Settings) -> Result<Self, InitError> {
        let link = Link::open(administrator, ADMINISTRATOR).await?;
        let server_version = link.status().server_version;
        Ok(Self { link, report: Report { server_version, ..Report::default() } })
    }

    async fn machine(&mut self, machine: MachineId, limits: &Limits) -> Result<(), InitError> {
        for queue in [MESSAGES, FATES] {
            let config = queue_consumer(queue, machine, limits);
            let own = consumer(machine);
            let create = format!("CONSUMER.CREATE.{queue}.{own}.{}", filter(queue, machine));
            let body = json!({"stream_name": queue, "config": config, "action": "create"});
            let info = format!("CONSUMER.INFO.{queue}.{own}");
            self.ensure(&format!("{queue}/{own}"), &config, &info, &create, &body).await?;
        }
        Ok(())
    }

    async fn stream(&mut self, config: &Value) -> Result<(), InitError> {
        let name = config.get("name").and_then(Value::as_str).unwrap_or_default();
        let [info, create] = ["INFO", "CREATE"].map(|verb| format!("STREAM.{verb}.{name}"));
        self.ensure(name, config, &info, &create, config).await
    }

    /// Creates something that is not there, reads it back, and compares it.
    async fn ensure(
        &mut self,
        of: &str,
        asked: &Value,
        info: &str,
        create: &str,
        body: &Value,
    ) -> Result<(), InitError> {
        let refused = |error: ApiError| match EngineError::from(error) {
            EngineError::Other(why) => EngineError::Other(format!("{of}: {why}")),
            EngineError::Full(why) => EngineError::Full(format!("{of}: {why}")),
            error @ (EngineError::Conflict
            | EngineError::Denied { .. }
            | EngineError::Unreachable(_)) => error,
        };
        let before = self.link.api::<Value>(info, &json!({})).await?;
        let is_new = before.as_ref().is_err_and(|error| NOT_FOUND.contains(&error.err_code));
        let there = if is_new {
            self.link.api::<Value>(create, body).await?.map_err(refused)?;
            self.link.api::<Value>(info, &json!({})).await?
        } else {
            before
        };
        let there = there.map_err(refused)?;
        let there = there.get("config").and_then(Value::as_object);
        let difference = difference(asked, there.unwrap_or(&Map::new()));
        if let Some((field, asked, there)) = difference {
            let needs = NEEDS.iter().find(|(name, _)| *name == field).map(|(_, version)| *version);
            let server_version = self.report.server_version.clone();
            let of = of.to_owned();
            let difference = Difference { of, is_new, field, asked, there, needs, server_version };
            return Err(InitError::Different(Box::new(difference)));
        }
        let list = if is_new { &mut self.report.created } else { &mut self.report.unchanged };
        list.push(of.to_owned());
        Ok(())
    }
}

/// The first field that the server has otherwise than it was asked: the field, what was asked, and what is there.
fn difference(asked: &Value, there: &Map<String, Value>) -> Option<(String, String, String)> {
    let asked = asked.as_object()?;
    asked.iter().find_map(|(field, asked)| {
        let there = there.get(field).unwrap_or(&Value::Null);
        (!is_same(asked, there)).then(|| (field.clone(), asked.to_string(), there.to_string()))
    })
}

/// A server leaves out what is empty, and newer ones add entries of their own to an object.
fn is_same(asked: &Value, there: &Value) -> bool {
    match (asked, there) {
        (Value::Object(asked), Value::Object(there)) => asked
            .iter()
            .all(|(name, asked)| is_same(asked, there.get(name).unwrap_or(&Value::Null))),
        _ => there == asked || (is_empty(there) && is_empty(asked)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_the_server_has_otherwise_is_named() {
        let asked = json!({"name": "A", "compression": "s2", "deny_delete": false, "max_age": 5});
        let there = |value: Value| value.as_object().cloned().unwrap();
        let same = there(json!({"name": "A", "compression": "s2", "max_age": 5, "sealed": true}));
        assert_eq!(difference(&asked, &same), None);
        let ignored = there(json!({"name": "A", "max_age": 5}));
        let (field, asked, there) = difference(&asked, &ignored).unwrap();
        assert_eq!((&*field, &*asked, &*there), ("compression", "\"s2\"", "null"));
    }

    #[test]
    fn f_07_a_server_without_room_is_told_how_much_is_needed() {
        let full = InitError::Engine(EngineError::Full("COORD_MSG: no room".to_owned()));
        let words = full.to_string();
        assert!(
            words.contains("COORD_MSG: no room. Give it more: max_file_store of 2GB"),
            "{words}"
        );
        let limits = Limits::default();
        let streams = [limits.journal_bytes, limits.message_bytes, limits.fate_bytes];
        let views = 2 * limits.state_bytes;
        assert!(streams.iter().sum::<u64>() + views <= 2 << 30, "the words say what is enough");
    }

    /// F-01: asked of a real server, with fields that 2.9 ignores: it creates the stream and the consumer, and reports success.
    #[test]
    fn f_01_a_field_that_the_server_ignores_is_named() {
        use coord_tests::nats::{Encryption, NatsServer, Users};

        let login = crate::login::Login::new().unwrap();
        let administrator = login.public_key().to_owned();
        let server =
            NatsServer::start(Encryption::Tls, Users { administrator, others: Vec::new() });
        let settings = Settings {
            url: server.url(),
            login_seed: login.seed().to_owned(),
            ca: Some(server.ca()),
            cert: None,
            key: None,
        };
        let stream = json!({"name": "S", "subjects": ["s.>"], "metadata": {"made": "by a test"}});
        let consumer = json!({"name": "c", "durable_name": "c", "filter_subjects": ["s.a", "s.b"]});
        let body = json!({"stream_name": "S", "config": consumer, "action": "create"});
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (version, found) = runtime.block_on(async {
            let mut setup = Setup::open(&settings).await.unwrap();
            let version = setup.report.server_version.clone().unwrap();
            let of_stream = setup.stream(&stream).await;
            let [info, create] = ["INFO.S.c", "CREATE.S.c"].map(|end| format!("CONSUMER.{end}"));
            let of_consumer = setup.ensure("S/c", &consumer, &info, &create, &body).await;
            (version, [of_stream, of_consumer])
        });
        if !version.starts_with("2.9.") {
            assert_eq!(found, [Ok(()), Ok(())]);
            return;
        }
        for (found, field) in found.into_iter().zip(["metadata", "filter_subjects"]) {
            let error = found.unwrap_err();
            let text = error.to_string();
            let InitError::Different(found) = error else { panic!("{text}") };
            assert_eq!((&*found.field, found.is_new, found.needs), (field, true, Some("2.10")));
            assert!(text.contains("needs server 2.10") && text.contains(&version), "{text}");
        }
    }
}
