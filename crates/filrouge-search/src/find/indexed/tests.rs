//! Tests of the scanned sample of candidates and of the estimates from it.

use std::borrow::Cow;

use filrouge_sources::Role;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{
    Coverage, IndexUpdate, NewDocument, SessionEntry, SessionUpdate, Shard, TextIndex as _,
};

use super::*;
use crate::fields::Field;
use crate::parsed_search::ParsedSearch;
use crate::rank::Evidence;
use crate::request::SearchRequest;
use crate::search_document::{Piece, SearchDocument};
use crate::weigh::Words;

const SESSIONS: usize = 100;
const DOCUMENTS: usize = 8;

/// A message with this text and number.
fn document(text: String, number: usize) -> NewDocument {
    let piece = Piece {
        field: Field::Text,
        part: None,
        seq: None,
        tool: None,
        at: None,
        text: Cow::Owned(text),
    };
    let doc = SearchDocument {
        id: Cow::Owned(format!("m{number}")),
        role: Some(Role::User),
        created: i64::try_from(number).unwrap(),
        seq: None,
        agent: None,
        pieces: vec![piece],
    };
    NewDocument {
        key: doc.id.clone().into(),
        unit: 0,
        kind: doc.kind(),
        created: doc.created,
        digest: 0,
        folded: doc.folded(),
        body: doc.encode(),
    }
}

/// Searches for a query in messages whose texts `text_of` builds from their numbers.
fn find(
    text_of: impl Fn(usize) -> String,
    query: &str,
    max_candidates: usize,
) -> Vec<SessionCandidates> {
    let index = MemoryIndex::default();
    for session in 0..SESSIONS {
        let numbers = (0..DOCUMENTS).map(|n| session * DOCUMENTS + n);
        let update = SessionUpdate {
            shard: Shard::default(),
            entry: SessionEntry {
                key: format!("s{session}").into(),
                ..SessionEntry::default()
            },
            coverage: Coverage::All,
            documents: numbers.map(|n| document(text_of(n), n)).collect(),
        };
        index
            .change(None, &[IndexUpdate::Session(update)], None)
            .unwrap();
    }
    let request = SearchRequest {
        query: query.to_owned(),
        ..SearchRequest::default()
    };
    let parsed = ParsedSearch::new(&request, &|| false).unwrap();
    let filter = parsed.filter();
    let query = PreparedQuery {
        request: &request,
        parsed: &parsed,
        filter: &filter,
        words: &Words::new(&parsed),
        stopped: &|| false,
        now: 0,
        text: "",
        vector: None,
        named: None,
    };
    let search = IndexSearch {
        texts: Texts::Stored(&index),
        reach: &IndexScope::Shard(Shard::default()),
        sessions: None,
        query: &query,
        agent: &|_| None,
        max_candidates,
    };
    search.find().unwrap()
}

/// The number of candidates that were scanned.
fn scanned(sessions: &[SessionCandidates]) -> usize {
    let unscanned = sessions.iter().flat_map(SessionCandidates::documents);
    let unscanned = unscanned.filter(|(_, matches)| !matches).count();
    SESSIONS * DOCUMENTS - unscanned
}

/// The estimated number of matches.
fn estimate(sessions: &[SessionCandidates]) -> f64 {
    sessions.iter().map(|one| one.estimated_matches).sum()
}

#[test]
fn only_a_sample_is_scanned_if_it_fills_a_page() {
    let found = find(|n| format!("quince {n}"), "quince", DEFAULT_MAX_CANDIDATES);
    let matches: usize = found.iter().map(SessionCandidates::match_count).sum();
    assert_eq!((scanned(&found), matches), (100, 100));
    // The scanned candidates belong to half of the sessions, those with the latest messages.
    let matching_sessions = found.iter().filter(|one| one.has_match()).count();
    assert_eq!(matching_sessions, 50);
    assert!(found.iter().take(50).all(SessionCandidates::has_match));
    assert!(
        (estimate(&found) - 800.0).abs() < 20.0,
        "{}",
        estimate(&found)
    );
    assert!(found.iter().all(|one| !one.evidence.exact));
}

#[test]
fn more_candidates_are_scanned_if_few_match() {
    // One message in forty matches: two or three of the first hundred.
    let text_of = |n: usize| match n % 40 {
        3 => format!("quince {n}"),
        _ => format!("quince or {n}"),
    };
    let found = find(text_of, r"/quince \d/", DEFAULT_MAX_CANDIDATES);
    let matches: usize = found.iter().map(SessionCandidates::match_count).sum();
    let mut rejected = 0;
    for one in &found {
        rejected += DOCUMENTS - one.documents().count();
    }
    assert_eq!(matches + rejected, DEFAULT_MAX_CANDIDATES);
    // Candidates within the limit are all scanned.
    let all = find(text_of, r"/quince \d/", SESSIONS * DOCUMENTS);
    let matches: usize = all.iter().map(SessionCandidates::match_count).sum();
    assert_eq!((matches, all.len()), (20, 20));
    assert!(
        all.iter()
            .all(|one| one.evidence.exact && one.evidence.matches == 1)
    );
}

#[test]
fn first_messages_do_not_bias_the_estimate_of_the_others() {
    // The first message of a session never matches, the others do.
    let text_of = |n: usize| match n % DOCUMENTS {
        0 => format!("quince or {n}"),
        _ => format!("quince {n}"),
    };
    let found = find(text_of, r"/quince \d/", DEFAULT_MAX_CANDIDATES);
    assert!(
        (estimate(&found) - 700.0).abs() < 50.0,
        "{}",
        estimate(&found)
    );
}

#[test]
fn batches_cover_every_candidate_once() {
    let all: Arc<[DocumentNo]> = (0..20).collect();
    let mut session = SessionCandidates::new(1, (all, 3..14));
    let (mut positions, mut limit) = (Vec::new(), 2);
    while session.has_unscanned() {
        let next = session.next_positions(limit);
        assert!(!next.is_empty() && next.len() <= limit);
        for at in next {
            positions.push(at);
            session.record(at, (at != 4).then_some((at != 5).then(Evidence::default)));
        }
        limit *= 2;
    }
    assert_eq!(positions.get(..2), Some(&[0, 6][..]));
    positions.sort_unstable();
    assert_eq!(positions, (0..11).collect::<Vec<_>>());
    session.compute_totals(&Shares::default());
    let documents: Vec<_> = session.documents().collect();
    // One document was removed, and one does not match.
    let expected = [3, 4, 5, 6, 9, 10, 11, 12, 13].map(|document| (document, true));
    assert_eq!(documents, expected);
    assert!(session.evidence.exact && session.evidence.matches == 9);
}
