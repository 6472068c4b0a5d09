//! Leases and the servers that hold them: of servers that have exited, and of those that could not reach the store; and
//! how writes extend leases (DESIGN §6).

use filrouge_types::ErrorCode;

use super::drafts;
use super::fixture::{Fixture, code, sid, user};
use super::leases::in_seconds;
use super::live_writes::{SECOND, TTL, acquire_new, acquire_with, checkpoint, queued, under};
use super::session_writes::{patch, title};

/// The lease of a server that has exited keeps nobody from acquiring the session; but its holder may continue until then.
pub async fn a_lease_whose_server_has_exited_is_acquired(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let fence = f.acquire_lease(&who, "s", "a").await;
    let id = sid("s");
    let server = f.ledger.query_session(&who, &id, |snapshot, scope, id| {
        Ok(snapshot.get(scope, id)?.head.lease.server)
    });
    let server = server.await.unwrap();
    assert_eq!(server.is_empty(), f.ledger.writer().is_empty());
    let acquire_after = |exited: &str| acquire_with("s", "b", |a| a.exited = Some(exited.into()));
    for other in ["", "another"] {
        let refused = f.write_lease(&who, acquire_after(other)).await;
        assert_eq!(code(refused), ErrorCode::LeaseTimeout, "{other:?}");
    }
    let turn = f.start(&under(&who, fence), "s", "r").await;
    if server.is_empty() {
        return;
    }
    let acquired = f.write_lease(&who, acquire_after(&server)).await.unwrap();
    assert!(acquired.newly_acquired);
    assert_eq!(acquired.lease.fence, fence + 1);
    assert_eq!(acquired.lease.holder.as_deref(), Some("b"));
    let late = super::fixture::cancel("s", turn.turn_id);
    let refused = f.write(&under(&who, fence), late).await;
    assert_eq!(code(refused), ErrorCode::StaleFence);
    f.assert_intact().await;
}

async fn assert_expires_in(f: &Fixture, seconds: i64, what: &str) {
    let lease = f.lease(&user("ann"), "s").await.unwrap();
    assert_eq!(lease.expires_at, Some(in_seconds(f, seconds)), "{what}");
}

pub async fn writes_extend_the_lease(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let held = under(&who, f.acquire_lease(&who, "s", "a").await);
    let half = TTL / 2;
    f.clock.advance((TTL - 1) * SECOND);
    let turn = f.start(&held, "s", "r").await.turn_id;
    assert_expires_in(f, TTL, "a write").await;
    let draft = |number: u64| {
        let deltas = vec![drafts::delta(0, number == 1, "x")];
        drafts::put("s", turn, drafts::stream(1), number, deltas)
    };
    f.write(
        &held,
        drafts::put("s", turn, drafts::stream(1), 0, Vec::new()),
    )
    .await
    .unwrap();
    f.clock.advance(half * SECOND);
    f.write(&held, draft(1)).await.unwrap();
    assert_expires_in(f, TTL - half, "a draft while half of the lease is left").await;
    f.clock.advance(SECOND);
    f.write(&held, draft(2)).await.unwrap();
    assert_expires_in(f, TTL, "a draft when less is left").await;
    f.clock.advance(SECOND);
    f.write(&who, patch("s", title("t"))).await.unwrap();
    assert_expires_in(f, TTL - 1, "a write without the fence").await;
    f.assert_intact().await;
}

/// A session that began in the spool of a server is created, under the fence that the spool granted. A session with the
/// same id that another caller has begun is not changed.
pub async fn a_session_that_began_while_the_store_was_down_is_created(f: &Fixture) {
    let (who, fence) = (user("ann"), 1 << 51);
    for _ in 0..2 {
        let begun = f
            .write_lease(&queued(&who, fence), acquire_new("s", "a"))
            .await;
        let lease = begun.unwrap().lease;
        assert_eq!((lease.fence, lease.holder.as_deref()), (fence, Some("a")));
    }
    let session = f.session(&who, "s").await.unwrap();
    assert_eq!(session.identity_id, who.viewer.identity().cloned());
    f.complete_turn(&under(&who, fence), "s", "r", "a").await;
    let position = f.ledger.position();
    for (who, other, refusal) in [
        (&who, fence - 1, ErrorCode::StaleFence),
        (&who, fence + 5, ErrorCode::StaleFence),
        (&user("bob"), fence + 5, ErrorCode::SessionConflict),
    ] {
        let other = f
            .write_lease(&queued(who, other), acquire_new("s", "a"))
            .await;
        assert_eq!(code(other), refusal);
    }
    assert_eq!(f.ledger.position(), position);

    // The request for the first lease may have reached the store before it was queued.
    let first = f.write_lease(&who, acquire_new("t", "a")).await.unwrap();
    let other = f
        .write_lease(&queued(&who, fence), acquire_new("t", "b"))
        .await;
    assert_eq!(code(other), ErrorCode::StaleFence, "another holder has it");
    let begun = f
        .write_lease(&queued(&who, fence), acquire_new("t", "a"))
        .await;
    assert_eq!(begun.unwrap().lease.fence, fence);
    let late = under(&who, first.lease.fence);
    let refused = f.write(&late, checkpoint("t", None, None, "{}")).await;
    assert_eq!(code(refused), ErrorCode::StaleFence);
    f.assert_intact().await;
}
