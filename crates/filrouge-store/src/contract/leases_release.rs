//! Releasing a session in the commit of the last write, and leases that a clock would prolong (DESIGN §6).

use std::sync::Arc;

use filrouge_types::{Channel, Clock, ErrorCode, LONGEST_LEASE};

use super::drafts;
use super::fixture::{Fixture, append, code, item, start_with, user};
use super::leases_writes::{BusySession, WRITES};
use super::live_writes::{SECOND, TTL, acquire, acquire_with, checkpoint, releasing, under};
use super::session_writes::{close_session, event, patch, patch_if, title};
use crate::command::{SessionPatch, Write};

pub async fn the_last_write_releases_the_lease(f: &Fixture) {
    let who = user("ann");
    // A draft is never the last write.
    for n in 0..WRITES + 1 {
        let s = format!("s{n}");
        let busy = BusySession::new(f, &who, &s).await;
        let fence = f.acquire_lease(&who, &s, "a").await;
        let mut writes = busy.writes(&who);
        writes.retain(|(name, _)| *name != "draft");
        let call_ended = event(&s, "k", "call_ended");
        writes.push(("event", Write::RecordEvent(Box::new(call_ended))));
        writes.push(("title", patch(&s, title("t"))));
        let (name, write) = writes.swap_remove(n);
        let commits = f.ledger.position().commit_count();
        f.write(&releasing(&who, fence), write.clone())
            .await
            .unwrap();
        let one_more = f.ledger.position().commit_count() - commits;
        assert!(one_more <= 1, "{name}: in the same commit");
        let free = f.lease(&who, &s).await.unwrap();
        assert_eq!((free.fence, free.holder), (fence, None), "{name}");
        if name != "close" {
            let next = f.write_lease(&who, acquire(&s, "b")).await.unwrap();
            assert!(next.lease.fence > fence, "{name}");
            // A retry does not affect the current holder.
            let again = f.write(&releasing(&who, fence), write).await;
            assert!(again.is_ok() || code(again) == ErrorCode::StaleFence);
            let held = f.lease(&who, &s).await.unwrap();
            assert_eq!(held, next.lease, "{name}");
        }
    }
    f.assert_intact().await;
}

pub async fn a_refused_write_releases_nothing(f: &Fixture) {
    let who = user("ann");
    let busy = BusySession::new(f, &who, "s").await;
    let older = f.acquire_lease(&who, "s", "a").await;
    f.clock.advance(TTL * SECOND);
    let fence = f.acquire_lease(&who, "s", "a").await;
    let plan_items = || vec![item(Channel::Plan, "p")];
    let refused = [
        append("s", busy.open.turn_id, plan_items(), Some(99)),
        append("s", busy.done.turn_id, plan_items(), None),
        checkpoint("s", Some(99), None, "{}"),
        patch_if("s", title("t"), Some(vec![[7; 16]])),
    ];
    let position = f.ledger.position();
    for write in refused {
        f.write(&releasing(&who, fence), write).await.unwrap_err();
    }
    for (_, write) in busy.writes(&who) {
        let stale = f.write(&releasing(&who, older), write).await;
        assert_eq!(code(stale), ErrorCode::StaleFence);
    }
    assert_eq!(f.ledger.position(), position);
    let lease = f.lease(&who, "s").await.unwrap();
    assert_eq!((lease.fence, lease.holder.as_deref()), (fence, Some("a")));
}

/// When the answer to a releasing write is lost, its retry leaves the session released.
pub async fn a_repeated_write_releases_as_well(f: &Fixture) {
    let who = user("ann");
    let labeled = SessionPatch {
        state: Some(Some("L".into())),
        ..SessionPatch::default()
    };
    let complete = start_with(&who, "s", "r", "q", Some("a"), |_, _| {});
    let complete = Write::Start(Arc::new(complete));
    f.write(&who, complete.clone()).await.unwrap();
    let busy = BusySession::new(f, &who, "s").await;
    let mut plan_item = item(Channel::Plan, "p");
    plan_item.item_id = filrouge_types::ItemId::new("k").ok();
    let writes = [
        complete,
        append("s", busy.open.turn_id, vec![plan_item], None),
        super::fixture::cancel("s", busy.open.turn_id),
        checkpoint("s", Some(1), Some("L"), "{}"),
        patch("s", labeled),
        Write::RecordEvent(Box::new(event("s", "k", "call_ended"))),
        close_session("s", None),
    ];
    for (n, write) in writes.iter().enumerate() {
        let fence = f.acquire_lease(&who, "s", "a").await;
        f.write(&under(&who, fence), write.clone()).await.unwrap();
        let held = f.lease(&who, "s").await.unwrap();
        assert_eq!(held.holder.as_deref(), Some("a"), "{n}");
        f.write(&releasing(&who, fence), write.clone())
            .await
            .unwrap();
        assert_eq!(f.lease(&who, "s").await.unwrap().holder, None, "{n}");
        let position = f.ledger.position();
        f.write(&releasing(&who, fence), write.clone())
            .await
            .unwrap();
        assert_eq!(f.ledger.position(), position, "{n}: already released");
    }
    f.assert_intact().await;
}

pub async fn a_draft_releases_nothing(f: &Fixture) {
    let who = user("ann");
    let turn = f.start(&who, "s", "r").await;
    let fence = f.acquire_lease(&who, "s", "a").await;
    let held = f.lease(&who, "s").await.unwrap();
    let draft = drafts::put("s", turn.turn_id, drafts::stream(1), 0, Vec::new());
    f.write(&releasing(&who, fence), draft).await.unwrap();
    assert_eq!(f.lease(&who, "s").await.unwrap(), held);
    f.assert_intact().await;
}

pub async fn a_lease_ends_when_the_clock_is_set_back_by_days(f: &Fixture) {
    let who = user("ann");
    let turn = f.start(&who, "s", "r").await;
    let first = f.acquire_lease(&who, "s", "a").await;
    f.clock.advance(-2 * 24 * 60 * 60 * SECOND);
    assert_eq!(f.lease(&who, "s").await.unwrap().holder, None);
    let late = append("s", turn.turn_id, vec![item(Channel::Plan, "late")], None);
    let ended = f.write(&under(&who, first), late.clone()).await;
    assert_eq!(code(ended), ErrorCode::LeaseExpired);
    let second = f.acquire_lease(&who, "s", "b").await;
    assert!(second > first);
    let stale = f.write(&under(&who, first), late.clone()).await;
    assert_eq!(code(stale), ErrorCode::StaleFence);
    f.write(&under(&who, second), late).await.unwrap();
    f.assert_intact().await;
}

/// Otherwise it would count as ended.
pub async fn no_lease_is_longer_than_the_longest(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let years = acquire_with("s", "a", |acquire| acquire.ttl = LONGEST_LEASE * 1_000);
    let acquired = f.write_lease(&who, years).await.unwrap();
    assert_eq!(
        acquired.lease.expires_at,
        Some(f.clock.now().after(LONGEST_LEASE))
    );
    let refused = f.write_lease(&who, acquire("s", "b")).await;
    assert_eq!(code(refused), ErrorCode::LeaseTimeout);
    f.assert_intact().await;
}
