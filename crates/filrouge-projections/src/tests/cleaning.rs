//! Redactions and erasures: what the receipt says, and that erased words do not stay or return.

use std::collections::BTreeSet;

use filrouge_engine::cleaning::{ERASED, PENDING};
use filrouge_types::Clock;

use super::world::{SECRET, World};
use crate::{Selection, begin_rebuild};

/// A store with two secrets, in the sessions `redacted` and `erased`, and a filled projection.
async fn filled(world: &World) {
    for session in ["redacted", "erased", "other"] {
        world.create(session).await;
    }
    for session in ["redacted", "erased"] {
        world.answer(session, "r1", SECRET).await;
    }
    world.fill().await;
    assert!(world.holds_secret());
}

#[tokio::test]
async fn a_running_projector_has_cleaned_before_the_caller_is_answered() {
    let world = World::new();
    filled(&world).await;
    let (stop, task) = world.start();
    // The projector has a claim from now on.
    world.create("more").await;
    for receipt in [world.redact("redacted").await, world.erase("erased").await] {
        assert_eq!((receipt.store, receipt.status), ("projection", ERASED));
        assert_eq!(receipt.name.as_deref(), Some("copy"));
    }
    assert!(!world.holds_secret());
    stop.send_replace(true);
    task.await.unwrap();
    world.fill().await;
    world.check().await;
    assert_eq!(world.status().await.uncleaned, 0);
}

#[tokio::test]
async fn without_a_projector_the_caller_cleans() {
    let world = World::new();
    filled(&world).await;
    assert_eq!(world.redact("redacted").await.status, ERASED);
    assert_eq!(world.erase("erased").await.status, ERASED);
    assert!(!world.holds_secret());
    assert_eq!(world.status().await.uncleaned, 0);
    let (verified, differences) = world.verify().await;
    assert_eq!(differences, Vec::new());
    assert!(verified.lag_commits > 0);
    world.fill().await;
    world.check().await;
}

#[tokio::test]
async fn a_redaction_cleans_once() {
    let world = World::new();
    filled(&world).await;
    let before = world.target.calls();
    assert_eq!(world.redact("redacted").await.status, ERASED);
    // One writes the session, and one deletes its older rows.
    assert_eq!(world.target.calls() - before, 2);
}

#[tokio::test]
async fn more_erasures_than_a_claim_has_time_for_are_all_reached() {
    let world = World::new();
    for n in 0..20 {
        world.create_with_secret(&format!("s{n}")).await;
    }
    world.fill().await;
    for n in 0..20 {
        world.erase(&format!("s{n}")).await;
    }
    // A claim lasts for 50 s.
    world.target.set_slow(world.clock.clone(), 5_000_000);
    world.fill().await;
    world.check().await;
}

#[tokio::test]
async fn a_tenant_that_is_no_longer_selected_is_cleaned_until_the_old_generation_is_replaced() {
    let world = World::new();
    filled(&world).await;
    let others = world.with_selection(Selection {
        tenants: Some(BTreeSet::from(["other".parse().unwrap()])),
        ..Selection::default()
    });
    let mut projector = others.projector();
    while others.status().await.building.is_none() {
        projector.step().await.unwrap();
    }
    projector.release().await;
    assert!(others.holds_secret(), "queries see the old generation");
    let receipts = [
        others.redact("redacted").await,
        others.erase("erased").await,
    ];
    for receipt in receipts {
        assert_eq!((receipt.store, receipt.status), ("projection", ERASED));
    }
    assert!(!others.holds_secret());
    others.fill().await;
    assert_eq!(others.erase("other").await.store, "ledger");
}

#[tokio::test]
async fn a_target_that_is_away_is_cleaned_when_it_is_back() {
    let world = World::impatient();
    filled(&world).await;
    world.target.set_away(true);
    assert_eq!(world.redact("redacted").await.status, PENDING);
    assert_eq!(world.erase("erased").await.status, PENDING);
    assert_eq!(world.status().await.uncleaned, 2);
    world.target.set_away(false);
    world.fill().await;
    assert!(!world.holds_secret());
    assert_eq!(world.status().await.uncleaned, 0);
    world.check().await;
    assert_eq!(world.erase("erased").await.status, ERASED, "repeated");
}

#[tokio::test]
async fn a_generation_that_somebody_altered_is_replaced_before_sessions_are_cleaned() {
    let world = World::impatient();
    filled(&world).await;
    world.target.alter();
    assert_eq!(world.erase("erased").await.status, PENDING);
    assert_eq!(world.redact("redacted").await.status, PENDING);
    let mut projector = world.projector();
    for _ in 0..200 {
        projector.step().await.unwrap();
        world.clock.advance(1_000_000);
    }
    world.run_until_idle(&mut projector).await;
    assert!(!world.holds_secret());
    assert_eq!(world.status().await.uncleaned, 0);
    world.check().await;
}

#[tokio::test]
async fn while_another_process_may_be_writing_the_receipt_is_pending() {
    let world = World::impatient();
    filled(&world).await;
    let mut stuck = world.projector();
    world.create("more").await;
    world.run_until_idle(&mut stuck).await;
    assert!(world.status().await.holder.is_some());
    assert_eq!(world.erase("erased").await.status, PENDING);
    world.end_claims();
    assert_eq!(world.redact("redacted").await.status, ERASED);
    world.fill().await;
    assert!(!world.holds_secret());
    world.check().await;
}

#[tokio::test]
async fn words_that_were_read_before_the_erasure_and_written_after_it_are_removed() {
    for erases in [false, true] {
        let world = World::impatient();
        world.create("s").await;
        world.fill().await;
        let (called, go) = world.target.pause_write();
        world.answer("s", "r1", SECRET).await;
        let mut projector = world.projector();
        let step = tokio::spawn(async move {
            projector.step().await.unwrap();
            // Its first step only checks the target.
            projector.step().await.unwrap();
            projector
        });
        called.await.unwrap();
        let receipt = match erases {
            true => world.erase("s").await,
            false => world.redact("s").await,
        };
        assert_eq!(
            receipt.status, PENDING,
            "the old words may still be written"
        );
        go.send(()).unwrap();
        let mut projector = step.await.unwrap();
        world.run_until_idle(&mut projector).await;
        assert!(!world.holds_secret());
        assert_eq!(world.status().await.uncleaned, 0);
        world.check().await;
    }
}

#[tokio::test]
async fn words_that_a_process_writes_before_it_stops_are_removed() {
    let world = World::new();
    world.create("s").await;
    world.fill().await;
    let (called, go) = world.target.pause_write();
    world.answer("s", "r1", SECRET).await;
    let feeding = async {
        let mut projector = world.projector();
        for _ in 0..2 {
            projector.step().await.unwrap();
        }
        projector.release().await;
    };
    let erasing = async {
        called.await.unwrap();
        let before = world.target.calls();
        let resuming = async {
            while world.target.calls() == before {
                tokio::task::yield_now().await;
            }
            go.send(()).unwrap();
        };
        tokio::join!(world.erase("s"), resuming).0
    };
    let ((), receipt) = tokio::join!(feeding, erasing);
    assert_eq!(receipt.status, ERASED);
    assert!(!world.holds_secret());
    assert_eq!(world.status().await.uncleaned, 0);
    world.fill().await;
    world.check().await;
}

#[tokio::test]
async fn a_redaction_that_writes_after_an_erasure_brings_nothing_back() {
    let world = World::new();
    world.create_with_secret("s").await;
    world.answer("s", "r2", SECRET).await;
    world.fill().await;
    let (called, go) = world.target.pause_write();
    let erasing = async {
        called.await.unwrap();
        let receipt = world.impatient_process().erase("s").await;
        go.send(()).unwrap();
        receipt
    };
    let (redacted, erased) = tokio::join!(world.redact("s"), erasing);
    // Until the redaction has written, it may bring the words back.
    assert_eq!([redacted.status, erased.status], [ERASED, PENDING]);
    assert!(!world.holds_secret());
    assert_eq!(world.status().await.uncleaned, 0);
    assert_eq!(world.erase("s").await.status, ERASED, "repeated");
    world.fill().await;
    world.check().await;
}

#[tokio::test]
async fn what_a_redaction_writes_after_an_erasure_is_removed_although_its_process_ends() {
    let world = World::new();
    world.create_with_secret("s").await;
    world.answer("s", "r2", SECRET).await;
    world.fill().await;
    let (called, go) = world.target.pause_write();
    let erasing = async {
        called.await.unwrap();
        let receipt = world.impatient_process().erase("s").await;
        world.target.hang_at(1, true);
        go.send(()).unwrap();
        world.target.hung().await;
        receipt
    };
    let receipt = tokio::select! {
        receipt = erasing => receipt,
        _ = world.redact("s") => unreachable!("its process ends"),
    };
    assert!(world.holds_secret(), "the words were written back");
    assert_eq!(receipt.status, PENDING);
    assert_eq!(world.status().await.uncleaned, 1);
    world.fill().await;
    assert!(!world.holds_secret());
    assert_eq!(world.status().await.uncleaned, 0);
    world.check().await;
}

#[tokio::test]
async fn after_a_missing_answer_the_next_receipts_are_pending_at_once() {
    let world = World::impatient();
    filled(&world).await;
    world.target.hang_at(1, false);
    assert_eq!(world.redact("redacted").await.status, PENDING);
    let calls = world.target.calls();
    assert_eq!(world.erase("erased").await.status, PENDING);
    assert_eq!(world.target.calls(), calls, "the target is not called");
    assert_eq!(world.status().await.uncleaned, 2);
    world.clock.advance(5_000_000);
    assert_eq!(world.erase("other").await.status, ERASED);
    world.fill().await;
    assert!(!world.holds_secret());
    assert_eq!(world.status().await.uncleaned, 0);
    world.check().await;
}

#[tokio::test]
async fn a_rebuild_brings_no_erased_words_back() {
    let world = World::new();
    filled(&world).await;
    let name = &world.projection.name;
    let begun = begin_rebuild(&world.engine, name, world.clock.now());
    begun.await.unwrap();
    // Fills the new generation, as far as before it is published.
    let mut projector = world.projector();
    while world.target.everything().matches(SECRET).count() < 4 {
        projector.step().await.unwrap();
    }
    assert_eq!(world.target.generations().len(), 2);
    let running = async {
        loop {
            projector.step().await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let erasing = async {
        [
            world.redact("redacted").await.status,
            world.erase("erased").await.status,
        ]
    };
    let statuses = tokio::select! {
        statuses = erasing => statuses,
        _ = running => unreachable!("it runs forever"),
    };
    assert_eq!(statuses, [ERASED; 2]);
    assert!(!world.holds_secret());
    world.end_claims();
    world.fill().await;
    assert_eq!(world.target.generations().len(), 1);
    assert!(!world.holds_secret());
    world.check().await;
}
