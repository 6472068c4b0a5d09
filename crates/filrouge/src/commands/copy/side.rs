//! Which of a copy's two stores has failed.

use filrouge_types::{ErrorCode, Failure};

use crate::config::StoreUrl;

/// One side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    From,
    To,
}

impl Side {
    const fn option(self) -> &'static str {
        match self {
            Self::From => "--from",
            Self::To => "--to",
        }
    }

    /// Names the store that has failed, without its password. What is wrong with its data is told as it is.
    pub(super) fn of(self, url: &StoreUrl, failure: Failure) -> Failure {
        let failure = self.hinting(failure);
        match failure.code {
            ErrorCode::IntegrityError | ErrorCode::KeyMissing => failure,
            _ => Failure {
                detail: format!("{} {url}: {}", self.option(), failure.detail),
                ..failure
            },
        }
    }

    /// Hints speak of the option that names the store of every other command.
    pub(super) fn hinting(self, mut failure: Failure) -> Failure {
        let hint = failure.hint.take();
        failure.hint = hint.map(|hint| hint.replace("--store", self.option()));
        failure
    }
}
