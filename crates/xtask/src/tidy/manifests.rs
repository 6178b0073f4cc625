//! Each crate says what it is for and takes the workspace's lints; hooks.json is JSON.

use super::{Report, Text};

pub(super) fn check(files: &[Text], report: &mut Report) {
    for file in files {
        if file.path == "hooks.json"
            && let Err(error) = serde_json::from_str::<serde_json::Value>(&file.text)
        {
            report.findings.push(format!("hooks.json: {error}"));
        }
        if file.path.ends_with("/Cargo.toml") {
            manifest(file, report);
        }
    }
}

fn manifest(file: &Text, report: &mut Report) {
    let path = &file.path;
    let table: toml::Table = match file.text.parse() {
        Ok(table) => table,
        Err(error) => {
            report.findings.push(format!("{path}: {}", error.message()));
            return;
        }
    };
    let value =
        |section: &str, name: &str| table.get(section).and_then(|section| section.get(name));
    let description = value("package", "description").and_then(toml::Value::as_str).unwrap_or("");
    if description.chars().count() < 10 {
        report.findings.push(format!("{path}: say in `description` what the crate is for"));
    }
    if value("lints", "workspace").and_then(toml::Value::as_bool) != Some(true) {
        report.findings.push(format!("{path}: add `[lints] workspace = true`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::findings;

    #[test]
    fn what_a_crate_forgot_is_named() {
        let path = "crates/x/Cargo.toml";
        let whole = "[package]\ndescription = \"What it is for\"\n[lints]\nworkspace = true\n";
        assert_eq!(findings(check, path, whole), Vec::<String>::new());
        assert_eq!(findings(check, path, "[package]\ndescription = \"-\"\n").len(), 2);
        assert_eq!(findings(check, path, "[package").len(), 1);
        assert_eq!(findings(check, "hooks.json", "{").len(), 1);
    }
}
