//! The neutral form of a conversation: messages and their parts (DESIGN §10).
//!
//! Every source returns its sessions in this form, whether another program or filrouge's own ledger recorded them.
//! Times are milliseconds since 1970. Texts are kept as recorded. Treat them as data of known origin, never as
//! instructions.

use filrouge_engine::Tokens;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

filrouge_types::words!(
    /// The author of a message.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Role: "role" {
        /// The user, or a program that asks in the user's place.
        #[default]
        User => "user",
        /// The agent.
        Assistant => "assistant",
        /// The foreign program itself: for example its notes, or a change of the agent or model.
        System => "system",
    }
);

/// The rule by which the counts of a program's version are converted to [`Tokens`]; statistics show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenRule {
    /// OpenCode to 0.5: `input` includes cache reads, which are subtracted; a message's own counts are those of its
    /// last step (one request to the model), so its steps are summed where they are recorded.
    OpencodeInputHoldsCache,
    /// OpenCode 1.0 to 1.2: `output` includes reasoning, which is subtracted.
    OpencodeOutputHoldsReasoning,
    /// Later OpenCode: all counts are separate.
    OpencodeApart,
    /// Claude Code: `input_tokens` excludes the cache, `output_tokens` includes reasoning; a message that is split over
    /// several records counts once.
    ClaudeCodeMessageOnce,
    /// Codex: usage of each response; cached input is subtracted from input, reasoning from output.
    CodexPerResponse,
    /// The ledger's own usage objects.
    Ledger,
}

/// Lines and files that were changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Changes {
    /// Lines added.
    pub additions: u64,
    /// Lines deleted.
    pub deletions: u64,
    /// Files touched.
    pub files: u64,
}

/// The error in which a message ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MessageError {
    /// The foreign program's name for the error, for example `APIError`.
    pub name: Box<str>,
    /// The error's text.
    pub message: Box<str>,
    /// Whether the foreign program treated it as temporary.
    pub retryable: bool,
}

impl MessageError {
    /// Whether the error only records that the agent was stopped: OpenCode's `MessageAbortedError`, Codex's
    /// `turn_aborted`.
    pub fn is_stop(&self) -> bool {
        matches!(&*self.name, "MessageAbortedError" | "turn_aborted")
    }
}

/// The state of a tool call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// Requested, not started.
    #[default]
    Pending,
    /// Started and not ended: it is still running, or its program died.
    Running,
    /// Ended without an error.
    Completed,
    /// Ended in an error.
    Error,
}

impl ToolStatus {
    /// Whether a call has not ended yet.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// A tool call with its result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tool {
    /// The id of the call.
    pub call_id: Box<str>,
    /// The tool's name.
    pub name: Box<str>,
    /// Its state.
    pub status: ToolStatus,
    /// Its arguments: JSON, as recorded.
    pub input: Box<str>,
    /// Its full output, even where the program no longer shows it to the model.
    pub output: Option<Box<str>>,
    /// Its error.
    pub error: Option<Box<str>>,
    /// A short title, where the program generates one.
    pub title: Option<Box<str>>,
    /// The time at which the program removed the output from the model's context; `None` if it did not.
    pub pruned: Option<i64>,
    /// The id of the session that this call started, for example that of a subagent.
    pub child: Option<Box<str>>,
    /// The numbers of lines and files that the call changed, where the program records them.
    pub changes: Option<Changes>,
    /// The paths of the files that the call reports as changed.
    pub files: Vec<Box<str>>,
    /// In the ledger: the seq of the item with the call's result. `None` while there is no result, and when the part
    /// was built from the result's item alone ([`Part::seq`] is then that item's seq).
    pub result: Option<u64>,
}

impl Tool {
    /// Creates a running call, without a result; `input` is JSON.
    pub(crate) fn call(call_id: Box<str>, name: Box<str>, input: Box<str>) -> Self {
        Self {
            call_id,
            name,
            status: ToolStatus::Running,
            input,
            ..Self::default()
        }
    }
}

/// The content of a part, by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartKind {
    /// Text; `synthetic` text was injected by the program, not typed by the user or written by the agent.
    Text {
        /// The text.
        text: Box<str>,
        /// Whether the program injected it.
        synthetic: bool,
    },
    /// The agent's reasoning.
    Reasoning {
        /// The text; empty where the program stores it only encrypted.
        text: Box<str>,
    },
    /// A tool call with its result.
    Tool(Box<Tool>),
    /// An attached file, without its content.
    File {
        /// Its media type.
        mime: Option<Box<str>>,
        /// Its name.
        name: Option<Box<str>>,
        /// Its URL, without the content of a `data:` URL.
        url: Option<Box<str>>,
    },
    /// A list of files that the agent changed, without the changes themselves.
    Patch {
        /// The paths.
        files: Vec<Box<str>>,
    },
    /// The point where a compaction begins.
    Compaction {
        /// Whether the program started it without a request.
        automatic: bool,
        /// The summary that replaces the dropped messages; `None` where a separate message contains it.
        summary: Option<Box<str>>,
    },
    /// A part of any other kind, for example a step, a snapshot, a named agent or a retry.
    Other {
        /// The foreign program's name for this kind.
        name: Box<str>,
        /// The part's original JSON.
        json: Box<str>,
    },
}

impl PartKind {
    /// The name of the kind: `text`, `reasoning`, `tool`, `file`, `patch`, `compaction`, or the foreign name.
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
    /// In the ledger, the seq of its item; `None` in other sources.
    pub seq: Option<u64>,
    /// The time at which it began.
    pub start: Option<i64>,
    /// The time at which it ended.
    pub end: Option<i64>,
    /// Its content.
    pub kind: PartKind,
}

/// A message with its parts in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// Its id; unique in its session.
    pub id: Box<str>,
    /// Its author.
    pub role: Role,
    /// The time of its creation.
    pub created: i64,
    /// The time of its completion; `None` while it is unfinished.
    pub completed: Option<i64>,
    /// Its position in its session, where the source has one. It orders messages of the same time.
    pub seq: Option<u64>,
    /// The id of the message that it answers.
    pub parent_id: Option<Box<str>>,
    /// The agent that wrote it; for a message of the user, the agent to which it was addressed.
    pub agent: Option<Box<str>>,
    /// The model, `provider/model` where both are known.
    pub model: Option<Box<str>>,
    /// Its token counts, converted by the conversation's [`Conversation::token_rule`].
    pub tokens: Option<Tokens>,
    /// Its cost in US dollars, as the program calculated it.
    pub cost: Option<f64>,
    /// The reason why it ended, as the program recorded it.
    pub finish: Option<Box<str>>,
    /// The error it ended in.
    pub error: Option<MessageError>,
    /// Whether it is the summary of a compaction.
    pub summary: bool,
    /// Whether the program records that the message was copied from another session, as in a fork.
    pub copied: bool,
    /// Its parts.
    pub parts: Vec<Part>,
}

impl Message {
    /// A message without parts and without optional fields.
    pub(crate) fn new(id: Box<str>, role: Role, created: i64) -> Self {
        Self {
            id,
            role,
            created,
            ..Self::default()
        }
    }
}

/// The position of a compaction: the model no longer sees the messages before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary {
    /// The index of the first message that the model still sees; the number of messages if it sees none of them.
    pub at: usize,
    /// The time of the compaction.
    pub created: i64,
    /// Whether the program started it without a request; `None` where that is not recorded.
    pub automatic: Option<bool>,
    /// The id of the message that summarizes the dropped ones.
    pub summary_id: Option<Box<str>>,
}

/// An entire conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// The messages, ordered by (time of creation, seq, id); in the ledger, in the order of its turns and items.
    pub messages: Vec<Message>,
    /// Finished compactions in order.
    pub boundaries: Vec<Boundary>,
    /// The index of the first message that the user reverted; it and all later ones are hidden from the model.
    pub reverted_at: Option<usize>,
    /// The rule by which [`Message::tokens`] were converted.
    pub token_rule: TokenRule,
    /// Records that were left out, in a fixed order.
    pub skipped: Vec<crate::Skipped>,
}

impl Part {
    /// The approximate size in memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let texts = match &self.kind {
            PartKind::Text { text, .. } | PartKind::Reasoning { text } => text.len(),
            PartKind::Tool(tool) => {
                let optional_texts = [&tool.output, &tool.error, &tool.title];
                let optional_texts = optional_texts.iter().filter_map(|t| t.as_ref());
                224 + tool.input.len() + optional_texts.map(|t| t.len()).sum::<usize>()
            }
            PartKind::Other { json, .. } => json.len(),
            PartKind::Patch { files } => files.iter().map(|f| f.len() + 24).sum(),
            PartKind::File { url, .. } => url.as_ref().map_or(0, |u| u.len()),
            PartKind::Compaction { summary, .. } => summary.as_ref().map_or(0, |s| s.len()),
        };
        160 + texts
    }
}
