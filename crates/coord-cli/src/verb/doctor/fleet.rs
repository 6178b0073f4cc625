//! What a fleet needs: this machine's keys, a relay that runs, a link, and no other machine with the same keys (F-07).

use coord_fleet::Identity;

use super::{Finding, Setup};
use crate::verb::fleet::status::{read_status, relay_runs};
use crate::verb::install::shown;

pub(super) fn check(setup: &Setup<'_>) -> Vec<Finding> {
    let Some(url) = &setup.config.fleet.url.0 else { return Vec::new() };
    let (context, url) = (setup.context, &url.0);
    let file = context.paths.fleet_identity();
    if let Err(error) = Identity::read(&file) {
        let found = format!(
            "config.toml names the server {url}, and {} cannot be used: {error}",
            shown(&file)
        );
        let remedy = "move the file away if it is there, then coord fleet join URL";
        return vec![Finding::error("fleet.identity", found, remedy)];
    }
    if !relay_runs(context) {
        let found = format!("nothing is exchanged with {url}: the relay does not run");
        return vec![Finding::warning("fleet.relay", found, "coord up")];
    }
    let Some(status) = read_status(context) else { return Vec::new() };
    if let Some(why) = status.duplicate {
        let found = format!(
            "this machine's journal is not published: another machine has the same keys: {why}"
        );
        let remedy = format!("on the clone, move {} away, then coord fleet join URL", shown(&file));
        return vec![Finding::error("fleet.duplicate", found, remedy)];
    }
    if !status.is_up {
        let why = status.last_error.unwrap_or_else(|| "no error yet".to_owned());
        let found = format!("the link to {url} is down: {why}");
        return vec![Finding::warning("fleet.link", found, "coord fleet status")];
    }
    let troubles = status.troubles.into_iter();
    let mut findings: Vec<Finding> = troubles
        .map(|trouble| {
            let remedy = "compare the server's configuration with what coord fleet join prints";
            Finding::warning("fleet.server", trouble, remedy)
        })
        .collect();
    if findings.is_empty() {
        findings.push(Finding::ok("fleet.link", format!("the link to {url} is up")));
    }
    findings
}
