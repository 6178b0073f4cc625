//! docs/configuration.md is what the keys say of themselves.

use std::fmt::Write as _;
use std::path::Path;

use coord_config::{AGENT_KEYS, CHANNEL_KEYS, Config, Effective, Key, TABLES};

const HEAD: &str = r#"# Configuration

<!-- Written by `COORD_TEST_ACCEPT=1 cargo test -p coord-config --test reference`. -->

`$XDG_CONFIG_HOME/coord/config.toml`, in TOML. The coordinator takes a change in within a second; a file with an error
changes nothing. Keys marked * need a restart of the coordinator (`coord down`, then `coord up`). `coord run`,
`coord loop` and `coord queue work` read the file when they start.

```toml
[recovery]
mode = "act"
grace = "30s"
```

* `coord config show` prints every key with its value, and the line of the file that sets it.
* `coord config check` names the first error of a file: its line, its key, and what the key takes.
* `coord status` shows what changed last, and what waits for a restart.

A duration is a text such as `"250ms"`, `"30s"`, `"5m"`, `"2h"`, `"30d"` or `"1h 30m"`. Numbers are whole and at least 1.
"#;

const AGENTS: &str =
    "\n## [[loop.agent]]\n\nAn agent of `coord loop`. Each agent has a table of its own.\n";

const CHANNELS: &str = "\n## [notice.channel.NAME]\n\nA channel through which coord tells you that a session needs you. Each channel has a table of its own, and \
    a name of\nyour choice. Without any such table, `tmux` is the one channel.\n";

fn reference() -> Result<String, std::fmt::Error> {
    let mut text = HEAD.to_owned();
    let config = Config::default();
    let mut defaults = config.effective();
    for table in TABLES.iter().filter(|table| !table.keys.is_empty()) {
        let (name, about) = (table.name, table.about);
        write!(text, "\n## [{name}]\n\n{about}\n\n| key | default | meaning |\n|---|---|---|\n")?;
        for Effective { key, text: default, .. } in defaults.by_ref().take(table.keys.len()) {
            let mark = if key.needs_restart { " *" } else { "" };
            writeln!(text, "| `{}`{mark} | `{default}` | {} |", bare(key), key.about)?;
        }
    }
    write!(text, "{AGENTS}\n| key | meaning |\n|---|---|\n")?;
    for key in AGENT_KEYS {
        writeln!(text, "| `{}` | {} |", bare(key), key.about)?;
    }
    write!(text, "{CHANNELS}\n| key | meaning |\n|---|---|\n")?;
    for key in CHANNEL_KEYS {
        writeln!(text, "| `{}` | {} |", bare(key), key.about)?;
    }
    Ok(text)
}

fn bare(key: &Key) -> &str {
    key.name.rsplit_once('.').map_or(key.name, |(_, bare)| bare)
}

#[test]
fn the_reference_has_every_key_with_its_default_and_its_meaning() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = reference().unwrap();
    if std::fs::read_to_string(&path).unwrap_or_default() == text {
        return;
    }
    if std::env::var_os("COORD_TEST_ACCEPT").is_some() {
        std::fs::write(&path, &text).unwrap();
        panic!("wrote {}: read it, and run without COORD_TEST_ACCEPT", path.display());
    }
    panic!("docs/configuration.md is out of date; to write it run with COORD_TEST_ACCEPT=1");
}
