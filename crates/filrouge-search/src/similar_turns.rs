//! The port of what names earlier turns that are similar to a question, such as a projection with vectors.
//!
//! It only names candidates: a search shows a turn only if the index of the ledger has it for the caller, and reads its
//! texts from the ledger.

use filrouge_types::{IdentityId, Result, SessionId, TenantId};

/// A question for which similar earlier turns are wanted.
#[derive(Debug, Clone, Copy)]
pub struct SimilarQuestion<'a> {
    /// The tenant whose turns are compared.
    pub tenant: &'a TenantId,
    /// Only turns of this owner's sessions; `None` for those of the entire tenant.
    pub owner: Option<&'a IdentityId>,
    /// The question, without credentials.
    pub text: &'a str,
    /// Its vector by the embedder of the search, of unit length.
    pub vector: &'a [f32],
    /// The maximum number of turns.
    pub limit: usize,
}

/// A turn that may be similar to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTurn {
    /// The turn's session.
    pub session: SessionId,
    /// The turn's number in its session.
    pub ordinal: u64,
    /// How similar it is, from 0 to 1.
    pub score: f64,
}

/// Names turns that are similar to a question.
pub trait SimilarTurns: Send + Sync {
    /// The turns that are the most similar to a question, in any order. `None` if the turns of this tenant or owner are
    /// not known here. Blocks: call it outside the worker threads of the runtime.
    ///
    /// # Errors
    /// `overloaded` if there is no answer now.
    fn similar(&self, question: &SimilarQuestion<'_>) -> Result<Option<Vec<NamedTurn>>>;
}
