//! Confirms the turns that a projection names: finds their questions in the ledger's index.

use std::collections::{HashMap, HashSet};

use filrouge_store::text_index::{
    Candidate, CandidateFilter, CandidateQuery, DocumentNo, SessionNo,
};
use filrouge_types::Result;

use super::query::QuestionVector;
use super::similar::{SimilarMessage, SimilarSearch, kinds};
use crate::embed::greatest_product;
use crate::similar_turns::NamedTurn;

/// The number of documents that are read from the index at once.
const DOCUMENTS_PER_READ: usize = 1_000;

/// The units of documents, as far as they are known.
type Units = HashMap<DocumentNo, u64>;

impl<'c> SimilarSearch<'_, 'c> {
    /// Returns the questions of the turns that a projection names, as far as the index has them for the caller. The
    /// others are counted: they were erased or changed, or are another owner's.
    pub(super) fn by_turns(
        &self,
        question: &QuestionVector,
        turns: &[NamedTurn],
    ) -> Result<Vec<SimilarMessage<'c>>> {
        let greatest = greatest_product(question.vector.len());
        let named = turns.iter().map(|turn| {
            let place = (turn.session.as_str(), turn.ordinal);
            (place, round_to_score(turn.score * greatest))
        });
        let scores: HashMap<(&str, u64), i64> = named.collect();
        let sessions = self.searched.ledger_sessions(turns)?;
        let keys: HashMap<SessionNo, &str> =
            sessions.iter().map(|s| (s.no, &*s.entry.key)).collect();
        let numbers: Vec<SessionNo> = sessions.iter().map(|session| session.no).collect();
        let mut questions = self.searched.index().candidates(&CandidateQuery {
            reach: &self.searched.reach,
            sessions: Some(&numbers),
            kinds: kinds(self.query),
            since: None,
            until: None,
            wanted: CandidateFilter::All(&[]),
        })?;
        // A turn begins with its question.
        questions.sort_unstable_by_key(|c| (c.session, c.created, c.document));
        let units = self.units_of(&questions, &keys, &scores)?;
        let (mut list, mut seen) = (Vec::new(), HashSet::new());
        for candidate in questions {
            let (key, unit) = (keys.get(&candidate.session), units.get(&candidate.document));
            let place = key.zip(unit).map(|(key, unit)| (*key, *unit));
            if let Some(place) = place
                && let Some(score) = scores.get(&place)
                && seen.insert(place)
            {
                list.push((*score, candidate));
            }
        }
        self.searched.count_unconfirmed(scores.len() - seen.len());
        self.filter_list(list, &[])
    }

    /// Reads the units of the questions that may be those of named turns. Most sessions have one question for each turn,
    /// so the question of a turn is that at its place among the session's questions. Of a session where it is not, all
    /// questions are read.
    fn units_of(
        &self,
        questions: &[Candidate],
        keys: &HashMap<SessionNo, &str>,
        scores: &HashMap<(&str, u64), i64>,
    ) -> Result<Units> {
        let mut ordinals: HashMap<&str, Vec<u64>> = HashMap::new();
        for (key, ordinal) in scores.keys() {
            ordinals.entry(*key).or_default().push(*ordinal);
        }
        let sessions = questions.chunk_by(|a, b| a.session == b.session);
        let sessions = sessions.filter_map(|of_session| {
            let key = keys.get(&of_session.first()?.session)?;
            Some((of_session, ordinals.get(key)?))
        });
        let sessions: Vec<(&[Candidate], &Vec<u64>)> = sessions.collect();
        let mut units = Units::new();
        let expected = sessions.iter().flat_map(|&(of_session, ordinals)| {
            let ordinals = ordinals.iter();
            let places = ordinals.filter_map(move |ordinal| at(of_session, *ordinal));
            places.flat_map(|(before, own)| before.into_iter().chain([own]))
        });
        self.read_units(expected, &mut units)?;
        let is_expected = |of_session: &[Candidate], ordinal: u64| {
            at(of_session, ordinal).is_some_and(|(before, own)| {
                let is_of_turn = |c: &Candidate| units.get(&c.document) == Some(&ordinal);
                is_of_turn(own) && !before.is_some_and(is_of_turn)
            })
        };
        let others = sessions.iter().filter(|&&(of_session, ordinals)| {
            let mut ordinals = ordinals.iter();
            !ordinals.all(|ordinal| is_expected(of_session, *ordinal))
        });
        let others: Vec<&Candidate> = others.flat_map(|&(of_session, _)| of_session).collect();
        self.read_units(others.into_iter(), &mut units)?;
        Ok(units)
    }

    fn read_units<'d>(
        &self,
        documents: impl Iterator<Item = &'d Candidate>,
        units: &mut Units,
    ) -> Result<()> {
        let numbers: Vec<DocumentNo> = documents.map(|c| c.document).collect();
        for numbers in numbers.chunks(DOCUMENTS_PER_READ) {
            let documents = self.searched.index().documents(numbers)?;
            units.extend(
                documents
                    .iter()
                    .map(|document| (document.no, document.unit)),
            );
        }
        Ok(())
    }
}

/// The question at the place of a turn among the questions of its session, and the one before it.
fn at(of_session: &[Candidate], ordinal: u64) -> Option<(Option<&Candidate>, &Candidate)> {
    let place = usize::try_from(ordinal).ok()?.checked_sub(1)?;
    let before = place
        .checked_sub(1)
        .and_then(|before| of_session.get(before));
    Some((before, of_session.get(place)?))
}

/// Rounds a product of vectors to the score of a message.
fn round_to_score(product: f64) -> i64 {
    // `as` saturates.
    #[allow(clippy::cast_possible_truncation)]
    let score = product.round() as i64;
    score
}
