//! A search shows only text that a record confirms, even if another program has edited the index.

use std::hash::{DefaultHasher, Hash, Hasher};

use filrouge_search::embed::{Embedder, Hashing, embed_documents};
use filrouge_search::{Hit, Mode, SearchDocument, SearchRequest};
use filrouge_sources::Role;
use filrouge_store::command::RedactionTarget;
use filrouge_store::record::Seqs;
use filrouge_store::text_index::{
    Coverage, IndexUpdate, IndexedSession, NewDocument, SessionUpdate,
};

use super::find::{empty_library, index_searcher, query};
use super::world::*;

/// The index entry of a document.
fn document(doc: &SearchDocument<'_>) -> NewDocument {
    let body = doc.encode();
    let mut digest = DefaultHasher::new();
    body.hash(&mut digest);
    NewDocument {
        key: (&*doc.id).into(),
        unit: 0,
        kind: doc.kind(),
        created: doc.created,
        digest: digest.finish(),
        folded: doc.folded(),
        body,
    }
}

/// Replaces the documents of a session in the index.
fn put(world: &LedgerWorld, session: &IndexedSession, documents: Vec<NewDocument>) {
    let update = SessionUpdate {
        shard: session.shard.clone(),
        entry: session.entry.clone(),
        coverage: Coverage::All,
        documents,
    };
    let update = [IndexUpdate::Session(update)];
    assert!(world.index.change(None, &update, None).unwrap());
}

/// Applies a change to all documents of a session in the index.
fn edit(world: &LedgerWorld, session: &str, change: impl Fn(&mut SearchDocument<'_>)) {
    let indexed = world.indexed_session(session).unwrap();
    let bodies = bodies(&*world.index, &indexed);
    let edited = bodies.iter().map(|body| {
        let mut doc = SearchDocument::decode(body).unwrap();
        change(&mut doc);
        document(&doc)
    });
    put(world, &indexed, edited.collect());
}

/// Replaces a text in a document.
fn replace_text(doc: &mut SearchDocument<'_>, before: &str, after: &str) {
    for piece in &mut doc.pieces {
        if piece.text.contains(before) {
            piece.text = piece.text.replace(before, after).into();
        }
    }
}

fn hits(
    world: &LedgerWorld,
    caller: &filrouge_engine::Caller,
    request: &SearchRequest,
) -> Vec<Hit> {
    let searcher = index_searcher(world, caller, empty_library());
    let found = searcher.search(request, &|| false).unwrap();
    assert!(found.as_of.is_some(), "the index was not used");
    assert_eq!(found.total_sessions, found.sessions.len());
    found.sessions
}

/// The texts of all excerpts that a search shows the operator.
fn excerpts(world: &LedgerWorld, words: &str) -> Vec<String> {
    let hits = hits(world, &operator(), &query(words));
    let excerpts = hits.iter().flat_map(|hit| &hit.excerpts);
    excerpts.map(|one| one.text.clone()).collect()
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
fn edited_text_is_not_shown() {
    let world = world();
    for (before, after) in [("larder", "cellar"), ("about a", "no more of the")] {
        edit(&world, "s", |doc| replace_text(doc, before, after));
        let word = after.rsplit_once(' ').map_or(after, |(first, _)| first);
        assert_eq!(excerpts(&world, &format!("\"{word}\"")), [""; 0], "{after}");
    }
    assert_eq!(world.feed.counts().stale, 2);
    // Unedited text is still shown.
    assert_eq!(excerpts(&world, "where"), ["«where» is the quince"]);
    assert_eq!(world.feed.counts().stale, 2);
}

#[test]
fn text_with_an_edited_role_is_not_shown() {
    let world = world();
    assert_eq!(excerpts(&world, "larder").len(), 1);
    edit(&world, "s", |doc| {
        if doc.role == Some(Role::Assistant) {
            doc.role = Some(Role::User);
        }
    });
    assert_eq!(excerpts(&world, "larder"), [""; 0]);
    // The time, the item and the other attributes are confirmed by the record as well.
    let changes: [fn(&mut SearchDocument<'_>); 6] = [
        |doc| doc.created += 1,
        |doc| doc.pieces[0].seq = Some(1),
        |doc| doc.pieces[0].tool = Some("bash".into()),
        |doc| doc.id = "another".into(),
        |doc| doc.seq = None,
        |doc| doc.seq = Some(1),
    ];
    for change in changes {
        let world = self::world();
        edit(&world, "s", |doc| {
            if doc.role == Some(Role::Assistant) {
                change(doc);
            }
        });
        assert_eq!(excerpts(&world, "larder"), [""; 0]);
        assert_eq!(world.feed.counts().stale, 1);
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
    let documents = bodies(&*world.index, &bob);
    let documents = documents
        .iter()
        .map(|body| document(&SearchDocument::decode(body).unwrap()));
    put(&world, &ada, documents.collect());
    assert!(hits(&world, &user("ada"), &query("secret")).is_empty());
    // A session of bob that was moved to ada's shard is not shown either.
    let moved = IndexedSession {
        shard: ada.shard.clone(),
        ..bob.clone()
    };
    let documents = bodies(&*world.index, &world.indexed_session("ada").unwrap());
    let documents = documents
        .iter()
        .map(|body| document(&SearchDocument::decode(body).unwrap()));
    put(&world, &moved, documents.collect());
    assert!(hits(&world, &user("ada"), &query("secret")).is_empty());
}

#[test]
fn redacted_text_that_was_put_back_into_the_index_is_not_shown() {
    let world = world();
    // This search caches that a record confirms the text.
    assert_eq!(excerpts(&world, "larder").len(), 1);
    let before = bodies(&*world.index, &world.indexed_session("s").unwrap());
    let seqs = RedactionTarget::Items(Seqs::from_ranges(vec![(2, 2)]).unwrap());
    let (caller, session) = (operator(), id("s"));
    let redact = world
        .engine
        .erasure
        .redact(&caller, session, seqs, "asked to");
    world.runtime.block_on(redact).unwrap();
    world.catch_up();
    let documents = before
        .iter()
        .map(|body| document(&SearchDocument::decode(body).unwrap()));
    put(
        &world,
        &world.indexed_session("s").unwrap(),
        documents.collect(),
    );
    assert!(world.index_contains("larder"));
    assert_eq!(excerpts(&world, "larder"), [""; 0]);
    assert_eq!(world.feed.counts().stale, 1);
    assert_eq!(excerpts(&world, "where"), ["«where» is the quince"]);
}

#[test]
fn results_by_meaning_are_confirmed_by_records() {
    let world = world();
    edit(&world, "s", |doc| {
        replace_text(doc, "larder", "cellar below");
    });
    edit(&world, "s", |doc| replace_text(doc, "where is", "who ate"));
    let embedder: std::sync::Arc<dyn Embedder> = std::sync::Arc::new(Hashing);
    while embed_documents(&*world.index, &*embedder, 100).unwrap() > 0 {}
    let searcher =
        index_searcher(&world, &operator(), empty_library()).with_embedder(Some(embedder));
    let requests = [
        SearchRequest {
            mode: Mode::Meaning,
            ..query("cellar below")
        },
        SearchRequest {
            similar: Some("who ate the quince".to_owned()),
            ..query("")
        },
    ];
    for request in requests {
        let found = searcher.search(&request, &|| false).unwrap();
        let excerpts = found.sessions.iter().flat_map(|hit| &hit.excerpts);
        for one in excerpts {
            assert!(
                !one.text.contains("cellar") && !one.text.contains("ate"),
                "{one:?}"
            );
        }
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
