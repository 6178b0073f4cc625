//! Every command line of `coord` and `coordctl` in the documentation is one that the programs take (P-03).

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::{read, top};

/// Pages beside those in docs/.
const PAGES: [&str; 3] = ["README.md", "CONTRIBUTING.md", "SECURITY.md"];

/// A command line of a page.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    words: Vec<String>,
    /// In running text, arguments may be left out: `coordctl approve`.
    is_whole: bool,
}

/// The command lines of a page: lines of code blocks, and code within text.
fn lines(page: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let mut is_block = false;
    // Such an example is compared with what the program prints, also when that is a refusal.
    let mut is_run = false;
    // What `--help` prints below its options: examples are indented, text is not.
    let mut is_text = false;
    for line in page.lines() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            is_block = !is_block;
            is_run = is_block && info.split(' ').any(|word| word == "run");
            is_text = is_block && info == "text";
        } else if is_block {
            if is_run || (is_text && !line.starts_with(' ')) {
                continue;
            }
            let line = line.trim_start();
            // A diagram names a command without its arguments.
            let is_whole = !line.contains('─');
            found.extend(command(line.strip_prefix("$ ").unwrap_or(line), is_whole));
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.filter_map(|span| command(span, false)));
        }
    }
    found
}

/// The command that a text begins with, or that stands behind an arrow in it.
fn command(text: &str, is_whole: bool) -> Option<Line> {
    let text = text.rsplit("→ ").next().unwrap_or(text);
    let mut words = words(text)?;
    if !matches!(words.first()?.as_str(), "coord" | "coordctl") {
        return None;
    }
    // What a reader is to replace, or to leave out.
    let is_left_out =
        |word: &String| matches!(word.as_str(), "…" | "?") || word.starts_with(['[', '<']);
    let n_words = words.len();
    words.retain(|word| !is_left_out(word));
    Some(Line { is_whole: is_whole && words.len() == n_words, words })
}

/// The words of the first command, as a shell would split it. Two blanks end it: what follows says what it does.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut rest = text.chars().peekable();
    while let Some(one) = rest.next() {
        let word = words.last_mut()?;
        match (quote, one) {
            (Some(open), _) if open == one => quote = None,
            (None, '\'' | '"') => quote = Some(one),
            (None, '|' | '>' | '<' | ';' | '&' | '#')
                if word.is_empty() && !begins_name(one, &rest) =>
            {
                break;
            }
            (None, ';' | '|') => break,
            (None, ' ') if matches!(rest.peek(), Some(' ' | '─')) => break,
            (None, ' ') => words.push(String::new()),
            (Some(_) | None, _) => word.push(one),
        }
    }
    words.retain(|word| !word.is_empty());
    Some(words)
}

/// `<NAME>` stands for something; `< FILE` is the shell's.
fn begins_name(one: char, rest: &std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    one == '<' && rest.clone().next().is_some_and(char::is_alphabetic)
}

/// Why a program does not take a line.
fn refused(line: &Line) -> Option<String> {
    let program = match line.words.first()?.as_str() {
        "coord" => crate::coord::Cli::command(),
        _ => crate::control::Cli::command(),
    };
    let error = program.try_get_matches_from(&line.words).err()?;
    let is_placeholder = |word: &String| word.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    let is_fine = match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
        ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand => !line.is_whole,
        // An option that is named without its value, or with a word for it.
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            !line.is_whole || line.words.iter().any(is_placeholder)
        }
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand | _ => false,
    };
    (!is_fine).then(|| error.to_string())
}

#[test]
fn every_command_in_the_documentation_is_one() {
    let mut pages: Vec<String> = PAGES.map(str::to_owned).to_vec();
    for file in std::fs::read_dir(top().join("docs")).expect("docs") {
        let name = file.expect("an entry").file_name().to_string_lossy().into_owned();
        if std::path::Path::new(&name).extension().is_some_and(|end| end == "md") {
            pages.push(format!("docs/{name}"));
        }
    }
    let (mut n_lines, mut wrong) = (0, Vec::new());
    for page in &pages {
        for line in lines(&read(page)) {
            n_lines += 1;
            wrong.extend(refused(&line).map(|why| format!("{page}: {:?}: {why}", line.words)));
        }
    }
    assert!(n_lines > 200, "only {n_lines} were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn command_lines_are_told_from_text() {
    let page = "Run `coord inspect -o wide`, or `coordctl approve`. `coordinator`\n\n```sh\n\
                $ coord send a 'x  y' | cat\ncoordctl hold --all --for 10m   suspend; wait\n\
                coord: not this\nWrong. → coord up && coord down # or\ncoord run -- claude -p … > out\n```\n";
    let words = |line: &Line| line.words.join("|");
    let found: Vec<_> = lines(page).iter().map(|line| (words(line), line.is_whole)).collect();
    let expected = [
        ("coord|inspect|-o|wide", false),
        ("coordctl|approve", false),
        ("coord|send|a|x  y", true),
        ("coordctl|hold|--all|--for|10m", true),
        ("coord|up", true),
        ("coord|run|--|claude|-p", false),
    ];
    let expected: Vec<_> = expected.map(|(text, is_whole)| (text.to_owned(), is_whole)).into();
    assert_eq!(found, expected);
}

#[test]
fn verbs_options_and_values_that_do_not_exist_are_refused() {
    for (text, is_whole, is_fine) in [
        ("coord inspect NAME --json", true, true),
        ("coord inspect --jsn", false, false),
        ("coord recover site", true, false),
        ("coordctl recover site", true, true),
        ("coordctl approve", false, true),
        ("coordctl approve", true, false),
        ("coord completions tcsh", true, false),
        ("coord completions SHELL", true, true),
        ("coord inspect --help", true, true),
    ] {
        let line = command(text, is_whole).expect("a command");
        assert_eq!(refused(&line).is_none(), is_fine, "{text}");
    }
}
