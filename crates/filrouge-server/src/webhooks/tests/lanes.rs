//! Webhooks of a store with several lanes, whose servers' clocks differ: the feed shows some commits before older ones.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::{Lane, Lanes};
use serde_json::Value;

use super::*;

fn world_of_four_lanes() -> World {
    World::with_lanes(Lanes::new(4).unwrap())
}

/// Creates sessions as a server does whose clock is ten seconds behind.
async fn create_with_a_slow_clock(world: &World, names: &[String]) {
    world.advance_seconds(-10);
    for name in names {
        world.create_session(name).await;
    }
    world.advance_seconds(10);
}

#[tokio::test]
async fn a_refused_batch_is_repeated_unchanged_although_later_commits_have_earlier_times() {
    let world = world_of_four_lanes();
    let mut worker = world.worker("a");
    run_until_idle(&mut worker).await;
    let names = [3, 1].map(|lane| world.names_in(Lane::new(lane), 1));
    let refused_sessions = names.concat();
    for name in &refused_sessions {
        world.create_session(name).await;
        world.advance_seconds(1);
    }
    world.receiver.will_return([refused(500), refused(500)]);
    wait_seconds_after_step(&mut worker).await;
    // The feed shows several pages of another lane before the refused changes, and one more change in a lane of theirs.
    let other_lane = world.names_in(Lane::new(2), 5);
    let same_lane = world.names_in(Lane::new(3), 2).split_off(1);
    create_with_a_slow_clock(&world, &other_lane).await;
    create_with_a_slow_clock(&world, &same_lane).await;
    world.advance_seconds(1);
    let mut other = world.worker("b");
    wait_seconds_after_step(&mut other).await;
    world.advance_seconds(2);
    run_until_idle(&mut worker).await;
    let (ids, bodies) = (world.receiver.ids(), world.receiver.bodies());
    assert!(ids[0] == ids[1] && ids[1] == ids[2], "{ids:?}");
    assert!(
        bodies[0] == bodies[1] && bodies[1] == bodies[2],
        "{bodies:?}"
    );
    let sessions = world.receiver.sessions();
    assert_eq!(sessions[0], refused_sessions);
    assert_eq!(sessions[3..].concat(), [other_lane, same_lane].concat());
    assert_eq!(world.status().await.lag_commits, 0);
}

#[tokio::test]
async fn a_dead_letter_is_sent_again_unchanged_although_later_commits_have_earlier_times() {
    let world = world_of_four_lanes();
    let mut worker = world.worker("a");
    worker.settings.max_attempts = NonZeroU32::MIN;
    run_until_idle(&mut worker).await;
    for name in world.names_in(Lane::new(1), 2) {
        world.create_session(&name).await;
    }
    world.receiver.will_return([refused(500)]);
    run_until_idle(&mut worker).await;
    create_with_a_slow_clock(&world, &world.names_in(Lane::new(2), 3)).await;
    run_until_idle(&mut worker).await;
    let (ledger, name) = (world.ledger.as_ref(), world.feed().name);
    let redelivered = change_webhook(ledger, &name, WebhookAction::Redeliver).await;
    assert_eq!(redelivered, Ok(1));
    run_until_idle(&mut worker).await;
    let (ids, bodies) = (world.receiver.ids(), world.receiver.bodies());
    assert_eq!((ids.len(), &ids[3]), (4, &ids[0]));
    assert_eq!(bodies[3], bodies[0]);
    assert!(world.status().await.dead_letters.is_empty());
}

/// The session and the kind of each change in a message.
fn changes_in(body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let data = body["data"].as_array().unwrap().iter();
    data.map(|change| (text(&change["session_id"]), text(&change["kind"])))
        .collect()
}

/// Lets two workers take turns until neither has work left.
async fn drain(world: &World, workers: &mut [Worker<Receiver>; 2]) {
    for _ in 0..1000 {
        // After this time every claim has expired, and every retry is due.
        world.advance_seconds(700);
        let [a, b] = &mut *workers;
        let steps = (a.step().await.unwrap(), b.step().await.unwrap());
        if steps == (Next::Commit, Next::Commit) {
            return;
        }
    }
    panic!("the workers never wait for a commit");
}

#[tokio::test]
async fn two_processes_deliver_every_change_of_all_lanes_once_and_each_sessions_in_order() {
    let world = world_of_four_lanes();
    let mut workers = [world.worker("a"), world.worker("b")];
    for worker in &mut workers {
        worker.settings.max_attempts = NonZeroU32::MAX;
        run_until_idle(worker).await;
    }
    let mut names = BTreeSet::new();
    for round in 0..40 {
        for (n, seconds) in [5, -9, 6].into_iter().enumerate() {
            let name = format!("{round}-{n}");
            world.create_session(&name).await;
            world.advance_seconds(seconds);
            world.patch_session(&name).await;
            names.insert(name);
        }
        if round % 2 == 0 {
            world.receiver.will_return([refused(500)]);
        }
        for worker in &mut workers {
            worker.step().await.unwrap();
        }
    }
    drain(&world, &mut workers).await;
    let (mut messages, mut delivered) = (BTreeMap::new(), Vec::new());
    let received = world.receiver.ids().into_iter();
    for (id, body) in received.zip(world.receiver.bodies()) {
        match messages.get(&id) {
            Some(first) => assert_eq!(first, &body, "a repeated message has other changes"),
            None => {
                delivered.extend(changes_in(&body));
                messages.insert(id, body);
            }
        }
    }
    assert!(
        messages.len() < world.receiver.count(),
        "no message was repeated"
    );
    let place = |name: &str, kind: &str| {
        let change = (name.to_owned(), kind.to_owned());
        delivered.iter().position(|one| *one == change).unwrap()
    };
    for name in &names {
        assert!(place(name, "created") < place(name, "patched"), "{name}");
    }
    assert_eq!(delivered.len(), 2 * names.len());
}
