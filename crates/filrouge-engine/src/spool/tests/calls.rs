//! Calls that continue while the ledger does not answer.

use filrouge_store::{Durability, Ledger};
use filrouge_types::{ErrorCode, SessionStatus, UNASSIGNED};

use super::super::SpoolOptions;
use super::world::{ConnectionState, SpoolWorld, expected_texts, operator, sid, user};
use crate::caller::Caller;
use crate::spool::{ListedState, SpoolAdmin};
use crate::{CloseSession, PatchSession, RedactTurn, StartTurn};

/// The checkpoints of a session as (seq, label), oldest first.
async fn checkpoints(process: &super::world::SpoolProcess, s: &str) -> Vec<(u64, String)> {
    let checkpoints = process
        .engine
        .calls
        .checkpoints(&Caller::from(&operator()), &sid(s))
        .await;
    let mut checkpoints: Vec<_> = checkpoints
        .unwrap()
        .into_iter()
        .map(|c| c.unwrap())
        .map(|c| (c.seq, c.label.unwrap().to_string()))
        .collect();
    checkpoints.sort();
    checkpoints
}

#[tokio::test]
async fn a_call_continues_while_the_ledger_does_not_answer() {
    for state in [
        ConnectionState::Down,
        ConnectionState::Hangs,
        ConnectionState::Lost,
    ] {
        let (world, s) = (SpoolWorld::new(), sid("s"));
        let process = world.process();
        let first = process.webhook(&s, 0).await.unwrap();
        assert_eq!(first.source, "memory");
        process.connection.set(state);
        let second = process.webhook(&s, 1).await.unwrap();
        assert_eq!(
            (second.source, second.fence),
            ("spool", first.fence + 1),
            "{state:?}"
        );
        let checkpoint = second.checkpoint.unwrap();
        assert_eq!((checkpoint.seq, second.last_seq), (2, 3));
        assert_eq!(checkpoint.label.as_deref(), Some("S0"));
        let third = process.webhook(&s, 2).await.unwrap();
        let checkpoint = third.checkpoint.unwrap();
        assert_eq!(
            (checkpoint.seq, checkpoint.label.as_deref()),
            (UNASSIGNED, Some("S1"))
        );
        let tail: Vec<_> = third.tail.iter().map(|item| item.seq).collect();
        assert_eq!(tail, [UNASSIGNED], "the answer after the checkpoint");
        let view = process.spool.view();
        assert!(
            view.down.is_some() && view.sessions == 1 && view.entries >= 8,
            "{view:?}"
        );

        process.connection.set(ConnectionState::Up);
        process.wait_until_drained().await;
        assert_eq!(world.texts(&s).await, expected_texts(0..3), "{state:?}");
        let labels = [(2, "S0"), (5, "S1"), (8, "S2")];
        let labels = labels.map(|(seq, label)| (seq, label.to_owned()));
        assert_eq!(checkpoints(&process, "s").await, labels, "{state:?}");
        let view = process.spool.view();
        assert_eq!((view.dead_letters, view.down), (0, None));
        let lease = process
            .engine
            .calls
            .lease(&Caller::from(&operator()), &s)
            .await
            .unwrap();
        assert_eq!(
            (lease.holder, lease.fence),
            (None, first.fence + 2),
            "{state:?}"
        );
        let last = process.webhook(&s, 3).await.unwrap();
        assert_eq!((last.source, last.fence), ("memory", first.fence + 3));
        assert_eq!(world.texts(&s).await, expected_texts(0..4));
        let ledger: &dyn Ledger = world.ledger.as_ref();
        let report = ledger.verify(None).await.unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
    }
}

#[tokio::test]
async fn a_queued_write_is_answered_as_spooled_and_has_no_seq() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    process.webhook(&s, 0).await.unwrap();
    process.connection.set(ConnectionState::Down);
    let fence = process.resume(&s, "h").await.unwrap().fence;
    let turn = process.start(&s, "r1", fence).await.unwrap();
    assert_eq!(turn.durability, Durability::Spooled);
    assert_eq!((turn.ordinal, turn.first_seq), (UNASSIGNED, UNASSIGNED));
    let json = serde_json::to_value(&turn.value).unwrap();
    assert!(json["first_seq"].is_null() && json["ordinal"].is_null());
    assert_eq!(json["question_neutral"], "r1 ask");
    assert_eq!(
        process.append(&s, "r1", "x", fence).await.unwrap(),
        UNASSIGNED
    );
    let retried = process.start(&s, "r1", fence).await.unwrap();
    assert!(retried.replayed, "the request is a retry");
    let ended = process.finalize(&s, "r1", fence).await.unwrap();
    assert_eq!(ended.answer_neutral.unwrap().to_plain(), "r1 said");
    let refused = process.append(&s, "r1", "late", fence).await.unwrap_err();
    assert_eq!(
        refused.code,
        ErrorCode::LeaseExpired,
        "the answer has released the lease"
    );
}

/// A lease lasts its time to live from the newest write, whether the ledger or the spool accepted that write.
#[tokio::test]
async fn writes_extend_a_lease_in_the_spool_too() {
    const SECOND: i64 = 1_000_000;
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    process.webhook(&s, 0).await.unwrap();
    let fence = process.resume(&s, "h").await.unwrap().fence;
    world.clock.advance(4 * SECOND);
    process.start(&s, "r1", fence).await.unwrap();
    process.connection.set(ConnectionState::Down);
    for n in 0..3 {
        world.clock.advance(4 * SECOND);
        let text = format!("r1 saw {n}");
        process.append(&s, "r1", &text, fence).await.unwrap();
    }
    world.clock.advance(5 * SECOND);
    let late = process.append(&s, "r1", "late", fence).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::LeaseExpired);
}

#[tokio::test]
async fn the_spool_grants_a_lease_to_one_holder_at_a_time() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    let lease = process.resume(&s, "a").await.unwrap();
    process.connection.set(ConnectionState::Down);
    let request = crate::ResumeSession {
        wait_ms: Some(1),
        ..crate::ResumeSession::new("b")
    };
    let refused = process
        .engine
        .calls
        .resume(&Caller::from(&user("ada")), &s, request)
        .await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, ErrorCode::LeaseTimeout);
    assert_eq!(refused.held.unwrap().holder.as_deref(), Some("a"));
    let stale = process.start(&s, "r", lease.fence - 1).await.unwrap_err();
    assert_eq!(stale.code, ErrorCode::StaleFence);
    // When the lease expires, another holder gets one with the next fence.
    world.clock.advance(60_000_000);
    let expired = process.start(&s, "r", lease.fence).await.unwrap_err();
    assert_eq!(expired.code, ErrorCode::LeaseExpired);
    let granted = process.resume(&s, "b").await.unwrap();
    assert_eq!(granted.fence, lease.fence + 1);
    let stale = process.start(&s, "r", lease.fence).await.unwrap_err();
    assert_eq!(stale.code, ErrorCode::StaleFence);
    process.start(&s, "r", granted.fence).await.unwrap();
    process.connection.set(ConnectionState::Up);
    process.wait_until_drained().await;
    let lease = process
        .engine
        .calls
        .lease(&Caller::from(&operator()), &s)
        .await
        .unwrap();
    assert_eq!(
        (lease.holder.as_deref(), lease.fence),
        (Some("b"), granted.fence)
    );
    process.finalize(&s, "r", granted.fence).await.unwrap();
    assert_eq!(world.texts(&s).await, ["r ask", "r said"]);
}

#[tokio::test]
async fn writes_of_other_sessions_and_other_callers_are_refused() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let (process, other) = (world.process(), world.process_with(world.options(), 2));
    let fence = process.resume(&s, "a").await.unwrap().fence;
    other.connection.set(ConnectionState::Down);
    process.connection.set(ConnectionState::Down);
    let refused = other.start(&s, "r", fence).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable, "another process");
    let refused = other.resume(&s, "b").await.unwrap_err();
    assert_eq!(
        refused.code,
        ErrorCode::StoreUnavailable,
        "a session that another process on this machine has seen does not begin again"
    );
    let with_copy = crate::ResumeSession {
        known_seq: Some(1),
        ..crate::ResumeSession::new("a")
    };
    let caller = Caller::from(&user("ada"));
    let refused = process
        .engine
        .calls
        .resume(&caller, &sid("new"), with_copy)
        .await;
    assert_eq!(
        refused.unwrap_err().code,
        ErrorCode::StoreUnavailable,
        "the caller has a copy of the session, so it does not begin"
    );
    let start = StartTurn {
        question_neutral: Some(filrouge_types::JsonText::from_plain("q")),
        fence: Some(fence),
        ..StartTurn::new("r".parse().unwrap())
    };
    let eve = user("eve");
    let refused = process
        .engine
        .turns
        .start(&Caller::from(&eve), s.clone(), start)
        .await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable, "another user");
    let start = StartTurn {
        question_neutral: Some(filrouge_types::JsonText::from_plain("q")),
        ..StartTurn::new("r".parse().unwrap())
    };
    let refused = process
        .engine
        .turns
        .start(&Caller::from(&user("ada")), s.clone(), start)
        .await;
    assert_eq!(
        refused.unwrap_err().code,
        ErrorCode::StoreUnavailable,
        "without a fence"
    );
}

/// The answers of the first attempts may be lost, too.
#[tokio::test]
async fn a_call_begins_while_the_ledger_does_not_answer() {
    for state in [
        ConnectionState::Down,
        ConnectionState::Hangs,
        ConnectionState::Lost,
    ] {
        let (world, s) = (SpoolWorld::new(), sid("s"));
        let process = world.process();
        process.connection.set(state);
        let first = process.webhook(&s, 0).await.unwrap();
        assert_eq!((first.source, first.last_seq), ("spool", 0), "{state:?}");
        assert!(first.created && first.checkpoint.is_none() && first.tail.is_empty());
        let process = match state {
            ConnectionState::Hangs => process,
            _ => {
                process.kill().await;
                world.process()
            }
        };
        process.connection.set(state);
        let second = process.webhook(&s, 1).await.unwrap();
        assert_eq!((second.source, second.fence), ("spool", first.fence + 1));
        assert!(!second.created, "{state:?}");
        assert_eq!(second.checkpoint.unwrap().label.as_deref(), Some("S0"));
        let caller = Caller::from(&user("eve"));
        let foreign = crate::ResumeSession::new("eve");
        let refused = process.engine.calls.resume(&caller, &s, foreign).await;
        assert_eq!(refused.unwrap_err().code, ErrorCode::StoreUnavailable);

        process.connection.set(ConnectionState::Up);
        process.wait_until_drained().await;
        assert_eq!(process.spool.view().dead_letters, 0, "{state:?}");
        assert_eq!(world.texts(&s).await, expected_texts(0..2), "{state:?}");
        let ledger: &dyn Ledger = world.ledger.as_ref();
        let session = ledger.session(&operator(), &s).await.unwrap();
        assert_eq!(session.identity_id.unwrap().as_str(), "ada");
        let third = process.webhook(&s, 2).await.unwrap();
        assert_eq!((third.source, third.fence), ("memory", first.fence + 2));
        let report = ledger.verify(None).await.unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
    }
}

/// Two machines begin a session with the same id, under the same holder's name.
#[tokio::test]
async fn of_two_calls_that_begin_in_spools_with_the_same_id_one_becomes_dead_letters() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let elsewhere = tempfile::tempdir().unwrap();
    let options = SpoolOptions {
        directory: elsewhere.path().to_owned(),
        ..world.options()
    };
    let (first, second) = (world.process(), world.process_with(options, 2));
    for process in [&first, &second] {
        process.connection.set(ConnectionState::Down);
    }
    let begun = first.webhook(&s, 0).await.unwrap();
    let other = second.webhook(&s, 0).await.unwrap();
    assert!(begun.created && other.created);
    assert_ne!(begun.fence, other.fence);
    second.webhook(&s, 1).await.unwrap();
    first.connection.set(ConnectionState::Up);
    first.wait_until_drained().await;
    second.connection.set(ConnectionState::Up);
    second.wait_until_drained().await;
    assert_eq!(first.spool.view().dead_letters, 0);
    assert_eq!(second.spool.view().dead_letters, 8, "all its writes");
    assert_eq!(world.texts(&s).await, expected_texts(0..1));
    // The other server continues from the session in the ledger.
    let resumed = second.webhook(&s, 2).await.unwrap();
    assert_eq!((resumed.source, resumed.fence), ("memory", begun.fence + 1));
}

/// The configuration may keep sessions without an identity off the disk.
#[tokio::test]
async fn an_ephemeral_session_does_not_begin_in_the_spool() {
    let world = SpoolWorld::new();
    let options = SpoolOptions {
        anonymous: false,
        ..world.options()
    };
    let process = world.process_with(options, 1);
    process.connection.set(ConnectionState::Down);
    let request = crate::ResumeSession::new("a");
    let caller = Caller::from(&operator());
    let id = sid("s");
    let refused = process.engine.calls.resume(&caller, &id, request);
    assert_eq!(refused.await.unwrap_err().code, ErrorCode::StoreUnavailable);
    let begun = process.resume(&sid("s"), "a").await.unwrap();
    assert!(begun.created);
}

#[tokio::test]
async fn queued_writes_of_a_process_whose_lease_was_lost_become_dead_letters() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let (first, second) = (world.process(), world.process_with(world.options(), 2));
    first.webhook(&s, 0).await.unwrap();
    first.connection.set(ConnectionState::Down);
    first.webhook(&s, 1).await.unwrap();
    let fence = second.webhook(&s, 2).await.unwrap().fence;
    first.connection.set(ConnectionState::Up);
    first.wait_until_drained().await;
    let expected = ["r0 ask", "r0 saw", "r0 said", "r2 ask", "r2 saw", "r2 said"];
    assert_eq!(world.texts(&s).await, expected);
    assert_eq!(first.spool.view().dead_letters, 4);
    let admin = SpoolAdmin::new(
        world.folder.path(),
        world.keyring.clone(),
        "store",
        std::sync::Arc::new(filrouge_store::OsEntropy),
    );
    let lines = admin.list(true).unwrap();
    let writes: Vec<_> = lines.iter().map(|l| l.what.clone().unwrap()).collect();
    assert_eq!(writes, ["ensure", "append", "checkpoint", "finalize"]);
    assert!(lines.iter().all(|l| l.state == ListedState::Dead));
    assert_eq!(lines[0].code.as_deref(), Some("stale_fence"));
    assert!(
        lines[1].shown.as_ref().unwrap().contains("r1 saw"),
        "{lines:?}"
    );
    let refused = admin.drop(Some(&lines[0].id)).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Overloaded);
    // The process continues from the state that the other process has written.
    let resumed = first.webhook(&s, 3).await.unwrap();
    assert_eq!(resumed.fence, fence + 1);
    assert_eq!(resumed.checkpoint.unwrap().label.as_deref(), Some("S2"));

    // A redaction covers dead letters, too: none of them keeps the contents.
    let turn = first.turn_id(&s, "r0");
    let reason = RedactTurn {
        reason: "on request".into(),
    };
    let redact = async || {
        let caller = Caller::from(&user("ada"));
        let redaction = first
            .engine
            .erasure
            .redact_turn(&caller, s.clone(), turn, reason.clone());
        redaction.await
    };
    // While the spool's disk is full, they cannot be rewritten.
    let paths = super::super::folder::folders(&world.folder.path().join("store")).unwrap();
    let full: Vec<_> = paths.iter().map(|path| path.join(".dead.new")).collect();
    for path in &full {
        std::os::unix::fs::symlink("/dev/full", path).unwrap();
    }
    assert_eq!(redact().await.unwrap_err().code, ErrorCode::StoreFull);
    for path in &full {
        std::fs::remove_file(path).unwrap();
    }
    redact().await.unwrap();
    let lines = admin.list(true).unwrap();
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|l| l.bytes == 0), "{lines:?}");
    first.kill().await;
    second.kill().await;
    assert_eq!(admin.drop(None).unwrap(), 4);
    assert!(admin.list(false).unwrap().is_empty());
}

#[tokio::test]
async fn a_dead_letter_is_queued_again_by_retry() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let first = world.process();
    first.webhook(&s, 0).await.unwrap();
    let fence = first.resume(&s, "x").await.unwrap().fence;
    first.connection.set(ConnectionState::Down);
    first.start(&s, "r1", fence).await.unwrap();
    // Another process closes the session in the meantime, so no turn can start.
    let other_folder = SpoolOptions::new(world.folder.path().join("other"));
    let other = world.process_with(other_folder, 3);
    let close = CloseSession {
        fence: Some(fence),
        ..CloseSession::default()
    };
    let scope = operator();
    let caller = Caller::from(&scope);
    let closed = other.engine.sessions.close(&caller, s.clone(), close);
    closed.await.unwrap();
    first.connection.set(ConnectionState::Up);
    first.wait_until_drained().await;
    assert_eq!(first.spool.view().dead_letters, 1);
    first.kill().await;
    let patch = PatchSession {
        status: Some(SessionStatus::Active),
        fence: Some(fence),
        ..PatchSession::default()
    };
    let caller = Caller::from(&scope);
    let patched = other.engine.sessions.patch(&caller, s.clone(), patch, None);
    patched.await.unwrap();
    let entropy = std::sync::Arc::new(filrouge_store::OsEntropy);
    let admin = SpoolAdmin::new(world.folder.path(), world.keyring.clone(), "store", entropy);
    let id = admin.list(false).unwrap()[0].id.clone();
    assert_eq!(admin.retry(Some(&id)).unwrap(), 1);
    let restarted = world.process();
    restarted.wait_until_drained().await;
    let texts = world.texts(&s).await;
    assert_eq!(texts.last().map(String::as_str), Some("r1 ask"));
    assert_eq!(restarted.spool.view().dead_letters, 0);
}

#[tokio::test]
async fn a_full_spool_refuses_writes_and_loses_none() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let options = SpoolOptions {
        bytes: 4_000,
        ..world.options()
    };
    let process = world.process_with(options, 1);
    process.webhook(&s, 0).await.unwrap();
    let fence = process.resume(&s, "h").await.unwrap().fence;
    process.connection.set(ConnectionState::Down);
    process.start(&s, "r1", fence).await.unwrap();
    let mut accepted = vec!["r1 ask".to_owned()];
    let refused = loop {
        let text = format!("n{}", accepted.len());
        match process.append(&s, "r1", &text, fence).await {
            Ok(_) => accepted.push(text),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.code, ErrorCode::SpoolFull);
    assert!(accepted.len() > 2 && process.spool.view().counts.full == 1);
    process.connection.set(ConnectionState::Up);
    process.wait_until_drained().await;
    let mut expected = expected_texts(0..1);
    expected.extend(accepted);
    assert_eq!(world.texts(&s).await, expected);
    process.append(&s, "r1", "after", fence).await.unwrap();
}
