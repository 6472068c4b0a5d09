//! Asks a projection for the turns of the ledger that are similar to a question.

use filrouge_sources::library::LibraryError;
use filrouge_types::{ErrorCode, Failure};

use super::cursor::Cursor;
use super::found::Remarks;
use super::ledger::{LEDGER_NAME, LedgerSearch};
use super::query::QuestionVector;
use super::similar::MAX_SIMILAR;
use crate::embed::without_credentials;
use crate::filter::Filter;
use crate::request::SearchRequest;
use crate::similar_turns::{NamedTurn, SimilarTurns};

/// The maximum number of turns that a projection names: as many as a search ranks. Each costs the projection, and the
/// index that confirms it, some time.
const MAX_NAMED: usize = MAX_SIMILAR;

/// A search for which a projection may name turns.
pub(super) struct NamedSearch<'a> {
    pub(super) ledger: Option<&'a LedgerSearch>,
    pub(super) projection: Option<&'a dyn SimilarTurns>,
    pub(super) request: &'a SearchRequest,
    pub(super) filter: &'a Filter<'a>,
    pub(super) question: Option<&'a QuestionVector>,
    /// That of a later page. All pages must have the same order: a later page asks the projection only if the first page
    /// did, and fails if the first page did and this one cannot.
    pub(super) cursor: Option<&'a Cursor>,
}

impl NamedSearch<'_> {
    /// The turns that the projection names. `None` if the index of the ledger must compare vectors itself: in a search
    /// that is not for similar questions, that has filters, which a projection does not know, or that has no vector;
    /// without a projection of the caller's turns; and, with a notice, if it does not answer.
    ///
    /// # Errors
    /// [`LibraryError::Unavailable`] if a later page cannot continue the order of the first one.
    pub(super) fn turns(
        &self,
        remarks: &mut Remarks,
    ) -> Result<Option<Vec<NamedTurn>>, LibraryError> {
        let was_named = self.cursor.map(|cursor| cursor.named);
        let text = self.request.similar.as_deref();
        let Some(text) = text.filter(|_| was_named != Some(false) && self.is_unfiltered()) else {
            return Ok(None);
        };
        let named = match (self.ledger, self.projection, self.question) {
            (Some(ledger), Some(projection), Some(question)) => {
                let text = without_credentials(text);
                ledger.similar_turns(projection, (&text, &question.exact), MAX_NAMED)
            }
            _ => Ok(None),
        };
        let why = match named {
            Ok(Some(turns)) => return Ok(Some(turns)),
            Ok(None) => None,
            Err(why) => {
                tracing::warn!(code = why.code.as_str(), detail = %why.detail, "a projection does not name similar turns");
                Some(why)
            }
        };
        if was_named == Some(true) {
            let text = "the previous page was found by a projection, which does not answer";
            let failure =
                Failure::new(ErrorCode::Overloaded, text).with_hint("search again without cursor");
            return Err(LibraryError::Unavailable(failure));
        }
        if why.is_some() {
            let text =
                "a projection does not answer: similar questions are those of the search index";
            remarks.add_notice(text.to_owned());
        }
        Ok(None)
    }

    fn is_unfiltered(&self) -> bool {
        self.filter.requires_nothing() && self.filter.may_pass_source(LEDGER_NAME)
    }
}
