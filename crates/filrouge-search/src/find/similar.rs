//! Finds messages of one index that are similar to a question: those nearest in meaning, and messages that share words
//! with the question; rarer words count more. Only titles and messages of people and agents are considered, not the
//! output of tools.

use std::cmp::Reverse;
use std::collections::HashMap;

use filrouge_sources::Role;
use filrouge_sources::library::Catalog;
use filrouge_store::text_index::{
    Candidate, CandidateFilter, CandidateQuery, DocumentNo, SessionNo, TITLE, can_narrow,
};
use filrouge_types::Result;

use super::found::{FoundIn, FoundSession};
use super::query::{PreparedQuery, QuestionVector};
use super::search_space::{SearchedIndex, ShownSession};
use super::session_candidates::{SessionCandidates, SimilarDocument};
use crate::embed::greatest_product;
use crate::rank::{Evidence, rounded};
use crate::search_document::{folded_literal, kind};

/// The maximum number of messages in each list.
pub(super) const MAX_SIMILAR: usize = 100;
/// The maximum number of messages examined to fill a list. The second value is for searches whose filters need the
/// messages themselves, because many messages may not pass them; the first is for all other searches. Both exceed
/// [`MAX_SIMILAR`], because some messages no longer exist.
const MAX_EXAMINED: (usize, usize) = (2 * MAX_SIMILAR, 10 * MAX_SIMILAR);
/// The maximum number of words of a question that are used. The second value is for searches in which a projection names
/// turns: shared words only add to these, and the time grows with the number of words.
const MAX_WORDS: (usize, usize) = (32, 8);

/// A message that is similar to a question.
pub(super) struct SimilarMessage<'c> {
    /// The score: a greater one is nearer. Scores are comparable only within lists of one kind.
    pub(super) score: i64,
    /// Its session.
    pub(super) shown: ShownSession<'c>,
    /// The position in `SearchSpace::indexed` of the index that contains it.
    index_position: usize,
    pub(super) session: SessionNo,
    pub(super) document: SimilarDocument,
}

/// A search for similar messages in one index.
pub(super) struct SimilarSearch<'p, 'c> {
    /// The position of `searched` in `SearchSpace::indexed`.
    pub(super) at: usize,
    pub(super) searched: &'p SearchedIndex<'c>,
    pub(super) query: &'p PreparedQuery<'p>,
    pub(super) catalog: &'p Catalog,
}

/// Messages, each with its score.
type ScoredCandidates = Vec<(i64, Candidate)>;

impl<'c> SimilarSearch<'_, 'c> {
    fn candidates(&self, wanted: CandidateFilter<'_>) -> Result<Vec<Candidate>> {
        self.searched.index().candidates(&CandidateQuery {
            reach: &self.searched.reach,
            sessions: self.searched.sessions.as_deref(),
            kinds: kinds(self.query),
            since: self.query.filter.since(),
            until: self.query.filter.until(),
            wanted,
        })
    }

    /// Returns the messages whose meaning is nearest.
    pub(super) fn by_meaning(&self, question: &QuestionVector) -> Result<Vec<SimilarMessage<'c>>> {
        let limit = max_examined(self.query);
        let nearest = self.candidates(CandidateFilter::Nearest(
            &question.embedder,
            &question.vector,
            limit,
        ))?;
        let list = nearest.into_iter().map(|c| (i64::from(c.near), c));
        self.filter_list(list.collect(), &[])
    }

    /// Returns the messages that share words with the question; rarer words count more.
    pub(super) fn by_words(&self) -> Result<Vec<SimilarMessage<'c>>> {
        let (alone, beside_named) = MAX_WORDS;
        let max_words = self.query.named.map_or(alone, |_| beside_named);
        let terms = shared_words(self.query.text, max_words);
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let candidates = self.candidates(CandidateFilter::Any(&terms))?;
        self.filter_list(score_candidates(terms.len(), candidates), &terms)
    }

    /// Returns the best messages of a list that pass the filters, with their sessions. `terms` are the question's words
    /// by which the list was made; empty for a list by meaning.
    pub(super) fn filter_list(
        &self,
        mut list: ScoredCandidates,
        terms: &[Vec<String>],
    ) -> Result<Vec<SimilarMessage<'c>>> {
        let limit = max_examined(self.query);
        if list.len() > limit {
            list.select_nth_unstable_by_key(limit, order);
            list.truncate(limit);
        }
        list.sort_unstable_by_key(order);
        let mut numbers: Vec<SessionNo> = list.iter().map(|(_, c)| c.session).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let sessions = self
            .searched
            .shown_sessions(self.query, self.catalog, &numbers)?;
        list.retain(|(_, c)| sessions.contains_key(&c.session));
        if self.must_mask(terms) || needs_messages(self.query) {
            list = self.read_and_filter(&sessions, terms, list)?;
        }
        list.truncate(MAX_SIMILAR);
        let vector = self.query.vector.filter(|_| terms.is_empty());
        let greatest = vector.map(|question| greatest_product(question.vector.len()));
        let messages = list.into_iter().filter_map(|(score, c)| {
            let session = sessions.get(&c.session)?;
            #[allow(clippy::cast_precision_loss)]
            let similarity = |greatest: f64| (score as f64 / greatest).clamp(0.0, 1.0);
            Some(SimilarMessage {
                score,
                shown: session.clone(),
                index_position: self.at,
                session: c.session,
                document: SimilarDocument {
                    document: c.document,
                    score: greatest.map(similarity),
                },
            })
        });
        Ok(messages.collect())
    }

    /// Whether shared words count only outside of credentials, because these are masked. An index contains all words of
    /// a text, including those in credentials, and a query for the beginning of a key must reveal nothing.
    const fn must_mask(&self, terms: &[Vec<String>]) -> bool {
        self.query.request.mask && !terms.is_empty()
    }

    /// Reads the messages, and keeps those that pass the filters and contain no excluded term. If credentials are
    /// masked, it also drops the messages that share words only within credentials, and scores the others by the words
    /// outside of credentials.
    fn read_and_filter(
        &self,
        sessions: &HashMap<SessionNo, ShownSession<'_>>,
        terms: &[Vec<String>],
        mut list: ScoredCandidates,
    ) -> Result<ScoredCandidates> {
        let (query, masks) = (self.query, self.must_mask(terms));
        let (matcher, mut passing) = (&query.parsed.matcher, HashMap::new());
        let agents = sessions
            .keys()
            .map(|no| (*no, self.searched.agent(query, *no)));
        let agents: HashMap<SessionNo, Option<Box<str>>> = agents.collect();
        let session_of = list.iter().map(|(_, c)| (c.document, c.session));
        let session_of: HashMap<DocumentNo, SessionNo> = session_of.collect();
        let numbers: Vec<DocumentNo> = list.iter().map(|(_, c)| c.document).collect();
        self.searched.texts().each(&numbers, &mut |document, doc| {
            let agent = session_of.get(&document).and_then(|no| agents.get(no));
            let agent = agent.and_then(Option::as_deref);
            if query.filter.passes_document(agent, doc)
                && matcher.has_searched_text(doc)
                && matcher.has_no_excluded_term(doc)
            {
                let visible_terms = masks.then(|| matcher.visible_words(terms, doc));
                passing.insert(document, visible_terms);
            }
            // With masking, the final order is not known before all messages are read.
            (masks || passing.len() < MAX_SIMILAR) && !(query.stopped)()
        })?;
        if !masks {
            list.retain(|(_, c)| passing.contains_key(&c.document));
            return Ok(list);
        }
        let visible = |(_, c): (i64, Candidate)| {
            let met = passing.get(&c.document).copied().flatten();
            Some(Candidate {
                met: met.filter(|met| *met != 0)?,
                ..c
            })
        };
        let visible_list = list.into_iter().filter_map(visible).collect();
        let mut list = score_candidates(terms.len(), visible_list);
        list.sort_unstable_by_key(order);
        Ok(list)
    }
}

impl<'c> From<SimilarMessage<'c>> for FoundSession<'c> {
    fn from(message: SimilarMessage<'c>) -> Self {
        Self {
            shown: message.shown,
            evidence: Evidence::NONE,
            score: 0,
            found_in: FoundIn::Index(
                message.index_position,
                SessionCandidates::from_similar(message.session, message.document),
            ),
        }
    }
}

/// Returns the kinds of documents to compare: in a search for similar questions, only messages of people.
pub(super) fn kinds(query: &PreparedQuery<'_>) -> u32 {
    let other_kinds = match query.request.similar {
        Some(_) => 0,
        None => 1 << kind(Some(Role::Assistant)) | 1 << TITLE,
    };
    query.filter.kinds() & (1 << kind(Some(Role::User)) | other_kinds)
}

/// The sort order: the nearest message first, and of equally near ones the newest.
const fn order((score, c): &(i64, Candidate)) -> Reverse<(i64, DocumentNo)> {
    Reverse((*score, c.document))
}

/// Whether messages must be read to apply the query's filters and excluded terms; otherwise the index alone can apply
/// them.
fn needs_messages(query: &PreparedQuery<'_>) -> bool {
    let matcher = &query.parsed.matcher;
    query.filter.depends_on_messages() || matcher.excludes_terms() || matcher.depends_on_calls()
}

/// Returns the maximum number of messages to examine: one value of [`MAX_EXAMINED`].
fn max_examined(query: &PreparedQuery<'_>) -> usize {
    let (without_reading, with_reading) = MAX_EXAMINED;
    if needs_messages(query) {
        with_reading
    } else {
        without_reading
    }
}

/// Merges lists of one kind, and keeps the [`MAX_SIMILAR`] best messages; at equal scores, messages of an earlier list
/// come first.
pub(super) fn merge<'c>(lists: Vec<Vec<SimilarMessage<'c>>>) -> Vec<SimilarMessage<'c>> {
    let mut messages: Vec<SimilarMessage<'c>> = lists.into_iter().flatten().collect();
    messages.sort_by_key(|message| Reverse(message.score));
    messages.truncate(MAX_SIMILAR);
    messages
}

/// Returns at most `max` words of a question by which an index can narrow, each as a separate term.
fn shared_words(text: &str, max: usize) -> Vec<Vec<String>> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut words: Vec<String> = words
        .map(folded_literal)
        .filter(|w| can_narrow(w))
        .collect();
    words.sort_unstable();
    words.dedup();
    // If there are too many words, the longest are kept: they tend to be the rarest.
    words.sort_by_key(|word| Reverse(word.len()));
    words.truncate(max);
    words.into_iter().map(|word| vec![word]).collect()
}

/// Scores candidates by which terms they contain. `terms` is the number of terms.
fn score_candidates(terms: usize, candidates: Vec<Candidate>) -> ScoredCandidates {
    let weights = weights_of_terms(terms, &candidates);
    let score = |met: u64| {
        let all = weights.iter().enumerate();
        let met = all.filter(|(at, _)| met >> at & 1 == 1);
        met.map(|(_, weight)| weight).sum::<f64>()
    };
    let scored = candidates.into_iter().map(|c| (rounded(score(c.met)), c));
    scored.collect()
}

/// Returns the weight of each term: the fewer candidates contain the term, the greater is its weight.
fn weights_of_terms(terms: usize, candidates: &[Candidate]) -> Vec<f64> {
    let mut counts = vec![0_usize; terms];
    for candidate in candidates {
        let mut met = candidate.met;
        while met != 0 {
            if let Some(count) = counts.get_mut(met.trailing_zeros() as usize) {
                *count += 1;
            }
            met &= met - 1;
        }
    }
    #[allow(clippy::cast_precision_loss)]
    let weight = |count: usize| (1.0 + candidates.len() as f64 / (1.0 + count as f64)).ln();
    counts.into_iter().map(weight).collect()
}
