//! The names of the formats.

use std::fmt;
use std::str::FromStr;

use filrouge_types::UnknownName;

/// What a restored conversation is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The `messages` of OpenAI's Chat Completions.
    OpenaiChat,
    /// The `input` of OpenAI's Responses.
    OpenaiResponses,
    /// The `messages` of Anthropic's Messages.
    Anthropic,
    /// The `contents` of Gemini's generateContent.
    Gemini,
    /// Questions with their answers, of finalized turns.
    Pairs,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] = [
        Self::OpenaiChat,
        Self::OpenaiResponses,
        Self::Anthropic,
        Self::Gemini,
        Self::Pairs,
    ];

    /// The word used in queries and documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Pairs => "pairs",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|f| f.as_str() == word);
        found.ok_or_else(|| UnknownName {
            what: "format",
            name: word.to_owned(),
            known: "openai-chat, openai-responses, anthropic, gemini, pairs",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_a_word_and_the_error_names_them_all() {
        let error = "chatgpt".parse::<Format>().unwrap_err();
        for format in Format::ALL {
            assert_eq!(format.as_str().parse::<Format>(), Ok(format));
            assert!(error.known.split(", ").any(|w| w == format.as_str()));
        }
    }
}
