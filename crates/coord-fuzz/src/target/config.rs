//! A configuration: every value is of its kind and reads back from the text that is shown of it; what
//! is wrong is said in one line with its place.

use super::{Target, assert_is_one_line};
use crate::inputs::as_text;
use coord_config::{Config, ConfigError, Effective};

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
    let line = |one: Effective| format!("{} = {} # {}\n", one.key.name, one.text, one.key.about);
    let all: String = Config::default().effective().map(line).collect();
    vec![
        all.into_bytes(),
        b"[tracking]\nsettle = \"5s\"\n".to_vec(),
        b"[queue]\n".to_vec(),
        b"[tracking]\ntmux_sockets = ['/tmp/A', \"/tmp/\\u00e9\"]\n".to_vec(),
        b"[[loop.agent]]\nname = \"a\"\ncommand = [\"a\", \"{prompt}\"]\nconfirm = \"1h 30m\"\n"
            .to_vec(),
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
    let shown = |one: Effective| format!("{} = {}\n", one.key.name, one.text);
    let shown: String = config.effective().map(shown).collect();
    let again = Config::parse(&shown).unwrap_or_else(|error| panic!("{shown:?}: {error}"));
    assert_eq!(config.changes_to(&again), [], "{shown:?}");
    assert_eq!(config.settings(), again.settings(), "{shown:?}");
    let tracking = &config.tracking;
    for paths in [&tracking.clients, &tracking.config_dirs, &tracking.tmux, &tracking.tmux_sockets]
    {
        assert!(paths.0.iter().all(|path| path.is_absolute()), "{paths:?}");
    }
    let set = config.effective().filter(|one| one.line.is_some()).count();
    format!("{:?}, {} set, {} agents", config.mode(), set.min(12), config.agents().len().min(2))
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
