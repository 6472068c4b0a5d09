//! One session in a file that several ledgers have open, as separate processes do.

use std::sync::Arc;

use filrouge_store::command::Write;
use filrouge_store::contract::fixture::{Fixture, anyone, code, start_with};
use filrouge_store::contract::live_writes::{
    SECOND, TTL, acquire, acquire_new, checkpoint, release, releasing, under,
};
use filrouge_types::ErrorCode;

use super::{fixture_at, keyring};

fn complete_turn(request: &str) -> Write {
    let start = start_with(&anyone(), "s", request, "q", Some("a"), |_, _| {});
    Write::Start(Arc::new(start))
}

fn run(test: impl AsyncFn(&Fixture, &Fixture)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let (f, g) = (fixture_at(&path, keyring()), fixture_at(&path, keyring()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        test(&f, &g).await;
        for one in [&f, &g] {
            one.assert_intact().await;
            one.ledger.close().await;
        }
    });
}

#[test]
fn a_lease_moves_between_processes() {
    run(async |f, g| {
        let who = anyone();
        f.write_lease(&who, acquire_new("s", "a")).await.unwrap();
        let refused = g.write_lease(&who, acquire("s", "b")).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::LeaseTimeout);
        assert_eq!(refused.held.unwrap().holder.as_deref(), Some("a"));
        assert_eq!(
            code(g.write(&who, complete_turn("r")).await),
            ErrorCode::LeaseHeld
        );
        // The first process was suspended until its lease expired: by its own clock it still holds the lease.
        f.write(&under(&who, 1), complete_turn("r1")).await.unwrap();
        g.clock.advance(TTL * SECOND);
        let second = g.acquire_lease(&who, "s", "b").await;
        assert_eq!(second, 2);
        g.write(&under(&who, second), complete_turn("r2"))
            .await
            .unwrap();
        for late in [
            complete_turn("late"),
            checkpoint("s", None, Some("L"), "{}"),
        ] {
            let late = f.write(&under(&who, 1), late).await;
            assert_eq!(code(late), ErrorCode::StaleFence);
        }
        let lease = f.lease(&who, "s").await.unwrap();
        assert_eq!((lease.fence, lease.holder.as_deref()), (2, Some("b")));
        g.write(&releasing(&who, second), complete_turn("r3"))
            .await
            .unwrap();
        let third = f.acquire_lease(&who, "s", "a").await;
        assert_eq!(f.last_seq(&who, "s").await, 6);
        f.write_lease(&who, release("s", "a", third)).await.unwrap();
    });
}

/// Two processes contend for the lease: each holder writes a turn, and no turns overlap.
#[test]
fn two_processes_contend_for_a_lease() {
    run(async |f, g| {
        let who = anyone();
        f.create(&who, "s").await.unwrap();
        let turns = async |one: &Fixture, name: &str| {
            let mut fences = Vec::new();
            for n in 0..15 {
                let fence = loop {
                    match one.write_lease(&who, acquire("s", name)).await {
                        Ok(acquired) => break acquired.lease.fence,
                        Err(failure) => assert_eq!(failure.code, ErrorCode::LeaseTimeout),
                    }
                    tokio::task::yield_now().await;
                };
                let request = format!("{name}{n}");
                one.write(&under(&who, fence), complete_turn(&request))
                    .await
                    .unwrap();
                let state = format!(r#"{{"fence":{fence}}}"#);
                let last = checkpoint("s", None, Some(name), &state);
                one.write_checkpoint(&releasing(&who, fence), last)
                    .await
                    .unwrap();
                fences.push(fence);
            }
            fences
        };
        let (mut all, others) = tokio::join!(turns(f, "a"), turns(g, "b"));
        assert!(all.is_sorted() && others.is_sorted());
        all.extend(others);
        all.sort_unstable();
        assert_eq!(all, (1..=30).collect::<Vec<u64>>());
        assert_eq!(f.last_seq(&who, "s").await, 60);
        let newest = g.newest_checkpoint(&who, "s").await.checkpoint.unwrap();
        assert_eq!((newest.seq, newest.state.as_str()), (60, r#"{"fence":30}"#));
    });
}
