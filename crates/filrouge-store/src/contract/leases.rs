//! Leases: one holder at a time, under an ever-growing fence (DESIGN §6).

use filrouge_types::{Clock, ErrorCode, Lease, SessionStatus, Timestamp};

use super::fixture::{Fixture, anyone, code, operator, sid, user};
use super::live_writes::{
    SECOND, TTL, acquire, acquire_new, acquire_with, checkpoint, queued, release, renew, under,
};
use super::session_writes::{close_session, patch};
use crate::command::{NewSession, Scope, SessionPatch};

pub(super) fn in_seconds(f: &Fixture, n: i64) -> Timestamp {
    Timestamp::from_micros(f.clock.now().as_micros() + n * SECOND)
}

pub async fn a_session_has_one_holder(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let none = f.lease(&who, "s").await.unwrap();
    assert_eq!((none.fence, none.holder, none.expires_at), (0, None, None));
    let first = f.write_lease(&who, acquire("s", "a")).await.unwrap();
    assert!(first.newly_acquired && !first.created && !first.resumed);
    let lease = Lease {
        fence: first.lease.fence,
        holder: Some("a".into()),
        expires_at: Some(in_seconds(f, TTL)),
    };
    assert_eq!(first.lease, lease);
    assert!(lease.fence > 0);
    assert_eq!(f.lease(&who, "s").await.unwrap(), lease);
    f.clock.advance(10 * SECOND);
    let position = f.ledger.position();
    for _ in 0..2 {
        let refused = f.write_lease(&who, acquire("s", "b")).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::LeaseTimeout);
        assert_eq!(refused.held.as_deref(), Some(&lease), "by whom, until when");
    }
    assert_eq!(f.ledger.position(), position);
    // The holder acquires again and extends its lease.
    let again = f.write_lease(&who, acquire("s", "a")).await.unwrap();
    assert!(!again.newly_acquired);
    let again = again.lease;
    assert_eq!(again.fence, lease.fence);
    assert_eq!(again.expires_at, Some(in_seconds(f, TTL)));
    // The lease expires exactly at this microsecond.
    f.clock.advance(TTL * SECOND - 1);
    let refused = f.write_lease(&who, acquire("s", "b")).await;
    assert_eq!(code(refused), ErrorCode::LeaseTimeout);
    f.clock.advance(1);
    let over = f.lease(&who, "s").await.unwrap();
    assert_eq!((over.fence, over.holder), (lease.fence, None));
    let second = f.acquire_lease(&who, "s", "b").await;
    assert!(second > lease.fence);
    let refused = f.write_lease(&who, acquire("s", "a")).await.unwrap_err();
    assert_eq!(refused.held.unwrap().holder.as_deref(), Some("b"));
    f.assert_intact().await;
}

pub async fn a_holder_needs_a_name(f: &Fixture) {
    f.create(&anyone(), "s").await.unwrap();
    for none in ["", &"x".repeat(257)] {
        let refused = f.write_lease(&anyone(), acquire("s", none)).await;
        assert_eq!(code(refused), ErrorCode::Invalid);
    }
    assert_eq!(f.lease(&anyone(), "s").await.unwrap().fence, 0);
    f.acquire_lease(&anyone(), "s", &"é".repeat(128)).await;
    f.assert_intact().await;
}

pub async fn fences_only_grow(f: &Fixture) {
    let who = anyone();
    f.complete_turn(&who, "s", "r", "a").await;
    let mut newest = 0;
    for n in 0..12 {
        let holder = ["a", "a", "b"][n % 3];
        let fence = f.acquire_lease(&who, "s", holder).await;
        assert!(fence > newest, "{fence} after {newest}");
        newest = fence;
        match n % 4 {
            0 => drop(
                f.write_lease(&who, release("s", holder, fence))
                    .await
                    .unwrap(),
            ),
            1 => f.clock.advance(TTL * SECOND),
            2 => {
                let held = under(&who, fence);
                f.complete_turn(&held, "s", &format!("r{n}"), "a").await;
                f.clock.advance((TTL + n as i64) * SECOND);
            }
            _ => {
                // A lease that was granted by a clock that is ahead ends when it is released.
                f.write_lease(&who, release("s", holder, fence))
                    .await
                    .unwrap();
                f.clock.advance(-30 * SECOND);
            }
        }
        assert_eq!(f.lease(&who, "s").await.unwrap().fence, newest);
    }
    f.assert_intact().await;
}

pub async fn a_lease_is_renewed(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let fence = f.acquire_lease(&who, "s", "a").await;
    f.clock.advance(50 * SECOND);
    let renewed = f
        .write_lease(&who, renew("s", "a", fence, 120))
        .await
        .unwrap();
    assert!(!renewed.newly_acquired);
    assert_eq!(
        renewed.lease,
        Lease {
            fence,
            holder: Some("a".into()),
            expires_at: Some(in_seconds(f, 120))
        }
    );
    f.clock.advance(100 * SECOND);
    let refused = f
        .write_lease(&who, renew("s", "b", fence, 60))
        .await
        .unwrap_err();
    assert_eq!(refused.code, ErrorCode::LeaseHeld);
    assert_eq!(refused.held.unwrap().holder.as_deref(), Some("a"));
    for wrong in [0, fence - 1, fence + 1, u64::MAX] {
        let refused = f.write_lease(&who, renew("s", "a", wrong, 60)).await;
        assert_eq!(code(refused), ErrorCode::StaleFence, "{wrong}");
    }
    f.clock.advance(20 * SECOND);
    let refused = f.write_lease(&who, renew("s", "a", fence, 60)).await;
    assert_eq!(code(refused), ErrorCode::LeaseExpired);
    let next = f.acquire_lease(&who, "s", "b").await;
    let refused = f.write_lease(&who, renew("s", "a", fence, 60)).await;
    assert_eq!(code(refused), ErrorCode::StaleFence);
    assert_eq!(f.lease(&who, "s").await.unwrap().fence, next);
    let absent = f.write_lease(&who, renew("none", "a", fence, 60)).await;
    assert_eq!(code(absent), ErrorCode::SessionNotFound);
}

pub async fn a_lease_is_released(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let fence = f.acquire_lease(&who, "s", "a").await;
    let refused = f.write_lease(&who, release("s", "b", fence)).await;
    assert_eq!(code(refused), ErrorCode::LeaseHeld);
    // A fence that is not current releases nothing.
    for other in [0, fence - 1, fence + 1] {
        let left = f.write_lease(&who, release("s", "a", other)).await.unwrap();
        assert_eq!(left.lease.holder.as_deref(), Some("a"), "{other}");
    }
    let free = f
        .write_lease(&who, release("s", "a", fence))
        .await
        .unwrap()
        .lease;
    assert_eq!((free.fence, free.holder), (fence, None));
    let position = f.ledger.position();
    f.write_lease(&who, release("s", "a", fence)).await.unwrap();
    assert_eq!(f.ledger.position(), position, "free already");
    let second = f.acquire_lease(&who, "s", "b").await;
    let late = f
        .write_lease(&who, release("s", "a", fence))
        .await
        .unwrap()
        .lease;
    assert_eq!((late.fence, late.holder.as_deref()), (second, Some("b")));
    f.clock.advance(TTL * SECOND);
    let over = f
        .write_lease(&who, release("s", "b", second))
        .await
        .unwrap();
    assert_eq!(over.lease.holder, None);
    let absent = f.write_lease(&who, release("none", "a", 1)).await;
    assert_eq!(code(absent), ErrorCode::SessionNotFound);
    f.assert_intact().await;
}

/// A lease change that was queued while the store was down is applied, however late, if no other holder acquired the
/// session since. A live lease stays its holder's and is never shortened.
pub async fn leases_granted_while_the_store_was_down_are_applied(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let fence = f.acquire_lease(&who, "s", "a").await;
    let late = queued(&who, fence);
    let live = f.lease(&who, "s").await.unwrap();
    let brief = acquire_with("s", "a", |a| a.ttl = std::time::Duration::from_secs(1));
    for write in [renew("s", "a", fence, 1), brief] {
        let kept = f.write_lease(&late, write).await.unwrap();
        assert_eq!((kept.lease, kept.newly_acquired), (live.clone(), false));
    }
    for write in [renew("s", "b", fence, 30), release("s", "b", fence)] {
        assert_eq!(
            code(f.write_lease(&late, write).await),
            ErrorCode::LeaseHeld
        );
    }
    f.clock.advance(10 * TTL * SECOND);
    let kept = f
        .write_lease(&late, renew("s", "b", fence, 30))
        .await
        .unwrap();
    let lease = Lease {
        fence,
        holder: Some("b".into()),
        expires_at: Some(in_seconds(f, 30)),
    };
    assert_eq!((kept.lease, kept.newly_acquired), (lease, false));
    // A caller without the queued state sees the stored holder.
    let refused = f.write_lease(&who, renew("s", "a", fence, 60)).await;
    assert_eq!(code(refused), ErrorCode::LeaseHeld);
    let free = f
        .write_lease(&late, release("s", "b", fence))
        .await
        .unwrap();
    assert_eq!(free.lease.holder, None);
    let next = f.acquire_lease(&who, "s", "c").await;
    let held = f.lease(&who, "s").await.unwrap();
    for wrong in [fence, next] {
        let refused = f.write_lease(&late, renew("s", "a", wrong, 60)).await;
        let expected = [ErrorCode::LeaseHeld, ErrorCode::StaleFence][usize::from(wrong == fence)];
        assert_eq!(code(refused), expected);
    }
    f.write_lease(&late, release("s", "a", fence))
        .await
        .unwrap();
    let refused = f.write_lease(&late, release("s", "a", next)).await;
    assert_eq!(code(refused), ErrorCode::LeaseHeld);
    assert_eq!(f.lease(&who, "s").await.unwrap(), held);
    f.assert_intact().await;
}

pub async fn acquiring_creates_the_session(f: &Fixture) {
    let who = user("ann");
    let absent = f.write_lease(&who, acquire("s", "a")).await;
    assert_eq!(code(absent), ErrorCode::SessionNotFound);
    let command = acquire_with("s", "a", |a| {
        a.resumes = Some(None);
        a.create = Some(NewSession {
            title: Some("a call".into()),
            ..NewSession::with_id(sid("s"))
        });
    });
    let first = f.write_lease(&who, command.clone()).await.unwrap();
    assert!(first.created && !first.resumed);
    let session = f.session(&who, "s").await.unwrap();
    assert_eq!(session.title.as_deref(), Some("a call"));
    assert_eq!(session.identity_id, who.viewer.identity().cloned());
    let again = f.write_lease(&who, command.clone()).await.unwrap();
    assert_eq!((again.created, again.lease), (false, first.lease));
    for other in [user("bob"), anyone()] {
        let taken = f.write_lease(&other, command.clone()).await;
        assert_eq!(code(taken), ErrorCode::SessionConflict);
    }
    f.erase(&who, "s").await.unwrap();
    let erased = f.write_lease(&who, command).await;
    assert_eq!(code(erased), ErrorCode::SessionErased);
}

pub async fn a_fence_creates_no_session(f: &Fixture) {
    let who = under(&anyone(), 1);
    let command = super::fixture::start(&who, "s", "r", "q");
    assert_eq!(
        code(f.try_start(&who, command).await),
        ErrorCode::StaleFence
    );
    let absent = f.session(&anyone(), "s").await;
    assert_eq!(code(absent), ErrorCode::SessionNotFound);
}

pub async fn sessions_in_a_terminal_state_get_no_new_turn(f: &Fixture) {
    let who = anyone();
    let terminal = |request: &str| {
        let mut command = super::fixture::start(&who, "s", request, "q");
        command.terminal = vec!["DONE".into()];
        command
    };
    let open = f.try_start(&who, terminal("a")).await.unwrap();
    f.write(&who, checkpoint("s", None, Some("DONE"), "{}"))
        .await
        .unwrap();
    assert_eq!(
        code(f.try_start(&who, terminal("b")).await),
        ErrorCode::SessionTerminated
    );
    // A retry is no new turn, and a turn in progress may end.
    assert!(f.try_start(&who, terminal("a")).await.unwrap().replayed);
    f.write_turn(&who, super::fixture::finalize("s", open.turn_id, Some("a")))
        .await
        .unwrap();
    let other = super::fixture::start(&who, "s", "b", "q");
    f.try_start(&who, other).await.unwrap();
}

pub async fn sessions_in_a_terminal_state_are_not_acquired(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let ended = |label: &str| {
        let label: Box<str> = label.into();
        acquire_with("s", "a", move |a| a.terminal = vec!["X".into(), label])
    };
    let first = f
        .write_lease(&who, ended("DONE"))
        .await
        .unwrap()
        .lease
        .fence;
    f.write_lease(&who, release("s", "a", first)).await.unwrap();
    f.write(&who, checkpoint("s", None, Some("DONE"), "{}"))
        .await
        .unwrap();
    let refused = f.write_lease(&who, ended("DONE")).await;
    assert_eq!(code(refused), ErrorCode::SessionTerminated);
    assert_eq!(f.lease(&who, "s").await.unwrap().holder, None);
    // Labels are compared exactly.
    let fence = f
        .write_lease(&who, ended("done"))
        .await
        .unwrap()
        .lease
        .fence;
    // The refusal applies to the holder, too, but turns in progress may end.
    let refused = f.write_lease(&who, ended("DONE")).await;
    assert_eq!(code(refused), ErrorCode::SessionTerminated);
    f.write_lease(&who, renew("s", "a", fence, 60))
        .await
        .unwrap();
    let held = under(&who, fence);
    f.write(&held, close_session("s", None)).await.unwrap();
    let refused = f.write_lease(&who, ended("other")).await;
    assert_eq!(code(refused), ErrorCode::SessionClosed);
    f.write_lease(&who, renew("s", "a", fence, 60))
        .await
        .unwrap();
    f.write_lease(&who, release("s", "a", fence)).await.unwrap();
    let active = SessionPatch {
        status: Some(SessionStatus::Active),
        state: Some(None),
        ..SessionPatch::default()
    };
    f.write(&who, patch("s", active)).await.unwrap();
    assert!(
        f.write_lease(&who, ended("DONE"))
            .await
            .unwrap()
            .lease
            .fence
            > fence
    );
}

pub async fn strangers_acquire_no_lease(f: &Fixture) {
    let ann = user("ann");
    f.create(&ann, "s").await.unwrap();
    let fence = f.acquire_lease(&ann, "s", "a").await;
    for who in [user("bob"), anyone(), operator("u")] {
        for write in [
            acquire("s", "a"),
            renew("s", "a", fence, 60),
            release("s", "a", fence),
            checkpoint("s", None, None, "{}"),
        ] {
            let refused = f.write(&under(&who, fence), write).await;
            assert_eq!(code(refused), ErrorCode::SessionNotFound, "{who:?}");
        }
        let read = f.lease(&who, "s").await;
        assert_eq!(code(read), ErrorCode::SessionNotFound);
    }
    // The operator role grants no lease.
    let refused = f.write_lease(&operator("t"), acquire("s", "b")).await;
    assert_eq!(code(refused), ErrorCode::LeaseTimeout);
    f.write_lease(&operator("t"), release("s", "a", fence))
        .await
        .unwrap();
    f.erase(&ann, "s").await.unwrap();
    for write in [acquire("s", "a"), release("s", "a", fence)] {
        let refused = f.write(&ann, write).await;
        assert_eq!(code(refused), ErrorCode::SessionErased);
    }
}

async fn acquire_and_report(
    f: &Fixture,
    who: &Scope,
    holder: &str,
    known: Option<u64>,
) -> (u64, bool) {
    let write = acquire_with("s", holder, |a| a.resumes = Some(known));
    let taken = f.write_lease(who, write).await.unwrap();
    (taken.lease.fence, taken.resumed)
}

async fn resume_events(f: &Fixture, who: &Scope) -> Vec<String> {
    let (events, _) = f.ledger.events(who, &sid("s"), 0, 50).await.unwrap();
    let resume_events = events.iter().filter(|e| &*e.kind == "resume_from_pg");
    resume_events.map(|e| e.key.as_str().to_owned()).collect()
}

pub async fn a_resume_is_reported_once(f: &Fixture) {
    let who = user("ann");
    f.write_lease(&who, acquire_new("s", "a")).await.unwrap();
    let (first, is_recorded) = acquire_and_report(f, &who, "a", None).await;
    assert!(!is_recorded, "there is nothing to resume from");
    f.complete_turn(&under(&who, first), "s", "r", "a").await;
    assert!(acquire_and_report(f, &who, "a", None).await.1);
    assert!(acquire_and_report(f, &who, "a", None).await.1);
    assert_eq!(resume_events(f, &who).await.len(), 1, "once per fence");
    assert!(
        !acquire_and_report(f, &who, "a", Some(2)).await.1,
        "an up-to-date copy"
    );
    f.write_lease(&who, release("s", "a", first)).await.unwrap();
    let (second, is_recorded) = acquire_and_report(f, &who, "b", Some(2)).await;
    assert!(!is_recorded && second > first);
    f.write_lease(&who, release("s", "b", second))
        .await
        .unwrap();
    let (third, is_recorded) = acquire_and_report(f, &who, "b", Some(1)).await;
    assert!(is_recorded, "an older copy");
    f.write_lease(&who, release("s", "b", third)).await.unwrap();
    assert!(
        !f.write_lease(&who, acquire("s", "c"))
            .await
            .unwrap()
            .resumed
    );
    let keys = resume_events(f, &who).await;
    assert_eq!(keys.len(), 2);
    assert!(keys[0].ends_with(&format!(":{first}")) && keys[1].ends_with(&format!(":{third}")));
    f.assert_intact().await;
}

/// A session's holder is not part of its content: neither its version nor its feed changes with it.
pub async fn lease_changes_are_not_in_the_feed(f: &Fixture) {
    let who = user("ann");
    f.complete_turn(&who, "s", "r", "a").await;
    let (before, feed) = (f.session(&who, "s").await.unwrap(), f.feed(&who, 9).await);
    let commits = f.ledger.position().commit_count();
    f.clock.advance(SECOND);
    let fence = f.acquire_lease(&who, "s", "a").await;
    f.write_lease(&who, renew("s", "a", fence, 60))
        .await
        .unwrap();
    f.write_lease(&who, release("s", "a", fence)).await.unwrap();
    assert_eq!(f.ledger.position().commit_count(), commits + 3);
    assert_eq!(f.session(&who, "s").await.unwrap(), before);
    assert_eq!(f.feed(&who, 9).await, feed);
    f.assert_intact().await;
}
