//! Chunks and responses of Chat Completions, as they come from OpenAI and from those that speak like it.

use serde::Deserialize;

use crate::stream::json::{self, Raw};

/// A chunk, a whole response, or an error.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    pub(super) object: Raw<'a>,
    pub(super) model: Raw<'a>,
    pub(super) choices: Option<Vec<Choice<'a>>>,
    pub(super) usage: Raw<'a>,
    pub(super) error: Raw<'a>,
    pub(super) system_fingerprint: Raw<'a>,
    pub(super) service_tier: Raw<'a>,
    /// Azure, ahead of the first choice.
    pub(super) prompt_filter_results: Raw<'a>,
    pub(super) moderation: Raw<'a>,
    /// Perplexity and xAI, the same in every chunk.
    pub(super) citations: Raw<'a>,
    /// Perplexity, the same in every chunk.
    pub(super) search_results: Raw<'a>,
    pub(super) x_groq: Option<Groq<'a>>,
    /// Of an error that is not inside a member `error`.
    pub(super) message: Raw<'a>,
    /// As `message`.
    pub(super) msg: Raw<'a>,
    /// As `message`.
    pub(super) detail: Raw<'a>,
}

impl Chunk<'_> {
    /// Whether the whole object is an error.
    pub(super) fn is_error(&self) -> bool {
        let told = [self.message, self.msg, self.detail];
        self.choices.is_none() && told.into_iter().any(|raw| json::value(raw).is_some())
    }

    /// Whether there is anything in it that this format has.
    pub(super) fn is_known(&self) -> bool {
        self.choices.is_some()
            || self.usage.is_some()
            || self.error.is_some()
            || self.prompt_filter_results.is_some()
            || self.is_error()
    }
}

/// What Groq adds to its first and last chunk.
#[derive(Deserialize)]
pub(super) struct Groq<'a> {
    #[serde(borrow)]
    pub(super) usage: Raw<'a>,
    pub(super) error: Raw<'a>,
}

/// What has come of one answer.
#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) delta: Option<Message<'a>>,
    pub(super) message: Option<Message<'a>>,
    pub(super) finish_reason: Raw<'a>,
    /// OpenRouter: the word of the provider behind it.
    pub(super) native_finish_reason: Raw<'a>,
    /// OpenRouter.
    pub(super) error: Raw<'a>,
    /// Moonshot.
    pub(super) usage: Raw<'a>,
}

/// A message, or what has been added to one.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) content: Raw<'a>,
    pub(super) refusal: Raw<'a>,
    /// DeepSeek, vLLM, llama.cpp and many others.
    pub(super) reasoning_content: Raw<'a>,
    /// OpenRouter, Groq, newer vLLM.
    pub(super) reasoning: Raw<'a>,
    /// OpenRouter.
    pub(super) reasoning_details: Raw<'a>,
    /// LiteLLM.
    pub(super) thinking_blocks: Raw<'a>,
    pub(super) tool_calls: Option<Vec<ToolCall<'a>>>,
    pub(super) function_call: Option<Function<'a>>,
    pub(super) audio: Raw<'a>,
    pub(super) annotations: Raw<'a>,
    /// OpenRouter.
    pub(super) images: Raw<'a>,
}

/// A call, or what has been added to one.
#[derive(Deserialize)]
pub(super) struct ToolCall<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    pub(super) function: Option<Function<'a>>,
    pub(super) custom: Option<Function<'a>>,
    /// Google.
    pub(super) extra_content: Option<Extra<'a>>,
}

/// A function's name and arguments, or a custom tool's name and input.
#[derive(Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub(super) name: Raw<'a>,
    pub(super) arguments: Raw<'a>,
    pub(super) input: Raw<'a>,
}

/// What Google adds to a call.
#[derive(Deserialize)]
pub(super) struct Extra<'a> {
    #[serde(borrow)]
    pub(super) google: Option<Google<'a>>,
}

/// The signature of the thought behind a call.
#[derive(Deserialize)]
pub(super) struct Google<'a> {
    #[serde(borrow)]
    pub(super) thought_signature: Raw<'a>,
}

/// Spoken answers.
#[derive(Deserialize)]
pub(super) struct Audio<'a> {
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    pub(super) transcript: Raw<'a>,
    pub(super) data: Raw<'a>,
    pub(super) expires_at: Raw<'a>,
}

/// A piece of reasoning with what its provider wants to have back.
#[derive(Deserialize)]
pub(super) struct Detail<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Raw<'a>,
    pub(super) index: Option<u64>,
    pub(super) id: Raw<'a>,
    pub(super) format: Raw<'a>,
    pub(super) text: Raw<'a>,
    pub(super) summary: Raw<'a>,
    pub(super) thinking: Raw<'a>,
    pub(super) data: Raw<'a>,
    pub(super) signature: Raw<'a>,
}

/// An entry of a content that is a list.
#[derive(Deserialize)]
pub(super) struct Entry<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Raw<'a>,
    pub(super) text: Raw<'a>,
    pub(super) refusal: Raw<'a>,
    /// Mistral: a list of texts.
    pub(super) thinking: Raw<'a>,
}
