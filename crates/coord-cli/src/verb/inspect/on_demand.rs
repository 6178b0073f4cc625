//! What is looked at when one session is asked for: the tokens in its transcripts, and the repository of its work (Q-01,
//!
//!
//! Both are read by this process, in bounded time. The coordinator takes no part, so nothing waits for a slow disk.

use std::path::Path;
use std::time::Duration;

use coord_config::Config;
use coord_host::registry::Readable;
use coord_host::transcript::tokens::Tokens;
use coord_host::work;
use coord_model::Work;
use coord_model::stamp::rfc3339;
use coord_wire::inspect::{Git, Session};
use coord_wire::usage;
use rustix::param::clock_ticks_per_second;

use crate::context::Context;

/// How much of the transcripts is read, in bytes.
const TRANSCRIPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How long the repository is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Looks at what only this moment shows of a session on this machine.
pub(crate) fn look(session: &mut Session, context: &Context) {
    if is_elsewhere(session) {
        return;
    }
    let at = rfc3339(context.now.wall_ms);
    if let Some(tokens) = tokens(session, context, &at) {
        session.usage.get_or_insert_default().tokens = Some(tokens);
    }
    session.git = git(session, context);
}

/// Looks at the repository that a session on this machine works in; none if it works in none.
pub(crate) fn git(session: &Session, context: &Context) -> Option<Git> {
    if is_elsewhere(session) {
        return None;
    }
    let work = work::look_at(&context.git_places(), Path::new(&session.cwd), LOOK);
    let at = rfc3339(context.now.wall_ms);
    (work != Work::NoRepository).then_some(Git { at, work })
}

fn is_elsewhere(session: &Session) -> bool {
    session.place.as_ref().is_some_and(|place| place.kind == "elsewhere")
}

fn tokens(session: &Session, context: &Context, at: &str) -> Option<usage::Tokens> {
    let path = Path::new(&session.transcript_path);
    if !path.is_absolute() || session.config_dir.is_empty() {
        return None;
    }
    let config = Config::load(&context.paths.config_file()).unwrap_or_default();
    let readable = Readable { root: context.root.clone(), named: config.tracking.config_dirs.0 };
    let mut tokens = Tokens::new(Path::new(&session.config_dir), path);
    if let Some(ms) = forked_ms(session, context) {
        tokens = tokens.forked_at(ms);
    }
    tokens.read(&readable, TRANSCRIPT_BYTES_MAX).ok()?;
    let counts = tokens.counts().clone();
    let is_any = 0 < counts.n_messages || counts.is_partial;
    is_any.then(|| usage::Tokens { counts, source: "transcript".to_owned(), at: at.to_owned() })
}

/// When a forked session was made, in milliseconds since 1970: when its process started.
fn forked_ms(session: &Session, context: &Context) -> Option<u64> {
    session.forked_from.as_ref()?;
    let ticks = session.owner.as_ref()?.start_time;
    let since_boot_ms = ticks.saturating_mul(1000).checked_div(clock_ticks_per_second())?;
    Some(context.here.boot_at_ms.saturating_add(since_boot_ms))
}
