//! What answering from elsewhere needs: a passphrase that can be used (H-22), and for headless runs a notice channel
//! (H-38).

use coord_host::passphrase::PassphraseHash;
use coord_model::{NeedKind, NoticeKind};

use super::{Finding, Setup};

const SET: &str = "coordctl passphrase";

pub(super) fn check(setup: &Setup<'_>) -> Vec<Finding> {
    let settings = setup.config.settings();
    if !settings.remote_answers {
        return Vec::new();
    }
    let mut all = vec![passphrase(setup)];
    let kind = NoticeKind::Need(NeedKind::Permission);
    if settings.headless_answers && !settings.notice.has_channel_for(kind) {
        let found = "[approvals] headless is on, and no notice channel reports permission prompts: they are denied at once";
        all.push(Finding::warning(
            "approvals.headless",
            found.to_owned(),
            "add \"permission\" to the kinds of a [notice.channel.NAME] in config.toml",
        ));
    }
    all
}

fn passphrase(setup: &Setup<'_>) -> Finding {
    let found = match PassphraseHash::read(&setup.context.paths.passphrase()) {
        Ok(Some(_)) => {
            let words = "prompts can be answered from another terminal";
            return Finding::ok("approvals.passphrase", words);
        }
        Ok(None) => "[approvals] remote is on, and no passphrase is set: nothing can be answered from elsewhere"
            .to_owned(),
        Err(error) => format!("nothing can be answered from elsewhere: {error}"),
    };
    Finding::warning("approvals.passphrase", found, SET)
}
