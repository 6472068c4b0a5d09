//! An index that another program has edited: no word is shown that no record holds.

use std::hash::{DefaultHasher, Hash, Hasher};

use filrouge_search::embed::{Embedder, Hashing, fill};
use filrouge_search::{Ask, Hit, Mode, Spoken};
use filrouge_sources::Role;
use filrouge_store::command::Target;
use filrouge_store::record::Seqs;
use filrouge_store::text_index::{
    Coverage, IndexUpdate, IndexedSession, NewDocument, SessionUpdate,
};

use super::find::{indexed, nothing, query};
use super::world::*;

fn document(spoken: &Spoken<'_>) -> NewDocument {
    let body = spoken.encode();
    let mut digest = DefaultHasher::new();
    body.hash(&mut digest);
    NewDocument {
        key: (&*spoken.id).into(),
        unit: 0,
        kind: spoken.kind(),
        created: spoken.created,
        digest: digest.finish(),
        folded: spoken.folded(),
        body,
    }
}

fn put(world: &World, into: &IndexedSession, documents: Vec<NewDocument>) {
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
fn edit(world: &World, session: &str, change: impl Fn(&mut Spoken<'_>)) {
    let known = world.indexed(session).unwrap();
    let bodies = bodies(&*world.index, &known);
    let edited = bodies.iter().map(|body| {
        let mut spoken = Spoken::decode(body).unwrap();
        change(&mut spoken);
        document(&spoken)
    });
    put(world, &known, edited.collect());
}

/// A text in the place of another one.
fn write(spoken: &mut Spoken<'_>, before: &str, after: &str) {
    for piece in &mut spoken.pieces {
        if piece.text.contains(before) {
            piece.text = piece.text.replace(before, after).into();
        }
    }
}

fn found(world: &World, caller: &filrouge_engine::Caller, ask: &Ask) -> Vec<Hit> {
    let searcher = indexed(world, caller, nothing());
    let found = searcher.search(ask, &|| false).unwrap();
    assert!(found.as_of.is_some(), "by its index");
    assert_eq!(found.total_sessions, found.sessions.len());
    found.sessions
}

fn shown(world: &World, words: &str) -> Vec<String> {
    let found = found(world, &operator(), &query(words));
    let excerpts = found.iter().flat_map(|hit| &hit.excerpts);
    excerpts.map(|one| one.text.clone()).collect()
}

/// A session in which a quince was asked for.
fn world() -> World {
    let world = World::new();
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
fn a_text_that_nobody_said_is_not_shown() {
    let world = world();
    for (before, after) in [("larder", "cellar"), ("about a", "no more of the")] {
        edit(&world, "s", |spoken| write(spoken, before, after));
        let word = after.rsplit_once(' ').map_or(after, |(first, _)| first);
        assert_eq!(shown(&world, &format!("\"{word}\"")), [""; 0], "{after}");
    }
    assert_eq!(world.feed.counts().stale, 2);
    // What was left as it was said is shown still.
    assert_eq!(shown(&world, "where"), ["«where» is the quince"]);
    assert_eq!(world.feed.counts().stale, 2);
}

#[test]
fn what_somebody_else_is_said_to_have_said_is_not_shown() {
    let world = world();
    assert_eq!(shown(&world, "larder").len(), 1);
    edit(&world, "s", |spoken| {
        if spoken.role == Some(Role::Assistant) {
            spoken.role = Some(Role::User);
        }
    });
    assert_eq!(shown(&world, "larder"), [""; 0]);
    // What was said then, and which item it was, come from the record as well.
    let changes: [fn(&mut Spoken<'_>); 6] = [
        |spoken| spoken.created += 1,
        |spoken| spoken.pieces[0].seq = Some(1),
        |spoken| spoken.pieces[0].tool = Some("bash".into()),
        |spoken| spoken.id = "another".into(),
        |spoken| spoken.seq = None,
        |spoken| spoken.seq = Some(1),
    ];
    for change in changes {
        let world = self::world();
        edit(&world, "s", |spoken| {
            if spoken.role == Some(Role::Assistant) {
                change(spoken);
            }
        });
        assert_eq!(shown(&world, "larder"), [""; 0]);
        assert_eq!(world.feed.counts().stale, 1);
    }
}

#[test]
fn what_others_said_is_not_shown_as_ones_own() {
    let world = World::new();
    for name in ["ada", "bob"] {
        world.make(&user(name), name, None);
        let words = format!("the secret of {name}");
        world.ask(&user(name), (name, "r"), &words, None);
    }
    world.catch_up();
    let [ada, bob] = ["ada", "bob"].map(|name| world.indexed(name).unwrap());
    let theirs = bodies(&*world.index, &bob);
    let theirs = theirs
        .iter()
        .map(|body| document(&Spoken::decode(body).unwrap()));
    put(&world, &ada, theirs.collect());
    assert!(found(&world, &user("ada"), &query("secret")).is_empty());
    // Nor is their session, if it is moved to where ada's are.
    let moved = IndexedSession {
        shard: ada.shard.clone(),
        ..bob.clone()
    };
    let theirs = bodies(&*world.index, &world.indexed("ada").unwrap());
    let theirs = theirs
        .iter()
        .map(|body| document(&Spoken::decode(body).unwrap()));
    put(&world, &moved, theirs.collect());
    assert!(found(&world, &user("ada"), &query("secret")).is_empty());
}

#[test]
fn what_was_redacted_and_is_put_back_is_not_shown() {
    let world = world();
    // Once it was shown it is remembered that the ledger has said so.
    assert_eq!(shown(&world, "larder").len(), 1);
    let before = bodies(&*world.index, &world.indexed("s").unwrap());
    let seqs = Target::Items(Seqs::of(vec![(2, 2)]).unwrap());
    let (caller, session) = (operator(), id("s"));
    let redact = world
        .engine
        .erasure
        .redact(&caller, session, seqs, "asked to");
    world.runtime.block_on(redact).unwrap();
    world.catch_up();
    let documents = before
        .iter()
        .map(|body| document(&Spoken::decode(body).unwrap()));
    put(&world, &world.indexed("s").unwrap(), documents.collect());
    assert!(world.holds("larder"));
    assert_eq!(shown(&world, "larder"), [""; 0]);
    assert_eq!(world.feed.counts().stale, 1);
    assert_eq!(shown(&world, "where"), ["«where» is the quince"]);
}

#[test]
fn what_is_found_by_its_meaning_is_read_from_records_too() {
    let world = world();
    edit(&world, "s", |spoken| {
        write(spoken, "larder", "cellar below");
    });
    edit(&world, "s", |spoken| write(spoken, "where is", "who ate"));
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

/// A result in another turn than its call, and one id of two messages: what is said in one turn is told by the others, too.
#[test]
fn what_depends_on_other_turns_is_shown() {
    let world = World::new();
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

/// An item of a message that another program has given an id.
fn named(text: &str) -> filrouge_types::ItemBody {
    let message =
        serde_json::json!({ "opencode": { "message": { "id": "m", "role": "assistant" } } });
    item(
        serde_json::json!({ "role": "assistant", "channel": "observation", "metadata": message,
        "parts": [{ "type": "text", "text": text }] }),
    )
}
