//! The names of the formats.

/// Declares a list of formats with the words that queries and documents have for them.
macro_rules! formats {
    ($(#[$about:meta])* $name:ident ($known:literal) { $($(#[$doc:meta])* $format:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $format,)+ }

        impl $name {
            /// All formats.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$format),+];

            /// The word used in queries and documents.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$format => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = filrouge_types::UnknownName;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.into_iter().find(|format| format.as_str() == word);
                found.ok_or_else(|| filrouge_types::UnknownName {
                    what: "format",
                    name: word.to_owned(),
                    known: $known,
                })
            }
        }
    };
}
pub(crate) use formats;

formats! {
    /// What a restored conversation is written as.
    Format ("openai-chat, openai-responses, anthropic, gemini, pairs") {
        /// The `messages` of OpenAI's Chat Completions.
        OpenaiChat = "openai-chat",
        /// The `input` of OpenAI's Responses.
        OpenaiResponses = "openai-responses",
        /// The `messages` of Anthropic's Messages.
        Anthropic = "anthropic",
        /// The `contents` of Gemini's generateContent.
        Gemini = "gemini",
        /// Questions with their answers, of finalized turns.
        Pairs = "pairs",
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
