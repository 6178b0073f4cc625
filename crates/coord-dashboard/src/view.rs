//! What the page gets and sends, as JSON. Every text is ready to be shown: whole sentences, and free of what is not seen
//! (H-26). The page adds no words of its own about sessions.

use coord_model::{ProcessRef, ReplyKind};
use coord_view::list::{Row, Tone, age};
use coord_view::text::escape;
use coord_wire::question::QuestionAnswer;
use serde::{Deserialize, Serialize};

/// A row of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RowView {
    id: String,
    name: String,
    state: String,
    sign: &'static str,
    tone: &'static str,
    age: String,
    place: String,
    what: String,
    hint: String,
    directory: String,
}

impl RowView {
    pub(crate) fn of(row: &Row, directory: &str) -> Self {
        let hint = row.hint.as_deref().filter(|hint| *hint != row.what).unwrap_or_default();
        Self {
            id: escape(&row.id),
            name: escape(&row.name),
            state: row.state.clone(),
            sign: row.sign(false),
            tone: tone(row.tone),
            age: age(row.age_s),
            place: escape(&row.place),
            what: escape(&row.what),
            hint: escape(hint),
            directory: escape(directory),
        }
    }

    /// What is said when the row is new among those that need a person.
    pub(crate) fn said(&self) -> String {
        let place = if self.place.is_empty() { String::new() } else { format!(", {}", self.place) };
        format!("{} needs you: {}{place}", self.name, self.what)
    }
}

/// The name of a tone in the style sheet.
pub fn tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Dim => "dim",
        Tone::Green => "green",
        Tone::Yellow => "yellow",
        Tone::Red => "red",
    }
}

/// A name and its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// The name; empty where the words continue.
    pub name: String,
    /// The words.
    pub words: String,
    /// Whether the words are a command to copy.
    pub is_command: bool,
}

/// A fact that a state rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EvidenceView {
    /// Who reported it.
    pub source: String,
    /// The fact.
    pub fact: String,
    /// How long ago.
    pub ago: String,
}

/// Something that can be done with a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionAct {
    /// Which.
    pub act: &'static str,
    /// The words of its button.
    pub label: &'static str,
}

/// One session or run in depth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionView {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: String,
    /// For how long.
    pub since: String,
    /// What a person is needed for; empty if for nothing.
    pub needs: String,
    /// Its sign and colour, by its row.
    pub sign: String,
    /// The colour.
    pub tone: String,
    /// Why, who is needed, and what to do.
    pub why: Vec<Detail>,
    /// What is known of it.
    pub facts: Vec<Detail>,
    /// What its state rests on.
    pub evidence: Vec<EvidenceView>,
    /// What can be done here.
    pub acts: Vec<SessionAct>,
}

/// A line of a session's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HistoryLine {
    /// When.
    pub time: String,
    /// What.
    pub title: String,
    /// More about it.
    pub words: String,
}

/// A line that explains a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainLine {
    /// What kind of line it is.
    pub name: String,
    /// The words.
    pub words: String,
    /// How long ago; empty where that says nothing.
    pub ago: String,
}

/// An open prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestView {
    /// The need that it is.
    pub need: String,
    /// The hook that waits for a reply, as an act names it; empty if none does.
    pub hook: String,
    /// The session.
    pub session: String,
    /// The session's name.
    pub name: String,
    /// `asks to run Bash`.
    pub title: String,
    /// How long it has waited.
    pub age: String,
    /// Where and who: the directory, and the agent that asks.
    pub place: String,
    /// For how long an answer is waited for, once that is not long; empty before.
    pub left: String,
    /// The exact input, line by line; each character of it is seen.
    pub input: Vec<String>,
    /// What is asked, for a question.
    pub questions: Vec<QuestionView>,
    /// The replies that can be given here.
    pub choices: Vec<ChoiceView>,
    /// Why none can; empty if some can.
    pub why_not: String,
    /// The command that goes to its terminal.
    pub terminal: String,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuestionView {
    /// The question.
    pub question: String,
    /// What may be chosen.
    pub options: Vec<OptionView>,
    /// Whether several may.
    pub is_several: bool,
}

/// An answer that a question offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OptionView {
    /// The answer.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// A reply to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChoiceView {
    /// The reply, as an act names it.
    pub reply: ReplyKind,
    /// The words of its button.
    pub label: String,
    /// What the person confirms; empty where that is asked for with the answer.
    pub question: String,
    /// The words of the button that confirms.
    pub confirm: String,
    /// Whether the agent can be told why.
    pub takes_message: bool,
    /// Whether it is the one that lets the session go on.
    pub is_main: bool,
}

/// What a person does on the page.
#[derive(Debug, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// Replies to a request.
    Reply {
        /// The need that it is.
        need: String,
        /// The hook whose input was shown: a reply is for it alone (H-23).
        hook: String,
        /// The reply.
        reply: ReplyKind,
        /// What the agent reads of a denial.
        #[serde(default)]
        message: Option<String>,
        /// One for each question.
        #[serde(default)]
        answers: Vec<QuestionAnswer>,
    },
    /// Suspends coord's actions on a session.
    Hold {
        /// Whose.
        session: String,
    },
    /// Ends that.
    Release {
        /// Whose.
        session: String,
    },
    /// Brings a session back.
    Recover {
        /// Which.
        session: String,
    },
    /// Takes a session out of those that need a person.
    Dismiss {
        /// Which.
        session: String,
    },
    /// Sends a message to a session's agent.
    Send {
        /// Whose.
        session: String,
        /// The text.
        text: String,
    },
}

/// What came of an act.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Acted {
    /// Whether it was done; with a dry run, whether it can be.
    pub is_done: bool,
    /// What is said about it, line by line.
    pub lines: Vec<String>,
}

/// A hook as an act names it.
pub fn hook_name(hook: ProcessRef) -> String {
    format!("{}.{}", hook.pid, hook.start_time)
}
