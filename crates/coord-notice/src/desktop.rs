//! The channel `desktop`: a notification by `notify-send`, which replaces the earlier one of the same need.
//!
//! `notify-send` has no other way in than its arguments, so other processes of this machine can read the text while
//! it runs. `--print-id` and `--replace-id` need libnotify 0.8 or newer.

use std::time::Duration;

use coord_wire::notice::{Notice, NoticeEvent, SendAnswer};

use crate::answer::{Failure, NOTHING_TO_WITHDRAW, sent};
use crate::budget::Budget;
use crate::program::{self, Call, Surroundings};
use crate::{text, wording};

/// How long a desktop may take. Without a notification server, the bus waits longer for one to start.
const LIMIT: Duration = Duration::from_secs(5);
/// How long the notification that replaces a withdrawn one is shown, in milliseconds.
const WITHDRAWN_MS: u32 = 2000;
/// Longest output: the id.
const OUTPUT_BYTES_MAX: usize = 256;

/// Shows a notice, or takes the earlier one of the same need away.
pub(crate) fn tell(
    program: &str,
    notice: &Notice,
    line: &str,
    handle: Option<&str>,
    budget: Budget,
) -> SendAnswer {
    let handle = handle.filter(|handle| is_id(handle));
    let is_withdrawn = notice.event == NoticeEvent::Withdrawn;
    if is_withdrawn && handle.is_none() {
        return sent(NOTHING_TO_WITHDRAW, None, 0);
    }
    let mut arguments = vec!["--app-name=coord".to_owned(), "--print-id".to_owned()];
    arguments.extend(handle.map(|handle| format!("--replace-id={handle}")));
    let (title, body) = if is_withdrawn {
        arguments.push(format!("--expire-time={WITHDRAWN_MS}"));
        (wording::withdrawal(notice), String::new())
    } else {
        arguments.push("--urgency=normal".to_owned());
        (wording::title(line).to_owned(), wording::details(notice))
    };
    // A title may begin with a dash.
    arguments.extend(["--".to_owned(), title, escape(&body)]);
    match show(program, arguments, budget) {
        Ok(_) if is_withdrawn => sent("withdrawn", None, 1),
        Ok(handle) => sent("shown", handle, 1),
        Err(failure) => failure.answer(1),
    }
}

/// Returns the id of the notification.
fn show(program: &str, arguments: Vec<String>, budget: Budget) -> Result<Option<String>, Failure> {
    let call = Call {
        program,
        arguments,
        input: &[],
        surroundings: Surroundings::Desktop,
        directory: None,
        output_bytes_max: OUTPUT_BYTES_MAX,
    };
    let output = program::run(&call, budget.part(LIMIT))?;
    if !output.status.success() {
        let complaint = text::first_line(&output.stderr, text::SAYING_CHARS_MAX);
        return Err(Failure::new(if complaint.is_empty() {
            format!("{program}: {}", output.status)
        } else {
            format!("notify-send: {complaint}")
        }));
    }
    let id = text::first_line(&output.stdout, OUTPUT_BYTES_MAX);
    Ok(Some(id).filter(|id| is_id(id)))
}

fn is_id(text: &str) -> bool {
    (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A body in which nothing is markup, which servers interpret, and no backslash begins an escape, which
/// `notify-send` interprets.
fn escape(body: &str) -> String {
    text::without_markup(body).replace('\\', "\\\\")
}
