//! The neutral plan of a restored context: what a renderer needs and no provider's words (DESIGN §5).

use filrouge_types::{JsonText, RawJson, TurnId, TurnStatus};

use super::report::Fates;

/// A restored conversation, oldest turn first, with the fate of every item it was made of.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What stands for turns before the window, if something does.
    pub summary: Option<Say>,
    /// The turns of the window that have something to show.
    pub turns: Vec<PlanTurn>,
    /// What became of every item of the window; a renderer notes there what it leaves out or changes.
    pub fates: Fates,
}

/// One turn.
#[derive(Debug, Clone)]
pub struct PlanTurn {
    /// Its id.
    pub turn_id: TurnId,
    /// Where it stands.
    pub status: TurnStatus,
    /// What was said and done, in order. All calls in it are answered.
    pub blocks: Vec<Block>,
    /// Question and answer, of a finalized turn that has both in the variant asked for.
    pub pair: Option<Pair>,
}

/// A question with its answer, as they were recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// What was asked.
    pub question: JsonText,
    /// What was answered.
    pub answer: JsonText,
}

/// One step of a turn.
#[derive(Debug, Clone)]
pub enum Block {
    /// Somebody says something.
    Say(Say),
    /// The agent calls tools, and they answer.
    Calls(Calls),
}

/// Who speaks to whom in a model's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The person.
    User,
    /// The agent.
    Assistant,
    /// The application, by a note.
    System,
}

/// Why filrouge itself says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The turn's owner was gone.
    Interrupted,
    /// The user cancelled.
    Cancelled,
    /// The turn failed.
    Failed,
    /// Later turns follow, and this one has no answer yet.
    Unanswered,
}

impl Mark {
    /// The words a model reads.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Interrupted => "[This answer was interrupted before it was complete.]",
            Self::Cancelled => "[The user cancelled this answer before it was complete.]",
            Self::Failed => "[This answer failed before it was complete.]",
            Self::Unanswered => "[There is no answer to this yet.]",
        }
    }
}

/// Something said.
#[derive(Debug, Clone)]
pub struct Say {
    /// Its item; `None` for a mark that no item stands for.
    pub seq: Option<u64>,
    /// By whom.
    pub speaker: Speaker,
    /// The reasoning that led to it, the agent's alone.
    pub reasoning: Vec<Reasoning>,
    /// What is said, never nothing.
    pub contents: Vec<Content>,
}

impl Say {
    /// filrouge's own words, for item `seq` when there is one.
    pub(super) fn mark(mark: Mark, seq: Option<u64>) -> Self {
        Self {
            seq,
            speaker: Speaker::Assistant,
            reasoning: Vec::new(),
            contents: vec![Content::Mark(mark)],
        }
    }
}

/// A piece of what is said or answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text that is not blank. Lone surrogates are replaced, so that every reader takes it.
    Text(JsonText),
    /// A refusal.
    Refusal(JsonText),
    /// An image.
    Image(Media),
    /// A file.
    File(Media),
    /// Words of filrouge.
    Mark(Mark),
    /// A summary that stands for the turns before the window.
    Summary(JsonText),
}

/// An image or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// Where its bytes are.
    pub source: MediaSource,
    /// Its media type in lower case, such as `image/png`, when it is known.
    pub mime: Option<Box<str>>,
    /// Its name, when it has one.
    pub name: Option<Box<str>>,
}

/// Where the bytes of an image or a file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaSource {
    /// In the journal, as standard base64 that was checked.
    Base64(Box<str>),
    /// At an `http:` or `https:` address.
    Url(Box<str>),
    /// At a provider, under this id.
    Id(Box<str>),
    /// Somewhere no provider can read, such as a path or another scheme.
    Elsewhere(Box<str>),
}

/// Calls that the agent made in one step, with their answers.
#[derive(Debug, Clone)]
pub struct Calls {
    /// The reasoning that led to them.
    pub reasoning: Vec<Reasoning>,
    /// The calls with their answers, at least one; ids are unique in the turn.
    pub calls: Vec<Call>,
}

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its item.
    pub seq: u64,
    /// Its id as it was recorded; plain text, any bytes.
    pub call_id: Box<str>,
    /// The tool's name as it was recorded; plain text, any bytes.
    pub name: Box<str>,
    /// The arguments.
    pub args: Args,
    /// What the provider wants back with the call, and whose it is.
    pub signature: Option<(Provider, JsonText)>,
    /// The answer.
    pub result: CallResult,
}

/// The arguments of a call. Lone surrogates are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Args {
    /// A JSON object.
    Object(RawJson),
    /// Any other JSON value that is no string.
    Value(RawJson),
    /// A string that is not the JSON of an object.
    Text(JsonText),
}

/// What a tool answered.
#[derive(Debug, Clone)]
pub struct CallResult {
    /// Its item; `None` for an answer made because there was none (`unanswered=error`).
    pub seq: Option<u64>,
    /// Whether the tool succeeded.
    pub ok: bool,
    /// What it answered.
    pub answer: Answer,
}

/// The content of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Texts, images and files, possibly none.
    Contents(Vec<Content>),
    /// Structured content: a JSON value that is neither a string nor a list of contents.
    Value(RawJson),
}

/// A provider of models whose reasoning can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// OpenAI.
    Openai,
    /// Anthropic.
    Anthropic,
    /// Google.
    Google,
}

/// What an agent thought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasoning {
    /// Its item.
    pub seq: u64,
    /// The text, when it may be read.
    pub text: Option<JsonText>,
    /// What only the provider that made it can check or read.
    pub sealed: Option<Sealed>,
}

/// Signed or encrypted reasoning: it goes back to its provider as it came, and to no other.
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
        /// Its encrypted content, when it was asked for.
        encrypted_content: Option<JsonText>,
    },
    /// Google's signature of a thought.
    GoogleSignature(JsonText),
    /// Something of a provider that is not known.
    Unknown,
}
