//! The neutral form of a conversation that another program has written: messages and parts (DESIGN §10).
//!
//! Every source gives this form, whatever it reads. Times are milliseconds since 1970. Texts are the foreign
//! program's own: data with provenance, never instructions.

use filrouge_engine::Tokens;
use serde::{Deserialize, Serialize};

/// Who a message is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person, or the program that asks in its place.
    User,
    /// The agent.
    Assistant,
    /// The program around them: switched agents and models, notes.
    System,
}

/// How the numbers of a program's version become [`Tokens`]; shown by statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TokenRule {
    /// OpenCode to 0.5: `input` holds cache reads, which are taken out; a message's own numbers are its last step's, so
    /// that its steps are summed, where they are there.
    OpencodeInputHoldsCache,
    /// OpenCode 1.0 to 1.2: `output` holds reasoning, which is taken out.
    OpencodeOutputHoldsReasoning,
    /// OpenCode later: each number is apart.
    OpencodeApart,
    /// Claude Code: `input_tokens` is without the cache, reasoning is not told apart from `output_tokens`; a message
    /// split over several records counts once.
    ClaudeCodeMessageOnce,
    /// Codex: usage of each response; cached input is taken out of input, reasoning out of output.
    CodexPerResponse,
    /// The ledger's own usage objects.
    Ledger,
}

/// Lines and files that were changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Changes {
    /// Lines added.
    pub additions: u64,
    /// Lines deleted.
    pub deletions: u64,
    /// Files touched.
    pub files: u64,
}

/// Why a message ended in an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MessageError {
    /// The foreign name, for example `APIError`.
    pub name: Box<str>,
    /// What it says.
    pub message: Box<str>,
    /// Whether the foreign program held it for passing.
    pub retryable: bool,
}

impl MessageError {
    /// Whether it says that somebody stopped the agent: OpenCode's `MessageAbortedError`, Codex's `turn_aborted`.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        matches!(&*self.name, "MessageAbortedError" | "turn_aborted")
    }
}

/// What a tool call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// Asked for, not begun.
    Pending,
    /// Begun, without an end: still running, or its program died.
    Running,
    /// Ended well.
    Completed,
    /// Ended in an error.
    Error,
}

impl ToolStatus {
    /// Whether a call has no end yet.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// A tool call with what it gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// The id of the call.
    pub call_id: Box<str>,
    /// The tool's name.
    pub name: Box<str>,
    /// What it came to.
    pub status: ToolStatus,
    /// Its arguments, JSON as written.
    pub input: Box<str>,
    /// What it gave, whole, also where the program no longer shows it to the model.
    pub output: Option<Box<str>>,
    /// Its error.
    pub error: Option<Box<str>>,
    /// A short title, where the program makes one.
    pub title: Option<Box<str>>,
    /// When the program took the output out of what the model sees.
    pub pruned: Option<i64>,
    /// The session this call has started.
    pub child: Option<Box<str>>,
    /// What it changed, where the program says so.
    pub changes: Option<Changes>,
    /// The files it names as changed.
    pub files: Vec<Box<str>>,
    /// Of the ledger: the seq of the item that its result came in; `None` where that is the part's.
    pub result: Option<u64>,
}

impl Tool {
    /// A call without a result yet; `input` is JSON.
    pub(crate) const fn call(call_id: Box<str>, name: Box<str>, input: Box<str>) -> Self {
        Self {
            call_id,
            name,
            status: ToolStatus::Running,
            input,
            output: None,
            error: None,
            title: None,
            pruned: None,
            child: None,
            changes: None,
            files: Vec::new(),
            result: None,
        }
    }
}

/// What a part is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartKind {
    /// Text; `synthetic`: put in by the program, not typed by the person or said by the agent.
    Text {
        /// The text.
        text: Box<str>,
        /// Put in by the program.
        synthetic: bool,
    },
    /// What the agent thought.
    Reasoning {
        /// The text; may be empty where the program keeps it sealed.
        text: Box<str>,
    },
    /// A tool call with its result.
    Tool(Box<Tool>),
    /// A file that was attached; never its content.
    File {
        /// Its media type.
        mime: Option<Box<str>>,
        /// Its name.
        name: Option<Box<str>>,
        /// Its address, without the content of a `data:` address.
        url: Option<Box<str>>,
    },
    /// Files that were changed, by their paths.
    Patch {
        /// The paths.
        files: Vec<Box<str>>,
    },
    /// A compaction begins here.
    Compaction {
        /// By the program itself, not asked for.
        automatic: bool,
        /// The summary that stands for what was dropped, where it is part of this record.
        summary: Option<Box<str>>,
    },
    /// Everything else: steps, snapshots, named agents, retries. `json` is as written.
    Other {
        /// The foreign name of its kind.
        name: Box<str>,
        /// The part as written.
        json: Box<str>,
    },
}

impl PartKind {
    /// The word for its kind: `text`, `reasoning`, `tool`, `file`, `patch`, `compaction`, or the foreign name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Text { .. } => "text",
            Self::Reasoning { .. } => "reasoning",
            Self::Tool(_) => "tool",
            Self::File { .. } => "file",
            Self::Patch { .. } => "patch",
            Self::Compaction { .. } => "compaction",
            Self::Other { name, .. } => name,
        }
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its id; unique in its session.
    pub id: Box<str>,
    /// Of the ledger: the seq of its item.
    pub seq: Option<u64>,
    /// When it began.
    pub start: Option<i64>,
    /// When it ended.
    pub end: Option<i64>,
    /// What it is.
    pub kind: PartKind,
}

/// A message with its parts in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its id; unique in its session.
    pub id: Box<str>,
    /// Who it is from.
    pub role: Role,
    /// When it was made.
    pub created: i64,
    /// When it was complete.
    pub completed: Option<i64>,
    /// Its place, where the program counts.
    pub seq: Option<u64>,
    /// The message it answers.
    pub parent_id: Option<Box<str>>,
    /// The agent that spoke or was asked.
    pub agent: Option<Box<str>>,
    /// The model, `provider/model` where both are known.
    pub model: Option<Box<str>>,
    /// Its tokens.
    pub tokens: Option<Tokens>,
    /// Its cost in US dollars, as the program reckons.
    pub cost: Option<f64>,
    /// Why it ended, as the program says.
    pub finish: Option<Box<str>>,
    /// The error it ended in.
    pub error: Option<MessageError>,
    /// Whether it is the summary that a compaction made.
    pub summary: bool,
    /// Whether it was copied from another session (a fork), where the program records that.
    pub copied: bool,
    /// Its parts.
    pub parts: Vec<Part>,
}

impl Message {
    /// A message without parts, of which nothing else is known.
    pub(crate) const fn new(id: Box<str>, role: Role, created: i64) -> Self {
        Self {
            id,
            role,
            created,
            completed: None,
            seq: None,
            parent_id: None,
            agent: None,
            model: None,
            tokens: None,
            cost: None,
            finish: None,
            error: None,
            summary: false,
            copied: false,
            parts: Vec::new(),
        }
    }
}

/// Where a compaction has cut: the model no longer sees what is before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary {
    /// The index of the first message the model still sees.
    pub at: usize,
    /// When.
    pub created: i64,
    /// By the program itself, not asked for; `None` where that is not recorded.
    pub automatic: Option<bool>,
    /// The id of the message that sums up what was dropped.
    pub summary_id: Option<Box<str>>,
}

/// A conversation with everything in it, ordered by (time of creation, seq, id).
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// The messages in order.
    pub messages: Vec<Message>,
    /// Finished compactions in order.
    pub boundaries: Vec<Boundary>,
    /// The index of the first message that the user has taken back; it and what follows is hidden from the model.
    pub reverted_at: Option<usize>,
    /// How `tokens` were read.
    pub token_rule: TokenRule,
    /// What was left out, in a fixed order.
    pub skipped: Vec<crate::Skipped>,
}

impl Conversation {
    /// About how many bytes it holds in memory.
    #[must_use]
    pub fn weight(&self) -> usize {
        let parts = |m: &Message| m.parts.iter().map(Part::weight).sum::<usize>();
        let messages = self.messages.iter().map(|m| 320 + parts(m)).sum::<usize>();
        512 + messages + 256 * self.skipped.len()
    }
}

impl Part {
    fn weight(&self) -> usize {
        let texts = match &self.kind {
            PartKind::Text { text, .. } | PartKind::Reasoning { text } => text.len(),
            PartKind::Tool(tool) => {
                let optional = [&tool.output, &tool.error, &tool.title];
                let optional = optional.iter().filter_map(|t| t.as_ref());
                224 + tool.input.len() + optional.map(|t| t.len()).sum::<usize>()
            }
            PartKind::Other { json, .. } => json.len(),
            PartKind::Patch { files } => files.iter().map(|f| f.len() + 24).sum(),
            PartKind::File { url, .. } => url.as_ref().map_or(0, |u| u.len()),
            PartKind::Compaction { summary, .. } => summary.as_ref().map_or(0, |s| s.len()),
        };
        160 + texts
    }
}
