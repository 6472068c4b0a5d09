//! The query of a restored context.

use serde::Deserialize;

use filrouge_types::{ErrorCode, Failure, Variant};

/// Treatment of a call that has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// It is left out, with all calls of its group and their answers.
    #[default]
    Drop,
    /// It is answered with an error.
    Error,
}

/// The content of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Selection {
    /// Everything that can be given to a model.
    #[default]
    Messages,
    /// Questions and answers of finalized turns.
    Pairs,
}

/// The query of a context to restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RestoreQuery {
    /// Its content.
    pub selection: Selection,
    /// The language. Items that are missing in it are shown in the other one; pairs are not.
    pub variant: Variant,
    /// Restores only this many of the newest turns. Replaced and redacted turns do not count; for pairs only finalized
    /// ones do.
    pub last_turns: Option<usize>,
    /// Restores only as many of the newest turns as fit in this many tokens, by the estimate [`super::ESTIMATE`].
    pub max_tokens: Option<u64>,
    /// Treatment of calls without an answer.
    pub unanswered: Unanswered,
}

impl RestoreQuery {
    pub(super) fn check(&self) -> Result<(), Failure> {
        let limit = if self.last_turns == Some(0) {
            "last_turns"
        } else if self.max_tokens == Some(0) {
            "max_tokens"
        } else {
            return Ok(());
        };
        Err(ErrorCode::Invalid.failure(format!("{limit} must be at least 1")))
    }
}
