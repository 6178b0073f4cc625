//! Names the lines of history in plain words, for people (U-12). Programs read [`Line::name`].

use super::Line;

impl Line {
    /// What the line reports, in a few words. The events of the client that coord does not know keep their names.
    pub fn title(&self) -> &str {
        let name = self.name.as_str();
        if self.source == "hook" { of_hook(name) } else { of_own(name) }.unwrap_or(name)
    }
}

fn of_hook(name: &str) -> Option<&'static str> {
    Some(match name {
        "SessionStart" => "started",
        "SessionEnd" => "ended",
        "UserPromptSubmit" => "prompt",
        "Stop" => "turn ended",
        "StopFailure" => "turn failed",
        "PreToolUse" => "tool started",
        "PostToolUse" => "tool ended",
        "PostToolUseFailure" => "tool failed",
        "PermissionRequest" => "asks to run",
        "PermissionDenied" => "denied",
        "Notification" => "notification",
        "SubagentStart" => "subagent started",
        "SubagentStop" => "subagent ended",
        _ => return None,
    })
}

fn of_own(name: &str) -> Option<&'static str> {
    Some(match name {
        "Decision" => "decided",
        "Message" => "message",
        "Operator" => "order",
        "Proved" => "check",
        "Acted" => "action",
        "ResumeClaimed" => "resume",
        "ResumeFailed" => "resume failed",
        "ProcessSeen" => "process",
        "ProcessExited" => "process ended",
        "RegistryRead" => "registry",
        "PaneSeen" => "screen",
        "TranscriptRead" => "transcript",
        "TaskRead" => "task",
        "WorkSeen" => "work",
        "CoordinatorStarted" => "coordinator started",
        "FleetNotices" => "fleet notices",
        "Gap" => "coordinator paused",
        "Due" => "time passed",
        "SpoolFolded" => "events counted",
        "Malformed" => "malformed event",
        "ConfigDirLock" => "directory lock",
        "ConfigChanged" => "configuration",
        "JournalReopened" => "journal reopened",
        "Shutdown" => "shutdown",
        "Unreadable" => "unreadable",
        _ => return None,
    })
}
