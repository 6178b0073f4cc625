//! How long a hook waits beside its prompt (A-01, H-38): as long as somebody may reply to what was reported, and no
//! longer.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use coord_config::Config;
use coord_host::passphrase::{Passphrase, PassphraseHash};
use coord_host::process::Caller;
use coord_model::{Kind, Now, ProcessRef, RequestId};
use coord_sim::hooks::{Hook, envelope};
use coord_sim::machine::{MACHINE, PID_NS, Pace, SharedMachine};
use coord_sim::serving::{CONFIG_DIR, Post, RequestHook, Serving};
use coord_testkit::random::Random;
use coord_wire::api::OpenRequest;
use serde_json::{Value, json};

const NOW: Now = Now { mono_ns: 3_600_000_000_000, wall_ms: 1_700_000_000_000 };
const SESSION: &str = "session-1";

struct Place {
    machine: SharedMachine,
    serving: Serving,
    client: ProcessRef,
}

impl Place {
    /// A client in a turn, whose prompts can be answered from elsewhere.
    fn new() -> Self {
        let machine = SharedMachine::new(NOW, Pace { disk: 1..2, look: 1..2 }, Random::new(1));
        let hash = PassphraseHash::of(&Passphrase::new("a passphrase".to_owned())).unwrap();
        machine.get().passphrase = Some(hash);
        machine.get().set_registry(CONFIG_DIR, true);
        let config = Config::parse("[approvals]\nremote = true\nwait = \"1m\"\n").unwrap();
        let serving = Serving::start(&machine, &config).unwrap();
        let client = machine.get().spawn(1010, Kind::Interactive, 34_816);
        let mut place = Self { machine, serving, client };
        place.reports(&json!({"hook_event_name": "SessionStart", "source": "startup"}));
        place.passes(1);
        place.reports(&json!({"hook_event_name": "UserPromptSubmit"}));
        place.says("busy");
        place
    }

    /// The client's registry says so, and the coordinator has read it.
    fn says(&mut self, status: &str) {
        let now = self.machine.get().now;
        let entry = json!({
            "pid": self.client.pid, "procStart": self.client.start_time.to_string(),
            "pidDomain": format!("linux:{MACHINE}:pid:[{PID_NS}]"), "sessionId": SESSION,
            "cwd": "/home/dev/project", "kind": "interactive", "version": "2.1.328",
            "statusUpdatedAt": now.wall_ms, "status": status, "waitingFor": "permission prompt",
        });
        self.machine.get().write_registry(CONFIG_DIR, self.client.pid, Some(entry.to_string()));
        self.passes(1);
    }

    /// A hook's event comes over the socket. Its id.
    fn reports(&mut self, payload: &Value) -> RequestId {
        let mut payload = payload.clone();
        let fields = payload.as_object_mut().unwrap();
        fields.entry("session_id").or_insert_with(|| json!(SESSION));
        fields.insert("permission_mode".to_owned(), json!("default"));
        let transcript = format!("{CONFIG_DIR}/projects/p/{SESSION}.jsonl");
        fields.insert("transcript_path".to_owned(), json!(transcript));
        let hook = Hook::of_client(&self.machine.get(), self.client);
        let body = serde_json::to_vec(&envelope(&hook, &payload).unwrap()).unwrap();
        let caller = Caller { pid: hook.pid, parent: Some(self.client.pid) };
        self.serving.post(&Post { body, caller });
        self.passes(1);
        RequestId(hook.id)
    }

    /// The client asks to run a command.
    fn asks(&mut self) -> RequestId {
        let input = json!({"command": "ls"});
        self.reports(&json!({
            "hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": input,
        }))
    }

    /// A hook that waits for a reply to this request and shows this input.
    fn waits(&mut self, request: RequestId, input: &Value, has_dialog: bool) -> ProcessRef {
        let pid = 2000 + u32::try_from(self.machine.get().processes.len()).unwrap();
        let process = self.machine.get().spawn(pid, Kind::Headless, 0);
        self.machine.get().processes.get_mut(&pid).unwrap().parent = self.client.pid;
        let hook = RequestHook {
            request,
            session_id: SESSION.to_owned(),
            harness: self.client,
            process,
            has_dialog,
            input: input.to_string(),
        };
        assert!(self.serving.wait_for_reply(&hook));
        process
    }

    /// Time passes, and the coordinator works.
    fn passes(&mut self, ms: u64) {
        let mut left_ms = ms;
        while 0 < left_ms {
            let step_ms = left_ms.min(500);
            let mut machine = self.machine.get();
            machine.now.mono_ns += step_ms * 1_000_000;
            machine.now.wall_ms += step_ms;
            drop(machine);
            // What a turn asks for is there in one of the next.
            for _ in 0..4 {
                self.serving.begin_turn();
                self.serving.end_turn(false);
            }
            left_ms -= step_ms;
        }
    }

    /// The hooks that were ended without a reply.
    fn ended(&mut self) -> Vec<ProcessRef> {
        let answered = self.serving.take_replies().into_iter();
        answered.filter_map(|(process, text)| text.is_none().then_some(process)).collect()
    }
}

#[test]
fn a_01_a_hook_waits_for_as_long_as_approvals_wait_says() {
    let mut place = Place::new();
    let request = place.asks();
    place.says("waiting");
    let hook = place.waits(request, &json!({"command": "ls"}), true);
    place.passes(59_000);
    assert_eq!(place.ended(), []);
    let shown = place.serving.open_requests().requests.pop().unwrap();
    assert_eq!((shown.hook, shown.why_not), (Some(hook), None));
    let left_ms = shown.left_ms.unwrap();
    assert!((1..=1_000).contains(&left_ms), "of a minute: {left_ms}");
    place.passes(2_000);
    assert_eq!(place.ended(), [hook]);
}

// a request says where its session is and which agent asks.
#[test]
fn a_06_a_request_names_its_place_and_its_agent() {
    let mut place = Place::new();
    place.asks();
    let agent = |event: &str| json!({"hook_event_name": event, "agent_id": "a-1", "agent_type": "reviewer"});
    place.reports(&agent("SubagentStart"));
    let mut asks = agent("PermissionRequest");
    asks["tool_name"] = "Bash".into();
    place.reports(&asks);
    let shown = place.serving.open_requests().requests;
    let of = |one: &OpenRequest| (one.agent.clone(), one.place.as_ref().unwrap().kind.clone());
    let directory = "directory".to_owned();
    assert_eq!(
        shown.iter().map(of).collect::<Vec<_>>(),
        [(None, directory.clone()), (Some("reviewer".to_owned()), directory)]
    );
    assert!(shown.iter().all(|one| one.left_ms.is_none()), "no hook waits: {shown:?}");
}

// another child of the client may claim to wait, and would show an input of its own.
#[test]
fn a_04_a_hook_that_shows_another_input_is_ended() {
    let mut place = Place::new();
    let request = place.asks();
    place.says("waiting");
    let hook = place.waits(request, &json!({"command": "ls -l"}), true);
    place.passes(500);
    assert_eq!(place.ended(), [hook]);
    let shown = place.serving.open_requests().requests.pop().unwrap();
    assert!(shown.input.is_none() && shown.why_not.is_some(), "{shown:?}");
}

// H-38: while nothing is known of its event, only a hook beside a dialog waits, since nobody could answer meanwhile.
#[test]
fn h_38_a_hook_without_a_dialog_does_not_wait_for_its_event() {
    let mut place = Place::new();
    let input = json!({"command": "ls"});
    let hidden = place.waits(RequestId(7), &input, false);
    let beside = place.waits(RequestId(8), &input, true);
    place.passes(500);
    assert_eq!(place.ended(), [hidden]);
    place.passes(6_000);
    assert_eq!(place.ended(), [beside]);
}

// the client went back to a conversation that it had cleared, and the hook that tells of it was lost.
#[test]
fn a_01_no_hook_waits_for_a_request_that_cannot_be_named() {
    let mut place = Place::new();
    let client = place.client.pid;
    place.machine.get().write_registry(CONFIG_DIR, client, None);
    place.reports(&json!({"hook_event_name": "SessionEnd", "reason": "clear"}));
    let other = "session-2";
    for event in [
        json!({"hook_event_name": "SessionStart", "source": "clear", "session_id": other}),
        json!({"hook_event_name": "SessionEnd", "reason": "resume", "session_id": other}),
        json!({"hook_event_name": "UserPromptSubmit"}),
    ] {
        place.reports(&event);
    }
    let request = place.asks();
    let hook = place.waits(request, &json!({"command": "ls"}), true);
    place.passes(500);
    assert_eq!(place.ended(), [hook]);
}

// no reply could be recorded, nor the end of the prompt.
#[test]
fn a_01_no_hook_waits_while_the_disk_is_full() {
    let mut place = Place::new();
    let request = place.asks();
    place.says("waiting");
    let hook = place.waits(request, &json!({"command": "ls"}), true);
    place.passes(500);
    assert_eq!(place.ended(), []);
    let disk = place.machine.get().disk.clone();
    disk.set_capacity(Some(disk.used()));
    // What cannot be written shows that the disk is full.
    for _ in 0..50 {
        place.reports(&json!({"hook_event_name": "Notification", "notification_type": "other"}));
    }
    assert_eq!(place.serving.open_requests().requests.len(), 1, "its prompt is open");
    assert_eq!(place.ended(), [hook]);
}
