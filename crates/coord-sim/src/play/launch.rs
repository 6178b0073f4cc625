//! What of a scenario's command line is the harness's to be started with again. Enough for scenarios:
//! the coordinator's own reader of command lines is proved where it is written.

/// The client's executable.
pub(super) const PROGRAM: &str = "/home/dev/.local/bin/claude";

/// Options that choose the conversation, and whether a word of theirs follows.
const CHOOSING: [(&str, bool); 6] = [
    ("--resume", true),
    ("-r", true),
    ("--session-id", true),
    ("--continue", false),
    ("-c", false),
    ("--fork-session", false),
];

/// The options, without what chose the conversation and without a first prompt.
pub(super) fn flags(argv: &[String]) -> Vec<String> {
    let mut flags: Vec<String> = Vec::new();
    let mut words = options(argv).peekable();
    while let Some(word) = words.next() {
        let chosen = CHOOSING.iter().find(|(name, _)| name == word);
        if let Some((_, has_value)) = chosen {
            let is_value = *has_value && words.peek().is_some_and(|next| !next.starts_with('-'));
            words.next_if(|_| is_value);
        } else if word.starts_with('-') {
            flags.push(word.clone());
            flags.extend(words.next_if(|next| !next.starts_with('-')).cloned());
        }
    }
    flags
}

/// The session that a command line resumes.
pub(super) fn resumed(argv: &[String]) -> Option<String> {
    let mut words = options(argv).skip_while(|word| *word != "--resume" && *word != "-r");
    words.nth(1).cloned()
}

/// The session that a command line forks.
pub(super) fn forked_from(argv: &[String]) -> Option<String> {
    options(argv).find(|word| *word == "--fork-session")?;
    resumed(argv)
}

fn options(argv: &[String]) -> impl Iterator<Item = &String> {
    argv.iter().skip(1).take_while(|word| *word != "--")
}
