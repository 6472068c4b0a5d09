//! Failed writes to the ledger are reported and pause the conversation.

use filrouge_team::coordinator::{Settings, TeamEvent, UnrecordedContent};
use filrouge_team::record::Status;
use filrouge_types::ErrorCode;

use crate::test_conversation::TestConversation;

const ANSWERS: &str = "cat > /dev/null; echo yes";

/// The contents that the events report as not recorded.
fn unrecorded_contents(events: &[TeamEvent]) -> Vec<UnrecordedContent> {
    let reported = events.iter().filter_map(|event| match event {
        TeamEvent::NotKept { content, failure } => {
            assert_eq!(failure.code, ErrorCode::StoreUnavailable);
            Some(content.clone())
        }
        _ => None,
    });
    reported.collect()
}

#[tokio::test]
async fn a_message_that_cannot_be_recorded_is_refused() {
    let mut conversation = TestConversation::with_agents(&[("bob", ANSWERS)])
        .started()
        .await;
    conversation.record.fail(&["message"]);
    let refused = conversation.coordinator.say("hello").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable);
    assert_eq!(conversation.coordinator.message_count(), 0);
    conversation.record.fail(&[]);
    let (messages, _) = conversation.say("hello").await;
    assert_eq!(messages, ["ada: hello", "bob: yes"]);
    // The ledger may have recorded the message in spite of the error, so its id is not reused.
    assert_eq!(conversation.coordinator.newest(2)[0].id, "msg-2".into());
}

#[tokio::test]
async fn an_answer_whose_start_cannot_be_recorded_waits() {
    let mut conversation = TestConversation::with_agents(&[("bob", ANSWERS), ("carol", ANSWERS)])
        .started()
        .await;
    conversation.record.fail(&["begin"]);
    conversation
        .coordinator
        .say("[NEXT: carol !P3, bob] hello")
        .await
        .unwrap();
    let (events, state) = conversation.until_handed_over().await;
    assert_eq!(unrecorded_contents(&events), [UnrecordedContent::Begin]);
    assert_eq!(state.status, Status::Paused);
    assert_eq!(conversation.queue.len(), 2);
    conversation.record.fail(&[]);
    assert!(conversation.coordinator.resume().await.unwrap());
    assert_eq!(
        conversation.messages_until_hand_over().await.0,
        ["bob: yes", "carol: yes"]
    );
}

#[tokio::test]
async fn an_answer_whose_end_cannot_be_recorded_is_reported_and_stays_in_the_context() {
    let mut conversation = TestConversation::with_agents(&[
        ("bob", "cat > /dev/null; echo 'yes [NEXT: carol]'"),
        ("carol", "cat > prompt; echo no"),
    ])
    .started()
    .await;
    conversation.record.fail(&["end"]);
    conversation.coordinator.say("hello").await.unwrap();
    let (events, _) = conversation.until_handed_over().await;
    assert_eq!(
        unrecorded_contents(&events),
        [UnrecordedContent::Message("msg-2".into())]
    );
    assert_eq!(conversation.record.lines(), ["ada: hello", "begin msg-2"]);
    assert_eq!(conversation.queue.len(), 1);
    conversation.record.fail(&[]);
    conversation.coordinator.resume().await.unwrap();
    assert_eq!(
        conversation.messages_until_hand_over().await.0,
        ["carol: no"]
    );
    let prompt = std::fs::read_to_string(conversation.path("prompt")).unwrap();
    assert!(prompt.ends_with("yes\n"), "{prompt}");
}

#[tokio::test]
async fn text_that_could_not_be_appended_is_recorded_with_the_end() {
    let mut conversation = TestConversation::with_agents(&[("bob", ANSWERS)])
        .started()
        .await;
    conversation.record.fail(&["append"]);
    conversation.coordinator.say("hello").await.unwrap();
    let (events, _) = conversation.until_handed_over().await;
    assert_eq!(unrecorded_contents(&events), []);
    assert_eq!(conversation.record.lines()[2], "end bob: yes");
}

#[tokio::test]
async fn a_hand_over_that_cannot_be_recorded_is_reported() {
    let mut conversation = TestConversation::with_agents(&[("bob", ANSWERS)])
        .started()
        .await;
    conversation.record.fail(&["hand_over"]);
    conversation.coordinator.say("hello").await.unwrap();
    let (events, state) = conversation.until_handed_over().await;
    assert_eq!(unrecorded_contents(&events), [UnrecordedContent::HandOver]);
    assert_eq!(state.waiting_for.as_deref(), Some("ada"));
}

#[tokio::test]
async fn tasks_and_notes_that_cannot_be_recorded_are_reported() {
    let bob = "cat > /dev/null; echo '[TEAM_TASK: x] yes [NEXT: bob]'";
    let mut conversation = TestConversation::with_settings(
        "max_agent_turns = 1\ntask = \"first\"",
        &[("bob", bob)],
        Settings::default(),
    )
    .started()
    .await;
    conversation.record.fail(&["task"]);
    // The team file's task is recorded before the first message; if that fails, the message is refused.
    conversation.coordinator.say("hello").await.unwrap_err();
    assert_eq!(conversation.coordinator.message_count(), 0);
    conversation
        .coordinator
        .set_team_task(Some("other"))
        .await
        .unwrap_err();
    assert_eq!(
        conversation.coordinator.team_task().as_deref(),
        Some("first")
    );
    conversation.record.fail(&[]);
    conversation.coordinator.say("hello").await.unwrap();
    conversation.record.fail(&["task", "message"]);
    let (events, _) = conversation.until_handed_over().await;
    // Bob's task may have been recorded before the ledger failed; the note comes after the failure.
    let reported = unrecorded_contents(&events);
    assert!(
        !reported.is_empty()
            && reported.iter().all(|content| matches!(
                content,
                UnrecordedContent::Task | UnrecordedContent::Note(_)
            )),
        "{reported:?}"
    );
    assert_eq!(
        conversation.record.lines()[..2],
        ["task Some(\"first\")", "ada: hello"]
    );
}

#[tokio::test]
async fn a_session_that_cannot_be_closed_stays_open() {
    let mut conversation = TestConversation::with_agents(&[("bob", ANSWERS)])
        .started()
        .await;
    conversation.record.fail(&["close"]);
    assert_eq!(
        conversation.coordinator.stop().await.unwrap_err().code,
        ErrorCode::StoreUnavailable
    );
    conversation.record.fail(&[]);
    conversation.coordinator.stop().await.unwrap();
    assert_eq!(conversation.record.lines(), ["close Completed"]);
    let event = conversation.next_event().await;
    assert!(
        matches!(
            event,
            TeamEvent::NotKept {
                content: UnrecordedContent::HandOver,
                ..
            }
        ),
        "{event:?}"
    );
}
