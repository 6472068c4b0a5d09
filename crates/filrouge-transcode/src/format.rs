//! The names of the formats of restored conversations.

filrouge_types::words!(
    /// The format of a restored conversation.
    pub enum Format: "format" {
        /// The `messages` of OpenAI's Chat Completions.
        OpenaiChat => "openai-chat",
        /// The `input` of OpenAI's Responses.
        OpenaiResponses => "openai-responses",
        /// The `messages` of Anthropic's Messages.
        Anthropic => "anthropic",
        /// The `contents` of Gemini's generateContent.
        Gemini => "gemini",
        /// Questions with their answers, of finalized turns.
        Pairs => "pairs",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_a_name_and_the_error_lists_them_all() {
        let error = "chatgpt".parse::<Format>().unwrap_err();
        for format in Format::ALL {
            assert_eq!(format.as_str().parse::<Format>(), Ok(format));
            assert!(error.known.split(", ").any(|w| w == format.as_str()));
        }
    }
}
