//! What a recovery waits for. Decisions depend on these names; the words beside them are for people.

use serde::{Deserialize, Serialize};

use super::clocks::clocks;

macro_rules! obstacles {
    ($($(#[$about:meta])* $name:ident => $rule:literal),* $(,)?) => {
        /// What a recovery waits for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Obstacle { $($(#[$about])* $name),* }

        impl Obstacle {
            /// Requirement id of the rule for this obstacle.
            pub(crate) fn rule(self) -> &'static str {
                match self { $(Self::$name => $rule),* }
            }
        }
    };
}

impl Obstacle {
    /// Whether the guards alone set this obstacle, without a look. It then ends as soon as the guards pass.
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
    /// Background work continues.
    Background => "S0-20",
    /// Its account is at a usage limit, or blocked.
    Limited => "R-11",
    /// It is stopped by Ctrl-Z.
    Suspended => "R-10",
    /// What it is doing is not known.
    NotKnown => "G4",
    /// Two sources disagree about its state.
    Contested => "R-21",
    /// A message is in transit to it.
    BeingWoken => "H-02",
    /// The client's registry does not say idle.
    NotIdle => "H-08",
    /// It has been idle only for a short time.
    JustIdle => "H-08",
    /// Somebody is using the terminal.
    Keys => "H-08",
    /// Its input line holds a draft.
    Draft => "H-08",
    /// Its screen does not show an empty prompt.
    NoPrompt => "H-08",
    /// Another program is in the foreground of its terminal.
    OtherInFront => "H-08",
    /// A child process of its harness has the terminal.
    Child => "H-08",
    /// Its screen cannot be read.
    ScreenUnreadable => "H-08",
    /// Its transcript is being searched for the signature.
    SignatureUnread => "S0-29",
    /// The grace period: its user may cancel with any key.
    Grace => "H-06",
    /// An operator's hold, or the stop file of its task.
    Held => "H-06",
    /// Its task was stopped just now.
    TaskStopped => "S1-15",
    /// It needs its operator.
    NeedsOperator => "G5",
    /// A limit on repeated acts is reached.
    Limit => "G5",
    /// The machine is being shut down.
    Shutdown => "H-10",
    /// Nothing is concluded for a while after a gap in the event loop.
    Settling => "H-32",
    /// The clock was set.
    ClockSet => "H-32",
    /// The last attempt was only a moment ago.
    Cooldown => "S0-11",
    /// The last attempt failed.
    Failed => "S0-23",
    /// Many deaths or failures stopped all recoveries.
    Breaker => "H-11",
    /// Other recoveries are in progress.
    OthersUnderWay => "H-11",
    /// There were too many recoveries in a short time.
    TooMany => "H-11",
    /// The machine has too little memory or disk space.
    Room => "H-11",
    /// Its configuration directory belongs to another coordinator, or is not locked yet.
    ConfigDir => "H-14",
    /// How its harness ended is being read.
    BeingJudged => "H-05",
    /// Its harness ended after the look.
    DiedSince => "H-05",
    /// A look was not answered.
    Unanswered => "G4",
    /// Its harness is gone, and its end was not reported yet.
    Gone => "G4",
    /// Something changed between the look and the act.
    Changed => "G4",
    /// It is not known whether the signal was sent.
    SignalUnknown => "G10",
    /// Its harness showed life after SIGTERM.
    LifeAfterSignal => "S0-25",
    /// Its hung harness did not end on SIGTERM.
    OutlivedSignal => "S0-25",
    /// Another process has locked its transcript.
    TranscriptLocked => "H-13",
    /// Processes of its tools still run.
    Survivors => "H-33",
    /// Its pane cannot be captured.
    PaneUnreadable => "H-16",
    /// Its pane is in a tmux mode.
    PaneInMode => "H-16",
    /// Its pane is synchronized: other panes receive the same input.
    PaneSynchronized => "H-17",
    /// Its shell has not shown its prompt yet.
    NoShellPrompt => "H-18",
    /// A key was pressed in its pane a moment ago.
    KeyInPane => "H-18",
    /// The resume line that was typed before is still in the shell's input.
    TypedLine => "H-34",
    /// A dialog is open in the resumed client.
    Dialog => "H-43",
}

clocks!(none in Obstacle);
