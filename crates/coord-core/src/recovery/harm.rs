//! Records a prompt that arrives while coord ends its session's harness, and notifies its user (H-08, H-53).
//!
//! SIGTERM is decided on a look that finds nobody at the terminal. A prompt that is entered between that look and
//! the signal's effect may be lost with the process. Nothing can prevent that, so coord reports it.

use alloc::format;
use alloc::string::String;

use coord_model::{Action, HookEvent, HookKind};

use crate::effects::{Effects, SHOWN_MS};
use crate::records::Session;

/// Notes a prompt of a harness that is being ended, or was.
pub(crate) fn on_prompt(session: &mut Session, event: &HookEvent, fx: &mut Effects) {
    if event.kind != HookKind::UserPromptSubmit || event.agent.is_some() {
        return;
    }
    let is_alive = session.may_live();
    let Some(pending) = &session.recovery.pending else { return };
    let is_its = event.harness.as_ref().is_some_and(|one| one.process() == pending.harness);
    if !is_its || !pending.is_ended_by_us() {
        return;
    }
    let has_died = !is_alive && pending.died_at.is_some();
    if pending.is_under_way() || !is_alive {
        session.recovery.note_late_prompt(event.wall_ms);
    } else {
        session.recovery.outlive_signal();
    }
    if has_died {
        record(session, fx);
    }
}

/// Records that the harness is gone, and that its prompt may be lost.
pub(super) fn record(session: &mut Session, fx: &mut Effects) {
    let pending = session.recovery.pending.as_ref().filter(|pending| pending.ended_by_us);
    let Some(prompt_ms) = pending.and_then(|pending| pending.prompt_ms) else { return };
    session.recovery.count_harm();
    let time = time_of(prompt_ms);
    let saw = format!("a prompt arrived at {time} while coord ended the client");
    fx.decide(session, "H-53", &saw, "recorded as harm; a notice is shown");
    notify_of_prompt(session, fx);
}

/// Notifies the user of a prompt that may be lost: at once, and when the session is back.
pub(super) fn notify_of_prompt(session: &Session, fx: &mut Effects) {
    let prompt_ms = session.recovery.pending.as_ref().and_then(|pending| pending.prompt_ms);
    let (Some(prompt_ms), Some((pane, _))) = (prompt_ms, session.proved_pane()) else { return };
    let time = time_of(prompt_ms);
    let text = format!(
        "coord: your prompt of {time} arrived while coord restarted this session and may be lost"
    );
    fx.act(Action::Notify { pane, text, for_ms: SHOWN_MS });
}

/// The time of day, UTC.
fn time_of(wall_ms: u64) -> String {
    let seconds = wall_ms / 1_000 % 86_400;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02} UTC")
}
