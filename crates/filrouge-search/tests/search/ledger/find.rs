//! A search of a ledger by its index finds what a scan finds, in the same order and at the same places, for every
//! caller.

use std::collections::BTreeSet;

use filrouge_engine::Caller;
use filrouge_search::{LedgerSearch, Order, Results, SearchRequest, Searcher};
use filrouge_sources::ledger::LedgerSource;
use filrouge_sources::{Library, LibraryError, Role};
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::{Keyring, OsEntropy};
use proptest::prelude::*;
use serde_json::{Value, json};

use std::sync::Arc;

use super::world::*;

const WORDS: [&str; 9] = [
    "Été",
    "quince",
    "snake_case",
    "日本語",
    "a\"b",
    "is",
    "quince tart",
    "retry",
    "x",
];
const QUERIES: [&str; 12] = [
    "ete",
    "quince",
    "snake_c",
    "日本",
    "\"a\\\"b\"",
    "is",
    "\"quince tart\"",
    "/qu.n/",
    "quince -retry",
    "x retry",
    "",
    "tart",
];

/// A session to record: a number that selects its owner, title and project; and for each turn the numbers that select
/// the word of the question, the items of the answer, and the word in them.
pub(super) type SessionSpec = (u8, Vec<(u8, u8, u8)>);

/// Records sessions of two people: session `sN` for the element N.
pub(super) fn record_sessions(world: &LedgerWorld, sessions: &[SessionSpec]) {
    for (n, (kind, turns)) in sessions.iter().enumerate() {
        let (name, caller) = (format!("s{n}"), user(["ada", "bob"][usize::from(kind % 2)]));
        let mut session = json!({ "session_id": name, "title": format!("About {}", WORDS[usize::from(*kind) % WORDS.len()]) });
        if kind % 3 == 0 {
            session["project_id"] = json!("phare");
            session["metadata"] =
                json!({ "origin": { "agent": "plan", "project_name": "Lighthouse" } });
        }
        let created = world
            .engine
            .sessions
            .create(&caller, serde_json::from_value(session).unwrap());
        world.runtime.block_on(created).unwrap();
        for (t, (question_word, item, answer_word)) in turns.iter().enumerate() {
            let word = |at: &u8| WORDS[usize::from(*at) % WORDS.len()];
            let request = format!("r{t}");
            let turn = world.start_turn(
                &caller,
                (&name, &request),
                &format!("{} now?", word(question_word)),
                None,
            );
            world.append(&name, &turn, items(*item, word(answer_word)));
        }
    }
}

/// The items of an answer, which contain a word.
fn items(kind: u8, word: &str) -> Vec<filrouge_types::ItemBody> {
    let text = json!([{ "type": "text", "text": format!("so {word}, and {word}") }]);
    let all: Vec<Value> = match kind % 4 {
        0 => vec![
            json!({ "role": "assistant", "channel": "tool_call", "agent": "build",
                "parts": [{ "type": "tool_call", "call_id": "c", "name": "bash", "args": { "n": word } }] }),
            json!({ "role": "tool", "channel": "tool_result",
                "parts": [{ "type": "tool_result", "call_id": "c", "name": "bash", "ok": true, "content": format!("gave {word}") }] }),
        ],
        1 => vec![json!({ "role": "assistant", "channel": "thought", "parts": text })],
        2 => vec![
            json!({ "role": "assistant", "channel": "observation", "parts": text, "agent": "build" }),
        ],
        _ => vec![json!({ "role": "system", "channel": "system_note", "parts": text })],
    };
    all.into_iter().map(item).collect()
}

/// A searcher of the caller's sessions by the index, and of a library.
pub(super) fn index_searcher(world: &LedgerWorld, caller: &Caller, library: Library) -> Searcher {
    let runtime = world.runtime.handle().clone();
    let ledger = LedgerSearch::new(
        world.engine.clone(),
        world.feed.clone(),
        caller.clone(),
        runtime,
    );
    Searcher::new(library).with_ledger(ledger)
}

pub(super) fn empty_library() -> Library {
    Library::new(Vec::new(), 0)
}

/// A searcher that scans the caller's sessions.
pub(super) fn scan_searcher(world: &LedgerWorld, caller: &Caller) -> Searcher {
    let runtime = world.runtime.handle().clone();
    let source = LedgerSource::new(world.engine.clone(), caller.clone(), runtime);
    Searcher::new(Library::new(vec![Arc::new(source)], 0))
}

pub(super) fn query(query: &str) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        now: Some(1_700_000_000_000),
        limit: 2,
        excerpts: 1_000,
        ..SearchRequest::default()
    }
}

/// Queries with every filter.
fn requests() -> Vec<SearchRequest> {
    let mut all = Vec::new();
    for (n, words) in QUERIES.into_iter().enumerate() {
        let text = |text: &str| Some(text.to_owned());
        let plain = query(words);
        let order = [Order::Best, Order::Newest][n % 2];
        all.extend([
            SearchRequest {
                order,
                ..plain.clone()
            },
            SearchRequest {
                role: Some([Role::User, Role::Assistant, Role::System][n % 3]),
                ..plain.clone()
            },
            SearchRequest {
                agent: text(["build", "plan"][n % 2]),
                ..plain.clone()
            },
            SearchRequest {
                tool: text("bash"),
                ..plain.clone()
            },
            SearchRequest {
                project_id: text(["phare", "Lighthouse", "x"][n % 3]),
                ..plain.clone()
            },
            SearchRequest {
                session_id: text("s0"),
                excerpts: 1,
                ..plain.clone()
            },
            SearchRequest {
                exclude_session: text("s1"),
                ..plain.clone()
            },
            SearchRequest {
                source: text(["ledger", "opencode"][n % 2]),
                ..plain.clone()
            },
            SearchRequest {
                since: Some(1_700_000_000_000),
                until: Some(1_700_000_000_001),
                ..plain
            },
        ]);
    }
    all
}

/// The hits of all pages (session, number of matches, excerpts), and the cursors between the pages.
pub(super) type AllPages = (Vec<(String, usize, BTreeSet<String>)>, Vec<String>);

/// Reads all pages. Returns their hits and cursors, and the first page.
pub(super) fn all_pages(
    searcher: &Searcher,
    mut request: SearchRequest,
) -> Result<(AllPages, Results), LibraryError> {
    let first = searcher.search(&request, &|| false)?;
    let (mut all, mut cursors) = (Vec::new(), Vec::new());
    let mut page = first.clone();
    loop {
        for hit in page.sessions {
            let places = hit
                .excerpts
                .iter()
                .map(|one| format!("{} {}", one.place, one.text));
            all.push((hit.session.id, hit.matches, places.collect()));
        }
        let Some(cursor) = page.next_cursor else {
            return Ok(((all, cursors), first));
        };
        cursors.push(cursor.clone());
        request.cursor = Some(cursor);
        page = searcher.search(&request, &|| false)?;
        assert!(
            !page.sessions.is_empty(),
            "the cursor leads to an empty page"
        );
    }
}

/// Runs the selected queries by the index and by a scan, asserts equal results, and returns the number of matches.
pub(super) fn assert_same_results(
    world: &LedgerWorld,
    caller: &Caller,
    is_selected: impl Fn(usize) -> bool,
) -> usize {
    let (by_index, by_scan) = (
        index_searcher(world, caller, empty_library()),
        scan_searcher(world, caller),
    );
    let mut found = 0;
    let requests = requests()
        .into_iter()
        .enumerate()
        .filter(|(n, _)| is_selected(*n));
    for (_, request) in requests {
        match (
            all_pages(&by_index, request.clone()),
            all_pages(&by_scan, request.clone()),
        ) {
            (Ok((indexed, first)), Ok((scanned, first_scanned))) => {
                assert_eq!(indexed, scanned, "{request:?}");
                let totals = |page: &Results| (page.total_sessions, page.total_matches, page.exact);
                assert_eq!(totals(&first), totals(&first_scanned), "{request:?}");
                let excerpts = first.sessions.iter().flat_map(|hit| &hit.excerpts);
                for excerpt in excerpts {
                    assert_eq!(
                        excerpt.seq.is_some(),
                        excerpt.field != "title",
                        "{excerpt:?}"
                    );
                }
                let searches_ledger = request.source.as_deref() != Some("opencode");
                assert_eq!(
                    first.as_of.is_some(),
                    searches_ledger,
                    "whether the index was used: {request:?}"
                );
                found += first.total_matches;
            }
            (indexed, scanned) => {
                let code = |result: Result<_, LibraryError>| {
                    result.map(|_| ()).map_err(|error| error.code())
                };
                assert_eq!(code(indexed), code(scanned), "{request:?}");
            }
        }
    }
    found
}

fn conversations() -> impl Strategy<Value = Vec<SessionSpec>> {
    let turns = proptest::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 0..4);
    proptest::collection::vec((any::<u8>(), turns), 1..5)
}

/// Compares searches of recorded sessions, also after items were appended. `seed` selects the queries.
fn check_searches(
    world: &LedgerWorld,
    sessions: &[SessionSpec],
    later: &[SessionSpec],
    seed: usize,
) {
    let is_selected = |n: usize| (n + seed).is_multiple_of(7);
    record_sessions(world, sessions);
    assert_same_results(world, &operator(), is_selected);
    // Items that are appended later are found at once.
    for (n, (_, turns)) in later.iter().enumerate().take(sessions.len()) {
        for (t, (question_word, item, answer_word)) in turns.iter().enumerate() {
            let (name, request) = (format!("s{n}"), format!("later{t}"));
            let question = WORDS[usize::from(*question_word) % WORDS.len()];
            let turn = world.start_turn(&operator(), (&name, &request), question, None);
            world.append(
                &name,
                &turn,
                items(*item, WORDS[usize::from(*answer_word) % WORDS.len()]),
            );
        }
    }
    for caller in [operator(), user("ada"), user("bob")] {
        assert_same_results(world, &caller, is_selected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_in_memory_finds_what_a_scan_finds(sessions in conversations(), later in conversations(), seed in 0_usize..7) {
        check_searches(&LedgerWorld::new(), &sessions, &later, seed);
    }

    #[test]
    fn an_index_in_a_file_finds_what_a_scan_finds(sessions in conversations(), later in conversations(), seed in 0_usize..7) {
        let dir = tempfile::tempdir().unwrap();
        let keyring = Arc::new(Keyring::single([7; 32]));
        let file = dir.path().join("ledger.db");
        let ledger = SqliteLedger::open(Options::new(file, keyring, Arc::new(OsEntropy), clock()));
        let index = SqliteIndex::open(dir.path().join("ledger.index")).unwrap();
        check_searches(&LedgerWorld::from_parts(Arc::new(ledger.unwrap()), Arc::new(index)), &sessions, &later, seed);
    }
}
