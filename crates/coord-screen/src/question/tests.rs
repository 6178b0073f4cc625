//! Ends of messages that ask for something, and those that only look so.

use super::*;
use proptest::prelude::*;

const ASKING: [(&str, Question); 34] = [
    // S1-09
    ("Continue?", Question::Continue),
    ("**Continue?**", Question::Continue),
    ("Part one is done. Continue?", Question::Continue),
    ("✅ Part one is done.\n\n_Continue?_  ", Question::Continue),
    ("Press enter to continue", Question::Continue),
    ("Press `ENTER` to continue...", Question::Continue),
    ("(Press [Enter] to continue)", Question::Continue),
    ("That was part one. Type \"continue\" to go on.", Question::Continue),
    ("Say 'continue' to go on", Question::Continue),
    ("When you are ready, reply with “continue” and I will go on.", Question::Continue),
    ("Please reply `continue`.", Question::Continue),
    ("To be continued…", Question::Continue),
    ("[to be continued]", Question::Continue),
    // S1-10
    ("Delete the backups? (y/n)", Question::YesNo),
    ("Delete the backups? (Y/n)", Question::YesNo),
    ("Delete the backups? [y/n]", Question::YesNo),
    ("Delete the backups? [Y/n]: ", Question::YesNo),
    ("Delete the backups? [y/N]", Question::YesNo),
    ("Delete the backups? (yes/no)", Question::YesNo),
    ("Delete the backups [Yes/No]?", Question::YesNo),
    ("Delete the backups?\n**(y/n)**", Question::YesNo),
    ("Continue? (y/n)", Question::YesNo),
    // S1-11
    ("Do you want to proceed?", Question::Proceed),
    ("Three files change:\n- a\n- b\n\nDo you want to proceed?", Question::Proceed),
    ("All tests pass, shall I continue with part two?", Question::Proceed),
    ("All tests pass. Shall I continue?", Question::Proceed),
    ("🚀 Should I proceed with the release?", Question::Proceed),
    ("**Would you like me to continue?**", Question::Proceed),
    ("Do you want me to  proceed?", Question::Proceed),
    // S1-13: before all others, wherever it stands on the last lines.
    ("I hit a Rate Limit. Continue?", Question::Limit),
    ("Usage-limit reached\n\nDo you want to proceed?", Question::Limit),
    ("> 429: **rate** limit\n```\nContinue? (y/n)", Question::Limit),
    ("The quota\nexceeded what is allowed, so quota exceeded.", Question::Limit),
    ("Please TRY AGAIN\nlater.", Question::Limit),
];

const NOT_ASKING: [&str; 43] = [
    "",
    "\n \n",
    "Done.",
    "Which file?",
    // It stands not at the end.
    "Continue? No, it is done.",
    "Do you want to proceed? I have done so.",
    "Delete the backups? (y/n) was what it asked.",
    "Shall I continue?\nI did.",
    "Press enter to continue the game was the last line.",
    // Somebody else's words.
    "It asked \"Do you want to proceed?\"",
    "\"Do you want to proceed?\"",
    "The script prints: \"Shall I continue?\"",
    "The script prints: do you want to proceed?",
    "> Delete the backups? (y/n)",
    "- Do you want to proceed?",
    "* Continue?",
    "1. Continue?",
    "12) Continue?",
    "| Continue? |",
    "## Continue?",
    "    Continue? (y/n)",
    "\tContinue? (y/n)",
    "```\nContinue? (y/n)\n```",
    "```\nDelete the backups? (y/n)",
    "```sh\none\ntwo\nthree\nfour\nDelete the backups? (y/n)",
    "~~~\nContinue?",
    // A choice, or more than one question.
    "Do you want to proceed or stop here?",
    "Shall I continue with A, or with B?",
    "Should I proceed, and with which region?",
    "Which region? Shall I continue?",
    "Is that right?\nDelete the backups? (y/n)",
    "Say continue if the backups may go.",
    "Type 'continue' or 'stop'.",
    // Words that only resemble.
    "Do you want to process it?",
    "I would like to continue?",
    "He does not know whether you want to proceed?",
    "Discontinue?",
    "Say continued support has ended.",
    "Type continue_now",
    "Continue",
    "Shall I continue",
    "See (y/n) above",
    "Overwrite (y/n) \u{1b}[2J(y/n)",
];

// S1-09, S1-10, S1-11, S1-13
#[test]
fn questions() {
    for (text, question) in ASKING {
        assert_eq!(question_in(text), Some(question), "{text:?}");
    }
}

// H-40
#[test]
fn what_only_looks_like_one() {
    for text in NOT_ASKING {
        assert_eq!(question_in(text), None, "{text:?}");
    }
}

// H-40
#[test]
fn a_long_line_is_prose() {
    let line = |n: usize| format!("{} Shall I continue?", "word, ".repeat(n));
    assert_eq!(question_in(&line(10)), Some(Question::Proceed));
    assert_eq!(question_in(&line(100)), None);
}

#[test]
fn the_file_is_whole() {
    assert_eq!(RULES.version, VERSION);
    assert!(0 < RULES.lines && 0 < RULES.chars_max);
    let all = RULES.question.iter().flat_map(|shape| [&shape.ends, &shape.fits, &shape.not]);
    for word in all.flatten().chain(&RULES.limit) {
        assert_eq!(plain(&word.replace('*', "x")), word.replace('*', "x"), "never fits");
    }
    for shape in &RULES.question {
        assert!(!(shape.ends.is_empty() && shape.fits.is_empty()), "{:?}: no shape", shape.asks);
        // A pattern that fits anything would make every message a question.
        assert!(shape.fits.iter().all(|pattern| !pattern.starts_with('*')), "{:?}", shape.asks);
    }
    for asks in [Asks::Continue, Asks::YesNo, Asks::Proceed] {
        assert!(RULES.question.iter().any(|shape| shape.asks == asks), "{asks:?}: no shape");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // H-40: what stands farther above makes none, and without a fence it undoes none.
    #[test]
    fn text_above_does_not_decide(above in "(\\PC{0,60}\n){0,20}", at in any::<prop::sample::Index>()) {
        prop_assume!(!above.lines().any(is_fence));
        for text in [ASKING[at.index(ASKING.len())].0, NOT_ASKING[at.index(NOT_ASKING.len())]] {
            let lines = "Well.\nOne.\nTwo.\n";
            prop_assert_eq!(question_in(&format!("{above}{lines}{text}")), question_in(&format!("{lines}{text}")), "{}", text);
        }
    }

    // H-40
    #[test]
    fn text_above_makes_no_question(above in "(?s).{0,200}", ask in prop::sample::select(&ASKING[..])) {
        let text = format!("{above}\n{}\nOne.\nTwo.\nThree.", ask.0);
        prop_assert_eq!(question_in(&text), None);
    }

    // H-40
    #[test]
    fn a_statement_behind_it_undoes_it(ask in prop::sample::select(&ASKING[..29]), said in "[A-Z][a-z ]{0,40}\\.") {
        for between in [". ", "\n", "\n\n"] {
            let text = format!("{}{between}{said}", ask.0);
            prop_assert_eq!(question_in(&text), None, "{}", text);
        }
    }

    #[test]
    fn anything_is_read(text in "(?s).{0,400}", lines in "([>`*_ ?yn/()a,.-]{0,20}\n){0,10}") {
        question_in(&text);
        question_in(&lines);
    }
}
