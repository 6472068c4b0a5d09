//! The first fill, changes, dead letters, and several processes.

use std::collections::BTreeSet;
use std::time::Duration;

use filrouge_types::{Channel, Clock};
use tokio::time::sleep;

use super::world::{World, key};
use crate::projector::Next;
use crate::{Field, Selection, retry_dead_letters};

#[tokio::test]
async fn a_new_projection_gets_all_sessions_and_then_each_change() {
    let world = World::new();
    for session in ["a", "b", "c"] {
        world.create_with_secret(session).await;
    }
    world.fill().await;
    world.check().await;
    assert_eq!(world.verify().await.0.sessions, 3);
    let status = world.status().await;
    assert!(status.generation.is_some() && status.building.is_none());
    assert_eq!(status.lag_commits, Some(0));

    world.answer("a", "r2", "another").await;
    world.patch("b", "a title").await;
    world.record_event("c", "e1").await;
    world.create("d").await;
    assert!(!world.verify().await.1.is_empty());
    world.fill().await;
    world.check().await;
    assert!(world.target.everything().contains("a title"));
}

#[tokio::test]
async fn an_idle_projector_writes_nothing() {
    let world = World::new();
    world.create("a").await;
    let mut projector = world.projector();
    world.run_until_idle(&mut projector).await;
    let before = world.engine.index_feed.position().commit_count();
    for _ in 0..10 {
        world.clock.advance(100 * 1_000_000);
        world.run_until_idle(&mut projector).await;
    }
    let after = world.engine.index_feed.position().commit_count();
    assert_eq!(after, before);
}

#[tokio::test]
async fn the_selection_says_what_a_projection_has() {
    let everything = World::new();
    everything.create("a").await;
    everything
        .answer("a", "r1", "write to ann@example.org")
        .await;
    everything.fill().await;
    assert!(everything.target.everything().contains("ann@example.org"));
    let selection = Selection {
        channels: Some(BTreeSet::from([Channel::Final])),
        without: BTreeSet::from([Field::Title, Field::Events]),
        mask_personal_data: true,
        ..Selection::default()
    };
    let masked = everything.with_selection(selection);
    masked.fill().await;
    masked.check().await;
    let text = masked.target.everything();
    assert!(text.contains("[masked:email]"), "{text}");
    assert!(!text.contains("ann@example.org") && !text.contains("what is it?"));
    let nobody = Selection {
        tenants: Some(BTreeSet::from(["other".parse().unwrap()])),
        ..Selection::default()
    };
    let nobody = everything.with_selection(nobody);
    nobody.fill().await;
    nobody.check().await;
    assert_eq!(nobody.target.everything(), "");
}

#[tokio::test]
async fn a_refused_session_is_a_dead_letter_until_the_target_accepts_it() {
    let world = World::new();
    world.target.set_refused([key("a")]);
    for session in ["a", "b"] {
        world.create_with_secret(session).await;
    }
    world.fill().await;
    let status = world.status().await;
    assert_eq!(status.dead_letters.len(), 1);
    let letter = &status.dead_letters[0];
    assert_eq!(letter.session_id.as_str(), "a");
    assert_eq!(letter.reason, "a field has another type");
    let (_, differences) = world.verify().await;
    assert!(!differences.is_empty());
    assert!(differences.iter().all(|d| d.session_id.as_str() == "a"));

    // It is tried again after a while,
    world.clock.advance(600 * 1_000_000);
    world.fill().await;
    assert_eq!(world.status().await.dead_letters[0].attempts, 2);
    // at once when an operator asks for it,
    let name = &world.projection.name;
    let retried = retry_dead_letters(&world.engine, name).await.unwrap();
    assert_eq!(retried, 1);
    world.fill().await;
    let letter = &world.status().await.dead_letters[0];
    assert_eq!((letter.attempts, letter.at), (3, world.clock.now()));
    // and entirely when it changes.
    world.target.set_refused([]);
    world.record_event("a", "e1").await;
    world.fill().await;
    assert!(world.status().await.dead_letters.is_empty());
    world.check().await;
}

#[tokio::test]
async fn while_the_target_is_away_the_ledger_works_and_nothing_is_lost() {
    let world = World::new();
    world.create("a").await;
    world.fill().await;
    world.target.set_away(true);
    world.create("b").await;
    let mut projector = world.projector();
    for _ in 0..5 {
        let step = loop {
            match projector.step().await.unwrap() {
                Next::Again => {}
                next => break next,
            }
        };
        let Next::At(time) = step else {
            panic!("{step:?}");
        };
        world.create(&format!("s{}", time.as_micros())).await;
        world.clock.advance(60 * 1_000_000);
    }
    let status = world.status().await;
    assert!(status.failures >= 5, "{status:?}");
    assert_eq!(status.last_error.as_deref(), Some("away"));
    assert!(world.projection.counts.values().failure.is_some());
    world.target.set_away(false);
    world.end_claims();
    world.fill().await;
    world.check().await;
    let status = world.status().await;
    assert_eq!((status.failures, status.last_error), (0, None));
    assert_eq!(world.projection.counts.values().failure, None);
}

/// A world whose target is away and whose clock goes with the runtime's. `returns_after` is when the target is back.
async fn away(returns_after: Option<Duration>) -> World {
    let world = World::new();
    world.create("a").await;
    world.target.set_away(true);
    let (clock, target) = (world.clock.clone(), world.target.clone());
    tokio::spawn(async move {
        let tick = Duration::from_millis(100);
        for n in 1.. {
            sleep(tick).await;
            clock.advance(100_000);
            if returns_after.is_some_and(|after| tick * n >= after) {
                target.set_away(false);
            }
        }
    });
    world
}

#[tokio::test(start_paused = true)]
async fn one_run_tries_again_for_a_limited_time() {
    let retry_time = Duration::from_secs(30);
    let world = away(Some(Duration::from_secs(5))).await;
    let reason = world.projector().catch_up(retry_time).await.unwrap();
    assert_eq!(reason, None);
    world.check().await;

    let world = away(None).await;
    let reason = world.projector().catch_up(retry_time).await.unwrap();
    assert_eq!(reason.as_deref(), Some("away"));
    let failures = world.status().await.failures;
    assert!(failures >= 4, "{failures}");
}

#[tokio::test]
async fn two_processes_take_turns() {
    let world = World::new();
    for n in 0..20 {
        world.create_with_secret(&format!("s{n}")).await;
    }
    let (mut a, mut b) = (world.projector(), world.projector());
    world.run_until_idle(&mut a).await;
    world.create("more").await;
    a.step().await.unwrap();
    let calls = world.target.calls();
    assert!(matches!(b.step().await.unwrap(), Next::At(_)));
    assert_eq!(
        world.target.calls(),
        calls,
        "the other process may be writing"
    );
    world.end_claims();
    world.run_until_idle(&mut b).await;
    b.release().await;
    world.check().await;

    let running = [world.start(), world.start()];
    for n in 0..20 {
        world.answer(&format!("s{n}"), "r2", "more").await;
    }
    for (stop, task) in running {
        stop.send_replace(true);
        task.await.unwrap();
    }
    world.end_claims();
    world.fill().await;
    world.check().await;
}

#[tokio::test]
async fn a_write_that_takes_too_long_is_divided() {
    let world = World::new();
    for n in 0..40 {
        world.create(&format!("s{n}")).await;
    }
    world.target.set_largest_write(10);
    let mut projector = world.projector();
    for _ in 0..1000 {
        match projector.step().await.unwrap() {
            Next::Again => {}
            Next::At(_) => world.clock.advance(60 * 1_000_000),
            Next::Commit => break,
        }
    }
    world.check().await;
    assert_eq!(world.verify().await.0.sessions, 40);
}
