//! The classes into which captured screens are sorted, and their words.

use serde::{Deserialize, Serialize};

/// What stands on a screen. A hint, never more: a dead client leaves its last one.
/// Stored as its word; version 1 of the snapshot begins it with a capital letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Screen {
    /// The client's input line, with or without a draft.
    #[serde(alias = "Prompt")]
    Prompt,
    /// A turn runs.
    #[serde(alias = "Working")]
    Working,
    /// The client waits to try the API again.
    #[serde(alias = "Retry")]
    Retry,
    /// A permission dialog.
    #[serde(alias = "Permission")]
    Permission,
    /// A question to its user.
    #[serde(alias = "Question")]
    Question,
    /// A plan to be approved.
    #[serde(alias = "Plan")]
    Plan,
    /// Another dialog of the client.
    #[serde(alias = "Dialog")]
    Dialog,
    /// Whether to trust the folder; no session has begun.
    #[serde(alias = "Trust")]
    Trust,
    /// The input line below an API error.
    #[serde(alias = "Error")]
    Error,
    /// A shell.
    #[serde(alias = "Shell")]
    Shell,
    /// A shell, the client being stopped by Ctrl-Z.
    #[serde(alias = "Suspended")]
    Suspended,
}

impl Screen {
    /// Every class.
    pub const ALL: [Self; 11] = [
        Self::Prompt,
        Self::Working,
        Self::Retry,
        Self::Permission,
        Self::Question,
        Self::Plan,
        Self::Dialog,
        Self::Trust,
        Self::Error,
        Self::Shell,
        Self::Suspended,
    ];

    /// Its word in the journal and in the classifier's data.
    pub fn word(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Working => "working",
            Self::Retry => "retry",
            Self::Permission => "permission",
            Self::Question => "question",
            Self::Plan => "plan",
            Self::Dialog => "dialog",
            Self::Trust => "trust",
            Self::Error => "error",
            Self::Shell => "shell",
            Self::Suspended => "suspended",
        }
    }

    /// The class of that word; none for an unknown one.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|screen| screen.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::Screen;

    #[test]
    fn words_of_screens_come_back() {
        for screen in Screen::ALL {
            assert_eq!(Screen::from_word(screen.word()), Some(screen));
        }
        assert_eq!(Screen::from_word("unknown"), None);
    }
}
