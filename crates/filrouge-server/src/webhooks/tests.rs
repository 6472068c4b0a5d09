//! The steps of a webhook.

use std::num::NonZeroU32;
use std::time::Duration;

use filrouge_store::read::ChangeKind;
use prometheus_client::registry::Registry;

use super::post::{Refusal, Sent};
use super::state::{State, Stored};
use super::worker::{Next, Worker};
use super::*;

mod world;

use world::{Receiver, World, refused};

/// Steps until it waits for a commit.
async fn settle(worker: &mut Worker<Receiver>) {
    for _ in 0..50 {
        match worker.step().await.unwrap() {
            Next::Again => {}
            Next::Commit => return,
            Next::At(time) => panic!("waits until {time}"),
        }
    }
    panic!("goes on for ever");
}

async fn waits(worker: &mut Worker<Receiver>) -> i64 {
    match worker.step().await.unwrap() {
        Next::At(time) => (time.as_micros() - worker.clock.now().as_micros()) / 1_000_000,
        other => panic!("{other:?}"),
    }
}

fn state(stored: Stored<State>) -> State {
    stored.value
}

#[tokio::test]
async fn a_new_one_begins_now_sends_in_order_and_writes_nothing_when_there_is_nothing() {
    let world = World::new();
    world.session("past").await;
    let mut worker = world.worker("a");
    settle(&mut worker).await;
    assert_eq!(world.receiver.count(), 0);
    for id in ["1", "2", "3"] {
        world.session(id).await;
    }
    settle(&mut worker).await;
    assert_eq!(world.receiver.sessions(), [vec!["1", "2"], vec!["3"]]);
    let before = world.ledger.position().commit_no;
    for _ in 0..10 {
        world.pass(100);
        assert_eq!(worker.step().await.unwrap(), Next::Commit);
    }
    assert_eq!(
        world.ledger.position().commit_no,
        before,
        "its own notes are no news"
    );
    assert_eq!(world.status().await.lag_commits, 0);
}

#[tokio::test]
async fn a_refused_batch_keeps_its_id_and_its_changes_across_processes() {
    let world = World::new();
    let mut worker = world.worker("a");
    settle(&mut worker).await;
    world.session("1").await;
    world.receiver.will([refused(500), refused(503)]);
    assert_eq!(waits(&mut worker).await, 1);
    assert_eq!(waits(&mut worker).await, 1, "not before its time");
    assert_eq!(world.receiver.count(), 1);
    world.session("2").await;
    world.pass(1);
    // Another process goes on with the same batch, though there is more by now.
    let mut other = world.worker("b");
    assert_eq!(waits(&mut other).await, 2);
    let status = world.status().await;
    assert_eq!(
        (status.failures, status.last_error.as_deref()),
        (2, Some("status_503"))
    );
    assert!(status.lag_commits > 0);
    world.pass(2);
    settle(&mut worker).await;
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
async fn retry_after_is_honoured() {
    let world = World::new();
    let mut worker = world.worker("a");
    settle(&mut worker).await;
    world.session("1").await;
    world.receiver.will([Sent::Refused {
        why: Refusal::Status(429),
        retry_after: Some(Duration::from_secs(90)),
    }]);
    assert_eq!(waits(&mut worker).await, 90);
    assert!(world.status().await.retry_at.is_some());
}

#[tokio::test]
async fn given_up_after_all_attempts_and_sent_again_when_asked() {
    let world = World::new();
    let mut worker = world.worker("a");
    settle(&mut worker).await;
    world.session("1").await;
    world
        .receiver
        .will([refused(500), refused(500), refused(500)]);
    waits(&mut worker).await;
    world.pass(1);
    waits(&mut worker).await;
    world.pass(2);
    world.session("2").await;
    settle(&mut worker).await;
    assert_eq!(
        world.receiver.sessions().last().unwrap(),
        &["2"],
        "the feed moves on"
    );
    let status = world.status().await;
    assert_eq!(status.dead_letters.len(), 1);
    let letter = &status.dead_letters[0];
    assert_eq!((letter.attempts, letter.error.as_str()), (3, "status_500"));

    let again = |action| {
        let (ledger, name) = (world.ledger.clone(), world.feed().name);
        async move {
            change_webhook(ledger.as_ref(), &name, action)
                .await
                .unwrap()
        }
    };
    // Refused again: it stays, and the feed goes on.
    assert_eq!(again(WebhookAction::Redeliver).await, 1);
    world.receiver.will([refused(500)]);
    settle(&mut worker).await;
    let status = world.status().await;
    assert_eq!(
        (status.dead_letters[0].attempts, status.redelivering),
        (4, false)
    );
    // Taken: it is gone.
    again(WebhookAction::Redeliver).await;
    assert!(world.status().await.redelivering);
    settle(&mut worker).await;
    let ids = world.receiver.ids();
    assert_eq!(world.receiver.sessions().last().unwrap(), &["1"]);
    assert_eq!(ids.last(), ids.first(), "under the id it had");
    let status = world.status().await;
    assert_eq!((status.dead_letters.len(), status.redelivering), (0, false));
}

#[tokio::test]
async fn discarded_letters_are_gone() {
    let world = World::new();
    let mut worker = world.worker("a");
    worker.settings.max_attempts = NonZeroU32::MIN;
    settle(&mut worker).await;
    world.session("1").await;
    world.receiver.will([refused(404)]);
    settle(&mut worker).await;
    let name = world.feed().name;
    let discard = change_webhook(world.ledger.as_ref(), &name, WebhookAction::Discard).await;
    assert_eq!(discard.unwrap(), 1);
    assert!(world.status().await.dead_letters.is_empty());
    let unknown = "other".parse().unwrap();
    let failed = change_webhook(world.ledger.as_ref(), &unknown, WebhookAction::Enable).await;
    assert_eq!(failed.unwrap_err().code, filrouge_types::ErrorCode::Invalid);
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_left_alone_until_enabled() {
    let world = World::new();
    let mut worker = world.worker("a");
    settle(&mut worker).await;
    world.session("1").await;
    world.receiver.will([Sent::Gone]);
    waits(&mut worker).await;
    for _ in 0..3 {
        world.pass(1000);
        waits(&mut worker).await;
    }
    assert_eq!(world.receiver.count(), 1);
    assert!(world.status().await.disabled_at.is_some());
    let name = world.feed().name;
    change_webhook(world.ledger.as_ref(), &name, WebhookAction::Enable)
        .await
        .unwrap();
    settle(&mut worker).await;
    assert_eq!(
        world.receiver.sessions(),
        [vec!["1"], vec!["1"]],
        "nothing is lost"
    );
}

#[tokio::test]
async fn of_two_processes_one_sends_until_its_claim_lapses() {
    let world = World::new();
    let (mut a, mut b) = (world.worker("a"), world.worker("b"));
    settle(&mut a).await;
    world.session("1").await;
    settle(&mut a).await;
    assert_eq!(state(a.stored().await.unwrap()).claim.unwrap().holder, "a");
    world.session("2").await;
    assert_eq!(
        waits(&mut b).await,
        12,
        "a message of the other may be under way"
    );
    assert_eq!(world.receiver.count(), 1);
    world.pass(12);
    settle(&mut b).await;
    settle(&mut a).await;
    assert_eq!(world.receiver.sessions(), [vec!["1"], vec!["2"]]);
    assert_eq!(world.status().await.holder.as_deref(), Some("b"));
    world.pass(12);
    assert_eq!(world.status().await.holder, None);
}

#[tokio::test]
async fn what_is_not_asked_for_is_passed_over() {
    let world = World::new();
    let mut worker = world.worker("a");
    worker.settings.feed.kinds = Some(vec![ChangeKind::Items]);
    settle(&mut worker).await;
    let commits = world.ledger.position().commit_no;
    for n in 0..5 {
        world.session(&n.to_string()).await;
    }
    settle(&mut worker).await;
    assert_eq!(world.receiver.count(), 0);
    assert_eq!(world.ledger.position().commit_no, commits + 5);
    let text = world.metrics.encode(0, 0, &Registry::default()).unwrap();
    assert!(
        text.contains("filrouge_webhook_lag_commits{webhook=\"crm\"} 0"),
        "{text}"
    );
}
