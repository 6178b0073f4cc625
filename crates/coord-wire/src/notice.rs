//! What the coordinator asks `coord-notice-send` to tell a person through one channel, and what that program answers
//! (N-02, N-03). Both are one JSON object, on its standard input and output.
//!
//! A notice names a session, its directory, what is needed and since when. It holds no text of a prompt, of a tool's
//! input or output, and no file's name (N-05).

pub use coord_model::SendAnswer;
use coord_model::{NeedId, NoticeKind};
use serde::{Deserialize, Serialize};

/// Version of [`Notice`].
pub const SCHEMA: u32 = 1;

/// The file name of the sender, which stands beside the hooks.
pub const SENDER: &str = "coord-notice-send";

/// One request to the sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendRequest {
    /// Through which channel.
    pub channel: Channel,
    /// What is to be done there.
    pub act: SendAct,
    /// How long the sender may take in all, in milliseconds.
    pub within_ms: u64,
}

/// What a channel is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendAct {
    /// Tell a person. With `event: withdrawn`, tell that an earlier notice no longer holds, or take it away.
    Tell {
        /// What.
        notice: Box<Notice>,
        /// The same in one line of at most 80 columns, such as `coord: parser asks to run Bash (work:api.1, 20s)`.
        line: String,
        /// What the channel answered to the earlier notice of the same need, so that it is replaced, not doubled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handle: Option<String>,
    },
    /// Set the options that status lines show. Only a tmux channel does.
    ShowState(TmuxState),
}

/// What a status line of tmux shows (N-07), as user options. They cost no process when tmux draws.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TmuxState {
    /// `@coord_text`, global: such as `3 need you`; empty if nobody is needed.
    pub text: String,
    /// `@coord_until`, global: seconds since 1970 until which the text holds; later the coordinator is lost.
    pub until_s: u64,
    /// Panes whose state changed.
    pub panes: Vec<PaneState>,
}

/// What a pane's user options show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneState {
    /// The server's socket.
    pub socket: String,
    /// The pane, `%3`.
    pub pane: String,
    /// `@coord_state`: the session's state; none unsets both options.
    pub state: Option<String>,
    /// `@coord_attention`, of the pane and its window: the kind of its oldest need; none unsets it.
    pub attention: Option<String>,
}

/// One way to tell a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Channel {
    /// A message on every attached client of the user's tmux servers.
    Tmux {
        /// tmux, an absolute path.
        program: String,
        /// The servers' sockets.
        sockets: Vec<String>,
        /// Whether the terminal's bell rings too.
        bell: bool,
    },
    /// A notification of the desktop.
    Desktop {
        /// `notify-send`, an absolute path.
        program: String,
    },
    /// A program of the user's that gets the notice as one JSON object on its standard input.
    Command {
        /// An absolute path.
        program: String,
    },
    /// An HTTPS POST.
    Webhook(Webhook),
}

/// Where an HTTPS POST goes, and in which shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// The service whose documented shape the body has.
    pub shape: Shape,
    /// The address. It may itself be a secret.
    pub url: Secret,
    /// A token: sent as `Authorization: Bearer …`, or, for Telegram, as part of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// Telegram's chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    /// A proxy; without one, none is used, whatever the environment says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// A file with certificates in PEM that are trusted instead of the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
}

/// A value that is in no log, argument list or journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Secret {
    /// Not secret: it stands in the configuration.
    Plain(String),
    /// The first line of a file of mode 0600 or stricter that the user owns.
    File(String),
    /// The first line that a program prints; the program is an absolute path.
    Command(Vec<String>),
}

/// The shape of a webhook's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// The [`Notice`] itself.
    Generic,
    /// ntfy: publish as JSON; the address is `https://SERVER/TOPIC`.
    Ntfy,
    /// A Slack incoming webhook.
    Slack,
    /// A Discord webhook.
    Discord,
    /// The bot API of Telegram; the address is that of the server.
    Telegram,
}

/// What a person is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What it is about.
    pub event: NoticeEvent,
    /// The need; none for what needs nobody, a digest or a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<NeedId>,
    /// What is needed, or what happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<NoticeKind>,
    /// The session's name, else its short id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The session's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// One sentence: `parser asks to run Bash`; of a digest, `11 sessions need you`.
    pub text: String,
    /// The session's directory, with `~` for the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Its place in tmux, `work:api.1`, or `headless`.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "where")]
    pub place: Option<String>,
    /// What a session that crashed or was interrupted left unfinished: `12 changed, 2 new`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
    /// Since when, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The same as an age, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<u64>,
    /// How often this need was told through this channel before.
    #[serde(default)]
    pub repeat: u32,
    /// Whether the coordinator restarted before it knew whether this notice had arrived: it may be a second one.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub may_be_repeated: bool,
    /// How the need ended, if it did: `answered at the terminal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// The lines of a digest, the oldest need first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
    /// Needs that a digest does not list.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u32,
    /// The machine.
    pub host: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeEvent {
    /// A session needs a person.
    Need,
    /// The need is over.
    Withdrawn,
    /// Several sessions need a person.
    Digest,
    /// Something happened that needs nobody: a session was recovered, or a run finished.
    News,
    /// A person tests the channel.
    Test,
}
