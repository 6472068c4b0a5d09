//! Chunks and responses of Chat Completions, from OpenAI and from compatible servers.

use crate::stream::json;

json::members! {
    /// A chunk, a complete response, or an error.
    Chunk {
        id, object, model, choices: Option<Vec<Choice<'a>>>, usage, error, system_fingerprint, service_tier,
        /// Sent by Azure, before the first choice.
        prompt_filter_results,
        moderation,
        /// Sent by Perplexity and xAI, the same in every chunk.
        citations,
        /// Sent by Perplexity, the same in every chunk.
        search_results,
        x_groq: Option<Groq<'a>>,
        /// The message of an error that has no member `error`.
        message,
        /// Another name for `message`.
        msg,
        /// Another name for `message`.
        detail,
    }
}

impl Chunk<'_> {
    /// Whether the object itself is an error.
    pub(super) fn is_error(&self) -> bool {
        let messages = [self.message, self.msg, self.detail];
        self.choices.is_none()
            && messages
                .into_iter()
                .any(|raw| json::non_null(raw).is_some())
    }

    /// Whether the object has any member that identifies this format.
    pub(super) fn is_known(&self) -> bool {
        self.choices.is_some()
            || self.usage.is_some()
            || self.error.is_some()
            || self.prompt_filter_results.is_some()
            || self.is_error()
    }
}

json::members! {
    /// Groq's additions to its first and last chunk.
    Groq { usage, error }

    /// A piece of one answer.
    Choice {
        index: Option<u32>, delta: Option<Message<'a>>, message: Option<Message<'a>>, finish_reason,
        /// Sent by OpenRouter: the finish reason of the provider it calls.
        native_finish_reason,
        /// Sent by OpenRouter.
        error,
        /// Sent by Moonshot.
        usage,
    }

    /// A message, or an addition to one.
    Message {
        content, refusal,
        /// Sent by DeepSeek, vLLM, llama.cpp and many others.
        reasoning_content,
        /// Sent by OpenRouter, Groq and newer vLLM.
        reasoning,
        /// Sent by OpenRouter.
        reasoning_details,
        /// Sent by LiteLLM.
        thinking_blocks,
        tool_calls: Option<Vec<ToolCall<'a>>>, function_call: Option<Function<'a>>, audio, annotations,
        /// Sent by OpenRouter.
        images,
    }

    /// A call, or an addition to one.
    ToolCall {
        index: Option<u64>, id, function: Option<Function<'a>>, custom: Option<Function<'a>>,
        /// Sent by Google.
        extra_content: Option<Extra<'a>>,
    }

    /// A function's name and arguments, or a custom tool's name and input.
    Function { name, arguments, input }

    /// Google's additions to a call.
    Extra { google: Option<Google<'a>> }

    /// The signature of the thought before a call.
    Google { thought_signature }

    /// A spoken answer.
    Audio { id, transcript, data, expires_at }

    /// A piece of reasoning with data that its provider expects back.
    Detail {
        kind = "type", index: Option<u64>, id, format, text, summary, thinking, data, signature,
    }

    /// An entry of a content that is a list.
    Entry {
        kind = "type", text, refusal,
        /// Sent by Mistral: a list of texts.
        thinking,
    }
}
