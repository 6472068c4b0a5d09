//! What was answered to a question that was asked before.

use filrouge_sources::Role;
use filrouge_store::text_index::{CandidateQuery, DocumentNo, SessionNo, Wanted};
use filrouge_types::Failure;

use super::place::Place;
use super::texts::read;
use crate::fields::Field;
use crate::spoken::{Spoken, kind};

/// So many messages behind a question are looked at.
const LOOKED_AT: usize = 32;

/// A question in an index.
pub(super) struct Question {
    pub(super) session: SessionNo,
    pub(super) document: DocumentNo,
    pub(super) created: i64,
}

/// Shows `take` what was answered: the first words of an agent behind the question and before the user's next; where
/// there are none, what it did first. Nothing where nothing follows.
pub(super) fn answer_to<R>(
    place: &Place<'_>,
    question: &Question,
    take: impl Fn(&Spoken<'_>) -> R,
) -> Result<Option<R>, Failure> {
    let (user, agent) = (kind(Some(Role::User)), kind(Some(Role::Assistant)));
    let index = place.index();
    let mut behind = index.candidates(&CandidateQuery {
        reach: &place.reach,
        sessions: Some(&[question.session]),
        kinds: 1 << user | 1 << agent,
        since: Some(question.created),
        until: None,
        wanted: Wanted::All(&[]),
    })?;
    behind.retain(|c| (c.created, c.document) > (question.created, question.document));
    behind.sort_unstable_by_key(|c| (c.created, c.document));
    // Who asks twice is answered once.
    let answers = behind.iter().skip_while(|c| c.kind == user);
    let answers = answers.take_while(|c| c.kind == agent).take(LOOKED_AT);
    let answers: Vec<DocumentNo> = answers.map(|c| c.document).collect();
    let mut best = None;
    read(index, &answers, &mut |_, answer| {
        let said = says_something(answer);
        if said || best.is_none() {
            best = Some(take(answer));
        }
        !said
    })?;
    Ok(best)
}

/// Whether it has words of its own.
fn says_something(spoken: &Spoken<'_>) -> bool {
    let mut pieces = spoken.pieces.iter();
    pieces.any(|piece| piece.field == Field::Text && !piece.text.trim().is_empty())
}
