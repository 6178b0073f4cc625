//! The core is pure: no standard library, no clock. `no_std` keeps most of it out; this names the
//! line, and sees what a test configuration would hide.

use super::{Report, Text};

const CORE: &str = "crates/coord-core/src/";
const FOREIGN: [&str; 5] =
    ["std::", "extern crate std", "SystemTime", "Instant::now", "clock_gettime"];

pub(super) fn check(files: &[Text], report: &mut Report) {
    for file in files.iter().filter(|file| file.path.starts_with(CORE) && file.is_rust()) {
        if file.path.ends_with("/tests.rs") || file.path.contains("/tests/") {
            continue;
        }
        // Tests stand at the end of their file.
        let before_tests = file.lines().take_while(|(_, line)| line.trim() != "#[cfg(test)]");
        for (number, line) in before_tests {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(word) = FOREIGN.iter().find(|word| stands_in(code, word)) {
                report.findings.push(format!(
                    "{}:{number}: {word:?} in the core: let the caller bring it in",
                    file.path
                ));
            }
        }
    }
}

/// Whether the word stands there and is not the end of another.
fn stands_in(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|before| before.is_alphanumeric() || before == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::findings;

    #[test]
    fn the_standard_library_is_found_outside_tests_only() {
        for (path, text, n) in [
            ("crates/coord-core/src/a.rs", "use std::fs;\n", 1),
            ("crates/coord-core/src/a.rs", "let at = Instant::now();\n", 1),
            ("crates/coord-core/src/a.rs", "// std::fs is far\nuse nostd::x;\n", 0),
            ("crates/coord-core/src/a.rs", "#[cfg(test)]\nmod tests { use std::fs; }\n", 0),
            ("crates/coord-store/src/a.rs", "use std::fs;\n", 0),
        ] {
            assert_eq!(findings(check, path, text).len(), n, "{text:?}");
        }
    }
}
