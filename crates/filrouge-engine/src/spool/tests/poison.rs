//! Writes that the ledger never takes, or not yet: what becomes of them, and of all others.

use std::time::Duration;

use filrouge_types::ErrorCode;

use super::world::{Process, Way, World, operator, sid, told};
use crate::caller::Caller;
use crate::spool::Letters;

fn letters(world: &World) -> Letters {
    let entropy = std::sync::Arc::new(filrouge_store::OsEntropy);
    Letters::new(world.folder.path(), world.keyring.clone(), "store", entropy)
}

fn poison(process: &Process, s: &str, code: ErrorCode) {
    *process.link.poison.lock().unwrap() = Some((sid(s), code));
}

#[tokio::test]
async fn a_session_that_is_not_taken_holds_up_no_other() {
    for code in [ErrorCode::StoreUnavailable, ErrorCode::StoreFull] {
        let world = World::new();
        let process = world.process();
        let sessions: Vec<_> = (0..20).map(|n| sid(&format!("s{n}"))).collect();
        for s in &sessions {
            process.webhook(s, 0).await.unwrap();
        }
        process.link.set(Way::Down);
        for s in &sessions {
            process.webhook(s, 1).await.unwrap();
        }
        poison(&process, "s7", code);
        process.link.set(Way::Up);
        process.until(|view| view.sessions == 1).await;
        process.until(|view| view.down.is_none()).await;
        for s in sessions.iter().filter(|s| s.as_str() != "s7") {
            assert_eq!(world.texts(s).await, told(0..2), "{code}");
        }
        assert_eq!(process.spool.view().dead_letters, 0);
        // Others that are queued meanwhile are drained.
        process.link.set(Way::Down);
        process.webhook(&sessions[3], 2).await.unwrap();
        process.link.set(Way::Up);
        process.until(|view| view.sessions == 1).await;
        *process.link.poison.lock().unwrap() = None;
        process.drained().await;
        assert_eq!(world.texts(&sid("s7")).await, told(0..2), "{code}");
    }
}

#[tokio::test]
async fn a_write_without_an_answer_holds_up_no_other_session() {
    let world = World::new();
    let process = world.process();
    let sessions = ["a", "b", "c"].map(sid);
    for s in &sessions {
        process.webhook(s, 0).await.unwrap();
    }
    process.link.set(Way::Down);
    for s in &sessions {
        process.webhook(s, 1).await.unwrap();
    }
    // Whose write it is goes by chance.
    let never = (Duration::from_secs(3_600), ErrorCode::StoreUnavailable);
    *process.link.late.lock().unwrap() = Some(never);
    process.link.set(Way::Up);
    process.asked(1).await;
    process.until(|view| view.sessions == 1).await;
    process.until(|view| view.down.is_none()).await;
    let mut drained = 0;
    for s in &sessions {
        drained += usize::from(world.texts(s).await == told(0..2));
    }
    assert_eq!(drained, 2);
}

#[tokio::test]
async fn what_fails_for_good_is_a_dead_letter() {
    let codes = [
        ErrorCode::IntegrityError,
        ErrorCode::KeyMissing,
        ErrorCode::Internal,
    ];
    for code in codes {
        let (world, s) = (World::new(), sid("s"));
        let process = world.process();
        let fence = process.resume(&s, "h").await.unwrap().fence;
        process.link.set(Way::Down);
        process.start(&s, "r1", fence).await.unwrap();
        process.append(&s, "r1", "x", fence).await.unwrap();
        poison(&process, "s", code);
        let before = process.link.asked.load(std::sync::atomic::Ordering::SeqCst);
        process.link.set(Way::Up);
        process.drained().await;
        let after = process.link.asked.load(std::sync::atomic::Ordering::SeqCst);
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
async fn erasing_a_session_takes_what_waits_of_it() {
    for code in [ErrorCode::StoreFull, ErrorCode::StoreUnavailable] {
        erased(code).await;
    }
}

async fn erased(code: ErrorCode) {
    let (world, s) = (World::new(), sid("s"));
    let process = world.process();
    process.webhook(&s, 0).await.unwrap();
    process.link.set(Way::Down);
    process.webhook(&s, 1).await.unwrap();
    let boss = Caller::from(&operator());
    let erase = || process.engine.erasure.erase(&boss, s.clone());
    let refused = erase().await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable);
    poison(&process, "s", code);
    process.link.set(Way::Up);
    process.asked(2).await;
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
async fn a_late_refusal_of_the_first_try_is_no_verdict() {
    let (world, s) = (World::new(), sid("s"));
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
async fn who_is_overtaken_on_a_full_disk_loses_nothing() {
    for dead in [true, false] {
        let (world, s) = (World::new(), sid("s"));
        let (first, second) = (world.process(), world.process_with(world.options(), 2));
        first.webhook(&s, 0).await.unwrap();
        first.link.set(Way::Down);
        first.webhook(&s, 1).await.unwrap();
        let waits = first.spool.view().entries;
        second.webhook(&s, 2).await.unwrap();
        let folder = |change: &dyn Fn(&mut super::super::folder::Folder)| {
            change(first.spool.core.files().own().unwrap());
        };
        folder(&|folder| folder.fill(dead));
        first.link.set(Way::Up);
        first.asked(3).await;
        assert_eq!(first.spool.view().entries, waits);
        folder(&|folder| folder.unfill());
        first.drained().await;
        assert_eq!(first.spool.view().dead_letters, 4);
        let lines = letters(&world).list(false).unwrap();
        assert_eq!(lines.len(), 4, "each once: {lines:?}");
        let told = told(0..1).into_iter().chain(told(2..3));
        assert_eq!(world.texts(&s).await, told.collect::<Vec<_>>());
    }
}
