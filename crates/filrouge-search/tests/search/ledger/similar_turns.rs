//! Searches for similar questions in which a projection names turns: only turns that the index and the ledger have for
//! the caller are shown.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use filrouge_engine::{Caller, RedactTurn};
use filrouge_search::embed::{Embedder, Hashing};
use filrouge_search::{NamedTurn, Results, SearchRequest, Searcher, SimilarQuestion, SimilarTurns};
use filrouge_sources::LibraryError;
use filrouge_types::{ErrorCode, Failure, Result};

use super::failing_index::FailingIndex;
use super::find::{empty_library, index_searcher};
use super::world::*;

/// A projection that names prepared turns, and notes whom it was asked for.
struct Prepared {
    turns: Mutex<Result<Option<Vec<NamedTurn>>>>,
    owners: Mutex<Vec<Option<String>>>,
}

impl Prepared {
    fn naming(turns: &[(&str, u64, f64)]) -> Arc<Self> {
        let turns = turns.iter().map(|(session, ordinal, score)| NamedTurn {
            session: id(session),
            ordinal: *ordinal,
            score: *score,
        });
        Arc::new(Self {
            turns: Mutex::new(Ok(Some(turns.collect()))),
            owners: Mutex::default(),
        })
    }

    fn goes_away(&self) {
        let failure = Failure::new(ErrorCode::Overloaded, "away");
        *self.turns.lock().unwrap() = Err(failure);
    }

    fn asked_for(&self) -> Vec<Option<String>> {
        std::mem::take(&mut *self.owners.lock().unwrap())
    }
}

impl SimilarTurns for Prepared {
    fn similar(&self, question: &SimilarQuestion<'_>) -> Result<Option<Vec<NamedTurn>>> {
        assert_eq!(question.vector.len(), Hashing.dimensions());
        let owner = question.owner.map(ToString::to_string);
        self.owners.lock().unwrap().push(owner);
        self.turns.lock().unwrap().clone()
    }
}

/// Questions of ada in two sessions, and one of bob.
fn world() -> LedgerWorld {
    let world = LedgerWorld::new();
    for (name, session, question) in [
        ("ada", "s1", "where is the gate"),
        ("ada", "s1", "a walk by the sea"),
        ("ada", "s2", "the color of moss"),
        ("bob", "t1", "is the gate open"),
    ] {
        let request = question.replace(' ', "-");
        let answer = format!("the answer to {question}");
        let turn = (session, &*request);
        world.start_turn(&user(name), turn, question, Some(&answer));
    }
    world.catch_up();
    let embedder: Arc<dyn Embedder> = Arc::new(Hashing);
    world.embed(&embedder);
    world
}

fn searcher(world: &LedgerWorld, caller: &Caller, projection: &Arc<Prepared>) -> Searcher {
    let projection: Arc<dyn SimilarTurns> = projection.clone();
    index_searcher(world, caller, empty_library())
        .with_embedder(Some(Arc::new(Hashing)))
        .with_similar_turns(Some(projection))
}

/// A question without a word of any recorded one.
fn request() -> SearchRequest {
    SearchRequest {
        similar: Some("zyzzyva".to_owned()),
        now: Some(1_700_000_000_000),
        ..SearchRequest::default()
    }
}

/// The found questions: the session, the turn, the score in percent, and the text; and the number of sessions.
fn questions(results: &Results) -> (Vec<(&str, u64, i64, &str)>, usize) {
    let hits = results.sessions.iter().flat_map(|hit| {
        let questions = hit.excerpts.iter().filter(|one| one.turn_ordinal.is_some());
        questions.map(move |one| {
            #[allow(clippy::cast_possible_truncation)]
            let percent = (one.score.unwrap() * 100.0).round() as i64;
            let ordinal = one.turn_ordinal.unwrap();
            (&*hit.session.id, ordinal, percent, &*one.text)
        })
    });
    (hits.collect(), results.total_sessions)
}

fn search(world: &LedgerWorld, name: &str, projection: &Arc<Prepared>) -> Results {
    let searcher = searcher(world, &user(name), projection);
    searcher.search(&request(), &|| false).unwrap()
}

#[test]
fn named_turns_are_shown_best_first_with_their_answers() {
    let world = world();
    let projection = Prepared::naming(&[("s1", 1, 0.5), ("s2", 1, 0.9), ("s1", 2, 0.4)]);
    let results = search(&world, "ada", &projection);
    let expected = vec![
        ("s2", 1, 90, "the color of moss"),
        ("s1", 1, 50, "where is the gate"),
        ("s1", 2, 40, "a walk by the sea"),
    ];
    assert_eq!(questions(&results), (expected, 2));
    let texts = results.sessions[0].excerpts.iter().map(|one| &*one.text);
    assert_eq!(
        Vec::from_iter(texts),
        ["the color of moss", "the answer to the color of moss"]
    );
    assert!(results.notices.is_empty(), "{:?}", results.notices);
    assert_eq!(projection.asked_for(), [Some("ada".to_owned())]);
    searcher(&world, &operator(), &projection)
        .search(&request(), &|| false)
        .unwrap();
    assert_eq!(projection.asked_for(), [None]);
    // What an anonymous user may see is not known to a projection.
    search(&world, "", &projection);
    assert!(projection.asked_for().is_empty());
}

#[test]
fn turns_that_the_caller_may_not_see_or_that_do_not_exist_are_left_out_and_counted() {
    let world = world();
    let own = [("s1", 1, 0.5)];
    let alone = search(&world, "ada", &Prepared::naming(&own));
    let mut named = own.to_vec();
    named.extend([("t1", 1, 0.99), ("s1", 7, 0.98), ("absent", 1, 0.97)]);
    let stale = world.feed.counts().stale;
    let among_others = search(&world, "ada", &Prepared::naming(&named));
    assert_eq!(among_others, alone);
    assert_eq!(world.feed.counts().stale, stale + 3);
}

/// The index names all questions of a session; those of other turns are not read.
#[test]
fn only_the_questions_of_named_turns_are_read() {
    let index = FailingIndex::new();
    let world = LedgerWorld::from_parts(ledger(), index.clone());
    for n in 1..=100 {
        let (request, question) = (format!("r{n}"), format!("question {n}"));
        world.start_turn(&user("ada"), ("s1", &request), &question, Some("answer"));
    }
    world.catch_up();
    let before = index.documents_read.load(Ordering::Relaxed);
    let results = search(&world, "ada", &Prepared::naming(&[("s1", 60, 0.9)]));
    let expected = vec![("s1", 60, 90, "question 60")];
    assert_eq!(questions(&results), (expected, 1));
    let read = index.documents_read.load(Ordering::Relaxed) - before;
    assert!(read < 20, "{read} documents");
    // Of a session that lacks a named turn, all questions are read.
    let results = search(
        &world,
        "ada",
        &Prepared::naming(&[("s1", 3, 0.9), ("s1", 200, 0.8)]),
    );
    assert_eq!(questions(&results).0, [("s1", 3, 90, "question 3")]);
}

/// Beside named turns, only the longest words of a question are searched for.
#[test]
fn few_words_are_compared_beside_named_turns() {
    let index = FailingIndex::new();
    let world = LedgerWorld::from_parts(ledger(), index.clone());
    for (session, question) in [
        ("s1", "where is the gate"),
        ("s2", "an extraordinary lighthouse"),
    ] {
        world.start_turn(&user("ada"), (session, "r"), question, Some("answer"));
    }
    world.catch_up();
    let searcher = searcher(&world, &user("ada"), &Prepared::naming(&[("s1", 1, 0.9)]));
    let words: Vec<String> = (10..40).map(|n| format!("word{n}")).collect();
    let question = SearchRequest {
        similar: Some(format!("{} extraordinary?", words.join(" "))),
        ..request()
    };
    let results = searcher.search(&question, &|| false).unwrap();
    assert_eq!(results.total_sessions, 2, "{results:?}");
    let terms = index.terms_max.load(Ordering::Relaxed);
    assert!((1..=8).contains(&terms), "{terms} words");
}

#[test]
fn words_of_redacted_and_erased_turns_are_not_shown() {
    let world = world();
    let projection = Prepared::naming(&[("s1", 1, 0.9), ("s1", 2, 0.8), ("s2", 1, 0.7)]);
    let again = world.start_turn(
        &user("ada"),
        ("s1", "where-is-the-gate"),
        "where is the gate",
        Some("the answer to where is the gate"),
    );
    let reason = RedactTurn {
        reason: "asked to".into(),
    };
    let caller = operator();
    let erasure = &world.engine.erasure;
    let redacted = erasure.redact_turn(&caller, id("s1"), again.turn_id, reason);
    world.runtime.block_on(redacted).unwrap();
    // A redacted question shows that there was one.
    let expected = vec![
        ("s1", 1, 90, "[redacted]"),
        ("s1", 2, 80, "a walk by the sea"),
        ("s2", 1, 70, "the color of moss"),
    ];
    // Before the feed has read the redaction, other turns may be missing, too.
    let results = search(&world, "ada", &projection);
    let mut excerpts = results.sessions.iter().flat_map(|hit| &hit.excerpts);
    assert!(excerpts.all(|one| !one.text.contains("the gate")));
    world.catch_up();
    let results = search(&world, "ada", &projection);
    assert_eq!(questions(&results), (expected.clone(), 2));
    let erased = erasure.erase(&caller, id("s1"));
    world.runtime.block_on(erased).unwrap();
    let results = search(&world, "ada", &projection);
    assert_eq!(questions(&results), (expected[2..].to_vec(), 1));
}

#[test]
fn without_an_answer_the_index_is_used_with_a_notice() {
    let world = world();
    let projection = Prepared::naming(&[("s2", 1, 0.9)]);
    projection.goes_away();
    let question = SearchRequest {
        similar: Some("where is the gate?".to_owned()),
        ..request()
    };
    let searcher = searcher(&world, &user("ada"), &projection);
    let results = searcher.search(&question, &|| false).unwrap();
    let (found, _) = questions(&results);
    assert_eq!((found[0].0, found[0].1), ("s1", 1), "{found:?}");
    let notice = "a projection does not answer";
    assert!(results.notices.iter().any(|n| n.starts_with(notice)));
    // A projection that does not have the caller's turns is no reason for a notice.
    *projection.turns.lock().unwrap() = Ok(None);
    let results = searcher.search(&question, &|| false).unwrap();
    assert!(results.notices.is_empty(), "{:?}", results.notices);
}

#[test]
fn filters_are_applied_by_the_index() {
    let world = world();
    let projection = Prepared::naming(&[("s1", 1, 0.9), ("s2", 1, 0.8)]);
    let filtered = SearchRequest {
        session_id: Some("s2".to_owned()),
        ..request()
    };
    let searcher = searcher(&world, &user("ada"), &projection);
    searcher.search(&filtered, &|| false).unwrap();
    assert!(projection.asked_for().is_empty());
    let excluding = SearchRequest {
        exclude_session: Some("s1".to_owned()),
        ..request()
    };
    let results = searcher.search(&excluding, &|| false).unwrap();
    let expected = vec![("s2", 1, 80, "the color of moss")];
    assert_eq!(questions(&results), (expected, 1));
}

#[test]
fn all_pages_have_the_order_of_the_first() {
    let world = world();
    let projection = Prepared::naming(&[("s1", 1, 0.9), ("s2", 1, 0.8)]);
    let searcher = searcher(&world, &user("ada"), &projection);
    let mut request = SearchRequest {
        limit: 1,
        ..request()
    };
    let first = searcher.search(&request, &|| false).unwrap();
    request.cursor = first.next_cursor.clone();
    let second = searcher.search(&request, &|| false).unwrap();
    let ids = [&first, &second].map(|page| &*page.sessions[0].session.id);
    assert_eq!((ids, &second.next_cursor), (["s1", "s2"], &None));
    projection.goes_away();
    let refused = searcher.search(&request, &|| false).unwrap_err();
    let LibraryError::Unavailable(failure) = &refused else {
        panic!("{refused}");
    };
    assert_eq!(failure.code, ErrorCode::Overloaded);
    // A search that began without the projection continues without it.
    request.cursor = None;
    let first = searcher.search(&request, &|| false).unwrap();
    *projection.turns.lock().unwrap() = Ok(Some(Vec::new()));
    request.cursor = first.next_cursor;
    assert!(request.cursor.is_some());
    let second = searcher.search(&request, &|| false).unwrap();
    assert_eq!(second.sessions.len(), 1);
}
