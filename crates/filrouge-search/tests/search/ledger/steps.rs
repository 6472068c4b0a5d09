//! Steps of the feed: their cost, their progress, and sessions that cannot be read.

use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::scopes::{DurablePolicy, TierOptions, TieredLedger};
use filrouge_search::ledger::{Effort, FeedStep, LedgerFeed};
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
fn an_append_to_a_long_session_reads_only_the_touched_turn() {
    let world = LedgerWorld::new();
    world.make(&operator(), "s", Some("a title"));
    for n in 0..300 {
        let (request, words) = (format!("r{n}"), format!("question {n}"));
        world.ask(&operator(), ("s", &request), &words, Some("answered"));
    }
    let turn = world.ask(&operator(), ("s", "last"), "the last", None);
    world.catch_up();
    let before = world.feed.counts();
    world.append("s", &turn, vec![observation("something new")]);
    world.catch_up();
    let after = world.feed.counts();
    assert_eq!(after.complete, before.complete);
    assert_eq!(after.sessions, before.sessions + 1);
    // The title, the question and the new item.
    assert_eq!(after.documents, before.documents + 3);
    assert!(world.holds("something new") && world.holds("question 299"));
}

/// Asserts that the index contains the documents that the ledger's own source returns.
fn assert_up_to_date(world: &LedgerWorld) {
    world.catch_up();
    let indexed_bodies = contents(world.index.as_ref()).into_iter();
    let indexed_bodies: std::collections::BTreeMap<_, _> =
        indexed_bodies.map(|(key, all)| (key, all.1)).collect();
    assert_eq!(indexed_bodies, expected(&world.source()));
}

#[test]
fn a_result_joins_its_call_in_another_turn() {
    let world = LedgerWorld::new();
    let first = world.ask(&operator(), ("s", "one"), "first", None);
    let call = json!([{ "type": "tool_call", "call_id": "c", "name": "bash", "args": {} }]);
    let call = json!({ "role": "assistant", "channel": "tool_call", "parts": call });
    world.append("s", &first, vec![item(call)]);
    let second = world.ask(&operator(), ("s", "two"), "second", None);
    assert_up_to_date(&world);
    let result =
        json!([{ "type": "tool_result", "call_id": "c", "ok": true, "content": "a plum" }]);
    let result = json!({ "role": "tool", "channel": "tool_result", "parts": result });
    world.append("s", &second, vec![item(result)]);
    assert_up_to_date(&world);
    assert!(world.holds("a plum"));
    // From then on the messages of the first turn depend on the second one.
    world.append("s", &first, vec![observation("afterwards")]);
    assert_up_to_date(&world);
}

#[test]
fn turns_that_later_commits_touched_do_not_count_as_read() {
    let world = LedgerWorld::new();
    let first = world.ask(&operator(), ("s", "one"), "first", None);
    let second = world.ask(&operator(), ("s", "two"), "second", None);
    world.catch_up();
    world.append("s", &first, vec![observation("in the first")]);
    // There are more commits than are examined at once.
    for n in 0..600 {
        world.make(&operator(), &format!("other-{n}"), None);
    }
    world.append("s", &second, vec![observation("in the second")]);
    world.catch_up();
    assert!(world.holds("in the first") && world.holds("in the second"));
}

#[test]
fn units_are_the_ordinals_of_turns() {
    let world = LedgerWorld::new();
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
    let mut document_counts = vec![7];
    for unit in [2, title, 2, 3, 1] {
        let update = IndexUpdate::Session(SessionUpdate {
            shard: session.shard.clone(),
            entry: session.entry.clone(),
            coverage: Coverage::Units(vec![unit]),
            documents: Vec::new(),
        });
        assert!(world.index.change(None, &[update], None).unwrap());
        let (_, bodies) = contents(world.index.as_ref()).remove("s").unwrap();
        document_counts.push(bodies.len());
    }
    assert_eq!(document_counts, [7, 5, 4, 4, 2, 0]);
}

#[test]
fn a_step_ends_at_its_limit_and_the_next_one_continues() {
    let world = LedgerWorld::new();
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
            (FeedStep::More, n)
        );
    }
    // A process that starts later repeats no work.
    let other = LedgerFeed::new(world.engine.clone(), world.index.clone(), clock());
    let caught = other.catch_up(Duration::from_secs(60), &|| false);
    let progress = world.runtime.block_on(caught).unwrap();
    assert!(progress.done && progress.as_of.is_some());
    assert_eq!(other.counts().documents, 0);
}

#[test]
fn progress_counts_the_commits_not_yet_read() {
    let world = LedgerWorld::new();
    for n in 0..4 {
        world.make(&operator(), &format!("s{n}"), Some("a title"));
    }
    let stopped = world.feed.catch_up(Duration::ZERO, &|| true);
    let progress = world.runtime.block_on(stopped).unwrap();
    assert!(!progress.done);
    assert_eq!((progress.lag_commits, progress.as_of), (4, None));
    let progress = world.catch_up();
    assert_eq!((progress.lag_commits, progress.done), (0, true));
    assert!(progress.as_of.is_some());
}

#[test]
fn an_index_of_another_store_is_rebuilt() {
    let index: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let world = LedgerWorld::over(ledger(), index.clone());
    world.make(&operator(), "old", Some("an old title"));
    world.catch_up();
    assert!(world.holds("old title"));
    // The stores have the same name and number of commits, but their links differ.
    let other = LedgerWorld::over(ledger(), index);
    other.make(&operator(), "new", Some("a new title"));
    other.catch_up();
    assert!(!other.holds("old title") && other.holds("new title"));
}

#[test]
fn sessions_only_in_the_hot_store_are_never_indexed() {
    let keyring = Arc::new(Keyring::single([7; 32]));
    let entropy = Arc::new(OsEntropy);
    let durable = MemoryLedger::new(keyring.clone(), entropy.clone(), clock());
    let hot = MemoryHot::new(HotBounds::default(), 64 << 20, clock());
    let options = TierOptions {
        durable: DurablePolicy::Authenticated,
        ..TierOptions::default()
    };
    let (durable, hot) = (Arc::new(durable), Arc::new(hot));
    let tier_runtime = tokio::runtime::Runtime::new().unwrap();
    let runtime_guard = tier_runtime.enter();
    let both = TieredLedger::new(durable, hot, keyring, entropy, clock(), options);
    drop(runtime_guard);
    let world = LedgerWorld::over(both, Arc::new(MemoryIndex::default()));
    world.ask(&user(""), ("hot", "r"), "anonymous words", Some("yes"));
    world.ask(&user("ada"), ("hers", "r"), "of somebody", Some("yes"));
    world.catch_up();
    assert!(world.holds("of somebody") && !world.holds("anonymous words"));
    assert_eq!(world.indexed("hot"), None);
    // Linking it to an identity moves it into the ledger.
    let (anonymous, ada) = (user(""), IdentityId::new("ada").unwrap());
    let link = world.engine.sessions.link(&anonymous, id("hot"), ada);
    world.runtime.block_on(link).unwrap();
    world.catch_up();
    assert!(world.holds("anonymous words"));
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
fn an_unreadable_session_affects_no_other() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join("filrouge.db");
    let index: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let world = LedgerWorld::over(in_file(&path), index.clone());
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
    // The tampered records are only read when their turn is touched.
    let tamper = "c.execute(\"UPDATE record SET body = zeroblob(length(body)) WHERE id IN (SELECT record_id FROM \
         record_key WHERE session_pk = (SELECT pk FROM session WHERE session_id = 'b'))\")\n\
         assert c.execute('SELECT changes()').fetchone()[0] > 0";
    crate::tampered::python(&path, tamper);
    let world = LedgerWorld::over(in_file(&path), index);
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
    assert_eq!(world.feed.counts().unreadable, 0, "its first turn was read");
    // For an empty index, the whole session is read.
    world.index.clear().unwrap();
    world.catch_up();
    assert!(world.holds("quince of a") && world.holds("medlar of c"));
    assert!(!world.holds("quince of b") && !world.holds("medlar of b"));
    assert!(world.feed.counts().unreadable > 0);
}

#[test]
fn an_indexed_session_that_becomes_unreadable_loses_its_documents() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join("filrouge.db");
    let index: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let world = LedgerWorld::over(in_file(&path), index.clone());
    world.make(&operator(), "b", None);
    let turn = world.ask(&operator(), ("b", "r"), "a quince", None);
    world.catch_up();
    let append = |world: &LedgerWorld| world.append("b", &turn, vec![observation("a medlar")]);
    append(&world);
    drop(world);
    let tamper = "c.execute('UPDATE record SET body = zeroblob(length(body))')";
    crate::tampered::python(&path, tamper);
    let world = LedgerWorld::over(in_file(&path), index);
    world.catch_up();
    assert_eq!(world.feed.counts().unreadable, 1);
    assert!(!world.holds("quince") && world.indexed("b").is_some());
    // The session is not read again until it changes.
    world.catch_up();
    assert_eq!(world.feed.counts().sessions, 1);
}

#[test]
fn a_runner_follows_until_it_is_stopped() {
    let world = LedgerWorld::new();
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
fn a_hit_shows_the_seq_of_its_item() {
    let world = LedgerWorld::new();
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
        vec![item(call), item(named), observation("without a key")],
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
