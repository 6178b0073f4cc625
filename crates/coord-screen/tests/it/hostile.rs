//! What an agent can print does not decide: the client's own parts below it do.

use coord_screen::{Farewell, Reading, Screen, read};

const RULE: &str = "──────────────────────────────────────────────────────────────";
const SESSION: &str = "53a98082-709f-4d17-8102-4681346bd56b";

/// A screen of the client that shows the text as the agent's last answer.
fn at_prompt(answer: &str) -> String {
    let answer = answer.replace('\n', "\n  ");
    format!("❯ Go\n\n● {answer}\n\n{RULE}\n❯\u{a0}\n{RULE}\n  ⏵⏵ auto mode on · ? for shortcuts\n")
}

/// The same with the text at the left border, as if the client had no say in it.
fn raw_at_prompt(answer: &str) -> String {
    format!("{answer}\n\n{RULE}\n❯\u{a0}\n{RULE}\n  ⏵⏵ auto mode on · ? for shortcuts\n")
}

fn working(answer: &str) -> String {
    let answer = answer.replace('\n', "\n  ");
    format!(
        "● {answer}\n\n✶ Hatching… (3s)\n\n{RULE}\n❯\u{a0}\n{RULE}\n  ⏸ manual mode on · esc to interrupt\n"
    )
}

fn pictures() -> Vec<String> {
    vec![
        "Press esc to interrupt".to_owned(),
        "  ⏸ manual mode on · esc to interrupt".to_owned(),
        "✻ API error · retrying in 1s · attempt 2/10".to_owned(),
        "✻ Thinking…".to_owned(),
        format!("{RULE}\n❯\u{a0}\n{RULE}\n  ⏸ manual mode on · ? for shortcuts"),
        format!("{RULE}\n❯\u{a0}\n{RULE}\n  ⏸ manual mode on · esc to interrupt"),
        format!(
            "{RULE}\n Bash command\n rm -rf /\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel · Tab to amend"
        ),
        format!(
            "{RULE}\n ☐ Color\n\n❯ 1. Red\n  2. Blue\n{RULE}\n  3. Chat about this\n\nEnter to select · ↑/↓ to navigate · Esc to cancel"
        ),
        format!(
            "{RULE}\n Quick safety check:\n ❯ No, exit\n   Yes, I trust this folder\n\n Enter to confirm · Esc to cancel"
        ),
        "Exit plan mode?\n\n❯ 1. Yes\n  2. No".to_owned(),
        format!("Resume this session with:\nclaude --resume {SESSION}\ndev$"),
        "Claude Code is suspended. Run `fg` to bring it back.\ndev$".to_owned(),
        "Killed\ndev$".to_owned(),
    ]
}

//
#[test]
fn pictures_in_the_conversation_do_not_decide() {
    for picture in pictures() {
        for (text, expected) in [
            (at_prompt(&picture), Screen::Prompt),
            (raw_at_prompt(&format!("{picture}\n\n✻ Baked for 3s")), Screen::Prompt),
            (working(&picture), Screen::Working),
        ] {
            let reading = read(&text);
            assert_eq!(reading.screen, Some(expected), "{text}");
            let is_raw = text.starts_with("Resume this session with:");
            let above = is_raw.then(|| Farewell::Above { session: SESSION.to_owned() });
            assert_eq!(reading.farewell, above, "{text}");
        }
    }
}

// R-10, S0-18: the agent writes the command that a dialog shows, and the question's texts.
#[test]
fn pictures_in_a_dialog_are_no_prompt() {
    for picture in pictures() {
        let shown = picture.replace('\n', "\n │ ");
        let text = format!(
            "{RULE}\n Bash command\n │ {shown}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel · Tab to amend\n"
        );
        assert_eq!(read(&text).screen, Some(Screen::Permission), "{text}");
        let raw = format!(
            "{RULE}\n Bash command\n{picture}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel · Tab to amend\n"
        );
        let screen = read(&raw).screen;
        assert!(matches!(screen, None | Some(Screen::Permission)), "{screen:?} {raw}");
        let raw = format!(
            "{RULE}\n ☐ Color\n\n{picture}\n\n❯ 1. Red\n  2. Blue\n{RULE}\n  3. Chat about this\n\nEnter to select · ↑/↓ to navigate · Esc to cancel\n"
        );
        let screen = read(&raw).screen;
        assert!(matches!(screen, None | Some(Screen::Question)), "{screen:?} {raw}");
    }
}

// A description of an agent, a task or a command below the box.
#[test]
fn lists_below_the_footer_do_not_decide() {
    let text = format!("{}\n  ● main\n  ◯ helper  x · esc to interrupt   2s\n", at_prompt("Done."));
    assert_eq!(read(&text).screen, Some(Screen::Prompt));
}

// While text streams, a draft hides that the client works.
#[test]
fn a_draft_below_streaming_text_is_unknown() {
    let text = |above: &str, input: &str| {
        format!("{above}\n\n{RULE}\n❯\u{a0}{input}\n{RULE}\n  ⏸ manual mode on\n")
    };
    assert_eq!(read(&text("● So far", "a draft")).screen, None);
    assert_eq!(
        read(&text("✻ Baked for 3s · done 1:45 AM", "a draft")).screen,
        Some(Screen::Prompt)
    );
    assert_eq!(read(&text("✻ Baking…", "a draft")).screen, Some(Screen::Working));
    assert_eq!(read(&text("● So far", "")).screen, Some(Screen::Prompt));
}

// S0-01, H-07: evidence, whatever its place.
#[test]
fn a_signature_is_reported_and_decides_nothing() {
    let text = at_prompt("It says RangeError: Maximum call stack size\nexceeded");
    let reading = read(&text);
    assert_eq!(reading.signature.as_deref(), Some("RangeError: Maximum call stack size exceeded"));
    assert_eq!(reading.screen, Some(Screen::Prompt));
    assert_eq!(read(&at_prompt("Fine")).signature, None);
}

#[test]
fn what_is_no_screen_of_the_client_is_unknown() {
    for text in
        ["", "\n\n", " ", RULE, "❯", "❯ ", "text", "\u{a0}", "-- INSERT --", "top - 10:00:00 up"]
    {
        let Reading { screen, farewell, signature, .. } = read(text);
        assert!(matches!(screen, None | Some(Screen::Shell)), "{text:?}: {screen:?}");
        assert_eq!((farewell, signature), (None, None));
    }
}

// Scenarios draw a client at its prompt with its input line alone.
#[test]
fn the_input_line_alone_is_a_prompt() {
    assert_eq!(read("❯\u{a0}").screen, Some(Screen::Prompt));
    let text = "RangeError: Maximum call stack size exceeded\n❯\u{a0}";
    let reading = read(text);
    assert_eq!(reading.screen, Some(Screen::Prompt));
    assert!(reading.signature.is_some());
}

// A screen of many megabytes costs no more than its end.
#[test]
fn a_huge_screen_is_read_from_its_end() {
    for unit in ["x", "─", "❯\u{a0}\n", "Resume this session with:\nclaude \n", "\n", "* "] {
        read(&unit.repeat(4 << 20));
        let text = format!("{}\n{}", unit.repeat(1 << 20), at_prompt("Done."));
        assert_eq!(read(&text).screen, Some(Screen::Prompt), "{unit:?}");
    }
}

// the shell told of the death and has not painted its prompt over the rest yet.
#[test]
fn a_box_with_the_shell_s_report_in_it_is_unknown() {
    for report in ["Killed", "a draftKilled", "Aborted (core dumped)"] {
        let text = format!(
            "✻ Baked for 3s\n\n{RULE}\n❯\u{a0}{report}\n{RULE}\n  ⏸ manual mode on · esc to interrupt\n"
        );
        assert_eq!(read(&text).screen, None, "{text}");
    }
}

#[test]
fn a_retry_whose_line_is_broken() {
    let broken = "✻ 429 This request would exceed your account's rate limit.\n  Please try again … · retrying in 1s · attempt 2/2";
    let text = format!(
        "❯ Go\n\n{broken}\n\n{RULE}\n❯\u{a0}\n{RULE}\n  ⏸ manual mode on · esc to interrupt\n"
    );
    assert_eq!(read(&text).screen, Some(Screen::Retry));
}
