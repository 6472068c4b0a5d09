//! What steps cost, how far they come, and what they make of what cannot be read.

use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::scopes::{DurablePolicy, ScopeOptions, TwoScopes};
use filrouge_search::ledger::{Effort, LedgerFeed, Step};
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::hot::{HotBounds, MemoryHot};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{Coverage, IndexUpdate, SessionUpdate, TextIndex};
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::IdentityId;
use serde_json::json;
use tokio::sync::watch;

use super::find::{indexed, nothing, query};
use super::world::*;

#[test]
fn an_append_to_a_long_session_costs_the_touched_turn_alone() {
    let world = World::new();
    world.make(&operator(), "s", Some("a title"));
    for n in 0..300 {
        let (request, words) = (format!("r{n}"), format!("question {n}"));
        world.ask(&operator(), ("s", &request), &words, Some("answered"));
    }
    let turn = world.ask(&operator(), ("s", "last"), "the last", None);
    world.catch_up();
    let before = world.feed.counts();
    world.append("s", &turn, vec![said("something new")]);
    world.catch_up();
    let after = world.feed.counts();
    assert_eq!(after.whole, before.whole);
    assert_eq!(after.sessions, before.sessions + 1);
    // The title, the question and what was said.
    assert_eq!(after.documents, before.documents + 3);
    assert!(world.holds("something new") && world.holds("question 299"));
}

/// That the index holds what the ledger's own source gives.
fn is_in_step(world: &World) {
    world.catch_up();
    let held = contents(world.index.as_ref()).into_iter();
    let held: std::collections::BTreeMap<_, _> = held.map(|(key, all)| (key, all.1)).collect();
    assert_eq!(held, expected(&world.source()));
}

#[test]
fn a_result_joins_its_call_in_another_turn() {
    let world = World::new();
    let first = world.ask(&operator(), ("s", "one"), "first", None);
    let call = json!([{ "type": "tool_call", "call_id": "c", "name": "bash", "args": {} }]);
    let call = json!({ "role": "assistant", "channel": "tool_call", "parts": call });
    world.append("s", &first, vec![item(call)]);
    let second = world.ask(&operator(), ("s", "two"), "second", None);
    is_in_step(&world);
    let gave = json!([{ "type": "tool_result", "call_id": "c", "ok": true, "content": "a plum" }]);
    let gave = json!({ "role": "tool", "channel": "tool_result", "parts": gave });
    world.append("s", &second, vec![item(gave)]);
    is_in_step(&world);
    assert!(world.holds("a plum"));
    // From then on the first turn alone does not tell what its messages are.
    world.append("s", &first, vec![said("afterwards")]);
    is_in_step(&world);
}

#[test]
fn what_later_commits_have_touched_is_not_taken_for_read() {
    let world = World::new();
    let first = world.ask(&operator(), ("s", "one"), "first", None);
    let second = world.ask(&operator(), ("s", "two"), "second", None);
    world.catch_up();
    world.append("s", &first, vec![said("in the first")]);
    // More commits than are looked at at once.
    for n in 0..600 {
        world.make(&operator(), &format!("other-{n}"), None);
    }
    world.append("s", &second, vec![said("in the second")]);
    world.catch_up();
    assert!(world.holds("in the first") && world.holds("in the second"));
}

#[test]
fn units_are_the_ordinals_of_turns() {
    let world = World::new();
    world.make(&operator(), "s", Some("a title"));
    for n in 1..4 {
        world.ask(
            &operator(),
            ("s", &format!("r{n}")),
            "question",
            Some("answer"),
        );
    }
    world.catch_up();
    let title = filrouge_search::ledger::TITLE_UNIT;
    let session = world.indexed("s").unwrap();
    let mut left = vec![7];
    for unit in [2, title, 2, 3, 1] {
        let update = IndexUpdate::Session(SessionUpdate {
            shard: session.shard.clone(),
            entry: session.entry.clone(),
            coverage: Coverage::Units(vec![unit]),
            documents: Vec::new(),
        });
        assert!(world.index.change(None, &[update], None).unwrap());
        let (_, bodies) = contents(world.index.as_ref()).remove("s").unwrap();
        left.push(bodies.len());
    }
    assert_eq!(left, [7, 5, 4, 4, 2, 0]);
}

#[test]
fn a_step_ends_where_it_is_told_to_and_the_next_goes_on() {
    let world = World::new();
    for n in 0..5 {
        let name = format!("s{n}");
        world.make(&operator(), &name, None);
        world.ask(&operator(), (&name, "r"), "a question", Some("an answer"));
    }
    let little = Effort {
        bytes: 1,
        time: Duration::from_secs(60),
    };
    for n in 1..=5 {
        let step = world.runtime.block_on(world.feed.step(little)).unwrap();
        assert_eq!(
            (step, contents(world.index.as_ref()).len()),
            (Step::More, n)
        );
    }
    // A process that comes then does nothing twice.
    let other = LedgerFeed::new(world.engine.clone(), world.index.clone(), clock());
    let caught = other.catch_up(Duration::from_secs(60), &|| false);
    let progress = world.runtime.block_on(caught).unwrap();
    assert!(progress.done && progress.as_of.is_some());
    assert_eq!(other.counts().documents, 0);
}

#[test]
fn progress_tells_how_far_behind_it_is() {
    let world = World::new();
    for n in 0..4 {
        world.make(&operator(), &format!("s{n}"), Some("a title"));
    }
    let stopped = world.feed.catch_up(Duration::ZERO, &|| true);
    let progress = world.runtime.block_on(stopped).unwrap();
    assert!(!progress.done);
    assert_eq!((progress.behind, progress.as_of), (4, None));
    let progress = world.catch_up();
    assert_eq!((progress.behind, progress.done), (0, true));
    assert!(progress.as_of.is_some());
}

#[test]
fn an_index_of_another_store_is_built_anew() {
    let index: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let world = World::over(ledger(), index.clone());
    world.make(&operator(), "old", Some("an old title"));
    world.catch_up();
    assert!(world.holds("old title"));
    // The same name and the same number of commits: their links tell.
    let other = World::over(ledger(), index);
    other.make(&operator(), "new", Some("a new title"));
    other.catch_up();
    assert!(!other.holds("old title") && other.holds("new title"));
}

#[test]
fn sessions_of_the_hot_store_alone_are_never_indexed() {
    let keyring = Arc::new(Keyring::single([7; 32]));
    let entropy = Arc::new(OsEntropy);
    let durable = MemoryLedger::new(keyring.clone(), entropy.clone(), clock());
    let hot = MemoryHot::new(HotBounds::default(), 64 << 20, clock());
    let options = ScopeOptions {
        durable: DurablePolicy::Authenticated,
        ..ScopeOptions::default()
    };
    let (durable, hot) = (Arc::new(durable), Arc::new(hot));
    let apart = tokio::runtime::Runtime::new().unwrap();
    let inside = apart.enter();
    let both = TwoScopes::new(durable, hot, keyring, entropy, clock(), options);
    drop(inside);
    let world = World::over(both, Arc::new(MemoryIndex::default()));
    world.ask(&user(""), ("hot", "r"), "of nobody", Some("yes"));
    world.ask(&user("ada"), ("hers", "r"), "of somebody", Some("yes"));
    world.catch_up();
    assert!(world.holds("of somebody") && !world.holds("of nobody"));
    assert_eq!(world.indexed("hot"), None);
    // A login brings it into the ledger.
    let (nobody, ada) = (user(""), IdentityId::new("ada").unwrap());
    let link = world.engine.sessions.link(&nobody, id("hot"), ada);
    world.runtime.block_on(link).unwrap();
    world.catch_up();
    assert!(world.holds("of nobody"));
    let shard = |name| world.indexed(name).unwrap().shard;
    assert_eq!(shard("hot"), shard("hers"));
}

/// A ledger in a file.
fn in_file(path: &std::path::Path) -> Arc<dyn Ledger> {
    let keyring = Arc::new(Keyring::single([7; 32]));
    let options = Options::new(path.to_owned(), keyring, Arc::new(OsEntropy), clock());
    Arc::new(SqliteLedger::open(options).unwrap())
}

#[test]
fn a_session_that_cannot_be_read_costs_itself() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join("filrouge.db");
    let index: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let world = World::over(in_file(&path), index.clone());
    for name in ["a", "b", "c"] {
        world.make(&operator(), name, None);
        world.ask(
            &operator(),
            (name, "r"),
            &format!("quince of {name}"),
            Some("yes"),
        );
    }
    world.catch_up();
    assert!(world.holds("quince of b"));
    drop(world);
    // What it says is read again when it is touched, and is not what was written.
    let tamper = "c.execute(\"UPDATE record SET body = zeroblob(length(body)) WHERE id IN (SELECT record_id FROM \
         record_key WHERE session_pk = (SELECT pk FROM session WHERE session_id = 'b'))\")\n\
         assert c.execute('SELECT changes()').fetchone()[0] > 0";
    crate::tampered::python(&path, tamper);
    let world = World::over(in_file(&path), index);
    for name in ["b", "c"] {
        world.ask(
            &operator(),
            (name, "again"),
            &format!("medlar of {name}"),
            None,
        );
    }
    world.catch_up();
    assert!(world.holds("medlar of c") && world.holds("quince of c") && world.holds("medlar of b"));
    assert_eq!(
        world.feed.counts().unreadable,
        0,
        "its first turn was not read"
    );
    // As a whole, by an index that knows nothing of it.
    world.index.clear().unwrap();
    world.catch_up();
    assert!(world.holds("quince of a") && world.holds("medlar of c"));
    assert!(!world.holds("quince of b") && !world.holds("medlar of b"));
    assert!(world.feed.counts().unreadable > 0);
}

#[test]
fn of_a_session_that_cannot_be_read_any_more_nothing_is_left() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join("filrouge.db");
    let index: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let world = World::over(in_file(&path), index.clone());
    world.make(&operator(), "b", None);
    let turn = world.ask(&operator(), ("b", "r"), "a quince", None);
    world.catch_up();
    let append = |world: &World| world.append("b", &turn, vec![said("a medlar")]);
    append(&world);
    drop(world);
    let tamper = "c.execute('UPDATE record SET body = zeroblob(length(body))')";
    crate::tampered::python(&path, tamper);
    let world = World::over(in_file(&path), index);
    world.catch_up();
    assert_eq!(world.feed.counts().unreadable, 1);
    assert!(!world.holds("quince") && world.indexed("b").is_some());
    // Nobody asks for it again before it changes.
    world.catch_up();
    assert_eq!(world.feed.counts().sessions, 1);
}

#[test]
fn a_runner_follows_until_it_is_stopped() {
    let world = World::new();
    let (stop, stopping) = watch::channel(false);
    let feed = world.feed.clone();
    let runner = world.runtime.spawn(async move { feed.run(stopping).await });
    world.make(&operator(), "s", Some("a title"));
    world.ask(&operator(), ("s", "r"), "is it there yet", Some("yes"));
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while !world.holds("there yet") && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(world.holds("there yet"));
    stop.send_replace(true);
    world.runtime.block_on(runner).unwrap();
}

#[test]
fn a_hit_tells_the_seq_of_its_item() {
    let world = World::new();
    world.make(&operator(), "s", None);
    let turn = world.ask(&operator(), ("s", "r"), "a question", None);
    let part = json!({ "type": "tool_call", "call_id": "c", "name": "bash", "args": {} });
    let call = json!({ "item_id": "p7:call", "role": "assistant", "channel": "tool_call", "parts": [part] });
    let texts = json!([{ "type": "text", "text": "one" }, { "type": "text", "text": "two" }]);
    let named =
        json!({ "item_id": "v1.5", "role": "assistant", "channel": "observation", "parts": texts });
    world.append(
        "s",
        &turn,
        vec![item(call), item(named), said("without a key")],
    );
    world.catch_up();
    let searcher = indexed(&world, &operator(), nothing());
    for (word, seq) in [
        ("question", 1),
        ("bash", 2),
        ("one", 3),
        ("two", 3),
        ("without", 4),
    ] {
        let found = searcher.search(&query(word), &|| false).unwrap();
        let seqs: Vec<_> = found.sessions[0]
            .excerpts
            .iter()
            .map(|one| one.seq)
            .collect();
        assert_eq!(seqs, [Some(seq)], "{word}");
    }
}
