//! What is asked of a restored context.

use serde::Deserialize;

use filrouge_types::{ErrorCode, Failure, Variant};

/// What happens to a call that has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// It is left out, with all calls of its group and their answers.
    #[default]
    Drop,
    /// It is answered by an error.
    Error,
}

/// What a context is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Selection {
    /// Everything a model can be given.
    #[default]
    Messages,
    /// Questions and answers of finalized turns.
    Pairs,
}

/// Which context is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreQuery {
    /// What it is made of.
    pub selection: Selection,
    /// The language. Of items that are not there in it the other one stands; for pairs it does not.
    pub variant: Variant,
    /// Only the newest so many turns. Replaced and redacted turns do not count; for pairs only finalized ones do.
    pub last_turns: Option<usize>,
    /// Only as many of the newest turns as have at most so many tokens, by the estimate [`super::ESTIMATE`].
    pub max_tokens: Option<u64>,
    /// What happens to calls without an answer.
    pub unanswered: Unanswered,
}

impl Default for RestoreQuery {
    fn default() -> Self {
        Self {
            selection: Selection::Messages,
            variant: Variant::default(),
            last_turns: None,
            max_tokens: None,
            unanswered: Unanswered::Drop,
        }
    }
}

impl RestoreQuery {
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.last_turns == Some(0) {
            return Err(Failure::new(
                ErrorCode::Invalid,
                "last_turns must be at least 1",
            ));
        }
        if self.max_tokens == Some(0) {
            return Err(Failure::new(
                ErrorCode::Invalid,
                "max_tokens must be at least 1",
            ));
        }
        Ok(())
    }
}
