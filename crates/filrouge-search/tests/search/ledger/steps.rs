//! Steps of the feed: their cost, their progress, and sessions that cannot be read.

use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::scopes::{DurablePolicy, TierOptions, TieredLedger};
use filrouge_search::ledger::{FeedStep, LedgerFeed, StepLimits};
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::hot::{HotBounds, MemoryHot};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{Coverage, IndexUpdate, SessionUpdate, TextIndex};
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::IdentityId;
use serde_json::json;
use tokio::sync::watch;

use super::find::{empty_library, index_searcher, query};
use super::world::*;

#[test]
fn after_an_append_only_the_changed_turn_of_a_long_session_is_read() {
    let world = LedgerWorld::new();
    world.create_session(&operator(), "s", Some("a title"));
    for n in 0..300 {
        let (request, words) = (format!("r{n}"), format!("question {n}"));
        world.start_turn(&operator(), ("s", &request), &words, Some("answered"));
    }
    let turn = world.start_turn(&operator(), ("s", "last"), "the last", None);
    world.catch_up();
    let before = world.feed.counts();
    world.append("s", &turn, vec![observation("something new")]);
    world.catch_up();
    let after = world.feed.counts();
    assert_eq!(after.complete, before.complete);
    assert_eq!(after.sessions, before.sessions + 1);
    // The title, the question and the new item.
    assert_eq!(after.documents, before.documents + 3);
    assert!(world.index_contains("something new") && world.index_contains("question 299"));
}

/// Asserts that the index contains the documents that the ledger's own source returns.
fn assert_up_to_date(world: &LedgerWorld) {
    world.catch_up();
    let indexed = contents(world.index.as_ref()).into_iter();
    let indexed: std::collections::BTreeMap<_, _> =
        indexed.map(|(key, all)| (key, all.1)).collect();
    assert_eq!(indexed, source_digests(&world.source()));
}

#[test]
fn a_result_in_another_turn_is_indexed_with_its_call() {
    let world = LedgerWorld::new();
    let first = world.start_turn(&operator(), ("s", "one"), "first", None);
    let call = json!([{ "type": "tool_call", "call_id": "c", "name": "bash", "args": {} }]);
    let call = json!({ "role": "assistant", "channel": "tool_call", "parts": call });
    world.append("s", &first, vec![item(call)]);
    let second = world.start_turn(&operator(), ("s", "two"), "second", None);
    assert_up_to_date(&world);
    let result =
        json!([{ "type": "tool_result", "call_id": "c", "ok": true, "content": "a plum" }]);
    let result = json!({ "role": "tool", "channel": "tool_result", "parts": result });
    world.append("s", &second, vec![item(result)]);
    assert_up_to_date(&world);
    assert!(world.index_contains("a plum"));
    // From now on, the messages of the first turn depend on the second turn.
    world.append("s", &first, vec![observation("afterwards")]);
    assert_up_to_date(&world);
}

#[test]
fn a_turn_is_read_again_after_a_change_in_a_much_later_commit() {
    let world = LedgerWorld::new();
    let first = world.start_turn(&operator(), ("s", "one"), "first", None);
    let second = world.start_turn(&operator(), ("s", "two"), "second", None);
    world.catch_up();
    world.append("s", &first, vec![observation("in the first")]);
    // These are more commits than one step examines.
    for n in 0..600 {
        world.create_session(&operator(), &format!("other-{n}"), None);
    }
    world.append("s", &second, vec![observation("in the second")]);
    world.catch_up();
    assert!(world.index_contains("in the first") && world.index_contains("in the second"));
}

#[test]
fn units_are_the_ordinals_of_turns() {
    let world = LedgerWorld::new();
    world.create_session(&operator(), "s", Some("a title"));
    for n in 1..4 {
        world.start_turn(
            &operator(),
            ("s", &format!("r{n}")),
            "question",
            Some("answer"),
        );
    }
    world.catch_up();
    let title = filrouge_search::ledger::TITLE_UNIT;
    let session = world.indexed_session("s").unwrap();
    let mut document_counts = vec![7];
    for unit in [2, title, 2, 3, 1] {
        let update = IndexUpdate::Session(SessionUpdate {
            shard: session.shard.clone(),
            entry: session.entry.clone(),
            coverage: Coverage::Units(vec![unit]),
            documents: Vec::new(),
        });
        assert!(world.index.change(None, &[update], None).unwrap());
        let (_, digests) = contents(world.index.as_ref()).remove("s").unwrap();
        document_counts.push(digests.len());
    }
    assert_eq!(document_counts, [7, 5, 4, 4, 2, 0]);
}

#[test]
fn a_step_ends_at_its_limit_and_the_next_one_continues() {
    let world = LedgerWorld::new();
    for n in 0..5 {
        let name = format!("s{n}");
        world.create_session(&operator(), &name, None);
        world.start_turn(&operator(), (&name, "r"), "a question", Some("an answer"));
    }
    let tiny = StepLimits {
        bytes: 1,
        time: Duration::from_secs(60),
    };
    for n in 1..=5 {
        let step = world.runtime.block_on(world.feed.step(tiny)).unwrap();
        assert_eq!(
            (step, contents(world.index.as_ref()).len()),
            (FeedStep::More, n)
        );
    }
    // A process that starts later repeats no work.
    let other = LedgerFeed::new(world.engine.clone(), world.index.clone(), clock());
    let caught_up = other.catch_up(Duration::from_secs(60), &|| false);
    let progress = world.runtime.block_on(caught_up).unwrap();
    assert!(progress.done && progress.as_of.is_some());
    assert_eq!(other.counts().documents, 0);
}

#[test]
fn progress_counts_the_unread_commits_of_all_lanes() {
    let ledger = ledger_with_lanes(four_lanes());
    let world = LedgerWorld::from_parts(ledger, Arc::new(MemoryIndex::default()));
    for n in 0..4 {
        world.create_session(&operator(), &format!("s{n}"), Some("a title"));
    }
    let stopped = world.feed.catch_up(Duration::ZERO, &|| true);
    let progress = world.runtime.block_on(stopped).unwrap();
    assert!(!progress.done);
    assert_eq!((progress.lag_commits, progress.as_of), (4, None));
    let progress = world.catch_up();
    assert_eq!((progress.lag_commits, progress.done), (0, true));
    assert!(progress.as_of.is_some());
    for name in [names_in(1, 1), names_in(2, 2)].concat() {
        world.start_turn(&operator(), (&name, "r"), "a question", None);
    }
    let progress = world.runtime.block_on(world.feed.read_progress()).unwrap();
    assert_eq!((progress.lag_commits, progress.done), (3, false));
}

#[test]
fn a_change_in_a_lane_with_few_commits_is_indexed() {
    let ledger = ledger_with_lanes(four_lanes());
    let world = LedgerWorld::from_parts(ledger, Arc::new(MemoryIndex::default()));
    for name in names_in(1, 20) {
        world.create_session(&operator(), &name, None);
    }
    let name = names_in(2, 1).remove(0);
    world.start_turn(&operator(), (&name, "one"), "a quince", None);
    world.catch_up();
    world.start_turn(&operator(), (&name, "two"), "a medlar", None);
    world.catch_up();
    assert!(world.index_contains("quince") && world.index_contains("medlar"));
    // A process that starts later repeats no work.
    let other = LedgerFeed::new(world.engine.clone(), world.index.clone(), clock());
    let caught_up = other.catch_up(Duration::from_secs(60), &|| false);
    assert!(world.runtime.block_on(caught_up).unwrap().done);
    assert_eq!(other.counts().sessions, 0);
}

#[test]
fn an_index_of_another_store_is_rebuilt() {
    let index: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let world = LedgerWorld::from_parts(ledger(), index.clone());
    world.create_session(&operator(), "old", Some("an old title"));
    world.catch_up();
    assert!(world.index_contains("old title"));
    // The stores have the same name and number of commits, but their links differ.
    let other = LedgerWorld::from_parts(ledger(), index);
    other.create_session(&operator(), "new", Some("a new title"));
    other.catch_up();
    assert!(!other.index_contains("old title") && other.index_contains("new title"));
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
    let tiered = TieredLedger::new(durable, hot, keyring, entropy, clock(), options);
    drop(runtime_guard);
    let world = LedgerWorld::from_parts(tiered, Arc::new(MemoryIndex::default()));
    world.start_turn(&user(""), ("hot", "r"), "anonymous words", Some("yes"));
    world.start_turn(&user("ada"), ("hers", "r"), "of somebody", Some("yes"));
    world.catch_up();
    assert!(world.index_contains("of somebody") && !world.index_contains("anonymous words"));
    assert_eq!(world.indexed_session("hot"), None);
    // Linking it to an identity moves it into the ledger.
    let (anonymous, ada) = (user(""), IdentityId::new("ada").unwrap());
    let link = world.engine.sessions.link(&anonymous, id("hot"), ada);
    world.runtime.block_on(link).unwrap();
    world.catch_up();
    assert!(world.index_contains("anonymous words"));
    let shard = |name| world.indexed_session(name).unwrap().shard;
    assert_eq!(shard("hot"), shard("hers"));
}

/// A ledger in a file.
fn ledger_in_file(path: &std::path::Path) -> Arc<dyn Ledger> {
    let keyring = Arc::new(Keyring::single([7; 32]));
    let options = Options::new(path.to_owned(), keyring, Arc::new(OsEntropy), clock());
    Arc::new(SqliteLedger::open(options).unwrap())
}

#[test]
fn an_unreadable_session_affects_no_other_session() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join("filrouge.db");
    let index: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let world = LedgerWorld::from_parts(ledger_in_file(&path), index.clone());
    for name in ["a", "b", "c"] {
        world.create_session(&operator(), name, None);
        world.start_turn(
            &operator(),
            (name, "r"),
            &format!("quince of {name}"),
            Some("yes"),
        );
    }
    world.catch_up();
    assert!(world.index_contains("quince of b"));
    drop(world);
    // The tampered records are only read when their turn changes.
    let tamper = "c.execute(\"UPDATE record SET body = zeroblob(length(body)) WHERE id IN (SELECT record_id FROM \
         record_key WHERE session_pk = (SELECT pk FROM session WHERE session_id = 'b'))\")\n\
         assert c.execute('SELECT changes()').fetchone()[0] > 0";
    crate::tampered::python(&path, tamper);
    let world = LedgerWorld::from_parts(ledger_in_file(&path), index);
    for name in ["b", "c"] {
        world.start_turn(
            &operator(),
            (name, "again"),
            &format!("medlar of {name}"),
            None,
        );
    }
    world.catch_up();
    assert!(
        world.index_contains("medlar of c")
            && world.index_contains("quince of c")
            && world.index_contains("medlar of b")
    );
    assert_eq!(
        world.feed.counts().unreadable,
        0,
        "an unchanged turn was read"
    );
    // For an empty index, the complete session is read.
    world.index.clear().unwrap();
    world.catch_up();
    assert!(world.index_contains("quince of a") && world.index_contains("medlar of c"));
    assert!(!world.index_contains("quince of b") && !world.index_contains("medlar of b"));
    assert!(world.feed.counts().unreadable > 0);
}

#[test]
fn an_indexed_session_that_becomes_unreadable_loses_its_documents() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join("filrouge.db");
    let index: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let world = LedgerWorld::from_parts(ledger_in_file(&path), index.clone());
    world.create_session(&operator(), "b", None);
    let turn = world.start_turn(&operator(), ("b", "r"), "a quince", None);
    world.catch_up();
    let append = |world: &LedgerWorld| world.append("b", &turn, vec![observation("a medlar")]);
    append(&world);
    drop(world);
    let tamper = "c.execute('UPDATE record SET body = zeroblob(length(body))')";
    crate::tampered::python(&path, tamper);
    let world = LedgerWorld::from_parts(ledger_in_file(&path), index);
    world.catch_up();
    assert_eq!(world.feed.counts().unreadable, 1);
    assert!(!world.index_contains("quince") && world.indexed_session("b").is_some());
    // The session is not read again at once.
    world.catch_up();
    assert_eq!(world.feed.counts().sessions, 1);
}

/// Damage that somebody repairs does not hide a session for good, whether the index had an entry for it or not.
#[test]
fn a_session_that_can_be_read_again_is_found_after_a_start() {
    let flip = "for id, body in c.execute('SELECT id, body FROM record').fetchall():\n    \
         c.execute('UPDATE record SET body = ? WHERE id = ?', (body[:-1] + bytes([body[-1] ^ 1]), id))";
    for cleared in [false, true] {
        let store = tempfile::tempdir().unwrap();
        let path = store.path().join("filrouge.db");
        let index: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
        let start = || LedgerWorld::from_parts(ledger_in_file(&path), index.clone());
        let world = start();
        world.create_session(&operator(), "b", None);
        world.start_turn(&operator(), ("b", "r"), "a quince", Some("yes"));
        world.catch_up();
        let before = world.indexed_session("b").unwrap();
        match cleared {
            true => index.clear().unwrap(),
            false => assert!(index.forget(&before.shard.realm, "b").unwrap() > 0),
        }
        drop(world);
        crate::tampered::python(&path, flip);
        let search = |world: &LedgerWorld| {
            let searcher = index_searcher(world, &operator(), empty_library());
            let found = searcher.search(&query("quince"), &|| false).unwrap();
            (found.total_sessions, found.exact)
        };
        // The second one finds the session marked as unreadable in the index.
        for _ in 0..2 {
            let world = start();
            world.catch_up();
            assert_eq!(world.feed.counts().unreadable, 1);
            assert!(!world.index_contains("quince"));
            assert_eq!(world.indexed_session("b").unwrap().shard, before.shard);
            assert_eq!(search(&world), (0, false));
        }
        crate::tampered::python(&path, flip);
        let world = start();
        world.catch_up();
        assert!(world.index_contains("quince"), "{cleared}");
        assert_eq!(world.indexed_session("b").unwrap().shard, before.shard);
        assert_eq!(search(&world), (1, true));
    }
}

#[test]
fn a_running_feed_follows_the_ledger_until_it_is_stopped() {
    let world = LedgerWorld::new();
    let (stop, stopping) = watch::channel(false);
    let feed = world.feed.clone();
    let runner = world.runtime.spawn(async move { feed.run(stopping).await });
    world.create_session(&operator(), "s", Some("a title"));
    world.start_turn(&operator(), ("s", "r"), "is it there yet", Some("yes"));
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !world.index_contains("there yet") && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(world.index_contains("there yet"));
    stop.send_replace(true);
    world.runtime.block_on(runner).unwrap();
}

#[test]
fn a_hit_shows_the_seq_of_its_item() {
    let world = LedgerWorld::new();
    world.create_session(&operator(), "s", None);
    let turn = world.start_turn(&operator(), ("s", "r"), "a question", None);
    let part = json!({ "type": "tool_call", "call_id": "c", "name": "bash", "args": {} });
    let call = json!({ "item_id": "p7:call", "role": "assistant", "channel": "tool_call", "parts": [part] });
    let texts = json!([{ "type": "text", "text": "one" }, { "type": "text", "text": "two" }]);
    let with_item_id =
        json!({ "item_id": "v1.5", "role": "assistant", "channel": "observation", "parts": texts });
    world.append(
        "s",
        &turn,
        vec![item(call), item(with_item_id), observation("without a key")],
    );
    world.catch_up();
    let searcher = index_searcher(&world, &operator(), empty_library());
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
