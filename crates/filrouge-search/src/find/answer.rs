//! Finds the answer to an earlier question, for searches for similar questions.

use filrouge_sources::Role;
use filrouge_store::text_index::{CandidateFilter, CandidateQuery, DocumentNo, SessionNo};
use filrouge_types::Failure;

use super::search_space::SearchedIndex;
use crate::fields::Field;
use crate::search_document::{SearchDocument, kind};

/// The maximum number of the agent's messages after a question that are examined.
const MAX_EXAMINED: usize = 32;

/// A question that an index contains, with its time in milliseconds.
pub(super) struct IndexQuestion {
    pub(super) session: SessionNo,
    pub(super) document: DocumentNo,
    pub(super) created: i64,
}

/// Finds the answer to a question, and returns the value that `build` makes from it. The answer is the agent's first
/// message with text between the question and the user's next question; if none has text, it is the agent's first
/// message in that range. Returns `None` if no message of the agent follows.
pub(super) fn find_answer<R>(
    searched: &SearchedIndex<'_>,
    question: &IndexQuestion,
    build: impl Fn(&SearchDocument<'_>) -> R,
) -> Result<Option<R>, Failure> {
    let (user, agent) = (kind(Some(Role::User)), kind(Some(Role::Assistant)));
    let mut following = searched.index().candidates(&CandidateQuery {
        reach: &searched.reach,
        sessions: Some(&[question.session]),
        kinds: 1 << user | 1 << agent,
        since: Some(question.created),
        until: None,
        wanted: CandidateFilter::All(&[]),
    })?;
    following.retain(|c| (c.created, c.document) > (question.created, question.document));
    following.sort_unstable_by_key(|c| (c.created, c.document));
    // Several questions in a row share one answer.
    let answers = following.iter().skip_while(|c| c.kind == user);
    let answers = answers.take_while(|c| c.kind == agent).take(MAX_EXAMINED);
    let answers: Vec<DocumentNo> = answers.map(|c| c.document).collect();
    let mut built = None;
    searched.texts().each(&answers, &mut |_, answer| {
        let with_text = has_text(answer);
        if with_text || built.is_none() {
            built = Some(build(answer));
        }
        !with_text
    })?;
    Ok(built)
}

/// Whether a message has text.
fn has_text(doc: &SearchDocument<'_>) -> bool {
    let mut pieces = doc.pieces.iter();
    pieces.any(|piece| piece.field == Field::Text && !piece.text.trim().is_empty())
}
