//! Chunks and responses of Chat Completions, as they come from OpenAI and from those that speak like it.

use crate::stream::json;

json::members! {
    /// A chunk, a whole response, or an error.
    Chunk {
        id, object, model, choices: Option<Vec<Choice<'a>>>, usage, error, system_fingerprint, service_tier,
        /// Azure, ahead of the first choice.
        prompt_filter_results,
        moderation,
        /// Perplexity and xAI, the same in every chunk.
        citations,
        /// Perplexity, the same in every chunk.
        search_results,
        x_groq: Option<Groq<'a>>,
        /// Of an error that is not inside a member `error`.
        message,
        /// As `message`.
        msg,
        /// As `message`.
        detail,
    }
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

json::members! {
    /// What Groq adds to its first and last chunk.
    Groq { usage, error }

    /// What has come of one answer.
    Choice {
        index: Option<u32>, delta: Option<Message<'a>>, message: Option<Message<'a>>, finish_reason,
        /// OpenRouter: the word of the provider behind it.
        native_finish_reason,
        /// OpenRouter.
        error,
        /// Moonshot.
        usage,
    }

    /// A message, or what has been added to one.
    Message {
        content, refusal,
        /// DeepSeek, vLLM, llama.cpp and many others.
        reasoning_content,
        /// OpenRouter, Groq, newer vLLM.
        reasoning,
        /// OpenRouter.
        reasoning_details,
        /// LiteLLM.
        thinking_blocks,
        tool_calls: Option<Vec<ToolCall<'a>>>, function_call: Option<Function<'a>>, audio, annotations,
        /// OpenRouter.
        images,
    }

    /// A call, or what has been added to one.
    ToolCall {
        index: Option<u64>, id, function: Option<Function<'a>>, custom: Option<Function<'a>>,
        /// Google.
        extra_content: Option<Extra<'a>>,
    }

    /// A function's name and arguments, or a custom tool's name and input.
    Function { name, arguments, input }

    /// What Google adds to a call.
    Extra { google: Option<Google<'a>> }

    /// The signature of the thought behind a call.
    Google { thought_signature }

    /// Spoken answers.
    Audio { id, transcript, data, expires_at }

    /// A piece of reasoning with what its provider wants to have back.
    Detail {
        kind = "type", index: Option<u64>, id, format, text, summary, thinking, data, signature,
    }

    /// An entry of a content that is a list.
    Entry {
        kind = "type", text, refusal,
        /// Mistral: a list of texts.
        thinking,
    }
}
