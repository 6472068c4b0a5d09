//! From an index that another program has edited, a search shows only text that a record confirms.

use std::hash::{DefaultHasher, Hash, Hasher};

use filrouge_search::embed::{Embedder, Hashing, fill};
use filrouge_search::{Ask, Hit, Mode, SearchDocument};
use filrouge_sources::Role;
use filrouge_store::command::RedactionTarget;
use filrouge_store::record::Seqs;
use filrouge_store::text_index::{
    Coverage, IndexUpdate, IndexedSession, NewDocument, SessionUpdate,
};

use super::find::{indexed, nothing, query};
use super::world::*;

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

fn put(world: &LedgerWorld, into: &IndexedSession, documents: Vec<NewDocument>) {
    let update = SessionUpdate {
        shard: into.shard.clone(),
        entry: into.entry.clone(),
        coverage: Coverage::Whole,
        documents,
    };
    let update = [IndexUpdate::Session(update)];
    assert!(world.index.change(None, &update, None).unwrap());
}

/// Changes the documents of a session in the index.
fn edit(world: &LedgerWorld, session: &str, change: impl Fn(&mut SearchDocument<'_>)) {
    let known = world.indexed(session).unwrap();
    let bodies = bodies(&*world.index, &known);
    let edited = bodies.iter().map(|body| {
        let mut doc = SearchDocument::decode(body).unwrap();
        change(&mut doc);
        document(&doc)
    });
    put(world, &known, edited.collect());
}

/// Replaces a text in a document.
fn write(doc: &mut SearchDocument<'_>, before: &str, after: &str) {
    for piece in &mut doc.pieces {
        if piece.text.contains(before) {
            piece.text = piece.text.replace(before, after).into();
        }
    }
}

fn hits(world: &LedgerWorld, caller: &filrouge_engine::Caller, ask: &Ask) -> Vec<Hit> {
    let searcher = indexed(world, caller, nothing());
    let found = searcher.search(ask, &|| false).unwrap();
    assert!(found.as_of.is_some(), "the index was not used");
    assert_eq!(found.total_sessions, found.sessions.len());
    found.sessions
}

fn shown(world: &LedgerWorld, words: &str) -> Vec<String> {
    let hits = hits(world, &operator(), &query(words));
    let excerpts = hits.iter().flat_map(|hit| &hit.excerpts);
    excerpts.map(|one| one.text.clone()).collect()
}

/// A session with a question about a quince.
fn world() -> LedgerWorld {
    let world = LedgerWorld::new();
    world.make(&operator(), "s", Some("about a quince"));
    let asked = ("s", "r");
    world.ask(
        &operator(),
        asked,
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
        edit(&world, "s", |doc| write(doc, before, after));
        let word = after.rsplit_once(' ').map_or(after, |(first, _)| first);
        assert_eq!(shown(&world, &format!("\"{word}\"")), [""; 0], "{after}");
    }
    assert_eq!(world.feed.counts().stale, 2);
    // Unedited text is still shown.
    assert_eq!(shown(&world, "where"), ["«where» is the quince"]);
    assert_eq!(world.feed.counts().stale, 2);
}

#[test]
fn text_with_an_edited_role_is_not_shown() {
    let world = world();
    assert_eq!(shown(&world, "larder").len(), 1);
    edit(&world, "s", |doc| {
        if doc.role == Some(Role::Assistant) {
            doc.role = Some(Role::User);
        }
    });
    assert_eq!(shown(&world, "larder"), [""; 0]);
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
        assert_eq!(shown(&world, "larder"), [""; 0]);
        assert_eq!(world.feed.counts().stale, 1);
    }
}

#[test]
fn text_of_other_owners_is_not_shown() {
    let world = LedgerWorld::new();
    for name in ["ada", "bob"] {
        world.make(&user(name), name, None);
        let words = format!("the secret of {name}");
        world.ask(&user(name), (name, "r"), &words, None);
    }
    world.catch_up();
    let [ada, bob] = ["ada", "bob"].map(|name| world.indexed(name).unwrap());
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
    let documents = bodies(&*world.index, &world.indexed("ada").unwrap());
    let documents = documents
        .iter()
        .map(|body| document(&SearchDocument::decode(body).unwrap()));
    put(&world, &moved, documents.collect());
    assert!(hits(&world, &user("ada"), &query("secret")).is_empty());
}

#[test]
fn redacted_text_that_was_put_back_is_not_shown() {
    let world = world();
    // The first search caches that a record confirms the text.
    assert_eq!(shown(&world, "larder").len(), 1);
    let before = bodies(&*world.index, &world.indexed("s").unwrap());
    let seqs = RedactionTarget::Items(Seqs::of(vec![(2, 2)]).unwrap());
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
    put(&world, &world.indexed("s").unwrap(), documents.collect());
    assert!(world.holds("larder"));
    assert_eq!(shown(&world, "larder"), [""; 0]);
    assert_eq!(world.feed.counts().stale, 1);
    assert_eq!(shown(&world, "where"), ["«where» is the quince"]);
}

#[test]
fn results_by_meaning_are_confirmed_by_records() {
    let world = world();
    edit(&world, "s", |doc| {
        write(doc, "larder", "cellar below");
    });
    edit(&world, "s", |doc| write(doc, "where is", "who ate"));
    let embedder: std::sync::Arc<dyn Embedder> = std::sync::Arc::new(Hashing);
    while fill(&*world.index, &*embedder, 100).unwrap() > 0 {}
    let searcher = indexed(&world, &operator(), nothing()).with_embedder(Some(embedder));
    let asks = [
        Ask {
            mode: Mode::Meaning,
            ..query("cellar below")
        },
        Ask {
            similar: Some("who ate the quince".to_owned()),
            ..query("")
        },
    ];
    for ask in asks {
        let found = searcher.search(&ask, &|| false).unwrap();
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

/// A result in another turn than its call, and one id for two messages: the documents of one turn depend on others.
#[test]
fn text_that_depends_on_other_turns_is_shown() {
    let world = LedgerWorld::new();
    world.make(&operator(), "s", None);
    let first = world.ask(&operator(), ("s", "one"), "call it", None);
    let call = serde_json::json!({ "role": "assistant", "channel": "tool_call",
        "parts": [{ "type": "tool_call", "call_id": "c", "name": "bash", "args": {} }] });
    world.append("s", &first, vec![item(call), named("first quince")]);
    let second = world.ask(&operator(), ("s", "two"), "and now", None);
    let result = serde_json::json!({ "role": "tool", "channel": "tool_result",
        "parts": [{ "type": "tool_result", "call_id": "c", "name": "bash", "ok": true, "content": "gave a medlar" }] });
    world.append("s", &second, vec![item(result), named("second quince")]);
    world.catch_up();
    assert_eq!(shown(&world, "medlar"), ["gave a «medlar»"]);
    assert_eq!(shown(&world, "quince").len(), 2);
    assert_eq!(world.feed.counts().stale, 0);
}

/// An item of a message whose id another program gave.
fn named(text: &str) -> filrouge_types::ItemBody {
    let message =
        serde_json::json!({ "opencode": { "message": { "id": "m", "role": "assistant" } } });
    item(
        serde_json::json!({ "role": "assistant", "channel": "observation", "metadata": message,
        "parts": [{ "type": "text", "text": text }] }),
    )
}
