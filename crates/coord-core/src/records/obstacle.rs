//! What a recovery waits for. What is decided hangs on these names; the words beside them are for people.

use serde::{Deserialize, Serialize};

use super::clocks::clocks;

macro_rules! obstacles {
    ($($(#[$about:meta])* $name:ident => $rule:literal),* $(,)?) => {
        /// What a recovery waits for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Obstacle { $($(#[$about])* $name),* }

        impl Obstacle {
            /// Requirement id of its rule.
            pub(crate) fn rule(self) -> &'static str {
                match self { $(Self::$name => $rule),* }
            }
        }
    };
}

impl Obstacle {
    /// Whether what is known without a look keeps it back, so that it is over once nothing of that does.
    pub(crate) fn is_of_guards(self) -> bool {
        matches!(
            self,
            Self::Held
                | Self::Settling
                | Self::Cooldown
                | Self::Failed
                | Self::OthersUnderWay
                | Self::TooMany
        )
    }
}

obstacles! {
    /// A turn is open.
    TurnOpen => "S0-08",
    /// A prompt waits for its user.
    Prompt => "S0-15",
    /// Background work goes on.
    Background => "S0-20",
    /// Its account is limited or blocked.
    Limited => "R-11",
    /// It is stopped by Ctrl-Z.
    Suspended => "R-10",
    /// What it is doing is not known.
    NotKnown => "G4",
    /// Two sources disagree about it.
    Contested => "R-21",
    /// A message is on its way to it.
    BeingWoken => "H-02",
    /// The client's registry does not say idle.
    NotIdle => "H-08",
    /// It has been idle for a short time only.
    JustIdle => "H-08",
    /// Somebody is at the terminal.
    Keys => "H-08",
    /// A draft stands in its input line.
    Draft => "H-08",
    /// Its screen does not show an empty prompt.
    NoPrompt => "H-08",
    /// Something else is on its terminal.
    OtherInFront => "H-08",
    /// A program of it has the terminal.
    Child => "H-08",
    /// Its screen cannot be read.
    ScreenUnreadable => "H-08",
    /// Its transcript is looked through for the signature.
    SignatureUnread => "S0-29",
    /// Its person may cancel it with any key.
    Grace => "H-06",
    /// Its operator's hold, or the stop file of its task.
    Held => "H-06",
    /// Its task was stopped just now.
    TaskStopped => "S1-15",
    /// It needs its operator.
    NeedsOperator => "G5",
    /// A limit on repeated acts is reached.
    Limit => "G5",
    /// The machine is being shut down.
    Shutdown => "H-10",
    /// Nothing is concluded after a gap.
    Settling => "H-32",
    /// The clock was set.
    ClockSet => "H-32",
    /// The last attempt was a moment ago.
    Cooldown => "S0-11",
    /// The last attempt failed.
    Failed => "S0-23",
    /// Many deaths or failures stopped all recoveries.
    Breaker => "H-11",
    /// Others are under way.
    OthersUnderWay => "H-11",
    /// There were too many in a short time.
    TooMany => "H-11",
    /// The machine has no room.
    Room => "H-11",
    /// Its configuration directory is another coordinator's, or not locked yet.
    ConfigDir => "H-14",
    /// How its harness ended is being read.
    BeingJudged => "H-05",
    /// Its harness ended since it was looked at.
    DiedSince => "H-05",
    /// A look was not answered.
    Unanswered => "G4",
    /// Its harness is gone, and that was not told yet.
    Gone => "G4",
    /// Something changed between the look and the act.
    Changed => "G4",
    /// Whether the signal was sent is not known.
    SignalUnknown => "G10",
    /// Its harness showed life after SIGTERM.
    LifeAfterSignal => "S0-25",
    /// Its hung harness did not end on SIGTERM.
    OutlivedSignal => "S0-25",
    /// Another process has locked its transcript.
    TranscriptLocked => "H-13",
    /// Processes of its tools still run.
    Survivors => "H-33",
    /// Its pane cannot be looked at.
    PaneUnreadable => "H-16",
    /// Its pane is in a mode of tmux.
    PaneInMode => "H-16",
    /// What is typed into its pane goes to others too.
    PaneSynchronized => "H-17",
    /// Its shell has not shown its prompt yet.
    NoShellPrompt => "H-18",
    /// A key was pressed in its pane a moment ago.
    KeyInPane => "H-18",
    /// The line that was typed before stands there.
    TypedLine => "H-34",
    /// A dialog is open in the resumed client.
    Dialog => "H-43",
}

clocks!(none in Obstacle);
