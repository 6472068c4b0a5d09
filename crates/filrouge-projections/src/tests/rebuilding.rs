//! Rebuilds: on request, after a change of settings, after a loss, and for another store.

use std::sync::Arc;
use std::time::Duration;

use filrouge_types::Clock;
use serde_json::Value;

use super::world::{SECRET, World, key};
use crate::{ProjectionName, Selection, Stamp, Target, begin_rebuild};

#[tokio::test]
async fn queries_see_the_old_generation_until_the_new_one_is_complete() {
    let world = World::new();
    for n in 0..5 {
        world.create_with_secret(&format!("s{n}")).await;
    }
    world.fill().await;
    let old = world.status().await.generation;
    let name = &world.projection.name;
    let begun = begin_rebuild(&world.engine, name, world.clock.now());
    begun.await.unwrap();
    let mut projector = world.projector();
    let mut changes = 0;
    while world.status().await.generation == old {
        // The old generation stays up to date meanwhile.
        if world.status().await.building.is_some() && changes < 3 {
            changes += 1;
            world.answer("s1", &format!("x{changes}"), "more").await;
        }
        projector.step().await.unwrap();
        if world.status().await.lag_commits == Some(0) {
            world.check().await;
        }
    }
    world.run_until_idle(&mut projector).await;
    assert!(world.status().await.generation > old);
    assert_eq!(world.target.generations().len(), 1);
    world.check().await;

    let unknown: ProjectionName = "unknown".parse().unwrap();
    let refused = begin_rebuild(&world.engine, &unknown, world.clock.now()).await;
    assert_eq!(
        refused.unwrap_err().code,
        filrouge_types::ErrorCode::Invalid
    );
}

#[tokio::test]
async fn a_rebuild_survives_a_redaction_before_its_generation_exists() {
    let world = World::impatient();
    world.create_with_secret("s").await;
    let mut projector = world.projector();
    world.run_until_idle(&mut projector).await;
    let old = world.status().await.generation;
    let begun = begin_rebuild(&world.engine, &world.projection.name, world.clock.now());
    begun.await.unwrap();
    world.redact("s").await;
    world.run_until_idle(&mut projector).await;
    assert!(world.status().await.generation > old);
    world.check().await;
}

#[tokio::test]
async fn other_settings_begin_a_rebuild_while_the_old_generation_is_queried() {
    let world = World::new();
    world.create_with_secret("s").await;
    world.fill().await;
    let old = world.status().await.generation;
    let masked = world.with_selection(Selection {
        mask_personal_data: true,
        ..Selection::default()
    });
    let mut projector = masked.projector();
    while masked.status().await.building.is_none() {
        projector.step().await.unwrap();
    }
    let status = masked.status().await;
    assert_eq!((status.generation, status.lag_commits), (old, None));
    masked.run_until_idle(&mut projector).await;
    assert!(masked.status().await.generation > old);
    masked.check().await;
}

#[tokio::test]
async fn a_target_that_lost_its_data_is_filled_again() {
    let world = World::new();
    world.create_with_secret("s").await;
    let mut projector = world.projector();
    world.run_until_idle(&mut projector).await;
    world.target.lose_everything();
    world.record_event("s", "e1").await;
    for _ in 0..200 {
        projector.step().await.unwrap();
        world.clock.advance(1_000_000);
    }
    world.run_until_idle(&mut projector).await;
    world.check().await;
    // A loss is noticed without a change of the ledger, too.
    world.target.lose_everything();
    world.clock.advance(100 * 1_000_000);
    world.run_until_idle(&mut projector).await;
    world.check().await;
}

#[tokio::test]
async fn what_queries_see_is_corrected_after_somebody_changed_it() {
    let world = World::new();
    world.create_with_secret("s").await;
    world.fill().await;
    world.target.alter_alias();
    world.fill().await;
    let seen = world.target.published().await.unwrap();
    assert!(seen.is_some());
    assert_eq!(seen, world.status().await.generation);
    world.check().await;
}

#[tokio::test]
async fn the_rows_of_another_store_disappear_before_the_target_is_filled_again() {
    let other = World::new();
    other.create_with_secret("theirs").await;
    other.fill().await;
    let world = World::with_target(Arc::clone(&other.target), Duration::from_secs(30));
    world.create_with_secret("ours").await;
    world.fill().await;
    world.check().await;
    let text = world.target.everything();
    assert!(!text.contains("theirs") && text.contains("ours"));
}

/// An operator puts a backup of the target back, with words that were erased since.
#[tokio::test]
async fn an_older_state_of_the_target_is_replaced() {
    let world = World::new();
    for session in ["redacted", "erased", "other"] {
        world.create(session).await;
    }
    world.fill().await;
    for session in ["redacted", "erased"] {
        world.answer(session, "r1", SECRET).await;
    }
    world.fill().await;
    let before = world.status().await.generation;
    let copy = world.target.copy();
    world.target.put_back(&copy);
    world.fill().await;
    let status = world.status().await;
    assert_eq!((status.generation, status.older_states), (before, 0));

    world.redact("redacted").await;
    world.erase("erased").await;
    world.fill().await;
    assert!(!world.holds_secret());
    world.target.put_back(&copy);
    assert!(world.holds_secret());
    world.fill().await;
    assert!(!world.holds_secret());
    let status = world.status().await;
    assert!(status.generation > before);
    assert_eq!(status.older_states, 1);
    assert_eq!(world.target.generations().len(), 1);
    world.check().await;
}

#[tokio::test]
async fn a_projector_that_is_at_work_notices_an_older_state() {
    let world = World::new();
    world.create("a").await;
    let mut projector = world.projector();
    world.run_until_idle(&mut projector).await;
    let copy = world.target.copy();
    world.create("b").await;
    world.run_until_idle(&mut projector).await;
    world.target.put_back(&copy);
    // The clock stands still, so that no check of the target is due.
    world.create("c").await;
    world.run_until_idle(&mut projector).await;
    assert_eq!(world.status().await.older_states, 1);
    world.check().await;
}

#[tokio::test]
async fn an_older_state_without_the_generation_that_is_being_filled_is_replaced() {
    let world = World::new();
    world.create_with_secret("s").await;
    world.fill().await;
    let copy = world.target.copy();
    let begun = begin_rebuild(&world.engine, &world.projection.name, world.clock.now());
    begun.await.unwrap();
    let mut projector = world.projector();
    while world.status().await.building_lag_commits != Some(0) {
        projector.step().await.unwrap();
    }
    world.target.put_back(&copy);
    world.end_claims();
    world.fill().await;
    assert_eq!(world.status().await.older_states, 1);
    world.check().await;
}

/// The ledger was restored to a state before the stamp.
#[tokio::test]
async fn rows_of_commits_that_the_ledger_lacks_are_replaced() {
    let world = World::new();
    world.create_with_secret("s").await;
    world.fill().await;
    let before = world.status().await.generation;
    let generation = before.unwrap();
    let stamp = world.target.stamp(generation).await.unwrap().unwrap();
    let mut position: Value = serde_json::from_str(&stamp.position).unwrap();
    for lane in position.as_array_mut().unwrap() {
        lane["commit"] = (lane["commit"].as_u64().unwrap() + 1_000).into();
    }
    let later = Stamp {
        commits: stamp.commits + 3_000,
        position: position.to_string(),
    };
    world.target.set_stamp(generation, &later).await.unwrap();
    world.fill().await;
    let status = world.status().await;
    assert!(status.generation > before);
    assert_eq!(status.older_states, 0);
    world.check().await;
}

/// Both generations get changes of the same sessions, in turns, and only the new one refuses them.
#[tokio::test]
async fn what_the_new_generation_refuses_stays_a_dead_letter() {
    // A write has a few of the sessions.
    let words = "word ".repeat(300_000);
    let sessions: Vec<String> = (0..12).map(|n| format!("s{n}")).collect();
    // Each of the generations begins once.
    for steps in 0..2 {
        let world = World::new();
        for session in &sessions {
            world.create(session).await;
            world.answer(session, "r1", &words).await;
        }
        let mut projector = world.projector();
        world.run_until_idle(&mut projector).await;
        for _ in 0..steps {
            projector.step().await.unwrap();
        }
        for session in &sessions {
            world.patch(session, "a title").await;
        }
        let name = &world.projection.name;
        let begun = begin_rebuild(&world.engine, name, world.clock.now());
        begun.await.unwrap();
        let building = world.status().await.building.unwrap();
        world.target.set_refused_in(building);
        let refused = sessions.iter().map(|session| key(session));
        world.target.set_refused(refused);
        world.run_until_idle(&mut projector).await;
        let letters = world.status().await.dead_letters;
        assert_eq!(letters.len(), sessions.len(), "{steps}");
        world.target.set_refused([]);
        world.clock.advance(601 * 1_000_000);
        world.run_until_idle(&mut projector).await;
        assert!(world.status().await.dead_letters.is_empty());
        world.check().await;
    }
}
