//! Slow writes of the ledger, callers that disconnect, and requests that are retried while they are queued.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use filrouge_store::Durability;
use filrouge_store::command::{Command, FencingToken, NewEvent, PutCheckpoint, Write};
use filrouge_types::ErrorCode;

use super::world::{ConnectionState, SpoolProcess, SpoolWorld, item, sid, state, user};
use crate::caller::Caller;
use crate::{AppendItems, RenewLease};

/// Appends the items `one` and `two` with these ids; returns whether the answer is a replay.
async fn append_two(
    process: &SpoolProcess,
    s: &filrouge_types::SessionId,
    fence: u64,
    ids: [Option<&str>; 2],
) -> Result<bool, filrouge_types::Failure> {
    let items = ids.iter().zip(["one", "two"]).map(|(id, text)| {
        let mut item = item(text);
        item.item_id = id.map(|id| id.parse().unwrap());
        item
    });
    let append = AppendItems {
        fence: Some(fence),
        ..AppendItems::new(items.collect())
    };
    let turn = process.turn_id(s, "r");
    let scope = user("ada");
    let caller = Caller::from(&scope);
    let appended = process
        .engine
        .turns
        .append(&caller, s.clone(), turn, append);
    Ok(appended.await?.replayed)
}

#[tokio::test]
async fn a_slow_write_delays_only_its_own_session() {
    let (world, s, t) = (SpoolWorld::new(), sid("s"), sid("t"));
    let process = world.process();
    let fence = process.resume(&s, "a").await.unwrap().fence;
    let other_fence = process.resume(&t, "b").await.unwrap().fence;
    process.connection.set(ConnectionState::Slow);
    let started = process.start(&s, "r", fence).await.unwrap();
    assert_eq!(started.durability, Durability::Spooled);
    let scope = user("ada");
    let confirm_fence = RenewLease {
        holder: "b".into(),
        fence: Some(other_fence),
        ttl_ms: None,
    };
    let caller = Caller::from(&scope);
    let renewed = process.engine.calls.renew(&caller, &t, confirm_fence);
    let recovery = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(process.spool.view().down, None);
        process.connection.set(ConnectionState::Up);
    };
    let (renewed, ()) = tokio::join!(renewed, recovery);
    let renewed = renewed.unwrap();
    assert_eq!(renewed.fence, other_fence);
    let flushed = Durability::Flushed;
    assert_eq!(
        renewed.durability, flushed,
        "only the ledger grants leases while it answers"
    );
    process.wait_until_drained().await;
    assert_eq!(world.texts(&s).await, ["r ask"]);
}

#[tokio::test]
async fn a_batch_with_one_item_id_can_be_repeated() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    let fence = process.resume(&s, "a").await.unwrap().fence;
    process.start(&s, "r", fence).await.unwrap();
    for replayed in [false, true] {
        let ids = [Some("a"), None];
        assert_eq!(
            append_two(&process, &s, fence, ids).await.unwrap(),
            replayed
        );
    }
    assert_eq!(world.items(&s).await[2].body.item_id, None);
    process.connection.set(ConnectionState::Down);
    for replayed in [false, true] {
        let ids = [None, Some("b")];
        assert_eq!(
            append_two(&process, &s, fence, ids).await.unwrap(),
            replayed
        );
    }
    let mismatch = append_two(&process, &s, fence, [Some("b"), None]).await;
    assert_eq!(mismatch.unwrap_err().code, ErrorCode::IdempotencyMismatch);
    process.checkpoint(&s, 1, fence).await.unwrap();
    process.checkpoint(&s, 1, fence).await.unwrap();
    assert_eq!(process.spool.view().entries, 2);
    process.finalize(&s, "r", fence).await.unwrap();
    let fence = process.resume(&s, "b").await.unwrap().fence;
    let closed = append_two(&process, &s, fence, [None, Some("c")]).await;
    assert_eq!(closed.unwrap_err().code, ErrorCode::TurnClosed);
    process.connection.set(ConnectionState::Up);
    process.wait_until_drained().await;
    let texts = ["r ask", "one", "two", "one", "two", "r said"];
    assert_eq!(world.texts(&s).await, texts);
    assert_eq!(process.spool.view().dead_letters, 0);
}

#[tokio::test]
async fn a_write_whose_caller_has_disconnected_is_drained() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    let fence = process.resume(&s, "a").await.unwrap().fence;
    process.connection.set(ConnectionState::Down);
    let mut start = Box::pin(process.start(&s, "r", fence));
    loop {
        let polled = poll_fn(|cx| Poll::Ready(start.as_mut().poll(cx).is_ready()));
        assert!(!polled.await, "the call was answered before it was dropped");
        // Only the thread that writes the entry to disk runs during the pause.
        std::thread::sleep(Duration::from_millis(20));
        if process.spool.view().entries == 1 {
            break;
        }
        tokio::task::yield_now().await;
    }
    drop(start);
    process.connection.set(ConnectionState::Up);
    process.wait_until_drained().await;
    assert_eq!(world.texts(&s).await, ["r ask"]);
}

#[tokio::test]
async fn a_write_under_a_superseded_or_unknown_fence_is_not_queued() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    let first = process.resume(&s, "a").await.unwrap().fence;
    world.clock.advance(60_000_000);
    let second = process.resume(&s, "b").await.unwrap().fence;
    assert_eq!(second, first + 1);
    for (fence, is_queued) in [(first, false), (second + 1, false), (second, true)] {
        let put = PutCheckpoint {
            session_id: s.clone(),
            seq: None,
            label: Some("S".into()),
            state: state(1),
            keep: 8,
        };
        let command = Command {
            scope: user("ada").with_fence(Some(FencingToken::new(fence))),
            write: Write::PutCheckpoint(Box::new(put)),
        };
        let core = &process.spool.core;
        let key = (command.scope.tenant.clone(), s.clone());
        let queued = core.enqueue(&key, command, None).await;
        assert_eq!(queued.is_ok(), is_queued, "{fence}: {queued:?}");
        if let Err(refused) = queued {
            let is_newer = fence > second;
            let code = match is_newer {
                true => ErrorCode::StoreUnavailable,
                false => ErrorCode::StaleFence,
            };
            assert_eq!(refused.code, code);
        }
    }
}

#[tokio::test]
async fn a_turn_known_only_by_its_id_accepts_items_but_cannot_be_ended() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    let fence = process.resume(&s, "a").await.unwrap().fence;
    process.start(&s, "r", fence).await.unwrap();
    process.connection.set(ConnectionState::Down);
    process.checkpoint(&s, 1, fence).await.unwrap();
    process.kill().await;
    // The killed process knew the state of the turn; the next one does not.
    let next = world.process();
    next.connection.set(ConnectionState::Down);
    for replayed in [false, true] {
        let ids = [Some("a"), None];
        assert_eq!(append_two(&next, &s, fence, ids).await.unwrap(), replayed);
    }
    let refused = next.finalize(&s, "r", fence).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable);
    let tail = next.spool.spooled_tail(&user("ada"), &s, 10).unwrap();
    assert_eq!((tail.items.len(), tail.entries), (2, 2));
    next.connection.set(ConnectionState::Up);
    next.wait_until_drained().await;
    assert_eq!(world.texts(&s).await, ["r ask", "one", "two"]);
    assert_eq!(next.spool.view().dead_letters, 0);
}

#[tokio::test]
async fn a_repeated_event_is_queued_once() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    process.resume(&s, "a").await.unwrap();
    process.connection.set(ConnectionState::Down);
    let event = NewEvent {
        session_id: s.clone(),
        key: "e".parse().unwrap(),
        kind: "kind".into(),
        at: None,
        detail: None,
    };
    let command = Command {
        scope: user("ada"),
        write: Write::RecordEvent(Box::new(event)),
    };
    let core = &process.spool.core;
    let key = (command.scope.tenant.clone(), s.clone());
    for _ in 0..2 {
        core.enqueue(&key, command.clone(), None).await.unwrap();
        world.clock.advance(1_000_000);
    }
    assert_eq!(process.spool.view().counts.spooled, 1);
    process.connection.set(ConnectionState::Up);
    process.wait_until_drained().await;
    assert_eq!(process.spool.view().dead_letters, 0);
}

#[tokio::test]
async fn a_tail_of_large_items_is_complete() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    let fence = process.resume(&s, "a").await.unwrap().fence;
    process.start(&s, "r", fence).await.unwrap();
    process.connection.set(ConnectionState::Down);
    // Together the items exceed a page of the ledger.
    let text = "x".repeat(filrouge_store::rows::RECORDS_BYTES / 16);
    for _ in 0..20 {
        process.append(&s, "r", &text, fence).await.unwrap();
    }
    let tail = |limit| process.spool.spooled_tail(&user("ada"), &s, limit).unwrap();
    assert_eq!((tail(50).items.len(), tail(50).trimmed), (20, false));
    assert_eq!((tail(19).items.len(), tail(19).trimmed), (19, true));
}
