//! The classes of captured screens, and their names.

use serde::{Deserialize, Serialize};

/// What a screen shows. It is never more than a hint: a dead client leaves its last screen. Stored by its
/// name; version 1 of the snapshot begins the name with a capital letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Screen {
    /// The client's input line, with or without a draft.
    #[serde(alias = "Prompt")]
    Prompt,
    /// A turn is open.
    #[serde(alias = "Working")]
    Working,
    /// The client waits before it retries a request to the API.
    #[serde(alias = "Retry")]
    Retry,
    /// A permission dialog.
    #[serde(alias = "Permission")]
    Permission,
    /// A question to its user.
    #[serde(alias = "Question")]
    Question,
    /// A plan to approve.
    #[serde(alias = "Plan")]
    Plan,
    /// Another dialog of the client.
    #[serde(alias = "Dialog")]
    Dialog,
    /// The question whether to trust the folder; no session has begun.
    #[serde(alias = "Trust")]
    Trust,
    /// The input line below an API error.
    #[serde(alias = "Error")]
    Error,
    /// A shell.
    #[serde(alias = "Shell")]
    Shell,
    /// A shell, after the client was stopped by Ctrl-Z.
    #[serde(alias = "Suspended")]
    Suspended,
}

impl Screen {
    /// All classes.
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

    /// The name of the class in the journal and in the classifier's data.
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

    /// The class with this name; none for an unknown name.
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
