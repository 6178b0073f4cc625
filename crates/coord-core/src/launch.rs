//! Decides with which command line a session is resumed (S0-25d, H-18, H-19). It is that of the session's harness,
//! as far as coord understands it, and never has a wider permission mode than the last one seen.

use alloc::string::String;
use alloc::vec::Vec;
use coord_model::Launch;

/// The permission modes from the narrowest to the widest, by their names in payloads. For what is not allowed
/// beforehand: `plan` does not do it, `dontAsk` denies it, `default` asks, and `auto` lets a model decide. The
/// client's option accepts each of these names, and `manual` for `default`.
const MODES: [&str; 6] = ["plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions"];
const MODE: &str = "--permission-mode";
const SKIP: &str = "--dangerously-skip-permissions";

/// The mode that a resume sets (H-45): the narrower of the command line's mode and the last one seen. A command
/// line without a mode gives the client's default, so only a restricting mode is set then. `acceptEdits` could
/// widen a default that the user configured, and comes back as `default`.
fn narrower<'a>(asked: Option<&'a str>, last: Option<&'a str>) -> Option<&'a str> {
    let width = |mode: &str| MODES.iter().position(|known| *known == plain(mode));
    let known = |mode: &&str| width(mode).is_some();
    let (asked, last) = (asked.filter(known), last.filter(known));
    let Some(asked) = asked else {
        return match last? {
            mode @ ("plan" | "dontAsk" | "default") => Some(mode),
            "acceptEdits" => Some("default"),
            _ => None,
        };
    };
    Some(last.filter(|last| width(last) < width(asked)).unwrap_or(asked))
}

/// The name of a mode in payloads.
fn plain(mode: &str) -> &str {
    if mode == "manual" { "default" } else { mode }
}

/// The command line that resumes `session_id`, the program first.
pub fn resume_words(launch: &Launch, session_id: &str, last_mode: Option<&str>) -> Vec<String> {
    let mut words = launch.program.clone();
    let mut flags = launch.flags.iter();
    while let Some(flag) = flags.next() {
        if flag == MODE {
            flags.next();
        } else if flag != SKIP {
            words.push(flag.clone());
        }
    }
    if let Some(mode) = narrower(asked_mode(launch), last_mode) {
        words.extend([MODE.into(), mode.into()]);
    }
    words.extend(["--resume".into(), session_id.into()]);
    words
}

/// The last mode seen before the resume; none if the command line sets that mode again, or gives it by itself (H-45).
/// Without a mode on it, the client starts in the default of its settings, which may be `auto`.
pub(crate) fn dropped_mode(launch: &Launch, last_mode: Option<&str>) -> Option<&'static str> {
    let asked = asked_mode(launch);
    let is_default = |last: &str| asked.is_none() && last == "auto";
    let is_set = |last: &str| narrower(asked, last_mode).is_some_and(|mode| plain(mode) == last);
    let last = last_mode.filter(|last| !is_default(last) && !is_set(last))?;
    Some(MODES.into_iter().find(|known| *known == last).unwrap_or("of a newer version"))
}

/// The permission mode that the command line gave; none if it gave none.
fn asked_mode(launch: &Launch) -> Option<&str> {
    let mut asked = None;
    let mut flags = launch.flags.iter();
    while let Some(flag) = flags.next() {
        if flag == MODE {
            asked = flags.next().map(String::as_str);
        } else if flag == SKIP {
            asked = Some("bypassPermissions");
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use coord_model::{Parent, ParentKind, Place, ProcessRef};

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().copied().map(Into::into).collect()
    }

    fn launch(flags: &[&str]) -> Launch {
        Launch {
            parent: Parent {
                process: ProcessRef { pid: 1, start_time: 1 },
                kind: ParentKind::Shell,
            },
            program: words(&["/bin/claude"]),
            flags: words(flags),
            unfit: None,
            cwd: Place::default(),
            variables: Vec::new(),
            config_dir: None,
        }
    }

    // S0-25d, H-45: the mode is never wider than the last one seen, nor than what the command line gave.
    #[test]
    fn the_narrower_mode_is_resumed() {
        for (flags, last, mode) in [
            (&[][..], None, None),
            (&[], Some("plan"), Some("plan")),
            (&["--permission-mode", "plan"], Some("auto"), Some("plan")),
            (&["--permission-mode", "bypassPermissions"], Some("default"), Some("default")),
            (&["--dangerously-skip-permissions"], Some("acceptEdits"), Some("acceptEdits")),
            (&["--dangerously-skip-permissions"], None, Some("bypassPermissions")),
            (&["--permission-mode", "manual"], Some("default"), Some("manual")),
            (&["--permission-mode", "auto"], Some("dontAsk"), Some("dontAsk")),
            (&["--permission-mode", "news"], Some("auto"), None),
            (&[], Some("bypassPermissions"), None),
            (&[], Some("auto"), None),
            (&[], Some("acceptEdits"), Some("default")),
            (&[], Some("default"), Some("default")),
            (&[], Some("dontAsk"), Some("dontAsk")),
            (&["--permission-mode", "plan"], Some("bypassPermissions"), Some("plan")),
        ] {
            let resumed = resume_words(&launch(flags), "s", last);
            let mut expected = words(&["/bin/claude"]);
            expected.extend(mode.iter().flat_map(|mode| words(&[MODE, mode])));
            expected.extend(words(&["--resume", "s"]));
            assert_eq!(resumed, expected, "{flags:?} {last:?}");
        }
    }

    // H-45: a mode that is not set again is reported.
    #[test]
    fn a_mode_that_is_dropped_is_named() {
        for (flags, last, dropped) in [
            (&[][..], Some("bypassPermissions"), Some("bypassPermissions")),
            (&["--permission-mode", "default"], Some("acceptEdits"), Some("acceptEdits")),
            (&["--permission-mode", "plan"], Some("plan"), None),
            (&["--permission-mode", "manual"], Some("default"), None),
            (&["--dangerously-skip-permissions"], Some("bypassPermissions"), None),
            (&[], None, None),
            // A plain start: nothing is known to be dropped.
            (&[], Some("default"), None),
            (&[], Some("auto"), None),
            (&[], Some("plan"), None),
            (&[], Some("acceptEdits"), Some("acceptEdits")),
            (&["--permission-mode", "default"], Some("auto"), Some("auto")),
            (&["--permission-mode", "auto"], Some("plan"), None),
        ] {
            assert_eq!(dropped_mode(&launch(flags), last), dropped, "{flags:?} {last:?}");
        }
    }

    // S0-25d
    #[test]
    fn other_flags_are_kept() {
        let flags = ["--model", "opus", "--add-dir", "/a"];
        let expected =
            words(&["/bin/claude", "--model", "opus", "--add-dir", "/a", "--resume", "s"]);
        assert_eq!(resume_words(&launch(&flags), "s", None), expected);
    }
}
