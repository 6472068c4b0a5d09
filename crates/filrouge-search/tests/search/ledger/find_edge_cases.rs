//! Searches of a ledger after a redaction, without an answer of the index, with the same session in a source, and by
//! meaning.

use std::collections::BTreeSet;
use std::sync::Arc;

use filrouge_engine::Caller;
use filrouge_engine::RedactTurn;
use filrouge_search::embed::{Embedder, Hashing};
use filrouge_search::{Mode, SearchRequest};
use filrouge_sources::library::samples::{self, MemorySource};
use filrouge_sources::{Library, Role};

use super::find::*;
use super::world::*;
use crate::find_broken::BrokenIndex;

/// Records sessions of two users that mention quinces.
fn record_quince_sessions(world: &LedgerWorld) {
    record_sessions(
        world,
        &[
            (0, vec![(1, 0, 1), (1, 2, 1)]),
            (1, vec![(1, 1, 6)]),
            (4, vec![(1, 3, 1)]),
        ],
    );
}

#[test]
fn redacted_text_is_no_longer_found() {
    let world = LedgerWorld::new();
    record_quince_sessions(&world);
    let before = assert_same_results(&world, &operator(), |_| true);
    assert!(before > 0);
    let turn = world.start_turn(&operator(), ("s0", "new"), "a rowan", Some("a tree"));
    let caller = operator();
    let rowan = || {
        index_searcher(&world, &operator(), empty_library())
            .search(&query("rowan"), &|| false)
            .unwrap()
    };
    assert_eq!(rowan().total_matches, 1);
    let reason = RedactTurn {
        reason: "why not".into(),
    };
    let redact = world
        .engine
        .erasure
        .redact_turn(&caller, id("s0"), turn.turn_id, reason);
    world.runtime.block_on(redact).unwrap();
    assert_eq!(rowan().total_matches, 0);
    assert_same_results(&world, &operator(), |n| n % 3 == 0);
}

#[test]
fn a_search_scans_the_ledger_if_its_index_does_not_answer() {
    for fails in [&["all"][..], &["candidates"], &["documents"], &["state"]] {
        let broken = BrokenIndex::new();
        let world = LedgerWorld::from_parts(ledger(), broken.clone());
        record_quince_sessions(&world);
        world.catch_up();
        let expected = all_pages(&scan_searcher(&world, &operator()), query("quince")).unwrap();
        broken.fail(fails);
        let (found, first) = all_pages(
            &index_searcher(&world, &operator(), empty_library()),
            query("quince"),
        )
        .unwrap();
        assert_eq!(found, expected.0, "{fails:?}");
        let notices: Vec<_> = first
            .notices
            .iter()
            .filter(|n| n.contains("does not answer"))
            .collect();
        assert_eq!(notices.len(), 1, "{fails:?} {:?}", first.notices);
        assert_eq!(first.as_of, None, "{fails:?}");
        let excerpts = first.sessions.iter().flat_map(|hit| &hit.excerpts);
        assert!(
            excerpts
                .clone()
                .all(|one| one.seq.is_some() || one.field == "title")
        );
        assert!(excerpts.count() > 0);
    }
}

/// A history with a session of this id.
fn history(id: &str) -> Library {
    let source = MemorySource::default();
    let message = samples::message(
        "m",
        Role::User,
        vec![samples::text("p", "a quince, in the history")],
    );
    source.put(samples::header(id, 1), samples::conversation(vec![message]));
    Library::new(vec![Arc::new(source)], 1 << 20)
}

#[test]
fn a_session_of_a_source_that_is_also_in_the_ledger_is_found_once() {
    let broken = BrokenIndex::new();
    let world = LedgerWorld::from_parts(ledger(), broken.clone());
    record_quince_sessions(&world);
    world.catch_up();
    // The search runs once with the index and once without it.
    for fails in [&[][..], &["all"]] {
        broken.fail(fails);
        let searcher = index_searcher(&world, &operator(), history("s0"));
        let sources = |request: &SearchRequest| -> Vec<String> {
            let (found, first) = all_pages(&searcher, request.clone()).unwrap();
            assert_eq!(first.total_sessions, found.0.len());
            let ids: BTreeSet<_> = found.0.iter().map(|one| &one.0).collect();
            assert_eq!(ids.len(), found.0.len(), "each session once");
            let page = searcher
                .search(
                    &SearchRequest {
                        limit: 100,
                        ..request.clone()
                    },
                    &|| false,
                )
                .unwrap();
            let source =
                |hit: &filrouge_search::Hit| format!("{} {}", hit.session.id, hit.session.source);
            let mut all: Vec<String> = page.sessions.iter().map(source).collect();
            all.sort();
            all
        };
        assert_eq!(
            sources(&query("quince")),
            ["s0 opencode", "s1 ledger", "s2 ledger"],
            "{fails:?}"
        );
        assert_eq!(
            sources(&query("quince source:ledger")),
            ["s0 ledger", "s1 ledger", "s2 ledger"]
        );
        assert_eq!(sources(&query("quince -source:ledger")), ["s0 opencode"]);
        assert_eq!(
            sources(&query("quince -source:opencode")),
            ["s0 ledger", "s1 ledger", "s2 ledger"]
        );
        assert_eq!(sources(&query("quince session:s0")), ["s0 opencode"]);
        assert_eq!(
            sources(&query("quince session:s0 source:ledger")),
            ["s0 ledger"]
        );
        assert_eq!(sources(&query("quince session:s1")), ["s1 ledger"]);
        assert_eq!(
            sources(&query("quince -session:s0")),
            ["s1 ledger", "s2 ledger"]
        );
        let missing = searcher.search(&query("quince session:s9"), &|| false);
        assert_eq!(missing.unwrap_err().code(), "session_not_found");
    }
}

#[test]
fn a_search_by_meaning_finds_only_the_callers_own_sessions() {
    let world = LedgerWorld::new();
    record_quince_sessions(&world);
    world.catch_up();
    let embedder: Arc<dyn Embedder> = Arc::new(Hashing);
    world.embed(&embedder);
    let found = |caller: &Caller, request: SearchRequest| -> Vec<String> {
        let searcher =
            index_searcher(&world, caller, empty_library()).with_embedder(Some(embedder.clone()));
        let found = searcher
            .search(
                &SearchRequest {
                    limit: 100,
                    ..request
                },
                &|| false,
            )
            .unwrap();
        assert!(
            found.as_of.is_some() && found.notices.iter().all(|n| n.starts_with("filters")),
            "{:?}",
            found.notices
        );
        let mut ids: Vec<_> = found
            .sessions
            .into_iter()
            .map(|hit| hit.session.id)
            .collect();
        ids.sort();
        ids
    };
    for mode in [Mode::Meaning, Mode::Both] {
        let request = |words: &str| SearchRequest {
            mode,
            ..query(words)
        };
        assert_eq!(
            found(&operator(), request("a quince now")),
            ["s0", "s1", "s2"]
        );
        assert_eq!(
            found(&operator(), request("a quince now -session:s0")),
            ["s1", "s2"]
        );
        assert_eq!(
            found(&operator(), request("a quince now project:lighthouse")),
            ["s0"]
        );
        assert_eq!(
            found(&operator(), request("a quince now agent:plan")),
            ["s0"]
        );
        assert_eq!(found(&user("ada"), request("a quince now")), ["s0", "s2"]);
        assert_eq!(found(&user("bob"), request("a quince now")), ["s1"]);
        assert!(found(&user("eve"), request("a quince now")).is_empty());
    }
    let similar = SearchRequest {
        similar: Some("quince now".to_owned()),
        ..query("")
    };
    assert_eq!(found(&user("bob"), similar.clone()), ["s1"]);
    let searcher =
        index_searcher(&world, &user("bob"), empty_library()).with_embedder(Some(embedder.clone()));
    let page = searcher.search(&similar, &|| false).unwrap();
    let excerpts: Vec<_> = page.sessions[0]
        .excerpts
        .iter()
        .map(|one| (one.role, one.seq.is_some()))
        .collect();
    assert_eq!(
        excerpts,
        [(Some(Role::User), true), (Some(Role::Assistant), true)]
    );
}
