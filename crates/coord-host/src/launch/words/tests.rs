//! Tests what is kept of command lines, in tables and with random ones.

use proptest::prelude::*;

use super::super::options::OPTIONS;
use super::*;

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().copied().map(str::to_owned).collect()
}

#[track_caller]
fn keeps(given: &[&str], expected: &[&str]) {
    assert_eq!(kept(&owned(given)), Ok(owned(expected)), "{given:?}");
}

#[track_caller]
fn is_unfit(given: &[&str], named: &str) {
    let why = kept(&owned(given)).expect_err(&format!("{given:?}"));
    assert!(why.contains(named), "{given:?}: {why}");
    assert!(!why.contains("fix"), "{given:?} tells the prompt: {why}");
}

// H-19, S0-25d
#[test]
fn options_of_the_table_are_kept_with_their_values() {
    for words in [
        &[][..],
        &["--permission-mode", "plan"],
        &["--dangerously-skip-permissions", "--verbose"],
        &["--model", "opus", "--settings", "/a b/settings.json"],
        &["--add-dir", "/a b", "/c", "--ide"],
        &["--add-dir", "../one"],
        &["--allowedTools", "Bash(git *)", "Edit", "--disallowed-tools", "WebFetch"],
        &["--allowedTools", "Bash(git *) Edit"],
        &["--tools", ""],
        &["--mcp-config", "a.json", "b.json", "--strict-mcp-config"],
        &["--debug"],
        &["--debug=hooks,mcp"],
    ] {
        keeps(words, words);
    }
    keeps(
        &["--permission-mode=plan", "--add-dir=/a"],
        &["--permission-mode", "plan", "--add-dir", "/a"],
    );
    keeps(&["-d", "hooks", "--ide"], &["--debug=hooks", "--ide"]);
    keeps(&["-d"], &["--debug"]);
    keeps(&["--add-dir", "/a", "--add-dir", "/b"], &["--add-dir", "/a", "--add-dir", "/b"]);
}

// S0-25d, G11: a first prompt, and what chose the conversation, are not repeated.
#[test]
fn prompts_and_conversations_are_left_out() {
    for words in [
        &["fix it"][..],
        &["--", "fix it", "--model", "opus"],
        &["--", "-p"],
        &["--resume", "957877fb-b0ac-40c5-9e5e-238cd1474e63"],
        &["-r", "fix it"],
        &["--resume", "id", "fix it"],
        &["-c", "fix it"],
        &["--continue", "--fork-session"],
        &["--session-id", "957877fb-b0ac-40c5-9e5e-238cd1474e63", "fix it"],
        &["--name", "fix it", "fix it"],
        &["--from-pr", "fix it"],
        &["--prefill", "fix it"],
        &["--init"],
    ] {
        keeps(words, &[]);
    }
    keeps(&["fix it", "--model", "opus"], &["--model", "opus"]);
    keeps(&["--model", "opus", "fix it"], &["--model", "opus"]);
    keeps(&["--model", "opus", "--resume"], &["--model", "opus"]);
    keeps(&["--add-dir", "/a", "/b", "--", "fix it"], &["--add-dir", "/a", "/b"]);
    keeps(&["--add-dir=/a", "fix it"], &["--add-dir", "/a"]);
    keeps(&["--debug=hooks", "fix it"], &["--debug=hooks"]);
}

// H-19: a list takes the prompt after it.
#[test]
fn a_word_that_may_be_value_or_prompt_is_unfit() {
    for (words, named) in [
        (&["--allowedTools", "Bash", "fix it"][..], "--allowedTools"),
        (&["--allowedTools", "Bash", "fix it", "--model", "opus"], "--allowedTools"),
        (&["--add-dir", "/a", "/b"], "--add-dir"),
        (&["--mcp-config", "a.json", "fix it"], "--mcp-config"),
        (&["--debug", "fix it"], "--debug"),
        (&["--debug", "fix"], "--debug"),
        (&["--debug", "fix it", "--ide"], "--debug"),
        (&["--debug", "fix", "it"], "--debug"),
        (&["fix", "it"], "more than one"),
    ] {
        is_unfit(words, named);
    }
}

// H-19
#[test]
fn what_is_not_understood_is_unfit() {
    for (words, named) in [
        (&["-p", "fix it"][..], "-p"),
        (&["--print", "fix it"], "--print"),
        (&["--output-format", "json"], "--output-format"),
        (&["--news", "fix it"], "--news"),
        (&["--news=fix"], "--news"),
        (&["--verbose=fix"], "--verbose"),
        (&["-cp"], "-cp"),
        (&["- fix it"], "a word"),
        (&["--model"], "--model"),
        (&["--model", "--verbose"], "--model"),
        (&["--model", "--"], "--model"),
        (&["--permission-mode=-fix"], "--permission-mode"),
        (&["--add-dir"], "--add-dir"),
        (&["--add-dir", "--verbose"], "--add-dir"),
        (&["mcp", "list"], "mcp"),
        (&["--model", "opus", "attach", "x"], "attach"),
        (&["--system-prompt", "fix it"], "--system-prompt"),
        (&["--append-system-prompt=fix it"], "--append-system-prompt"),
        (&["--settings", " {\"env\":{}}"], "--settings"),
        (&["--mcp-config", "a.json", "{\"fix\":1}"], "--mcp-config"),
        (&["--worktree", "fix"], "--worktree"),
        (&["--bg", "fix it"], "--bg"),
    ] {
        is_unfit(words, named);
    }
    is_unfit(&["--model", &"x".repeat(KEPT_BYTES_MAX)], "8 KiB");
    is_unfit(&[&format!("--{}", "x".repeat(NAME_CHARS_MAX))], "a word");
}

#[test]
fn each_name_stands_in_the_table_once() {
    let mut names: Vec<&str> = OPTIONS.iter().flat_map(|known| known.names).copied().collect();
    assert!(names.iter().all(|name| is_option(name)));
    names.sort_unstable();
    let n = names.len();
    names.dedup();
    assert_eq!(names.len(), n);
}

const PROMPT: &str = "now fix the build";
const BEHIND: &str = "zzz";

/// An option of the table with as many values as it takes, separate or joined.
fn one_option() -> impl Strategy<Value = Vec<String>> {
    let known = prop::sample::select(OPTIONS);
    let value = "[a-z/][a-zA-Z0-9/_.,-]{0,8}";
    (known, prop::collection::vec(value, 1..4), any::<bool>(), any::<prop::sample::Index>())
        .prop_map(|(known, values, is_joined, index)| {
            let name = index.get(known.names).to_owned().to_owned();
            let is_joined = is_joined && name.starts_with("--");
            match known.takes {
                Takes::Nothing => vec![name],
                Takes::One | Takes::Perhaps | Takes::List if is_joined => {
                    vec![format!("{name}={}", values[0])]
                }
                Takes::Perhaps if values.len() == 1 => vec![name],
                Takes::One | Takes::Perhaps => vec![name, values[0].clone()],
                Takes::List => [vec![name], values].concat(),
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // H-19, G11: wherever the prompt is, and whatever follows `--`, none of it is kept.
    #[test]
    fn no_prompt_is_ever_kept(
        options in prop::collection::vec(one_option(), 0..6),
        at in any::<prop::sample::Index>(),
        behind in prop::collection::vec(one_option(), 0..3),
    ) {
        let mut groups = options;
        groups.insert(at.index(groups.len() + 1), vec![PROMPT.to_owned()]);
        let mut words = groups.concat();
        if !behind.is_empty() {
            words.push("--".to_owned());
            words.extend(behind.concat().into_iter().map(|word| word + BEHIND));
        }
        match kept(&words) {
            Ok(kept) => prop_assert!(
                !kept.iter().any(|word| word.contains(PROMPT) || word.contains(BEHIND)),
                "{kept:?}"
            ),
            Err(why) => prop_assert!(!why.contains(PROMPT) && !why.contains(BEHIND), "{why}"),
        }
    }

    // H-19: what is kept is parsed again to the same, and is in the table.
    #[test]
    fn what_is_kept_stays_as_it_is(options in prop::collection::vec(one_option(), 0..6)) {
        if let Ok(once) = kept(&options.concat()) {
            for word in once.iter().filter(|word| is_option(word)) {
                let name = word.split('=').next().unwrap_or_default();
                let then = find(name).map(|known| known.then);
                prop_assert!(matches!(then, Some(Then::Kept | Then::KeptFile)), "{word}");
            }
            // When it is used, a list at the end is followed by `--resume`.
            let used = [once.clone(), owned(&["--resume", "id"])].concat();
            prop_assert_eq!(kept(&used), Ok(once));
        }
    }

    // H-19: no command line makes it fail.
    #[test]
    fn any_words_are_taken(words in prop::collection::vec("(--?)?[a-z=( )-]{0,9}", 0..9)) {
        let _ = kept(&words);
    }
}
