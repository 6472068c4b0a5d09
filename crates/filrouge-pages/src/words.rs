//! The texts of pages in all languages, one file per page. A text that lacks a language does not compile.

mod actions;
mod audit;
mod conversation;
mod forms;
mod frame;
mod integrity;
mod lineage;
mod operations;
mod sessions;
mod shares;
mod statistics;
mod status;

pub(crate) use actions::ActionWords;
pub(crate) use audit::AuditWords;
pub(crate) use conversation::ConversationWords;
pub(crate) use forms::{FormWords, refused};
pub(crate) use frame::FrameWords;
pub(crate) use integrity::IntegrityWords;
pub(crate) use lineage::LineageWords;
pub(crate) use operations::OperationsWords;
pub(crate) use sessions::SessionsWords;
pub(crate) use shares::{SharedWords, SharesWords};
pub(crate) use statistics::StatisticsWords;
pub(crate) use status::StatusWords;

/// A language in which pages are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// The default.
    English,
    French,
    German,
}

impl Language {
    /// All languages.
    pub(crate) const ALL: [Self; 3] = [Self::English, Self::French, Self::German];

    /// The language of the words that a document writes.
    pub(crate) const fn of_document(self) -> filrouge_document::Language {
        match self {
            Self::English => filrouge_document::Language::English,
            Self::French => filrouge_document::Language::French,
            Self::German => filrouge_document::Language::German,
        }
    }

    /// The language's tag (BCP 47).
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::French => "fr",
            Self::German => "de",
        }
    }
}

/// Defines a struct of texts: each line has a name, and the text in English, French and German.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($word:ident: $english:literal, $french:literal, $german:literal;)+ }) => {
        $(#[$doc])*
        pub(crate) struct $name {
            $(pub(crate) $word: &'static str,)+
        }

        impl $name {
            /// The texts in this language.
            pub(crate) const fn of(language: $crate::words::Language) -> &'static Self {
                match language {
                    $crate::words::Language::English => &Self { $($word: $english,)+ },
                    $crate::words::Language::French => &Self { $($word: $french,)+ },
                    $crate::words::Language::German => &Self { $($word: $german,)+ },
                }
            }
        }
    };
}
use words;
