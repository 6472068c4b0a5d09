//! Writes that the ledger refuses permanently or for a while: the tests check their handling, and that of all other writes.

use std::time::Duration;

use filrouge_types::ErrorCode;

use super::world::{LinkState, SpoolProcess, SpoolWorld, expected_texts, operator, sid};
use crate::caller::Caller;
use crate::spool::Letters;

fn letters(world: &SpoolWorld) -> Letters {
    let entropy = std::sync::Arc::new(filrouge_store::OsEntropy);
    Letters::new(world.folder.path(), world.keyring.clone(), "store", entropy)
}

fn poison(process: &SpoolProcess, s: &str, code: ErrorCode) {
    *process.link.poison.lock().unwrap() = Some((sid(s), code));
}

#[tokio::test]
async fn a_session_whose_writes_are_refused_blocks_no_other() {
    for code in [ErrorCode::StoreUnavailable, ErrorCode::StoreFull] {
        let world = SpoolWorld::new();
        let process = world.process();
        let sessions: Vec<_> = (0..20).map(|n| sid(&format!("s{n}"))).collect();
        for s in &sessions {
            process.webhook(s, 0).await.unwrap();
        }
        process.link.set(LinkState::Down);
        for s in &sessions {
            process.webhook(s, 1).await.unwrap();
        }
        poison(&process, "s7", code);
        process.link.set(LinkState::Up);
        process.until(|view| view.sessions == 1).await;
        process.until(|view| view.down.is_none()).await;
        for s in sessions.iter().filter(|s| s.as_str() != "s7") {
            assert_eq!(world.texts(s).await, expected_texts(0..2), "{code}");
        }
        assert_eq!(process.spool.view().dead_letters, 0);
        // Writes of other sessions that are queued in the meantime are drained.
        process.link.set(LinkState::Down);
        process.webhook(&sessions[3], 2).await.unwrap();
        process.link.set(LinkState::Up);
        process.until(|view| view.sessions == 1).await;
        *process.link.poison.lock().unwrap() = None;
        process.drained().await;
        assert_eq!(
            world.texts(&sid("s7")).await,
            expected_texts(0..2),
            "{code}"
        );
    }
}

#[tokio::test]
async fn a_write_without_an_answer_blocks_no_other_session() {
    let world = SpoolWorld::new();
    let process = world.process();
    let sessions = ["a", "b", "c"].map(sid);
    for s in &sessions {
        process.webhook(s, 0).await.unwrap();
    }
    process.link.set(LinkState::Down);
    for s in &sessions {
        process.webhook(s, 1).await.unwrap();
    }
    // It is undetermined which session's write this hits.
    let never = (Duration::from_secs(3_600), ErrorCode::StoreUnavailable);
    *process.link.late.lock().unwrap() = Some(never);
    process.link.set(LinkState::Up);
    process.requested(1).await;
    process.until(|view| view.sessions == 1).await;
    process.until(|view| view.down.is_none()).await;
    let mut drained = 0;
    for s in &sessions {
        drained += usize::from(world.texts(s).await == expected_texts(0..2));
    }
    assert_eq!(drained, 2);
}

#[tokio::test]
async fn a_permanent_failure_makes_a_dead_letter() {
    let codes = [
        ErrorCode::IntegrityError,
        ErrorCode::KeyMissing,
        ErrorCode::Internal,
    ];
    for code in codes {
        let (world, s) = (SpoolWorld::new(), sid("s"));
        let process = world.process();
        let fence = process.resume(&s, "h").await.unwrap().fence;
        process.link.set(LinkState::Down);
        process.start(&s, "r1", fence).await.unwrap();
        process.append(&s, "r1", "x", fence).await.unwrap();
        poison(&process, "s", code);
        let before = process
            .link
            .requested_writes
            .load(std::sync::atomic::Ordering::SeqCst);
        process.link.set(LinkState::Up);
        process.drained().await;
        let after = process
            .link
            .requested_writes
            .load(std::sync::atomic::Ordering::SeqCst);
        let view = process.spool.view();
        assert_eq!((view.dead_letters, view.down), (2, None), "{code}");
        if code == ErrorCode::Internal {
            assert!(after - before >= 10, "each is tried five times");
        }
        let lines = letters(&world).list(false).unwrap();
        let is_so = |code| lines.iter().all(|l| l.code.as_deref() == Some(code));
        assert!(lines.len() == 2 && is_so(code.as_str()), "{lines:?}");
    }
}

#[tokio::test]
async fn erasing_a_session_deletes_its_queued_writes() {
    for code in [ErrorCode::StoreFull, ErrorCode::StoreUnavailable] {
        erase_queued_session(code).await;
    }
}

async fn erase_queued_session(code: ErrorCode) {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    process.webhook(&s, 0).await.unwrap();
    process.link.set(LinkState::Down);
    process.webhook(&s, 1).await.unwrap();
    let boss = Caller::from(&operator());
    let erase = || process.engine.erasure.erase(&boss, s.clone());
    let refused = erase().await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable);
    poison(&process, "s", code);
    process.link.set(LinkState::Up);
    process.requested(2).await;
    erase().await.unwrap();
    assert_eq!(process.spool.view().entries, 0);
    let found = super::super::folder::folders(&world.folder.path().join("store")).unwrap();
    for folder in found {
        for name in ["queue", "dead"] {
            let bytes = std::fs::read(folder.join(name)).unwrap();
            assert!(!bytes.windows(6).any(|w| w == b"r1 saw"), "{name}");
        }
    }
}

#[tokio::test]
async fn a_late_refusal_of_the_first_try_does_not_count() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    process.webhook(&s, 0).await.unwrap();
    let fence = process.resume(&s, "h").await.unwrap().fence;
    let late = (Duration::from_millis(300), ErrorCode::LeaseExpired);
    *process.link.late.lock().unwrap() = Some(late);
    process.start(&s, "r1", fence).await.unwrap();
    process.drained().await;
    let view = process.spool.view();
    assert_eq!((view.counts.spooled, view.dead_letters), (1, 0));
    let texts = world.texts(&s).await;
    assert_eq!(texts.last().map(String::as_str), Some("r1 ask"));
}

#[tokio::test]
async fn an_overtaken_process_loses_nothing_on_a_full_disk() {
    for dead in [true, false] {
        let (world, s) = (SpoolWorld::new(), sid("s"));
        let (first, second) = (world.process(), world.process_with(world.options(), 2));
        first.webhook(&s, 0).await.unwrap();
        first.link.set(LinkState::Down);
        first.webhook(&s, 1).await.unwrap();
        let waits = first.spool.view().entries;
        second.webhook(&s, 2).await.unwrap();
        let folder = |change: &dyn Fn(&mut super::super::folder::Folder)| {
            change(first.spool.core.files().own().unwrap());
        };
        folder(&|folder| folder.fill(dead));
        first.link.set(LinkState::Up);
        first.requested(3).await;
        assert_eq!(first.spool.view().entries, waits);
        folder(&|folder| folder.unfill());
        first.drained().await;
        assert_eq!(first.spool.view().dead_letters, 4);
        let lines = letters(&world).list(false).unwrap();
        assert_eq!(
            lines.len(),
            4,
            "each write becomes one dead letter: {lines:?}"
        );
        let expected = expected_texts(0..1).into_iter().chain(expected_texts(2..3));
        assert_eq!(world.texts(&s).await, expected.collect::<Vec<_>>());
    }
}
