//! Copies without interruptions.

use std::sync::Arc;

use filrouge_store::contract::fixture::{
    Fixture, anyone, cancel, fail, finalize, item, keyed, operator, redact_items, replacement, user,
};
use filrouge_store::contract::live_writes::checkpoint;
use filrouge_store::contract::session_writes::{
    close_session, event, json, link, metadata, patch, title, with_secret,
};
use filrouge_store::contract::{drafts, fixture};
use filrouge_store::read::ChangeKind;
use filrouge_store::verify::{Verdict, VerificationReport};
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
    assert_eq!(copied.copy.verdict(), Verdict::Intact);
    assert_eq!(counts(&copied.copy), counts(&copied.source));
    assert!(copied.copy.items > 400 && copied.copy.events == 5 && copied.copy.notes == 2);
    assert_eq!(copied.copy.checkpoints, 3);
    assert!(!copied.resumed && copied.left_out.is_empty());
    assert_ne!(copied.store_id, f.ledger.store_id());
    let steps = progress.steps.lock().unwrap();
    for stage in [CopyStage::Sessions, CopyStage::Commits, CopyStage::Copy] {
        let in_stage = steps.iter().filter(|step| step.0 == stage);
        assert!(in_stage.count() >= 8, "{stage:?}");
    }
    pair.assert_equal();
    // Both stores continue independently.
    let g = fixture_at(&pair.target(), keyring());
    assert_eq!(g.ledger.store_id(), copied.store_id);
    let anchors = progress.anchors.lock().unwrap().clone();
    assert_eq!(anchors, [(copied.store_id.clone(), g.ledger.position())]);
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
}

/// The counts of a report, except commits.
fn counts(report: &VerificationReport) -> [u64; 6] {
    let VerificationReport {
        sessions,
        turns,
        items,
        events,
        checkpoints,
        notes,
        ..
    } = *report;
    [sessions, turns, items, events, checkpoints, notes]
}

/// The feed names each session once with all its items, then each of its events, and the erasure of an erased one.
#[test]
fn the_change_feed_of_a_copy_begins_with_its_sessions() {
    let pair = Pair::new();
    let f = fixture_at(&pair.source(), keyring());
    block_on(fill(&f));
    pair.copy().unwrap();
    let g = fixture_at(&pair.target(), keyring());
    block_on(async {
        let feed = g.feed(&operator("t"), 3).await;
        let of_kind = |kind: ChangeKind| feed.iter().filter(move |change| change.kind == kind);
        assert_eq!(of_kind(ChangeKind::Created).count(), 6);
        for change in of_kind(ChangeKind::Created) {
            let id = change.session_id.as_str();
            let items = match id {
                "gone" => None,
                _ => Some(f.last_seq(&operator("t"), id).await),
            };
            assert_eq!(change.last_seq, items, "{id}");
            assert_eq!(change.first_seq, items.map(|_| 1), "{id}");
        }
        let ids = |kind: ChangeKind| -> Vec<&str> {
            of_kind(kind).map(|c| c.session_id.as_str()).collect()
        };
        assert_eq!(ids(ChangeKind::Event), ["s"; 5]);
        assert_eq!(ids(ChangeKind::Erased), ["gone"]);
        assert_eq!(feed.len(), 12);
        f.ledger.close().await;
        g.ledger.close().await;
    });
}

/// The observer decides what a note contains in the copy. It gets the end of the copy's log.
#[test]
fn notes_are_copied_as_the_observer_says() {
    let pair = Pair::new();
    let f = fixture_at(&pair.source(), keyring());
    block_on(async {
        f.complete_turn(&anyone(), "s", "r", "a").await;
        for (name, version) in [("kept", 0), ("kept", 1), ("left out", 0)] {
            let put = f.ledger.put_note(name, version, vec![7]).await;
            assert!(put.unwrap());
        }
    });
    let progress = Progress::default();
    let ends = progress.ends.clone();
    let copied = run(&pair.source(), copy_target(&pair.target()), progress).unwrap();
    assert_eq!((copied.source.notes, copied.copy.notes), (2, 1));
    let g = fixture_at(&pair.target(), keyring());
    block_on(async {
        g.assert_intact().await;
        let kept = f.ledger.note("kept").await.unwrap();
        assert_eq!(g.ledger.note("kept").await.unwrap(), kept);
        assert_eq!(g.ledger.note("left out").await.unwrap(), None);
        f.ledger.close().await;
        g.ledger.close().await;
    });
    // The only later commit has the notes.
    let ends = ends.lock().unwrap();
    let counts: Vec<u64> = ends.iter().map(Position::commit_count).collect();
    assert_eq!(counts, [g.ledger.position().commit_count() - 1; 2]);
}

#[test]
fn an_empty_store_is_copied_into_an_empty_target() {
    let pair = Pair::new();
    drop(fixture_at(&pair.source(), keyring()));
    drop(fixture_at(&pair.target(), keyring()));
    let id = store_id(&pair.target());
    let copied = pair.copy().unwrap();
    assert_eq!(copied.position.commit_count(), 0);
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
        fn write_to_source(&self) {
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
            self.write_to_source();
            self.0.contents()
        }
        fn begin(&mut self, source: &str) -> Result<StartedCopy, Failure> {
            self.write_to_source();
            self.0.begin(source)
        }
        fn with_view(
            &mut self,
            query: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
        ) -> Result<(), Failure> {
            self.0.with_view(query)
        }
        fn write(&mut self, work: CopyWrites<'_>) -> Result<(), Failure> {
            self.write_to_source();
            self.0.write(work)
        }
        fn finish(&mut self) -> Result<(), Failure> {
            self.write_to_source();
            self.0.finish()
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
    assert!(f.ledger.position().commit_count() > before.0.commit_count());
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
            g.ledger.close().await;
        });
    }
}

/// A transaction of the copy has few bytes, however large the session is.
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
    let counting = failing_target(&pair.target(), usize::MAX, usize::MAX);
    let writes = counting.writes.clone();
    run(&pair.source(), counting, Progress::default()).unwrap();
    // Two for the session, one for the log, and one that finishes the copy.
    assert!(*writes.lock().unwrap() >= 4, "{writes:?}");
    pair.assert_equal();
}
