//! What answering from elsewhere needs: a passphrase that can be used (H-22).

use coord_host::passphrase::PassphraseHash;

use super::{Finding, Setup};

const SET: &str = "coordctl passphrase";

pub(super) fn check(setup: &Setup<'_>) -> Vec<Finding> {
    if !setup.config.settings().remote_answers {
        return Vec::new();
    }
    let found = match PassphraseHash::read(&setup.context.paths.passphrase()) {
        Ok(Some(_)) => {
            let words = "permission prompts can be answered from another terminal";
            return vec![Finding::ok("approvals.passphrase", words)];
        }
        Ok(None) => "[approvals] remote is on, and no passphrase is set: nothing can be answered from elsewhere"
            .to_owned(),
        Err(error) => format!("nothing can be answered from elsewhere: {error}"),
    };
    vec![Finding::warning("approvals.passphrase", found, SET)]
}
