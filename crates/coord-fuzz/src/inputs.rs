//! The first inputs and the words that libFuzzer makes others of: fixtures of this repository, inputs that once
//! failed, and what parsers trip over.

use crate::Target;
use std::path::{Path, PathBuf};

/// Words for every parser.
const WORDS: &str = include_str!("../words.dict");
/// libFuzzer leaves out longer words.
const WORD_BYTES_MAX: usize = 64;
/// What nests, opened and closed.
const NESTS: [(&str, &str); 4] = [("[", "]"), ("{\"a\":", "}"), ("[[", ""), ("a.", "")];
const NESTING: usize = 6000;

/// The first inputs of a target. Words that are too long to be words are among them.
pub(crate) fn first(target: &Target) -> Vec<Vec<u8>> {
    let mut inputs = (target.seeds)();
    inputs.extend(files(&format!("crates/coord-fuzz/corpus/{}", target.name)));
    let long = target.dictionary.iter().filter(|word| WORD_BYTES_MAX < word.len());
    inputs.extend(long.map(|word| word.as_bytes().to_vec()));
    let nested =
        |(open, close): (&str, &str)| [&open.repeat(NESTING), "1", &close.repeat(NESTING)].concat();
    inputs.extend(NESTS.map(nested).map(String::into_bytes));
    inputs
}

/// The words of a target, in the form that libFuzzer reads.
pub(crate) fn words(target: &Target) -> String {
    let mut text = WORDS.to_owned();
    for word in target.dictionary.iter().filter(|word| word.len() <= WORD_BYTES_MAX) {
        let bytes: Vec<String> = word.bytes().map(|byte| format!("\\x{byte:02X}")).collect();
        text.extend(["\"", &bytes.concat(), "\"\n"]);
    }
    text
}

/// Every file below a directory of the repository; none if it is not there.
pub(crate) fn files(below: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    gather(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(below), &mut found);
    found
}

fn gather(dir: &Path, found: &mut Vec<Vec<u8>>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // A directory's own order differs from machine to machine, and with it the run.
    paths.sort();
    for path in paths {
        if path.is_dir() {
            gather(&path, found);
        } else {
            found.extend(std::fs::read(&path));
        }
    }
}

/// Makes a text of an input: what is no UTF-8 hides what comes behind it.
pub(crate) fn as_text(input: &mut Vec<u8>) {
    if core::str::from_utf8(input).is_err() {
        *input = String::from_utf8_lossy(input).into_owned().into_bytes();
    }
}
