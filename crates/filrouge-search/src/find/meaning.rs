//! Search by meaning, which also finds messages that use other words (DESIGN §10).
//!
//! Up to three lists are fused into one order by the ranks in them: sessions that contain all words of the query,
//! messages that share its rarest words, and messages whose meaning is nearest to it.

use std::borrow::Cow;
use std::collections::HashMap;

use filrouge_sources::library::LibraryError;
use filrouge_types::{ErrorCode, Failure};

use super::cursor::Cursor;
use super::found::{FoundIn, FoundSessions, Remarks};
use super::query::{PreparedQuery, QuestionVector};
use super::search_space::SearchSpace;
use super::similar::{SimilarMessage, SimilarSearch, merge};
use crate::embed::{Embedder, quantize, without_credentials};
use crate::rank::{rank_weight, rounded};
use crate::request::Mode;

/// The maximum number of messages that each of the two lists of messages contributes to a session.
const MESSAGES_PER_LIST: usize = 3;

/// The weight of the list of sessions that contain all words. A rank in this list counts as much as the same rank in
/// both other lists together, because the caller asked for these words.
const ALL_WORDS_WEIGHT: f64 = 2.0;

/// Embeds the question `text`. Returns `None` if there is no embedder, if it fails, or if the text has no content; the
/// first two cases add a notice. `cursor` is set for a later page. All pages must have the same order: a later page
/// uses the embedding only if the first page did, and fails if the first page did and this one cannot.
pub(super) fn embed_question(
    embedder: Option<&dyn Embedder>,
    text: &str,
    cursor: Option<&Cursor>,
    remarks: &mut Remarks,
) -> Result<Option<QuestionVector>, LibraryError> {
    let first_page_embedded = cursor.map(|cursor| cursor.embedded);
    let by_words_notice = "similar text was searched for by words only";
    let embedder = match embedder {
        Some(_) if first_page_embedded == Some(false) => {
            remarks.add_notice(format!("as on the previous page, {by_words_notice}"));
            return Ok(None);
        }
        Some(embedder) => embedder,
        None => {
            remarks.add_notice(format!(
                "no embedder is set up (setting search.embedder): {by_words_notice}"
            ));
            let text = "the previous page was found by its meaning, and no embedder is set up";
            return match first_page_embedded {
                Some(true) => {
                    let failure = Failure::new(ErrorCode::Overloaded, text);
                    Err(LibraryError::Unavailable(failure))
                }
                _ => Ok(None),
            };
        }
    };
    let text = without_credentials(text);
    if text.trim().is_empty() {
        return Ok(None);
    }
    match embedder.embed(&[&text]) {
        Ok(vectors) => {
            let question = vectors.into_iter().next().map(|exact| QuestionVector {
                embedder: embedder.id().to_owned(),
                vector: quantize(&exact),
                exact,
            });
            // All vectors are equally near to a zero vector.
            Ok(question.filter(|question| question.vector.iter().any(|x| *x != 0)))
        }
        Err(why) => {
            tracing::warn!(code = why.code().as_str(), %why, "a question cannot be embedded");
            if first_page_embedded == Some(true) {
                let text = "the previous page was found by its meaning, and the question could not be embedded";
                let failure = Failure::new(why.code(), text);
                return Err(LibraryError::Unavailable(failure));
            }
            remarks.add_notice(format!(
                "the question could not be embedded: {by_words_notice}"
            ));
            Ok(None)
        }
    }
}

/// Adds the messages that are similar to the question, and computes the scores of all sessions from their ranks in the
/// lists.
pub(super) fn add_meaning<'c>(
    query: &PreparedQuery<'_>,
    space: &SearchSpace<'c>,
    all: &mut FoundSessions<'c>,
) -> Result<(), LibraryError> {
    let (mut all_by_words, mut all_by_meaning, mut is_indexed) = (Vec::new(), Vec::new(), false);
    for (at, searched) in space.indexed.iter().enumerate() {
        if searched.is_empty() {
            continue;
        }
        is_indexed = true;
        if let Some(as_of) = searched.as_of {
            all.remarks.limit_as_of(as_of);
        }
        let search = SimilarSearch {
            at,
            searched,
            query,
            catalog: space.catalog,
        };
        match similar_lists(&search) {
            Ok((by_words, by_meaning)) => {
                all_by_words.push(by_words);
                all_by_meaning.push(by_meaning);
            }
            // After an error of the ledger's index, the caller scans the ledger. After an error of a source's index,
            // the sessions that only their meaning matches are missing.
            Err(why) if searched.is_ledger() => return Err(LibraryError::Unavailable(why)),
            Err(why) => all.remarks.add_unanswered(&why),
        }
    }
    if !is_indexed {
        let text =
            "nothing is indexed: only an index can be searched by meaning (filrouge index update)";
        all.remarks.add_notice(text.to_owned());
    }
    fuse(query, [merge(all_by_words), merge(all_by_meaning)], all);
    Ok(())
}

/// Two lists: the messages that share words with the question, and the messages whose meaning is near to it.
type Lists<'c> = (Vec<SimilarMessage<'c>>, Vec<SimilarMessage<'c>>);

/// Returns the lists of one index. With [`Mode::Meaning`] and an embedded question, shared words are ignored.
fn similar_lists<'c>(search: &SimilarSearch<'_, 'c>) -> Result<Lists<'c>, Failure> {
    let query = search.query;
    let by_words = match query.vector {
        Some(_) if query.request.mode == Mode::Meaning => Vec::new(),
        _ => search.by_words()?,
    };
    let by_meaning = match (query.vector, query.named) {
        (Some(vector), Some(turns)) if search.searched.is_ledger() => {
            search.by_turns(vector, turns)?
        }
        (Some(vector), _) => search.by_meaning(vector)?,
        (None, _) => Vec::new(),
    };
    Ok((by_words, by_meaning))
}

/// Fuses three lists into one order: the sessions in `all`, which contain all words, and the two lists of messages.
fn fuse<'c>(
    query: &PreparedQuery<'_>,
    lists: [Vec<SimilarMessage<'c>>; 2],
    all: &mut FoundSessions<'c>,
) {
    all.sort(query);
    let ranks = 0..all.sessions.len();
    let mut scores: Vec<f64> = ranks
        .map(|rank| ALL_WORDS_WEIGHT * rank_weight(rank))
        .collect();
    // The position of each session in `all.sessions`.
    let numbered = all.sessions.iter().enumerate();
    let positions = numbered.map(|(at, found)| (found.shown.id.clone(), at));
    let mut positions: HashMap<Cow<'c, str>, usize> = positions.collect();
    for list in lists {
        let (mut rank, mut shown_per_session) = (0, HashMap::new());
        for similar in list {
            let position = positions.entry(similar.shown.id.clone());
            let at = *position.or_insert(all.sessions.len());
            let shown: &mut usize = shown_per_session.entry(at).or_default();
            *shown += 1;
            let (is_first, is_shown) = (*shown == 1, *shown <= MESSAGES_PER_LIST);
            if at == all.sessions.len() {
                scores.push(0.0);
                all.sessions.push(similar.into());
            } else if is_shown {
                add_similar(&similar, all, at);
            }
            if is_first && let Some(sum) = scores.get_mut(at) {
                *sum += rank_weight(rank);
                rank += 1;
            }
        }
    }
    for (found, score) in all.sessions.iter_mut().zip(scores) {
        found.score = rounded(score);
    }
}

/// Adds a similar message to its session, which is at the position `at` in `all.sessions`.
fn add_similar(similar: &SimilarMessage<'_>, all: &mut FoundSessions<'_>, at: usize) {
    if let Some(FoundIn::Index(_, candidates)) =
        all.sessions.get_mut(at).map(|found| &mut found.found_in)
        && candidates.session == similar.session
    {
        let mut documents = candidates.similar.iter_mut();
        match documents.find(|one| one.document == similar.document.document) {
            Some(known) => known.score = known.score.or(similar.document.score),
            None => {
                candidates.similar.push(similar.document);
                candidates.match_probability = 1.0;
            }
        }
    }
}
