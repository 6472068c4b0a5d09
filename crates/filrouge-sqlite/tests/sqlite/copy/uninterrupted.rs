//! Copies without interruptions.

use std::sync::Arc;

use filrouge_store::contract::differential::play;
use filrouge_store::contract::fixture::{
    Fixture, anyone, cancel, fail, finalize, item, keyed, operator, redact_items, replacement, user,
};
use filrouge_store::contract::live_writes::checkpoint;
use filrouge_store::contract::session_writes::{
    close_session, event, json, link, metadata, patch, title, with_secret,
};
use filrouge_store::contract::{drafts, fixture};
use filrouge_store::verify::Verdict;
use filrouge_types::{Channel, ItemBody};

use super::*;

/// Fills a store with every kind of row.
pub(super) async fn fill(f: &Fixture) {
    let (ann, who) = (user("ann"), anyone());
    for (session, n) in [("s", 0..400), ("t", 0..3)] {
        let turn = f.start(&ann, session, "r").await;
        let body = |n: i32| ItemBody {
            agent: Some(format!("agent{}", n % 3).into()),
            ..keyed(&format!("k{n}"), &format!("words {n}"))
        };
        f.append(&ann, &turn, n.map(body).collect()).await.unwrap();
        let answered = finalize(session, turn.turn_id, Some("answer"));
        let turn = f.write_turn(&ann, answered).await.unwrap();
        let replaces = replacement(&ann, session, "again", turn.turn_id, "better");
        f.write_turn(&ann, replaces).await.unwrap();
    }
    f.write_redaction(&ann, redact_items("s", &[(2, 4), (100, 120)]))
        .await
        .unwrap();
    let turn = f.complete_turn(&ann, "t", "hush", "a").await;
    f.redact_turn(&ann, &turn).await.unwrap();
    for (request, end) in [("f", true), ("c", false)] {
        let turn = f.start(&ann, "t", request).await;
        let end = match end {
            true => fail("t", turn.turn_id, "no"),
            false => cancel("t", turn.turn_id),
        };
        f.write_turn(&ann, end).await.unwrap();
    }
    f.complete_turn(&ann, "gone", "r", "a").await;
    f.erase(&ann, "gone").await.unwrap();
    f.complete_turn(&who, "linked", "r", "a").await;
    f.write_session(&who, link("linked", "ann")).await.unwrap();
    let secret = with_secret(f, &who, "secret");
    f.complete_turn(&secret, "secret", "r", "a").await;
    f.write_session(&ann, patch("s", title("a title")))
        .await
        .unwrap();
    let merged = patch("s", metadata(r#"{"a":1.0,"b":"\u0000"}"#));
    f.write_session(&ann, merged).await.unwrap();
    f.write_session(&ann, close_session("t", Some("enough")))
        .await
        .unwrap();
    for n in 0..5 {
        let mut new_event = event("s", &format!("e{n}"), "kind");
        new_event.detail = Some(json(r#"{"n":1.50}"#));
        f.record(&ann, new_event).await.unwrap();
    }
    for (name, version) in [("n", 0), ("n", 1), ("m", 0)] {
        f.ledger.put_note(name, version, vec![7]).await.unwrap();
    }
    // These items follow the redaction.
    for seq in 11..=14 {
        let state = format!(r#"{{"n":{seq}.0}}"#);
        let write = checkpoint("t", Some(seq), Some("WAIT"), &state);
        f.write_checkpoint(&ann, write).await.unwrap();
    }
    f.acquire_lease(&secret, "secret", "somebody").await;
    let open = f.start(&ann, "open", "r").await;
    let stream = drafts::stream(1);
    for n in 0..4 {
        let deltas = vec![drafts::delta(n, true, "growing")];
        let write = drafts::put("open", open.turn_id, stream, n, deltas);
        f.write(&ann, write).await.unwrap();
    }
    f.create(&operator("u"), "s").await.unwrap();
    f.complete_turn(&operator("u"), "large", "r", &"x".repeat(100_000))
        .await;
}

#[test]
fn every_row_is_copied() {
    let pair = Pair::new();
    let f = fixture_at(&pair.source(), keyring());
    block_on(fill(&f));
    let at = f.ledger.position();
    // The source stays open during the copy.
    let progress = Progress::default();
    let copied = run(
        &pair.source(),
        copy_target(&pair.target()),
        progress.clone(),
    )
    .unwrap();
    assert_eq!(copied.position, at);
    assert_eq!(copied.source.verdict(), Verdict::Intact);
    assert_eq!(copied.copy, copied.source);
    assert!(copied.copy.items > 400 && copied.copy.events == 5 && copied.copy.notes == 2);
    assert_eq!(copied.copy.checkpoints, 3);
    assert!(!copied.resumed && copied.left_out.is_empty());
    assert_ne!(copied.store_id, f.ledger.store_id());
    let anchors = progress.anchors.lock().unwrap().clone();
    assert_eq!(anchors, [(copied.store_id.clone(), at)]);
    let steps = progress.steps.lock().unwrap();
    for stage in [
        CopyStage::Source,
        CopyStage::Commits,
        CopyStage::Sessions,
        CopyStage::Copy,
    ] {
        assert!(steps.iter().any(|s| s.0 == stage), "{stage:?}");
    }
    pair.assert_equal();
    // Both stores continue independently.
    let g = fixture_at(&pair.target(), keyring());
    assert_eq!(g.ledger.store_id(), copied.store_id);
    block_on(async {
        g.assert_intact().await;
        let ann = user("ann");
        for store in [&f, &g] {
            let again = fixture::start(&ann, "s", "r", "r");
            let write = filrouge_store::command::Write::Start(Arc::new(again));
            let outcome = format!("{:?}", store.write(&ann, write).await.unwrap());
            assert!(outcome.contains("replayed: true"), "{outcome}");
            store.create(&ann, "next").await.unwrap();
            store.complete_turn(&ann, "s", "next", "a").await;
            store.assert_intact().await;
        }
        let items = f.items(&ann, "t", 50).await;
        assert_eq!(g.items(&ann, "t", 50).await, items);
        f.ledger.close().await;
        g.ledger.close().await;
    });
    let rows = |path: &Path| dump(path)["sqlite_sequence"].clone();
    assert_eq!(rows(&pair.source()), rows(&pair.target()));
}

#[test]
fn an_empty_store_is_copied_into_an_empty_target() {
    let pair = Pair::new();
    drop(fixture_at(&pair.source(), keyring()));
    drop(fixture_at(&pair.target(), keyring()));
    let id = store_id(&pair.target());
    let copied = pair.copy().unwrap();
    assert_eq!(copied.position.commit_no, 0);
    assert_eq!(copied.store_id, id, "an existing store keeps its id");
    pair.assert_equal();
    let f = fixture_at(&pair.target(), keyring());
    block_on(async {
        f.complete_turn(&anyone(), "s", "r", "a").await;
        f.assert_intact().await;
        f.ledger.close().await;
    });
}

fn store_id(path: &Path) -> String {
    let conn = Connection::open(path).unwrap();
    let sql = "SELECT value FROM store WHERE name = 'store_id'";
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Commits that the source makes during the copy are not copied.
#[test]
fn a_copy_is_one_snapshot_of_its_source() {
    /// A copy target that writes to the source before each step: the inner target, the source, the number of writes.
    struct Busy(Box<dyn CopyTarget>, Arc<dyn Ledger>, Arc<Mutex<u64>>);
    impl Busy {
        fn write(&self) {
            let mut n = self.2.lock().unwrap();
            *n += 1;
            let who = anyone();
            let start = fixture::start(&who, &format!("s{}", *n % 4), &format!("live{n}"), "q");
            let write = filrouge_store::command::Write::Start(Arc::new(start));
            let ledger = self.1.clone();
            let written = std::thread::spawn(move || {
                block_on(async { ledger.write(fixture::cmd(&who, write)).await })
            });
            written.join().unwrap().unwrap();
        }
    }
    impl CopyTarget for Busy {
        fn contents(&mut self) -> Result<TargetContents, Failure> {
            self.write();
            self.0.contents()
        }
        fn begin(&mut self, source: &str) -> Result<StartedCopy, Failure> {
            self.write();
            self.0.begin(source)
        }
        fn with_view(
            &mut self,
            query: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
        ) -> Result<(), Failure> {
            self.0.with_view(query)
        }
        fn put(&mut self, rows: &[CopyRow]) -> Result<(), Failure> {
            self.write();
            self.0.put(rows)
        }
        fn finish(&mut self, newest: SessionPk) -> Result<(), Failure> {
            self.write();
            self.0.finish(newest)
        }
    }
    let pair = Pair::new();
    let f = fixture_at(&pair.source(), keyring());
    block_on(async {
        for n in 0..4 {
            f.complete_turn(&anyone(), &format!("s{n}"), "r", "a").await;
        }
    });
    let before = (f.ledger.position(), dump(&pair.source()));
    let written = Arc::new(Mutex::new(0));
    let busy = Busy(
        copy_target(&pair.target()),
        f.ledger.clone(),
        written.clone(),
    );
    let copied = run(&pair.source(), Box::new(busy), Progress::default()).unwrap();
    assert!(*written.lock().unwrap() >= 5);
    assert_eq!(copied.position, before.0);
    assert!(f.ledger.position().commit_no > before.0.commit_no);
    assert_eq!(dump(&pair.target()), before.1);
    block_on(async {
        f.assert_intact().await;
        f.ledger.close().await;
    });
}

/// Neither reading nor closing changes the source, even when a killed server has left a WAL.
#[test]
fn the_source_is_not_changed() {
    let pair = Pair::new();
    let live = pair.0.path().join("live.db");
    let f = fixture_at(&live, keyring());
    block_on(fill(&f));
    let wal = |path: &Path| path.with_extension("db-wal");
    for with_wal in [true, false] {
        if !with_wal {
            block_on(f.ledger.close());
            fs::remove_file(wal(&pair.source())).unwrap();
            fs::remove_file(pair.target()).unwrap();
        } else {
            fs::copy(wal(&live), wal(&pair.source())).unwrap();
        }
        fs::copy(&live, pair.source()).unwrap();
        let before = files(&pair.source());
        assert_eq!(before.len(), if with_wal { 2 } else { 1 });
        pair.copy().unwrap();
        assert_eq!(files(&pair.source()), before);
        let g = fixture_at(&pair.target(), keyring());
        block_on(async {
            g.assert_intact().await;
            assert_eq!(g.ledger.position(), f.ledger.position());
            g.ledger.close().await;
        });
    }
}

/// A transaction of the copy contains at most one page of rows, however large the session is.
#[test]
fn large_sessions_are_copied_in_pieces() {
    let pair = Pair::new();
    let f = fixture_at(&pair.source(), keyring());
    block_on(async {
        let turn = f.start(&anyone(), "s", "r").await;
        for n in 0..12 {
            // Random text, which cannot be compressed.
            let mut bytes = vec![0; 1_200_000];
            filrouge_store::Entropy::fill(&OsEntropy, &mut bytes).unwrap();
            let text: String = bytes.iter().map(|b| char::from(b'0' + b % 64)).collect();
            let thought = item(Channel::Thought, &format!("{n} {text}"));
            f.append(&anyone(), &turn, vec![thought]).await.unwrap();
        }
        f.ledger.close().await;
    });
    let mut failing_target = FailingTarget {
        copy_target: copy_target(&pair.target()),
        rows: usize::MAX,
        writes_left: usize::MAX,
        largest: Arc::default(),
    };
    failing_target.rows = 100_000;
    let largest = failing_target.largest.clone();
    run(
        &pair.source(),
        Box::new(failing_target),
        Progress::default(),
    )
    .unwrap();
    let largest = *largest.lock().unwrap();
    assert!(
        largest >= RECORDS_BYTES / 2,
        "the session is too small: {largest}"
    );
    assert!(largest < 2 * RECORDS_BYTES, "{largest}");
    pair.assert_equal();
}

/// The copy does not reuse the numbers of deleted sessions, as the source would not.
#[test]
fn session_numbers_are_not_reused() {
    let pair = Pair::new();
    let f = fixture_at(&pair.source(), keyring());
    block_on(async {
        play(&f, &[(0, 0, 0, 0, 0), (0, 0, 1, 0, 0), (0, 0, 2, 0, 0)], "").await;
        f.ledger.close().await;
    });
    let conn = Connection::open(pair.source()).unwrap();
    conn.execute_batch("DELETE FROM head WHERE pk = 3; DELETE FROM session WHERE pk = 3")
        .unwrap();
    drop(conn);
    let copied = pair.copy().unwrap();
    assert_eq!(copied.source.verdict(), Verdict::Broken);
    pair.assert_equal();
}
