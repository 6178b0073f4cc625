//! What the server allows a machine: to publish under its own name, to take what is addressed to it, and to read the
//! states and the history of all machines. Nothing else.
//!
//! Reading the states takes a consumer, and whoever creates one chooses the subject to which the server delivers: permissions
//! do not check that. It delivers where somebody listens, and what it delivers keeps the subject that it had, so it is taken
//! for nobody's batch or message. While an administrator listens to a stream's subjects, it can use up that stream's space.

use coord_model::MachineId;

use crate::nats_names::{
    FATES, HOSTS, JOURNAL, MESSAGES, SESSIONS, bucket_stream, consumer, inbox, journal,
};

/// The entry of a machine in the server's configuration, for the list `users` of `authorization` or of an account.
/// The key is the public one of the machine's login.
pub fn block(machine: MachineId, public_key: &str) -> String {
    let publish = publish(machine).join("\"\n        \"");
    let inbox = inbox(&machine.to_string());
    format!(
        r#"{{
  nkey: "{public_key}"
  permissions: {{
    publish: {{
      allow: [
        "{publish}"
      ]
    }}
    subscribe: {{
      allow: ["{inbox}.>"]
    }}
  }}
}}
"#
    )
}

/// The subjects that a machine may publish to.
fn publish(machine: MachineId) -> Vec<String> {
    let own = consumer(machine);
    let mut subjects = vec![
        journal(machine),
        format!("coord.v1.msg.*.{machine}.*"),
        format!("coord.v1.fate.*.{machine}"),
        format!("$KV.{SESSIONS}.{machine}.*"),
        format!("$KV.{HOSTS}.{machine}"),
        format!("$JS.API.DIRECT.GET.{JOURNAL}.{}", journal(machine)),
        // The history of all machines, a batch at a time.
        format!("$JS.API.DIRECT.GET.{JOURNAL}"),
    ];
    for queue in [MESSAGES, FATES] {
        subjects.push(format!("$JS.API.CONSUMER.MSG.NEXT.{queue}.{own}"));
        subjects.push(format!("$JS.API.CONSUMER.INFO.{queue}.{own}"));
        subjects.push(format!("$JS.ACK.{queue}.{own}.>"));
    }
    for bucket in [SESSIONS, HOSTS] {
        let stream = bucket_stream(bucket);
        subjects.push(format!("$JS.API.STREAM.INFO.{stream}"));
        subjects.push(format!("$JS.API.CONSUMER.CREATE.{stream}"));
        subjects.push(format!("$JS.API.CONSUMER.CREATE.{stream}.>"));
        subjects.push(format!("$JS.FC.{stream}.>"));
    }
    subjects
}
