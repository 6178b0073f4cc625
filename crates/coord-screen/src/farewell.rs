//! The client's farewell: "Resume this session with:" and the command line that does it.
//!
//! Decides which session the last farewell on the screen names and whether anything follows it; what
//! that proves is decided elsewhere (H-05).

use coord_model::Farewell;

const HEAD: &str = "Resume this session with:";
const PROGRAM: &str = "claude ";
const OPTION: &str = "--resume";
/// A command line in a narrow pane is broken into so many lines at most.
const COMMAND_LINES_MAX: usize = 32;
/// Lines that a shell's prompt may have.
const PROMPT_LINES_MAX: usize = 2;

/// The session that the last farewell names, and whether nothing but a shell's prompt follows.
pub(crate) fn last_in(lines: &[&str]) -> Option<Farewell> {
    let head = lines.iter().rposition(|line| *line == HEAD)?;
    let mut after = lines[head + 1..].iter().filter(|line| !line.trim().is_empty()).peekable();
    if !after.peek()?.starts_with(PROGRAM) {
        return None;
    }
    let mut command = String::new();
    for line in after.by_ref().take(COMMAND_LINES_MAX) {
        command.push_str(line);
        if let Some(session) = session_at_end(&command) {
            return Some(if after.count() <= PROMPT_LINES_MAX {
                Farewell::Last(session)
            } else {
                Farewell::Above { session }
            });
        }
    }
    None
}

/// The UUID that ends the command line as the value of its option. The terminal breaks the line
/// anywhere, so the blank before it may be lost.
fn session_at_end(command: &str) -> Option<String> {
    let (_, value) = command.rsplit_once(OPTION)?;
    let value = value.trim();
    is_uuid(value).then(|| value.to_owned())
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "53a98082-709f-4d17-8102-4681346bd56b";

    fn of(text: &str) -> Option<String> {
        match last_in(&text.lines().collect::<Vec<_>>())? {
            Farewell::Last(session) => Some(session),
            Farewell::Above { .. } => None,
        }
    }

    // H-05
    #[test]
    fn one_that_something_follows_is_not_the_last_thing() {
        let text =
            format!("Resume this session with:\nclaude --resume {ID}\ndev$ ls\nREADME.md\ndev$");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(last_in(&lines), Some(Farewell::Above { session: ID.to_owned() }));
    }

    // H-05
    #[test]
    fn the_last_thing_but_for_a_prompt() {
        let head = "dev$ claude\n\nResume this session with:\nclaude --model opus --resume ";
        assert_eq!(of(&format!("{head}{ID}")).as_deref(), Some(ID));
        assert_eq!(of(&format!("{head}{ID}\ndev$")).as_deref(), Some(ID));
        assert_eq!(of(&format!("{head}{ID}\n\n~/project on main\n❯")).as_deref(), Some(ID));
        assert_eq!(of(&format!("{head}{ID}\ndev$ ls\nREADME.md\ndev$")), None);
        assert_eq!(of(&format!("{head}my-session\ndev$")), None);
        assert_eq!(of(&format!("{head}{ID}0\ndev$")), None);
        assert_eq!(of(head), None);
        assert_eq!(of(HEAD), None);
    }

    #[test]
    fn a_broken_command_line() {
        let head = "Resume this session with:\n";
        let (start, end) = ID.split_at(10);
        assert_eq!(of(&format!("{head}claude --resume {start}\n{end}\n$")).as_deref(), Some(ID));
        assert_eq!(of(&format!("{head}claude --resume\n{ID}\n$")).as_deref(), Some(ID));
        assert_eq!(of(&format!("{head}claude --res\nume {ID}\n$")).as_deref(), Some(ID));
    }

    #[test]
    fn of_two_the_last() {
        let other = "957877fb-b0ac-40c5-9e5e-238cd1474e63";
        let text = |id: &str| format!("Resume this session with:\nclaude --resume {id}\n");
        let both = format!("{}dev$ claude\n{}dev$", text(other), text(ID));
        assert_eq!(of(&both).as_deref(), Some(ID));
    }

    #[test]
    fn an_agent_s_picture_of_it() {
        let indented = format!("  Resume this session with:\n  claude --resume {ID}\n");
        assert_eq!(of(&indented), None);
        assert_eq!(of(&format!("Resume this session with:\nrm --resume {ID}\n")), None);
    }
}
