//! The rules of the providers for conversation histories. Tests use these rules to check the histories that
//! filrouge writes, so this crate shares no code with filrouge's writers of histories.
//!
//! Each provider's rules are in one module. Each rule is a constant whose documentation quotes the provider's
//! documentation or API error from which the rule comes. [`check_history`] applies the rules. [`sdk`] applies a second,
//! independent check: the request types of the providers' official Python SDKs.
//!
//! The rules are closed: a member, a block type or an enumerated value that is not in this crate's list for the
//! provider is a violation, even if the provider would accept it. Where a rule refuses more than the provider, its
//! documentation says so ("Stricter").
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "the providers' error texts are quoted unchanged, brackets included"
)]

pub mod anthropic;
pub mod gemini;
mod media;
pub mod openai_chat;
pub mod openai_responses;
pub mod sdk;
pub mod shape;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::shape::Findings;

/// A provider's history format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// OpenAI Chat Completions: the `messages` array.
    OpenaiChat,
    /// OpenAI Responses: the `input` array.
    OpenaiResponses,
    /// Anthropic Messages: the `messages` array.
    Anthropic,
    /// Gemini generateContent: the `contents` array.
    Gemini,
}

impl Provider {
    /// Every provider.
    pub const ALL: [Self; 4] = [
        Self::OpenaiChat,
        Self::OpenaiResponses,
        Self::Anthropic,
        Self::Gemini,
    ];

    /// The provider's name: `openai-chat`, `openai-responses`, `anthropic` or `gemini`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The error for a name that no provider has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown provider {0:?}: one of openai-chat, openai-responses, anthropic, gemini")]
pub struct UnknownProvider(pub String);

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|provider| provider.as_str() == name)
            .ok_or_else(|| UnknownProvider(name.to_owned()))
    }
}

/// One violation of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path of the violation, such as `messages[3].content[0]`.
    pub at: String,
    /// The name of the broken rule, one of [`rules`].
    pub rule: &'static str,
    /// The description of the violation, as text for people.
    pub description: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}: {}: {}",
            self.at, self.rule, self.description
        )
    }
}

/// Checks `messages`, the provider's array of messages, input items or contents, as the history of a next request.
///
/// The history is judged as the provider would judge it if a new user message followed. If the history already ends
/// with a turn of the user or with tool results, it is judged unchanged, because the new message would become part of
/// that turn. So a call without an answer at the end is a violation, and an empty history is valid.
///
/// An empty result means that the history breaks no rule. Violations are in the order of the messages, then of the
/// checks.
#[must_use]
pub fn check_history(provider: Provider, messages: &Value) -> Vec<Violation> {
    let mut findings = Findings::default();
    match provider {
        Provider::OpenaiChat => openai_chat::check(messages, &mut findings),
        Provider::OpenaiResponses => openai_responses::check(messages, &mut findings),
        Provider::Anthropic => anthropic::check(messages, &mut findings),
        Provider::Gemini => gemini::check(messages, &mut findings),
    }
    findings.into_violations()
}

/// The names of all rules that [`check_history`] applies to `provider`: the rules of [`shape`] and of the provider.
#[must_use]
pub fn rules(provider: Provider) -> Vec<&'static str> {
    let provider_rules = match provider {
        Provider::OpenaiChat => openai_chat::RULES,
        Provider::OpenaiResponses => openai_responses::RULES,
        Provider::Anthropic => anthropic::RULES,
        Provider::Gemini => gemini::RULES,
    };
    shape::RULES.iter().chain(provider_rules).copied().collect()
}
