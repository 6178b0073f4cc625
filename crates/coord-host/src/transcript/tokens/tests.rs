//! Counts tokens in transcripts of the real client, and in made ones.

use super::*;
use coord_model::Decimal;
use coord_model::stamp::parse_rfc3339;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

const SESSION: &str = "5e551000-0000-4000-8000-000000000001";
const FORK: &str = "5e551000-0000-4000-8000-000000000002";
/// When the forks of the real transcripts were made.
const FORKED: [(&str, &str); 2] =
    [("2.1.250", "2026-11-27T09:18:25.211Z"), ("2.1.332", "2026-11-27T09:19:05.037Z")];
const ENOUGH: u64 = u64::MAX;

/// A configuration directory with the transcript of a session.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.agent("")).unwrap();
        place
    }

    fn own(&self) -> PathBuf {
        self.dir.path().join(format!("projects/p/{SESSION}.jsonl"))
    }

    /// The transcript of a subagent.
    fn agent(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("projects/p/{SESSION}/subagents/{name}"))
    }

    fn tokens(&self) -> Tokens {
        Tokens::new(self.dir.path(), &self.own())
    }

    /// What a new reader counts.
    #[track_caller]
    fn counts(&self) -> TokenCounts {
        let mut tokens = self.tokens();
        assert_eq!(tokens.read(&Readable::default(), ENOUGH), Ok(true));
        tokens.counts().clone()
    }
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[track_caller]
fn read(tokens: &mut Tokens) -> TokenCounts {
    assert_eq!(tokens.read(&Readable::default(), ENOUGH), Ok(true));
    tokens.counts().clone()
}

/// An entry of an answer, with 10 input tokens, 20 that were written to the cache, and 30 read from it.
fn entry(id: &str, output: u64) -> String {
    entry_with(id, output, "")
}

fn entry_with(id: &str, output: u64, more: &str) -> String {
    format!(
        r#"{{"isSidechain":false,{more}"type":"assistant","timestamp":"2026-01-01T00:00:01.000Z","message":{{"id":"{id}","role":"assistant","model":"m","content":[{{"type":"text","text":"\"usage\""}}],"usage":{{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":{output}}}}}}}"#
    ) + "\n"
}

/// So many answers with entries as above.
fn expected(n_messages: u64, output: u64) -> TokenCounts {
    TokenCounts {
        input: 10 * n_messages,
        cache_creation: 20 * n_messages,
        cache_read: 30 * n_messages,
        output,
        n_messages,
        context: (n_messages != 0).then_some(60),
        model: (n_messages != 0).then(|| "m".to_owned()),
        ..TokenCounts::default()
    }
}

/// What a reader counts in the real transcripts of a client's version.
#[track_caller]
fn fixture(version: &str, session: &str, forked: Option<&str>) -> TokenCounts {
    let place = Place::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tokens").join(version);
    let to = place.dir.path().join("projects/p");
    for name in [
        format!("{SESSION}.jsonl"),
        format!("{SESSION}/subagents/agent-1.jsonl"),
        format!("{FORK}.jsonl"),
    ] {
        fs::write(to.join(&name), fs::read(from.join(&name)).unwrap()).unwrap();
    }
    let mut tokens = Tokens::new(place.dir.path(), &to.join(format!("{session}.jsonl")));
    if let Some(forked) = forked {
        tokens = tokens.forked_at(parse_rfc3339(forked).unwrap());
    }
    read(&mut tokens)
}

// A session with tools at once, a subagent, a resume, retries, a cut stream, a failure and a compaction.
#[test]
fn q_01_a_real_session_is_counted() {
    for (version, model, cost_usd) in
        [("2.1.250", "claude-opus-5", None), ("2.1.332", "claude-opus-5-5", Some(Decimal(84_039)))]
    {
        let expected = TokenCounts {
            input: 18_093,
            cache_creation: 419,
            cache_read: 161,
            output: 371,
            n_messages: 8,
            n_subagent_messages: 2,
            context: Some(158),
            model: Some(model.to_owned()),
            cost_usd,
            is_partial: false,
        };
        assert_eq!(fixture(version, SESSION, None), expected, "{version}");
    }
}

// The history of a fork was paid by the session that it was made from.
#[test]
fn q_01_a_real_fork_counts_its_own_answers_alone() {
    for (version, forked) in FORKED {
        let own = |counts: &TokenCounts| {
            (
                counts.input,
                counts.cache_creation,
                counts.cache_read,
                counts.output,
                counts.n_messages,
            )
        };
        let counts = fixture(version, FORK, Some(forked));
        assert_eq!(own(&counts), (9_000, 9, 9, 88, 1), "{version}");
        assert_eq!(counts.context, Some(9_018), "{version}");
        // Only newer clients mark what they copy.
        let counts = fixture(version, FORK, None);
        let n_messages = if version == "2.1.250" { 4 } else { 1 };
        assert_eq!(counts.n_messages, n_messages, "{version}");
    }
}

#[test]
fn q_01_an_answer_counts_once_with_its_largest_numbers() {
    let place = Place::new();
    // The client writes an entry for each block, while the answer grows.
    append(&place.own(), &[entry("a", 1), entry("a", 7), entry("a", 5), entry("b", 3)].concat());
    assert_eq!(place.counts(), expected(2, 10));
    // A subagent's file may begin with entries of its parent.
    append(
        &place.agent("agent-1.jsonl"),
        &[entry("b", 3), entry("c", 100), entry("a", 9)].concat(),
    );
    let expected = TokenCounts { n_subagent_messages: 1, ..expected(3, 112) };
    assert_eq!(place.counts(), expected);
}

#[test]
fn q_01_what_is_appended_is_read_once_and_a_line_when_it_is_complete() {
    let place = Place::new();
    let mut tokens = place.tokens();
    assert!(tokens.read(&Readable::default(), ENOUGH).is_err(), "not there yet");
    let next = entry("b", 2);
    let (head, tail) = next.split_at(70);
    append(&place.own(), &(entry("a", 1) + head));
    assert_eq!(read(&mut tokens), expected(1, 1));
    assert_eq!(read(&mut tokens), expected(1, 1));
    append(&place.own(), tail);
    assert_eq!(read(&mut tokens), expected(2, 3));
    append(&place.own(), &entry("c", 4));
    append(&place.agent("agent-1.jsonl"), &entry("d", 5));
    let counts = TokenCounts { n_subagent_messages: 1, ..expected(4, 12) };
    assert_eq!(read(&mut tokens), counts);
}

#[test]
fn q_01_a_file_that_was_rewritten_is_read_again_and_counts_nothing_twice() {
    let place = Place::new();
    let mut tokens = place.tokens();
    append(&place.own(), &[entry("a", 1), entry("b", 2)].concat());
    assert_eq!(read(&mut tokens), expected(2, 3));
    // Shorter, longer, and another file of the same length: what was counted stays counted.
    fs::write(place.own(), entry("a", 1)).unwrap();
    assert_eq!(read(&mut tokens), expected(2, 3));
    fs::write(place.own(), [entry("c", 1), entry("a", 1), entry("d", 1)].concat()).unwrap();
    assert_eq!(read(&mut tokens), expected(4, 5));
    let other = place.own().with_extension("new");
    fs::write(&other, [entry("c", 1), entry("e", 1), entry("d", 1)].concat()).unwrap();
    fs::rename(other, place.own()).unwrap();
    assert_eq!(read(&mut tokens), expected(5, 6));
    fs::remove_file(place.own()).unwrap();
    assert!(tokens.read(&Readable::default(), ENOUGH).is_err());
    assert_eq!(*tokens.counts(), expected(5, 6));
}

#[test]
fn q_01_the_context_is_that_of_the_newest_answer_of_the_main_thread() {
    let place = Place::new();
    let side = entry("b", 1).replace(r#""isSidechain":false"#, r#""isSidechain":true"#);
    fs::write(place.own(), entry("a", 1) + &side.replace(":30,", ":3000,")).unwrap();
    append(&place.agent("agent-1.jsonl"), &entry("c", 1).replace(":30,", ":5000,"));
    let counts = place.counts();
    assert_eq!((counts.context, counts.n_messages, counts.n_subagent_messages), (Some(60), 3, 2));
    assert_eq!(counts.cache_read, 30 + 3000 + 5000);
    // A summary takes the place of what was there, and how large it is nobody knows yet.
    append(
        &place.own(),
        "{\"type\":\"system\",\"subtype\":\"compact_boundary\",\"isSidechain\":false}\n",
    );
    assert_eq!(place.counts().context, None);
    append(&place.own(), &entry("d", 1).replace(":30,", ":5,"));
    assert_eq!(place.counts().context, Some(35));
}

#[test]
fn q_01_marks_of_a_fork_are_understood() {
    let place = Place::new();
    let own = format!(r#""requestSessionId":"{SESSION}","#);
    let text = [
        entry_with("a", 1, r#""requestSessionId":"another","#),
        entry_with("b", 1, r#""forkedFrom":{"sessionId":"another","messageUuid":"u"},"#),
        entry_with("c", 1, &own),
        entry_with("d", 1, r#""forkedFrom":null,"requestSessionId":null,"#),
    ];
    append(&place.own(), &text.concat());
    assert_eq!(place.counts(), expected(2, 2));
    // By time: the entries are of second 1 of that year.
    let mut tokens = place.tokens().forked_at(1_767_225_601_001);
    assert_eq!(read(&mut tokens).n_messages, 0);
    assert_eq!(tokens.counts().context, Some(60), "the fork has it nevertheless");
    assert_eq!(read(&mut place.tokens().forked_at(1_767_225_601_000)).n_messages, 2);
}

#[test]
fn q_01_what_is_not_understood_counts_nothing() {
    let place = Place::new();
    let usage = r#""usage":{"input_tokens":1}"#;
    for line in [
        "",
        "\"assistant\"",
        "[\"assistant\"]",
        "{\"type\":\"assistant\"}",
        "{\"type\":\"assistant\",\"message\":\"assistant\"}",
        "{\"type\":\"assistant\",\"message\":{\"id\":\"x\"}}",
        &format!(r#"{{"type":"assistant","message":{{{usage}}}}}"#),
        &format!(r#"{{"type":"assistant","message":{{"id":"",{usage}}}}}"#),
        &format!(
            r#"{{"type":"user","message":{{"id":"x","role":"assistant",{usage}}},"x":"assistant"}}"#
        ),
        &format!(r#"{{"type":"assistant","message":{{"id":"x","model":"<synthetic>",{usage}}}}}"#),
        r#"{"type":"assistant","message":{"id":"x","usage":{"input_tokens":-1}}}"#,
        r#"{"type":"assistant","message":{"id":"x","usage":{"input_tokens":"7"}}}"#,
        r#"{"type":"assistant","message":{"id":"x","usage":7}}"#,
        r#"{"type":"cost-state","totalCostUSD":"7"}"#,
        "{\"type\":\"assistant\",\"message\":{\"id\":\"x\",\"usage\":{\"input_tokens\":1",
    ] {
        append(&place.own(), &format!("{line}\n"));
    }
    assert_eq!(place.counts(), TokenCounts::default());
    // Numbers that no client writes saturate.
    for id in ["y", "z"] {
        let max = u64::MAX;
        append(
            &place.own(),
            &format!(
                r#"{{"type":"assistant","message":{{"id":"{id}","usage":{{"input_tokens":{max},"output_tokens":null}}}}}}"#
            ),
        );
        append(&place.own(), "\n");
    }
    let counts = place.counts();
    assert_eq!((counts.input, counts.output), (2 * u64::from(u32::MAX), 0));
}

#[test]
fn q_01_a_line_without_end_is_passed_over() {
    let place = Place::new();
    let mut tokens = place.tokens();
    append(&place.own(), &entry("a", 1));
    let long = "x".repeat(1 << 20);
    for _ in 0..9 {
        append(&place.own(), &long);
        assert_eq!(read(&mut tokens), expected(1, 1));
    }
    append(&place.own(), &("\n".to_owned() + &entry("b", 2)));
    assert_eq!(read(&mut tokens), expected(2, 3));
    assert_eq!(place.counts(), expected(2, 3));
    // Each read gets further, so the line is not read again from where it begins.
    let mut tokens = place.tokens();
    let is_read = (0..3).any(|_| tokens.read(&Readable::default(), 1).unwrap());
    assert!(is_read);
    assert_eq!(*tokens.counts(), expected(2, 3));
}

#[test]
fn q_01_a_long_transcript_is_read_in_pieces() {
    let place = Place::new();
    let filler =
        format!("{{\"type\":\"user\",\"message\":{{\"content\":\"{}\"}}}}\n", "x".repeat(100_000));
    for n in 0..100 {
        append(&place.own(), &(entry(&n.to_string(), 1) + &filler));
    }
    append(&place.agent("agent-1.jsonl"), &entry("agent", 1));
    let mut tokens = place.tokens();
    let mut n_reads = 1;
    while !tokens.read(&Readable::default(), 1).unwrap() {
        assert!(tokens.counts().is_partial);
        n_reads += 1;
    }
    let length = fs::metadata(place.own()).unwrap().len();
    assert!(
        (length / files::BYTES_MIN..=length / files::BYTES_MIN + 2).contains(&n_reads),
        "{n_reads}"
    );
    assert_eq!(*tokens.counts(), TokenCounts { n_subagent_messages: 1, ..expected(101, 101) });
}

#[test]
fn q_01_beyond_the_bound_the_counts_are_at_least() {
    let place = Place::new();
    let n = u64::try_from(ANSWERS_MAX).unwrap();
    let mut file = std::io::BufWriter::new(File::create(place.own()).unwrap());
    for n in 0..=n {
        file.write_all(entry(&n.to_string(), 1).as_bytes()).unwrap();
    }
    file.write_all(entry("7", 5).as_bytes()).unwrap();
    file.flush().unwrap();
    assert_eq!(place.counts(), TokenCounts { is_partial: true, ..expected(n, n + 4) });
}

#[test]
fn q_01_files_of_subagents_are_found_and_links_are_not_followed() {
    let place = Place::new();
    append(&place.own(), &entry("own", 1));
    fs::create_dir_all(place.agent("workflows/w1")).unwrap();
    append(&place.agent("workflows/w1/agent-2.jsonl"), &entry("deep", 1));
    append(&place.agent("agent-1.jsonl"), &entry("agent", 1));
    append(&place.agent("agent-1.meta.json"), &entry("meta", 1));
    append(&place.agent("journal.jsonl"), &entry("journal", 1));
    append(&place.dir.path().join("projects/p/other.jsonl"), &entry("other", 1));
    symlink("../../other.jsonl", place.agent("agent-3.jsonl")).unwrap();
    symlink("..", place.agent("round")).unwrap();
    assert_eq!(place.counts(), TokenCounts { n_subagent_messages: 2, ..expected(3, 3) });
    fs::create_dir_all(place.agent("1/2/3/4")).unwrap();
    assert!(place.counts().is_partial, "too deep");
}

#[test]
fn q_01_a_transcript_elsewhere_is_not_read() {
    let place = Place::new();
    append(&place.own(), &entry("a", 1));
    let readable = Readable { root: Some(PathBuf::from("/nowhere")), named: Vec::new() };
    assert!(place.tokens().read(&readable, ENOUGH).unwrap_err().contains("outside COORD_HOME"));
    let mut outside = Tokens::new(&place.dir.path().join("projects/p"), &place.own());
    assert!(outside.read(&Readable::default(), ENOUGH).unwrap_err().contains("not below"));
}
