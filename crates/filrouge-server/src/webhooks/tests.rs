//! The steps of a webhook's worker: order, retries, dead letters, and several processes.

use std::num::NonZeroU32;
use std::time::Duration;

use filrouge_engine::notes::Stored;
use filrouge_store::read::ChangeKind;
use prometheus_client::registry::Registry;

use super::sender::{Refusal, SendOutcome};
use super::state::State;
use super::worker::{Next, Worker};
use super::*;

mod lanes;
mod world;

use world::{Receiver, World, refused};

/// Runs the worker's steps until it waits for a commit.
async fn run_until_idle(worker: &mut Worker<Receiver>) {
    for _ in 0..50 {
        match worker.step().await.unwrap() {
            Next::Again => {}
            Next::Commit => return,
            Next::At(time) => panic!("the worker waits until {time}"),
        }
    }
    panic!("the worker never waits for a commit");
}

/// Runs one step, after which the worker waits; returns for how many seconds.
async fn wait_seconds_after_step(worker: &mut Worker<Receiver>) -> i64 {
    match worker.step().await.unwrap() {
        Next::At(time) => (time.as_micros() - worker.clock.now().as_micros()) / 1_000_000,
        other => panic!("{other:?}"),
    }
}

fn state_of(stored: Stored<State>) -> State {
    stored.value
}

#[tokio::test]
async fn a_new_webhook_sends_later_changes_in_order_and_writes_nothing_when_idle() {
    let world = World::new();
    world.create_session("past").await;
    let mut worker = world.worker("a");
    run_until_idle(&mut worker).await;
    assert_eq!(world.receiver.count(), 0);
    for id in ["1", "2", "3"] {
        world.create_session(id).await;
    }
    run_until_idle(&mut worker).await;
    assert_eq!(world.receiver.sessions(), [vec!["1", "2"], vec!["3"]]);
    let before = world.ledger.position().commit_count();
    for _ in 0..10 {
        world.advance_seconds(100);
        assert_eq!(worker.step().await.unwrap(), Next::Commit);
    }
    assert_eq!(
        world.ledger.position().commit_count(),
        before,
        "an idle worker writes nothing"
    );
    assert_eq!(world.status().await.lag_commits, 0);
}

#[tokio::test]
async fn a_refused_batch_keeps_its_id_and_its_changes_across_processes() {
    let world = World::new();
    let mut worker = world.worker("a");
    run_until_idle(&mut worker).await;
    world.create_session("1").await;
    world.receiver.will_return([refused(500), refused(503)]);
    assert_eq!(wait_seconds_after_step(&mut worker).await, 1);
    assert_eq!(
        wait_seconds_after_step(&mut worker).await,
        1,
        "no early retry"
    );
    assert_eq!(world.receiver.count(), 1);
    world.create_session("2").await;
    world.advance_seconds(1);
    // Another process continues the same batch, although there are more changes by now.
    let mut other = world.worker("b");
    assert_eq!(wait_seconds_after_step(&mut other).await, 2);
    let status = world.status().await;
    assert_eq!(
        (status.failures, status.last_error.as_deref()),
        (2, Some("status_503"))
    );
    assert!(status.lag_commits > 0);
    world.advance_seconds(2);
    run_until_idle(&mut worker).await;
    assert_eq!(
        world.receiver.sessions(),
        [vec!["1"], vec!["1"], vec!["1"], vec!["2"]]
    );
    let ids = world.receiver.ids();
    assert!(
        ids[0] == ids[1] && ids[1] == ids[2] && ids[2] != ids[3],
        "{ids:?}"
    );
    let status = world.status().await;
    assert_eq!((status.failures, status.last_error), (0, None));
}

#[tokio::test]
async fn retry_after_is_honored() {
    let world = World::new();
    let mut worker = world.worker("a");
    run_until_idle(&mut worker).await;
    world.create_session("1").await;
    world.receiver.will_return([SendOutcome::Refused {
        refusal: Refusal::Status(429),
        retry_after: Some(Duration::from_secs(90)),
    }]);
    assert_eq!(wait_seconds_after_step(&mut worker).await, 90);
    assert!(world.status().await.retry_at.is_some());
}

#[tokio::test]
async fn a_batch_becomes_a_dead_letter_after_all_attempts_and_is_sent_again_on_request() {
    let world = World::new();
    let mut worker = world.worker("a");
    run_until_idle(&mut worker).await;
    world.create_session("1").await;
    world
        .receiver
        .will_return([refused(500), refused(500), refused(500)]);
    wait_seconds_after_step(&mut worker).await;
    world.advance_seconds(1);
    wait_seconds_after_step(&mut worker).await;
    world.advance_seconds(2);
    world.create_session("2").await;
    run_until_idle(&mut worker).await;
    assert_eq!(
        world.receiver.sessions().last().unwrap(),
        &["2"],
        "the feed continues"
    );
    let status = world.status().await;
    assert_eq!(status.dead_letters.len(), 1);
    let letter = &status.dead_letters[0];
    assert_eq!((letter.attempts, letter.error.as_str()), (3, "status_500"));

    let change = |action| {
        let (ledger, name) = (world.ledger.clone(), world.feed().name);
        async move {
            change_webhook(ledger.as_ref(), &name, action)
                .await
                .unwrap()
        }
    };
    // The dead letter is refused again: it stays, and the feed continues.
    assert_eq!(change(WebhookAction::Redeliver).await, 1);
    world.receiver.will_return([refused(500)]);
    run_until_idle(&mut worker).await;
    let status = world.status().await;
    assert_eq!(
        (status.dead_letters[0].attempts, status.redelivering),
        (4, false)
    );
    // The dead letter is accepted: it is removed.
    change(WebhookAction::Redeliver).await;
    assert!(world.status().await.redelivering);
    run_until_idle(&mut worker).await;
    let ids = world.receiver.ids();
    assert_eq!(world.receiver.sessions().last().unwrap(), &["1"]);
    assert_eq!(
        ids.last(),
        ids.first(),
        "a batch is sent again with the same id"
    );
    let status = world.status().await;
    assert_eq!((status.dead_letters.len(), status.redelivering), (0, false));
}

#[tokio::test]
async fn discarded_dead_letters_are_deleted() {
    let world = World::new();
    let mut worker = world.worker("a");
    worker.settings.max_attempts = NonZeroU32::MIN;
    run_until_idle(&mut worker).await;
    world.create_session("1").await;
    world.receiver.will_return([refused(404)]);
    run_until_idle(&mut worker).await;
    let name = world.feed().name;
    let discard = change_webhook(world.ledger.as_ref(), &name, WebhookAction::Discard).await;
    assert_eq!(discard.unwrap(), 1);
    assert!(world.status().await.dead_letters.is_empty());
    let unknown = "other".parse().unwrap();
    let refused = change_webhook(world.ledger.as_ref(), &unknown, WebhookAction::Enable).await;
    assert_eq!(
        refused.unwrap_err().code,
        filrouge_types::ErrorCode::Invalid
    );
}

#[tokio::test]
async fn a_receiver_that_answers_410_gets_nothing_until_enabled() {
    let world = World::new();
    let mut worker = world.worker("a");
    run_until_idle(&mut worker).await;
    world.create_session("1").await;
    world.receiver.will_return([SendOutcome::Gone]);
    wait_seconds_after_step(&mut worker).await;
    for _ in 0..3 {
        world.advance_seconds(1000);
        wait_seconds_after_step(&mut worker).await;
    }
    assert_eq!(world.receiver.count(), 1);
    assert!(world.status().await.disabled_at.is_some());
    let name = world.feed().name;
    change_webhook(world.ledger.as_ref(), &name, WebhookAction::Enable)
        .await
        .unwrap();
    run_until_idle(&mut worker).await;
    assert_eq!(
        world.receiver.sessions(),
        [vec!["1"], vec!["1"]],
        "nothing is lost"
    );
}

#[tokio::test]
async fn only_one_of_two_processes_sends_until_its_claim_expires() {
    let world = World::new();
    let (mut a, mut b) = (world.worker("a"), world.worker("b"));
    run_until_idle(&mut a).await;
    world.create_session("1").await;
    run_until_idle(&mut a).await;
    assert_eq!(
        state_of(a.load_state().await.unwrap())
            .claim
            .unwrap()
            .holder,
        "a"
    );
    world.create_session("2").await;
    assert_eq!(
        wait_seconds_after_step(&mut b).await,
        12,
        "the other process may still be sending"
    );
    assert_eq!(world.receiver.count(), 1);
    world.advance_seconds(12);
    run_until_idle(&mut b).await;
    run_until_idle(&mut a).await;
    assert_eq!(world.receiver.sessions(), [vec!["1"], vec!["2"]]);
    assert_eq!(world.status().await.holder.as_deref(), Some("b"));
    world.advance_seconds(12);
    assert_eq!(world.status().await.holder, None);
}

#[tokio::test]
async fn changes_of_other_kinds_are_skipped() {
    let world = World::new();
    let mut worker = world.worker("a");
    worker.settings.feed.kinds = Some(vec![ChangeKind::Items]);
    run_until_idle(&mut worker).await;
    let commits = world.ledger.position().commit_count();
    for n in 0..5 {
        world.create_session(&n.to_string()).await;
    }
    run_until_idle(&mut worker).await;
    assert_eq!(world.receiver.count(), 0);
    assert_eq!(world.ledger.position().commit_count(), commits + 5);
    let text = world.metrics.encode(0, 0, &Registry::default()).unwrap();
    assert!(
        text.contains("filrouge_webhook_lag_commits{webhook=\"crm\"} 0"),
        "{text}"
    );
}
