//! An index only names documents: a program that edits it changes neither what is compared with a query nor what is
//! shown, because both are read from the ledger's records.

use std::sync::Arc;

use filrouge_engine::Caller;
use filrouge_search::embed::{Embedder, Hashing};
use filrouge_search::{Hit, Mode, Results, SearchDocument, SearchRequest};
use filrouge_sources::{Role, Source as _};
use filrouge_store::command::RedactionTarget;
use filrouge_store::record::Seqs;
use filrouge_store::text_index::{
    Coverage, IndexUpdate, IndexedDocument, IndexedSession, NewDocument, SessionUpdate,
};

use super::find::{empty_library, index_searcher, query};
use super::world::*;

/// The documents of a session as the feed indexes them.
fn indexed_documents(world: &LedgerWorld, session: &str) -> Vec<NewDocument> {
    let source = world.source();
    let headers = source.list().unwrap().headers.clone();
    let header = headers
        .iter()
        .find(|header| &*header.id == session)
        .unwrap();
    let conversation = source.read(session).unwrap();
    let messages = conversation
        .messages
        .iter()
        .map(SearchDocument::from_message);
    let docs: Vec<SearchDocument<'_>> = SearchDocument::from_title(header)
        .into_iter()
        .chain(messages)
        .collect();
    let entry = world.indexed_session(session).unwrap();
    let document = |named: IndexedDocument| {
        let doc = docs.iter().find(|doc| *doc.id == *named.key).unwrap();
        assert_eq!(named.digest, doc.digest());
        NewDocument {
            key: named.key,
            unit: named.unit,
            kind: doc.kind(),
            created: doc.created,
            digest: named.digest,
            folded: doc.folded(),
            body: Vec::new(),
        }
    };
    let named = documents(&*world.index, &entry).into_iter();
    named.map(document).collect()
}

/// Replaces the documents of a session in the index.
fn put(world: &LedgerWorld, session: &IndexedSession, documents: Vec<NewDocument>) {
    // The index keeps a document whose digest is unchanged, so all are removed first.
    for documents in [Vec::new(), documents] {
        let update = SessionUpdate {
            shard: session.shard.clone(),
            entry: session.entry.clone(),
            coverage: Coverage::All,
            documents,
        };
        let update = [IndexUpdate::Session(update)];
        assert!(world.index.change(None, &update, None).unwrap());
    }
}

/// Applies a change to all documents of a session in the index.
fn edit(world: &LedgerWorld, session: &str, change: impl Fn(&mut NewDocument)) {
    let mut documents = indexed_documents(world, session);
    documents.iter_mut().for_each(change);
    put(world, &world.indexed_session(session).unwrap(), documents);
}

fn search(world: &LedgerWorld, caller: &Caller, request: &SearchRequest) -> Results {
    let searcher = index_searcher(world, caller, empty_library());
    let found = searcher.search(request, &|| false).unwrap();
    assert!(found.as_of.is_some(), "the index was not used");
    assert_eq!(found.total_sessions, found.sessions.len());
    let matches = found.sessions.iter().map(|hit| hit.matches);
    assert_eq!(found.total_matches, matches.sum::<usize>());
    found
}

fn texts(hits: &[Hit]) -> Vec<&str> {
    let excerpts = hits.iter().flat_map(|hit| &hit.excerpts);
    excerpts.map(|one| one.text.as_str()).collect()
}

/// The texts of all excerpts that a search shows the operator.
fn excerpts(world: &LedgerWorld, words: &str) -> Vec<String> {
    let found = search(world, &operator(), &query(words));
    texts(&found.sessions)
        .into_iter()
        .map(str::to_owned)
        .collect()
}

/// A session with a question about a quince.
fn world() -> LedgerWorld {
    let world = LedgerWorld::new();
    world.create_session(&operator(), "s", Some("about a quince"));
    let turn = ("s", "r");
    world.start_turn(
        &operator(),
        turn,
        "where is the quince",
        Some("in the larder"),
    );
    world.catch_up();
    world
}

#[test]
fn the_index_keeps_no_bodies() {
    let world = world();
    let session = world.indexed_session("s").unwrap();
    let documents = documents(&*world.index, &session);
    let numbers: Vec<u64> = documents.iter().map(|document| document.no).collect();
    let mut visited = 0;
    let mut visit = |_, body: &[u8]| {
        visited += 1;
        body.is_empty()
    };
    world.index.bodies(&numbers, &mut visit).unwrap();
    assert_eq!((numbers.len(), visited), (3, 3));
}

#[test]
fn edited_text_changes_neither_matches_nor_counts_nor_excerpts() {
    let world = world();
    let quince = search(&world, &operator(), &query("quince"));
    assert_eq!((quince.total_matches, quince.exact), (2, true));
    edit(&world, "s", |document| document.folded += " cellar quince");
    // The index names all three documents for both words.
    assert_eq!(excerpts(&world, "cellar"), [""; 0]);
    assert_eq!(excerpts(&world, "/cel+ar/"), [""; 0]);
    assert_eq!(excerpts(&world, "larder"), ["in the «larder»"]);
    assert_eq!(search(&world, &operator(), &query("quince")), quince);
    assert_eq!(world.feed.counts().stale, 0);
}

#[test]
fn edited_attributes_are_not_shown() {
    let before = world();
    let request = SearchRequest {
        now: Some(0),
        ..query("larder")
    };
    let larder = search(&before, &operator(), &request);
    let changes: [fn(&mut NewDocument); 3] = [
        |document| document.kind = 0,
        |document| document.created += 1,
        |document| document.digest ^= 1,
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let world = world();
        edit(&world, "s", change);
        assert_eq!(search(&world, &operator(), &request), larder, "{n}");
        assert_eq!(excerpts(&world, "role:user larder"), [""; 0], "{n}");
        assert_eq!(world.feed.counts().stale, 0, "{n}");
    }
}

#[test]
fn documents_that_no_record_has_are_left_out_and_counted() {
    let changes: [fn(&mut NewDocument); 3] = [
        |document| document.key = format!("{}x", document.key).into(),
        |document| document.unit = 2,
        |document| document.unit = u64::MAX,
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let world = world();
        edit(&world, "s", |document| {
            if document.kind == 1 {
                change(document);
            }
        });
        assert_eq!(excerpts(&world, "larder"), [""; 0], "{n}");
        assert_eq!(world.feed.counts().stale, 1, "{n}");
        assert_eq!(excerpts(&world, "where"), ["«where» is the quince"], "{n}");
        assert_eq!(world.feed.counts().stale, 1, "{n}");
    }
}

#[test]
fn text_of_other_owners_is_not_shown() {
    let world = LedgerWorld::new();
    for name in ["ada", "bob"] {
        world.create_session(&user(name), name, None);
        let words = format!("the secret of {name}");
        world.start_turn(&user(name), (name, "r"), &words, None);
    }
    world.catch_up();
    let [ada, bob] = ["ada", "bob"].map(|name| world.indexed_session(name).unwrap());
    let of_bob = indexed_documents(&world, "bob");
    // Documents of bob in a session of ada name what this session has.
    put(&world, &ada, of_bob.clone());
    let found = search(&world, &user("ada"), &query("secret"));
    assert_eq!(texts(&found.sessions), ["the «secret» of ada"]);
    assert!(
        search(&world, &user("ada"), &query("bob"))
            .sessions
            .is_empty()
    );
    // A session of bob that was moved to ada's shard is not shown either.
    let moved = IndexedSession {
        shard: ada.shard.clone(),
        ..bob
    };
    put(&world, &moved, of_bob);
    assert!(
        search(&world, &user("ada"), &query("bob"))
            .sessions
            .is_empty()
    );
    assert_eq!(world.feed.counts().stale, 1);
}

#[test]
fn redacted_text_that_was_put_back_into_the_index_is_not_shown() {
    let world = world();
    // This search caches the text.
    assert_eq!(excerpts(&world, "larder").len(), 1);
    let before = indexed_documents(&world, "s");
    let seqs = RedactionTarget::Items(Seqs::from_ranges(vec![(2, 2)]).unwrap());
    let (caller, session) = (operator(), id("s"));
    let redact = world
        .engine
        .erasure
        .redact(&caller, session, seqs, "asked to");
    world.runtime.block_on(redact).unwrap();
    world.catch_up();
    put(&world, &world.indexed_session("s").unwrap(), before);
    assert!(world.index_contains("larder"));
    assert_eq!(excerpts(&world, "larder"), [""; 0]);
    assert_eq!(excerpts(&world, "where"), ["«where» is the quince"]);
}

#[test]
fn a_search_by_meaning_shows_only_text_of_records() {
    let world = world();
    let session = world.indexed_session("s").unwrap();
    let mut documents = indexed_documents(&world, "s");
    let add_words = |document: &mut NewDocument| document.folded += " cellar below";
    documents.iter_mut().for_each(add_words);
    // No record has these documents; there are more than are embedded at once.
    let missing = documents[0].clone();
    documents.extend((0..20).map(|n| NewDocument {
        key: format!("missing {n}").into(),
        kind: 0,
        folded: "cellar below".to_owned(),
        ..missing.clone()
    }));
    put(&world, &session, documents);
    let embedder: Arc<dyn Embedder> = Arc::new(Hashing);
    world.embed(&embedder);
    assert_eq!(world.feed.counts().stale, 0);
    let searcher =
        index_searcher(&world, &operator(), empty_library()).with_embedder(Some(embedder));
    let by_meaning = |mode, similar: Option<&str>, words: &str| {
        let request = SearchRequest {
            mode,
            similar: similar.map(str::to_owned),
            ..query(words)
        };
        let found = searcher.search(&request, &|| false).unwrap();
        let excerpts = found.sessions.into_iter().flat_map(|hit| hit.excerpts);
        let excerpts = excerpts.map(|one| (one.role, one.text));
        excerpts.collect::<Vec<_>>()
    };
    let larder = (Some(Role::Assistant), "in the «larder»".to_owned());
    assert!(by_meaning(Mode::Meaning, None, "larder").contains(&larder));
    let found = [
        by_meaning(Mode::Both, None, "cellar below"),
        by_meaning(Mode::Words, Some("cellar below the quince"), ""),
    ];
    for (_, text) in found.into_iter().flatten() {
        assert!(!text.contains("cellar"), "{text}");
    }
    assert!(world.feed.counts().stale > 0);
}

/// A document depends on other turns if a result is in another turn than its call, or if two messages have the same
/// id.
#[test]
fn text_that_depends_on_other_turns_is_shown() {
    let world = LedgerWorld::new();
    world.create_session(&operator(), "s", None);
    let first = world.start_turn(&operator(), ("s", "one"), "call it", None);
    let call = serde_json::json!({ "role": "assistant", "channel": "tool_call",
        "parts": [{ "type": "tool_call", "call_id": "c", "name": "bash", "args": {} }] });
    world.append("s", &first, vec![item(call), imported_item("first quince")]);
    let second = world.start_turn(&operator(), ("s", "two"), "and now", None);
    let result = serde_json::json!({ "role": "tool", "channel": "tool_result",
        "parts": [{ "type": "tool_result", "call_id": "c", "name": "bash", "ok": true, "content": "gave a medlar" }] });
    world.append(
        "s",
        &second,
        vec![item(result), imported_item("second quince")],
    );
    world.catch_up();
    assert_eq!(excerpts(&world, "medlar"), ["gave a «medlar»"]);
    assert_eq!(excerpts(&world, "quince").len(), 2);
    assert_eq!(world.feed.counts().stale, 0);
}

/// An item of a message with an id that another program gave it.
fn imported_item(text: &str) -> filrouge_types::ItemBody {
    let message =
        serde_json::json!({ "opencode": { "message": { "id": "m", "role": "assistant" } } });
    item(
        serde_json::json!({ "role": "assistant", "channel": "observation", "metadata": message,
        "parts": [{ "type": "text", "text": text }] }),
    )
}
