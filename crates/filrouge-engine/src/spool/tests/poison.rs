//! Writes that the ledger refuses, for a while or permanently, and their effect on all other writes.

use std::time::Duration;

use filrouge_store::Durability;
use filrouge_types::{ErrorCode, JsonText};

use super::world::{
    ConnectionState, SpoolProcess, SpoolWorld, expected_texts, operator, sid, user,
};
use crate::StartTurn;
use crate::caller::Caller;
use crate::spool::SpoolAdmin;

fn spool_admin(world: &SpoolWorld) -> SpoolAdmin {
    let entropy = std::sync::Arc::new(filrouge_store::OsEntropy);
    SpoolAdmin::new(world.folder.path(), world.keyring.clone(), "store", entropy)
}

/// Makes the ledger refuse all writes of a session.
fn refuse_writes(process: &SpoolProcess, s: &str, code: ErrorCode) {
    *process.connection.refused_session.lock().unwrap() = Some((sid(s), code));
}

#[tokio::test]
async fn a_session_whose_writes_are_refused_does_not_block_others() {
    for code in [ErrorCode::StoreUnavailable, ErrorCode::StoreFull] {
        let world = SpoolWorld::new();
        let process = world.process();
        let sessions: Vec<_> = (0..20).map(|n| sid(&format!("s{n}"))).collect();
        for s in &sessions {
            process.webhook(s, 0).await.unwrap();
        }
        process.connection.set(ConnectionState::Down);
        for s in &sessions {
            process.webhook(s, 1).await.unwrap();
        }
        refuse_writes(&process, "s7", code);
        process.connection.set(ConnectionState::Up);
        process.wait_until(|view| view.sessions == 1).await;
        process.wait_until(|view| view.down.is_none()).await;
        for s in sessions.iter().filter(|s| s.as_str() != "s7") {
            assert_eq!(world.texts(s).await, expected_texts(0..2), "{code}");
        }
        assert_eq!(process.spool.view().dead_letters, 0);
        // Writes of other sessions that are queued in the meantime are drained.
        process.connection.set(ConnectionState::Down);
        process.webhook(&sessions[3], 2).await.unwrap();
        process.connection.set(ConnectionState::Up);
        process.wait_until(|view| view.sessions == 1).await;
        *process.connection.refused_session.lock().unwrap() = None;
        process.wait_until_drained().await;
        assert_eq!(
            world.texts(&sid("s7")).await,
            expected_texts(0..2),
            "{code}"
        );
    }
}

#[tokio::test]
async fn a_write_without_an_answer_does_not_block_other_sessions() {
    let world = SpoolWorld::new();
    let process = world.process();
    let sessions = ["a", "b", "c"].map(sid);
    for s in &sessions {
        process.webhook(s, 0).await.unwrap();
    }
    process.connection.set(ConnectionState::Down);
    for s in &sessions {
        process.webhook(s, 1).await.unwrap();
    }
    // The first write that is drained gets no answer; it may be that of any session.
    let no_answer = (Duration::from_secs(3_600), ErrorCode::StoreUnavailable);
    *process.connection.late_refusal.lock().unwrap() = Some(no_answer);
    process.connection.set(ConnectionState::Up);
    process.wait_for_writes(1).await;
    process.wait_until(|view| view.sessions == 1).await;
    process.wait_until(|view| view.down.is_none()).await;
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
        process.connection.set(ConnectionState::Down);
        process.start(&s, "r1", fence).await.unwrap();
        process.append(&s, "r1", "x", fence).await.unwrap();
        refuse_writes(&process, "s", code);
        let before = process
            .connection
            .requested_writes
            .load(std::sync::atomic::Ordering::SeqCst);
        process.connection.set(ConnectionState::Up);
        process.wait_until_drained().await;
        let after = process
            .connection
            .requested_writes
            .load(std::sync::atomic::Ordering::SeqCst);
        let view = process.spool.view();
        assert_eq!((view.dead_letters, view.down), (2, None), "{code}");
        if code == ErrorCode::Internal {
            assert!(after - before >= 10, "each write is tried five times");
        }
        let lines = spool_admin(&world).list(false).unwrap();
        let all_have = |code| lines.iter().all(|l| l.code.as_deref() == Some(code));
        assert!(lines.len() == 2 && all_have(code.as_str()), "{lines:?}");
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
    process.connection.set(ConnectionState::Down);
    process.webhook(&s, 1).await.unwrap();
    let caller = Caller::from(&operator());
    let erase = || process.engine.erasure.erase(&caller, s.clone());
    let refused = erase().await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable);
    refuse_writes(&process, "s", code);
    process.connection.set(ConnectionState::Up);
    process.wait_for_writes(2).await;
    erase().await.unwrap();
    assert_eq!(process.spool.view().entries, 0);
    let folders = super::super::folder::folders(&world.folder.path().join("store")).unwrap();
    for folder in folders {
        for name in ["queue", "dead"] {
            let bytes = std::fs::read(folder.join(name)).unwrap();
            assert!(!bytes.windows(6).any(|w| w == b"r1 saw"), "{name}");
        }
    }
}

#[tokio::test]
async fn a_late_refusal_of_the_first_attempt_is_ignored() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    process.webhook(&s, 0).await.unwrap();
    let fence = process.resume(&s, "h").await.unwrap().fence;
    let late_refusal = (Duration::from_millis(300), ErrorCode::LeaseExpired);
    *process.connection.late_refusal.lock().unwrap() = Some(late_refusal);
    process.start(&s, "r1", fence).await.unwrap();
    process.wait_until_drained().await;
    let view = process.spool.view();
    assert_eq!((view.counts.spooled, view.dead_letters), (1, 0));
    let texts = world.texts(&s).await;
    assert_eq!(texts.last().map(String::as_str), Some("r1 ask"));
}

#[tokio::test]
async fn a_process_whose_lease_was_lost_loses_no_write_on_a_full_disk() {
    for dead in [true, false] {
        let (world, s) = (SpoolWorld::new(), sid("s"));
        let (first, second) = (world.process(), world.process_with(world.options(), 2));
        first.webhook(&s, 0).await.unwrap();
        first.connection.set(ConnectionState::Down);
        first.webhook(&s, 1).await.unwrap();
        let queued = first.spool.view().entries;
        second.webhook(&s, 2).await.unwrap();
        let change_folder = |change: &dyn Fn(&mut super::super::folder::Folder)| {
            change(first.spool.core.files().own_folder().unwrap());
        };
        change_folder(&|folder| folder.simulate_full_disk(dead));
        first.connection.set(ConnectionState::Up);
        first.wait_for_writes(3).await;
        assert_eq!(first.spool.view().entries, queued);
        change_folder(&|folder| folder.end_full_disk());
        first.wait_until_drained().await;
        assert_eq!(first.spool.view().dead_letters, 4);
        let lines = spool_admin(&world).list(false).unwrap();
        assert_eq!(
            lines.len(),
            4,
            "each write becomes one dead letter: {lines:?}"
        );
        let expected = expected_texts(0..1).into_iter().chain(expected_texts(2..3));
        assert_eq!(world.texts(&s).await, expected.collect::<Vec<_>>());
    }
}

/// The spool cannot know the session's newest seq, so the ledger compares it in the drain.
#[tokio::test]
async fn a_queued_start_is_written_only_if_the_session_has_the_expected_seq() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    process.webhook(&s, 0).await.unwrap();
    let fence = process.resume(&s, "h").await.unwrap().fence;
    process.connection.set(ConnectionState::Down);
    for (request, expected) in [("stale", 2), ("r1", 3)] {
        let start = StartTurn {
            question_neutral: Some(JsonText::from_plain(request)),
            expected_seq: Some(expected),
            fence: Some(fence),
            ..StartTurn::new(request.parse().unwrap())
        };
        let turns = &process.engine.turns;
        let ada = Caller::from(&user("ada"));
        let started = turns.start(&ada, s.clone(), start);
        assert_eq!(started.await.unwrap().durability, Durability::Spooled);
    }
    process.connection.set(ConnectionState::Up);
    process.wait_until_drained().await;
    let expected = ["r0 ask", "r0 saw", "r0 said", "r1"];
    assert_eq!(world.texts(&s).await, expected);
    let dead = spool_admin(&world).list(true).unwrap();
    let codes: Vec<_> = dead.iter().map(|line| line.code.as_deref()).collect();
    assert_eq!(codes, [Some("seq_conflict")]);
}
