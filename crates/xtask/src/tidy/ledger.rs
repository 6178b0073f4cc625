//! The ledger of long random runs, and the page that shows its totals.

use super::{Report, Text};
use crate::soak::ledger::{LEDGER, PAGE, parse, with_totals};

pub(super) fn check(files: &[Text], report: &mut Report) {
    let find = |path: &str| files.iter().find(|file| file.path == path);
    let (Some(ledger), Some(page)) = (find(LEDGER), find(PAGE)) else { return };
    let entries = match parse(&ledger.text) {
        Ok(entries) => entries,
        Err(why) => return report.findings.push(format!("{LEDGER}: {why}")),
    };
    if with_totals(&page.text, &entries).as_ref() != Some(&page.text) {
        let what = "its totals are not those of the ledger: cargo xtask soak --ledger";
        report.findings.push(format!("{PAGE}: {what}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_shows_other_totals_is_found() {
        let entry = r#"{"date":"2030-01-02","commit":"0123456789ab","part":"races","counts":{"races":2},"seconds":900,"failures":[]}"#;
        let page = "# P\n\n## All recorded runs\n\n| part |\n|---|\n";
        let right = with_totals(page, &parse(entry).unwrap()).unwrap();
        for (ledger, page, n) in [
            (entry.to_owned(), right.clone(), 0),
            (entry.to_owned(), right.replace("2 races", "3 races"), 1),
            (format!("{entry}\n{entry}"), right.clone(), 1),
            ("{}".to_owned(), right, 1),
            (entry.to_owned(), "# P\n".to_owned(), 1),
        ] {
            let mut report = Report::default();
            let files = [(LEDGER, ledger), (PAGE, page)];
            let files = files.map(|(path, text)| Text { path: path.to_owned(), text });
            check(&files, &mut report);
            assert_eq!(report.findings.len(), n, "{:?}", report.findings);
        }
    }
}
