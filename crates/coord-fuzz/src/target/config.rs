//! A configuration: every value is of its kind and reads back from the text that is shown of it; what
//! is wrong is said in one line with its place.

use super::{Target, assert_is_one_line};
use crate::inputs::as_text;
use coord_config::{Config, ConfigError, KEYS};
use std::collections::BTreeMap;

pub(super) const TARGET: Target = Target {
    name: "config",
    seeds,
    dictionary: &[
        "[tracking]\n",
        "[recovery]\n",
        "settle = \"5s\"\n",
        "mode = \"act\"\n",
        "config_dirs = [\"/x\", '/Home/a b']\n",
        "tool_events_per_minute = 5\n",
        "\"\"\"",
        "'''",
        "# ",
        "[[tracking]]\n",
        "tracking.settle = \"1ms\"\n",
        "0x10",
        "1_000",
        "\"\\u001b[31m\"",
    ],
    repair: Some(as_text),
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let mut tables: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for key in &KEYS {
        let (table, name) = key.name.split_once('.').unwrap_or((key.name, ""));
        tables
            .entry(table)
            .or_default()
            .push(format!("{name} = {} # {}\n", key.default, key.about));
    }
    let written = |(table, keys): (&str, Vec<String>)| [format!("[{table}]\n"), keys.concat()];
    let all: Vec<String> = tables.into_iter().flat_map(written).collect();
    vec![
        all.concat().into_bytes(),
        b"[tracking]\nsettle = \"5s\"\n".to_vec(),
        b"[queue]\n".to_vec(),
        b"[tracking]\ntmux_sockets = ['/tmp/A', \"/tmp/\\u00e9\"]\n".to_vec(),
    ]
}

fn run(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let config = match Config::parse(&text) {
        Ok(config) => config,
        Err(error) => {
            assert_is_one_line(&error.to_string(), 1000);
            return wrong(&error, text.lines().count());
        }
    };
    let mut set = Vec::new();
    for (name, value) in config.effective() {
        let (table, key) = name.split_once('.').expect("every key has a table");
        let shown = format!("[{table}]\n{key} = {}\n", value.text);
        let again = Config::parse(&shown).unwrap_or_else(|error| panic!("{shown:?}: {error}"));
        assert_eq!(again.ms(name), config.ms(name), "{shown:?}");
        assert_eq!(again.count(name), config.count(name), "{shown:?}");
        assert_eq!(again.state_of(name), config.state_of(name), "{shown:?}");
        assert_eq!(again.paths(name), config.paths(name), "{shown:?}");
        assert!(config.paths(name).iter().all(|path| path.is_absolute()), "{shown:?}");
        set.extend(value.line.map(|_| name));
    }
    config.settings();
    format!("{:?}, {} set", config.mode(), set.len().min(12))
}

fn wrong(error: &ConfigError, lines: usize) -> String {
    match error {
        ConfigError::Syntax { line, why } => {
            assert!((1..=lines + 1).contains(line), "line {line} of {lines}");
            format!("syntax: {}", why.split(['`', '"', '\'']).next().unwrap_or_default())
        }
        ConfigError::UnknownKey { line, nearest, .. } => {
            assert!((1..=lines).contains(line), "line {line} of {lines}");
            assert!(!nearest.is_empty());
            "unknown key".to_owned()
        }
        ConfigError::BadValue { line, key, .. } => {
            assert!((1..=lines).contains(line), "line {line} of {lines}");
            format!("bad value of {key}")
        }
        ConfigError::Unreadable(why) => panic!("a text is read: {why}"),
        _ => "a newer error".to_owned(),
    }
}
