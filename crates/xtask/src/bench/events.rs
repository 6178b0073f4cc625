//! Envelopes for the measurements that send events themselves: a real one of a real hook, with
//! another id, session and time each.

use super::Bench;
use super::call::Call;
use super::sandbox::Sandbox;
use crate::root;
use anyhow::Context;
use coord_daemon::engine::Engine;
use coord_model::envelope::Envelope;
use coord_model::stamp::rfc3339;
use coord_model::{Event, Harness, HookEvent, Now, ProcessRef, Provenance, Via};
use coord_store::{RealDisk, Spool, now};
use serde_json::value::{RawValue, to_raw_value};

/// Size of what the client hands to a hook, in bytes.
const PAYLOAD_BYTES: usize = 2048;
/// No process has such a number, so the coordinator never meets one of these harnesses.
const FIRST_PID: u32 = 5_000_000;

/// What the client hands to the hook: a PostToolUse of 2 KB.
pub(super) fn payload() -> anyhow::Result<Vec<u8>> {
    let file = root().join("tests/fixtures/payloads/PostToolUse.Bash.json");
    let text = std::fs::read(&file).with_context(|| file.display().to_string())?;
    let mut payload: serde_json::Value = serde_json::from_slice(&text)?;
    let short = serde_json::to_vec(&payload)?.len();
    let output = payload.pointer_mut("/tool_response/stdout").context("the payload's stdout")?;
    *output = "x".repeat(PAYLOAD_BYTES.saturating_sub(short)).into();
    Ok(serde_json::to_vec(&payload)?)
}

/// A source of envelopes.
#[derive(Debug, Clone)]
pub(super) struct Events {
    template: Envelope,
    made: u64,
}

impl Events {
    /// Takes the template from what a hook spools.
    pub(super) fn new(bench: &Bench) -> anyhow::Result<Self> {
        let sandbox = Sandbox::new(bench)?;
        Call::new(&bench.programs.hook("coord-hook-post-tool-use"), &payload()?)
            .with(&sandbox.arguments())
            .time()?;
        let spooled =
            Spool::new(RealDisk, &sandbox.paths.spool()).read(coord_wire::spool::CURRENT)?;
        let text = spooled.records().next().context("the hook spooled nothing")?;
        Ok(Self { template: Envelope::parse(text)?, made: 0 })
    }

    /// An event of a session, as a hook would send it. Sessions are told apart by their number;
    /// each has a harness of its own.
    pub(super) fn make(&mut self, event: &str, session: usize) -> anyhow::Result<Box<RawValue>> {
        let pid = FIRST_PID.saturating_add(u32::try_from(session)?);
        self.make_of(event, session, ProcessRef { pid, start_time: 1 })
    }

    /// The same with a harness that exists.
    pub(super) fn make_of(
        &mut self,
        event: &str,
        session: usize,
        process: ProcessRef,
    ) -> anyhow::Result<Box<RawValue>> {
        let now = now();
        self.made += 1;
        let envelope = &mut self.template;
        envelope.id = format!("{:012x}{:020x}", now.wall_ms, self.made);
        event.clone_into(&mut envelope.event);
        envelope.session_id = session_id(session);
        envelope.emitted_at = rfc3339(now.wall_ms);
        envelope.mono_ns = now.mono_ns;
        if let Some(harness) = &mut envelope.harness {
            let Harness { pid, start_time, .. } = harness;
            (*pid, *start_time) = (process.pid, process.start_time);
        }
        Ok(to_raw_value(envelope)?)
    }

    /// `n` events that go round all sessions.
    pub(super) fn many(
        &mut self,
        event: &str,
        sessions: usize,
        n: usize,
    ) -> anyhow::Result<Vec<Box<RawValue>>> {
        // A stride without a common divisor visits all of them, far from each other.
        (0..n).map(|at| self.make(event, (at * 7919) % sessions)).collect()
    }

    /// A store with so many sessions, whose users have left all but the first.
    pub(super) fn fill(
        &mut self,
        engine: &mut Engine<RealDisk>,
        sessions: usize,
    ) -> anyhow::Result<()> {
        for session in 0..sessions {
            for event in ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"] {
                if session == 0 && event == "SessionEnd" {
                    continue;
                }
                take(engine, self.make(event, session)?, now())?;
            }
        }
        Ok(())
    }
}

/// The id of a session's number.
pub(super) fn session_id(session: usize) -> String {
    // Numbers next to each other do not begin alike.
    let scattered = session.wrapping_mul(0x9e37_79b1) & 0xffff_ffff;
    format!("{scattered:08x}-0000-4000-8000-{session:012x}")
}

/// What the coordinator does with the text of one event: parse, record, step.
pub(super) fn take(
    engine: &mut Engine<RealDisk>,
    text: Box<RawValue>,
    now: Now,
) -> anyhow::Result<()> {
    let envelope = Envelope::parse(text.get().as_bytes())?;
    let event = HookEvent::new(envelope, text, Via::Socket);
    let event = HookEvent { provenance: Provenance::Verified, ..event };
    if !engine.is_duplicate(&event) {
        engine.record(&Event::Hook(Box::new(event)), now)?;
    }
    Ok(())
}

/// Makes durable what was recorded.
pub(super) fn sync(engine: &mut Engine<RealDisk>) -> anyhow::Result<()> {
    if let Some(job) = engine.journal_mut().unsynced() {
        let synced = job.run();
        engine.journal_mut().synced(synced)?;
    }
    Ok(())
}
