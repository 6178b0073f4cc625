//! The channels through which people are told: their programs and secrets are there and usable, and nothing failed
//! lately (N-06). Nothing is sent.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use coord_config::{ChannelConfig, ChannelWay};
use coord_wire::notice::{SENDER, Secret, Webhook};
use rustix::fs::{Access, access};

use super::finding::quoted;
use super::{Finding, Setup};
use crate::verb::install::shown;
use crate::verb::notice::programs;

const CONFIGURE: &str = "correct it in config.toml, then run `coord notice test`";

pub(super) fn check(setup: &Setup<'_>) -> Vec<Finding> {
    let channels = setup.config.channels();
    if setup.config.notice.kinds.0.is_empty() {
        return vec![Finding::ok("notices.channels", "notices are turned off")];
    }
    let programs = programs(&setup.config, setup.context);
    let mut findings = Vec::new();
    if programs.sender.is_none() {
        let found = format!("{SENDER} is not installed: nobody is told that a session needs them");
        findings.push(Finding::error("notices.sender", found, "install it again: ./install.sh"));
    }
    for channel in &channels {
        let desktop = programs.notify_send.as_deref();
        findings.extend(wrong(channel, desktop, setup).map(|why| {
            let found = format!("channel {}: {why}", channel.name);
            Finding::warning("notices.channel", found, CONFIGURE)
        }));
    }
    let health = setup.health.iter().flat_map(|health| &health.notices);
    for channel in health {
        if let Some(why) = &channel.failing {
            let found = format!("channel {}: the last notice was not sent: {why}", channel.channel);
            findings.push(Finding::warning("notices.failing", found, "coord notice test"));
        }
    }
    if findings.is_empty() {
        let names: Vec<&str> = channels.iter().map(|one| one.name.as_str()).collect();
        findings
            .push(Finding::ok("notices.channels", format!("notices go to {}", names.join(", "))));
    }
    findings
}

/// What keeps a channel from working, as far as it can be seen without sending.
fn wrong(channel: &ChannelConfig, desktop: Option<&Path>, setup: &Setup<'_>) -> Option<String> {
    match &channel.way {
        // Without tmux there is nothing to show, and nothing is wrong.
        ChannelWay::Tmux { .. } => None,
        ChannelWay::Desktop { program: None } => match desktop {
            Some(program) => no_program(&program.to_string_lossy()),
            None => Some("notify-send was not found when coord was installed".to_owned()),
        },
        ChannelWay::Command { program } | ChannelWay::Desktop { program: Some(program) } => {
            no_program(program)
        }
        ChannelWay::Webhook(Webhook { url, token, ca_file, .. }) => {
            let secrets = std::iter::once(url).chain(token);
            let mut wrong = secrets.filter_map(|one| no_secret(one, setup.context.here.uid));
            let ca_file = ca_file.as_deref().filter(|file| !Path::new(file).is_file());
            wrong.next().or(ca_file.map(|file| format!("{file}: no such file")))
        }
    }
}

fn no_program(program: &str) -> Option<String> {
    let path = Path::new(program);
    let is_usable = path.is_file() && access(path, Access::EXEC_OK).is_ok();
    (!is_usable).then(|| format!("{program} is no program that can be run"))
}

fn no_secret(secret: &Secret, uid: u32) -> Option<String> {
    let file = match secret {
        Secret::Plain(_) => return None,
        Secret::Command(words) => return no_program(words.first()?),
        Secret::File(file) => Path::new(file),
    };
    match std::fs::symlink_metadata(file) {
        Err(error) => Some(format!("{}: {error}", shown(file))),
        Ok(found) if !found.is_file() => Some(format!("{} is not a file", shown(file))),
        Ok(found) if found.uid() != uid => Some(format!("{} belongs to another user", shown(file))),
        Ok(found) if found.mode() & 0o077 != 0 => {
            Some(format!("others may read {}; run chmod 600 {}", shown(file), quoted(file)))
        }
        Ok(_) => None,
    }
}
