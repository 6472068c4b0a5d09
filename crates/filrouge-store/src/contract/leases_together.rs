//! Many callers that want to hold one session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use filrouge_types::ErrorCode;
use tokio::task::JoinSet;

use super::fixture::{Fixture, anyone, cmd, start_with};
use super::live_writes::{SECOND, TTL, acquire, acquire_new, release, releasing, under};
use crate::command::{Outcome, Scope, Write};

fn complete_turn(who: &Scope, request: &str) -> Write {
    let start = start_with(who, "s", request, "q", Some("a"), |_, _| {});
    Write::Start(Arc::new(start))
}

pub async fn one_of_many_acquires_the_lease(f: &Fixture) {
    for round in 0..3 {
        let mut tasks = JoinSet::new();
        for n in 0..32 {
            let ledger = f.ledger.clone();
            let write = acquire_new("s", &format!("h{n}"));
            tasks.spawn(async move { (n, ledger.put(cmd(&anyone(), write)).await) });
        }
        let (mut granted, mut created_count) = (Vec::new(), 0);
        for (n, answer) in tasks.join_all().await {
            match answer {
                Ok(Outcome::Lease { lease, created, .. }) => {
                    assert_eq!(lease.holder.as_deref(), Some(format!("h{n}").as_str()));
                    created_count += u32::from(created);
                    granted.push(lease);
                }
                Ok(other) => panic!("{other:?}"),
                Err(failure) => {
                    assert_eq!(failure.code, ErrorCode::LeaseTimeout);
                    assert!(failure.held.is_some());
                }
            }
        }
        assert_eq!(granted.len(), 1, "one holder");
        assert_eq!(created_count, u32::from(round == 0));
        let lease = &granted[0];
        assert_eq!(f.lease(&anyone(), "s").await.unwrap(), *lease);
        let free = release("s", lease.holder.as_deref().unwrap(), lease.fence);
        f.write_lease(&anyone(), free).await.unwrap();
    }
    f.assert_intact().await;
}

/// Every caller holds the session once, and their writes are in the order of their fences.
pub async fn every_waiting_holder_acquires_the_lease(f: &Fixture) {
    const MANY: usize = 16;
    let who = anyone();
    f.create(&who, "s").await.unwrap();
    let mut tasks = JoinSet::new();
    for n in 0..MANY {
        let (ledger, who) = (f.ledger.clone(), who.clone());
        tasks.spawn(async move {
            let fence = loop {
                let command = cmd(&who, acquire("s", &format!("h{n}")));
                match ledger.put(command).await {
                    Ok(Outcome::Lease { lease, .. }) => break lease.fence,
                    Ok(other) => panic!("{other:?}"),
                    Err(failure) => assert_eq!(failure.code, ErrorCode::LeaseTimeout),
                }
                tokio::task::yield_now().await;
            };
            let held = cmd(
                &releasing(&who, fence),
                complete_turn(&who, &format!("r{n}")),
            );
            match ledger.put(held).await.unwrap() {
                Outcome::Turn(turn, _) => (fence, turn.ordinal),
                other => panic!("{other:?}"),
            }
        });
    }
    let mut held = tasks.join_all().await;
    held.sort_unstable();
    assert!(held.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "{held:?}");
    assert_eq!(held.len(), MANY);
    assert_eq!(f.lease(&who, "s").await.unwrap().holder, None);
    f.assert_intact().await;
}

/// Former holders continue to write under load: every such write is refused.
pub async fn a_fenced_holder_never_writes(f: &Fixture) {
    const HOLDERS: u64 = 12;
    let who = anyone();
    f.create(&who, "s").await.unwrap();
    let (first, is_over) = (
        f.acquire_lease(&who, "s", "first").await,
        Arc::new(AtomicBool::default()),
    );
    f.clock.advance(TTL * SECOND);
    let (stale_fence, attempts) = (Arc::new(AtomicU64::new(first)), Arc::new(AtomicU64::new(0)));
    let mut newest = f.acquire_lease(&who, "s", "second").await;
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let (ledger, who) = (f.ledger.clone(), who.clone());
        let (stale_fence, is_over, attempts) =
            (stale_fence.clone(), is_over.clone(), attempts.clone());
        tasks.spawn(async move {
            while !is_over.load(Ordering::SeqCst) {
                let fence = stale_fence.load(Ordering::SeqCst);
                let request = format!("late {n} {}", attempts.fetch_add(1, Ordering::SeqCst));
                let late = cmd(&under(&who, fence), complete_turn(&who, &request));
                let refused = ledger.put(late).await.unwrap_err();
                assert_eq!(refused.code, ErrorCode::StaleFence);
                tokio::task::yield_now().await;
            }
        });
    }
    for n in 0..HOLDERS {
        f.write(&under(&who, newest), complete_turn(&who, &format!("r{n}")))
            .await
            .unwrap();
        f.clock.advance(TTL * SECOND);
        let next = f.acquire_lease(&who, "s", &format!("h{n}")).await;
        assert!(next > newest);
        stale_fence.store(newest, Ordering::SeqCst);
        newest = next;
    }
    while attempts.load(Ordering::SeqCst) < 50 {
        tokio::task::yield_now().await;
    }
    is_over.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    let session = f.session(&who, "s").await.unwrap();
    assert_eq!(
        (session.turn_count, session.last_seq),
        (HOLDERS, HOLDERS * 2)
    );
    f.assert_intact().await;
}
