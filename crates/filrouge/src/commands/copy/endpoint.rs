//! Adds the name of the failed store to the failure of a copy.

use filrouge_types::{ErrorCode, Failure};

use crate::config::StoreUrl;

/// One of the two stores of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Source,
    Target,
}

impl Endpoint {
    const fn option(self) -> &'static str {
        match self {
            Self::Source => "--from",
            Self::Target => "--to",
        }
    }

    /// Prefixes a failure with the option and the URL of the store that failed. The URL is shown without its password.
    /// Integrity errors and missing keys get no prefix.
    pub(super) fn with_store(self, url: &StoreUrl, failure: Failure) -> Failure {
        let failure = self.with_option(failure);
        match failure.code {
            ErrorCode::IntegrityError | ErrorCode::KeyMissing => failure,
            _ => Failure {
                detail: format!("{} {url}: {}", self.option(), failure.detail),
                ..failure
            },
        }
    }

    /// Makes a hint name this endpoint's option instead of `--store`, the option of all other commands.
    pub(super) fn with_option(self, mut failure: Failure) -> Failure {
        let hint = failure.hint.take();
        failure.hint = hint.map(|hint| hint.replace("--store", self.option()));
        failure
    }
}
