//! A caller resumes a session that another caller held before.

use super::*;

#[tokio::test]
async fn a_waiting_caller_takes_over_a_webhook_when_its_holder_releases() {
    let world = World::new();
    let first_resume = world.resume("a").await.unwrap();
    world.start(first_resume.fence).await;
    let second_delivery = world.enter(resume_by("b", 0), OnBusy::Wait(Duration::from_secs(60)));
    world.wait_for_attempts(2).await;
    world
        .engine
        .calls
        .release(&caller(), &session_id(), "a", Some(first_resume.fence))
        .await
        .unwrap();
    let entered = second_delivery.await.unwrap().unwrap();
    assert!(
        matches!(&entered, WebhookAdmission::Work(r) if r.fence == first_resume.fence + 1),
        "{entered:?}"
    );
    assert_eq!(world.lease().await.holder.as_deref(), Some("b"));
}

#[tokio::test]
async fn an_answer_is_returned_even_if_the_release_fails() {
    let world = World::new();
    let first_resume = world.resume("a").await.unwrap();
    let turn = world.start(first_resume.fence).await;
    world.ledger.releases_fail.store(true, Ordering::SeqCst);
    let second_delivery = world.enter(resume_by("b", 30_000), OnBusy::Reject);
    world.wait_for_attempts(2).await;
    world.finalize(turn.turn_id, first_resume.fence, true).await;
    let entered = second_delivery.await.unwrap().unwrap();
    assert!(
        matches!(entered, WebhookAdmission::Answered(_)),
        "{entered:?}"
    );
}

#[tokio::test]
async fn a_copy_is_stale_if_another_holder_has_held_the_session_since() {
    let world = World::new();
    let first = world.resume("a").await.unwrap();
    let request = |holder: &str, known_seq, known_fence| ResumeSession {
        known_seq,
        known_fence,
        ..resume_by(holder, 0)
    };
    let stale = async |request: ResumeSession| {
        let holder = request.holder.clone();
        let engine = &world.engine;
        let resumed = engine
            .calls
            .resume(&caller(), &session_id(), request)
            .await
            .unwrap();
        engine
            .calls
            .release(&caller(), &session_id(), &holder, Some(resumed.fence))
            .await
            .unwrap();
        resumed.stale
    };
    let (first_fence, no_items) = (Some(first.fence), Some(0));
    assert_eq!(
        stale(request("a", no_items, first_fence)).await,
        Some(false),
        "a renewed lease"
    );
    assert_eq!(
        stale(request("b", no_items, first_fence)).await,
        Some(false),
        "the next holder"
    );
    assert_eq!(
        stale(request("a", no_items, first_fence)).await,
        Some(true),
        "b has held the session"
    );
    assert_eq!(stale(request("a", None, first_fence)).await, Some(true));
    assert_eq!(stale(request("a", Some(7), Some(99))).await, Some(true));
    assert_eq!(stale(request("a", no_items, None)).await, Some(false));
    assert_eq!(stale(request("a", None, None)).await, None);
}
