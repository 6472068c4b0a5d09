//! The neutral plan of a restored context: all that a renderer needs, without any provider's terms (DESIGN §5).

use filrouge_types::{JsonText, RawJson, TurnId, TurnStatus};

use super::report::Dispositions;

/// A restored conversation, oldest turn first, with the disposition of every item it was built from.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The summary of turns before the window, if one is used.
    pub summary: Option<Message>,
    /// The turns of the window that show something.
    pub turns: Vec<PlanTurn>,
    /// The disposition of every item of the window; a renderer records there what it leaves out or changes.
    pub dispositions: Dispositions,
}

/// One turn.
#[derive(Debug, Clone)]
pub struct PlanTurn {
    /// The turn's id.
    pub turn_id: TurnId,
    /// The turn's state.
    pub status: TurnStatus,
    /// The turn's messages and calls, in order. Every call has a result.
    pub blocks: Vec<Block>,
    /// The turn's question and answer; only if the query selects pairs, and the turn is finalized and has both in the
    /// requested language.
    pub pair: Option<Pair>,
}

/// A question with its answer, as they were recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The question.
    pub question: JsonText,
    /// The answer.
    pub answer: JsonText,
}

/// One step of a turn.
#[derive(Debug, Clone)]
pub enum Block {
    /// A message.
    Message(Message),
    /// Tool calls of the agent with their results.
    Calls(Calls),
}

/// The speaker of a message in a model's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The person.
    User,
    /// The agent.
    Assistant,
    /// The application, which speaks in notes.
    System,
}

/// A message of filrouge itself about a turn without a final answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The turn was interrupted, because its recorder stopped before the turn ended.
    Interrupted,
    /// The user cancelled the turn.
    Cancelled,
    /// The turn failed.
    Failed,
    /// The turn is open and has no answer yet, although later turns follow.
    Unanswered,
    /// The turn has its answer, but the answer was redacted.
    Redacted,
}

impl Mark {
    /// The text that a model reads.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Interrupted => "[This answer was interrupted before it was complete.]",
            Self::Cancelled => "[The user cancelled this answer before it was complete.]",
            Self::Failed => "[This answer failed before it was complete.]",
            Self::Unanswered => "[There is no answer to this yet.]",
            Self::Redacted => "[This answer was redacted.]",
        }
    }
}

/// A message.
#[derive(Debug, Clone)]
pub struct Message {
    /// The seq of the message's item; `None` for a mark that no item records.
    pub seq: Option<u64>,
    /// The speaker.
    pub speaker: Speaker,
    /// The reasoning that led to the message; empty unless the agent speaks.
    pub reasoning: Vec<Reasoning>,
    /// The contents, never empty.
    pub contents: Vec<Content>,
}

impl Message {
    /// A message of filrouge, for item `seq` if there is one.
    pub(super) fn mark(mark: Mark, seq: Option<u64>) -> Self {
        Self {
            seq,
            speaker: Speaker::Assistant,
            reasoning: Vec::new(),
            contents: vec![Content::Mark(mark)],
        }
    }
}

/// A piece of a message or of a tool's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text that is not blank. Lone surrogates are replaced, so that every reader accepts it.
    Text(JsonText),
    /// A refusal.
    Refusal(JsonText),
    /// An image.
    Image(Media),
    /// A file.
    File(Media),
    /// A message of filrouge.
    Mark(Mark),
    /// A summary that replaces the turns before the window.
    Summary(JsonText),
}

/// An image or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// The source of the bytes.
    pub source: MediaSource,
    /// The media type in lower case, such as `image/png`, if known.
    pub mime: Option<Box<str>>,
    /// The file's name, if it has one.
    pub name: Option<Box<str>>,
}

/// The source of an image's or a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaSource {
    /// In the ledger, as valid standard base64.
    Base64(Box<str>),
    /// At an `http:` or `https:` address.
    Url(Box<str>),
    /// At a provider, under this id.
    Id(Box<str>),
    /// At a place that no provider can read, such as a path or an address with another scheme.
    Elsewhere(Box<str>),
}

/// Calls that the agent made in one step, with their results.
#[derive(Debug, Clone)]
pub struct Calls {
    /// The reasoning that led to the calls.
    pub reasoning: Vec<Reasoning>,
    /// The calls with their results, at least one. Call ids are unique in the turn.
    pub calls: Vec<Call>,
}

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct Call {
    /// The seq of the call's item.
    pub seq: u64,
    /// The call's id as recorded, without JSON escapes; it may contain any character.
    pub call_id: Box<str>,
    /// The tool's name as recorded, without JSON escapes; it may contain any character.
    pub name: Box<str>,
    /// The arguments.
    pub args: Args,
    /// A provider, and the signature that this provider expects back with the call.
    pub signature: Option<(Provider, JsonText)>,
    /// The call's result.
    pub result: CallResult,
}

/// The arguments of a call. Lone surrogates are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Args {
    /// A JSON object.
    Object(RawJson),
    /// Any other JSON value except a string.
    Value(RawJson),
    /// A string that is not the JSON of an object.
    Text(JsonText),
}

/// The result of a call.
#[derive(Debug, Clone)]
pub struct CallResult {
    /// The seq of the result's item; `None` for an error in place of a missing result (`unanswered=error`).
    pub seq: Option<u64>,
    /// Whether the tool succeeded.
    pub ok: bool,
    /// The content of the result.
    pub content: ResultContent,
}

/// The content of a tool's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultContent {
    /// Texts, images and files, possibly none.
    Contents(Vec<Content>),
    /// Structured content: a JSON value that is neither a string nor a list of contents.
    Value(RawJson),
}

/// A provider whose models' reasoning can be recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// OpenAI.
    Openai,
    /// Anthropic.
    Anthropic,
    /// Google.
    Google,
}

/// Reasoning of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasoning {
    /// The seq of the reasoning's item.
    pub seq: u64,
    /// The text, if it is readable.
    pub text: Option<JsonText>,
    /// Data that only the provider of the model can verify or read.
    pub sealed: Option<Sealed>,
}

/// Signed or encrypted reasoning, which is returned unchanged to its own provider and to no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sealed {
    /// Anthropic's signature over the text of a `thinking` block.
    AnthropicSignature(JsonText),
    /// The data of Anthropic's `redacted_thinking` block.
    AnthropicRedacted(JsonText),
    /// OpenAI's reasoning item.
    OpenaiItem {
        /// Its id.
        id: JsonText,
        /// Its summary, a JSON array.
        summary: RawJson,
        /// Its encrypted content, if it was requested.
        encrypted_content: Option<JsonText>,
    },
    /// Google's signature of a thought.
    GoogleSignature(JsonText),
    /// Data whose provider or format is unknown.
    Unknown,
}
