//! Failed writes to the ledger are reported and pause the conversation.

use filrouge_team::coordinator::{NotKept, Settings, TeamEvent};
use filrouge_team::record::Status;
use filrouge_types::ErrorCode;

use crate::talk::Talk;

const ANSWERS: &str = "cat > /dev/null; echo yes";

fn not_kept(events: &[TeamEvent]) -> Vec<NotKept> {
    let reported = events.iter().filter_map(|event| match event {
        TeamEvent::NotKept { what, failure } => {
            assert_eq!(failure.code, ErrorCode::StoreUnavailable);
            Some(what.clone())
        }
        _ => None,
    });
    reported.collect()
}

#[tokio::test]
async fn a_message_that_is_not_kept_is_not_said() {
    let mut talk = Talk::of(&[("bob", ANSWERS)]).begun().await;
    talk.record.fail(&["message"]);
    let refused = talk.coordinator.say("hello").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable);
    assert_eq!(talk.coordinator.message_count(), 0);
    talk.record.fail(&[]);
    let (said, _) = talk.say("hello").await;
    assert_eq!(said, ["ada: hello", "bob: yes"]);
    // The failed write may be in the ledger all the same, so its id is not reused.
    assert_eq!(talk.coordinator.newest(2)[0].id, "msg-2".into());
}

#[tokio::test]
async fn an_answer_that_cannot_begin_waits() {
    let mut talk = Talk::of(&[("bob", ANSWERS), ("carol", ANSWERS)])
        .begun()
        .await;
    talk.record.fail(&["begin"]);
    talk.coordinator
        .say("[NEXT: carol !P3, bob] hello")
        .await
        .unwrap();
    let (events, state) = talk.until_handed_over().await;
    assert_eq!(not_kept(&events), [NotKept::Begin]);
    assert_eq!(state.status, Status::Paused);
    assert_eq!(talk.queue.len(), 2);
    talk.record.fail(&[]);
    assert!(talk.coordinator.resume().await.unwrap());
    assert_eq!(talk.listen().await.0, ["bob: yes", "carol: yes"]);
}

#[tokio::test]
async fn an_answer_whose_end_is_not_kept_is_reported_and_stays_visible() {
    let mut talk = Talk::of(&[
        ("bob", "cat > /dev/null; echo 'yes [NEXT: carol]'"),
        ("carol", "cat > prompt; echo no"),
    ])
    .begun()
    .await;
    talk.record.fail(&["end"]);
    talk.coordinator.say("hello").await.unwrap();
    let (events, _) = talk.until_handed_over().await;
    assert_eq!(not_kept(&events), [NotKept::Message("msg-2".into())]);
    assert_eq!(talk.record.words(), ["ada: hello", "begin msg-2"]);
    assert_eq!(talk.queue.len(), 1);
    talk.record.fail(&[]);
    talk.coordinator.resume().await.unwrap();
    assert_eq!(talk.listen().await.0, ["carol: no"]);
    let prompt = std::fs::read_to_string(talk.path("prompt")).unwrap();
    assert!(prompt.ends_with("yes\n"), "{prompt}");
}

#[tokio::test]
async fn pieces_that_are_not_kept_are_recorded_with_the_end() {
    let mut talk = Talk::of(&[("bob", ANSWERS)]).begun().await;
    talk.record.fail(&["append"]);
    talk.coordinator.say("hello").await.unwrap();
    let (events, _) = talk.until_handed_over().await;
    assert_eq!(not_kept(&events), []);
    assert_eq!(talk.record.words()[2], "end bob: yes");
}

#[tokio::test]
async fn a_hand_over_that_is_not_kept_is_reported() {
    let mut talk = Talk::of(&[("bob", ANSWERS)]).begun().await;
    talk.record.fail(&["hand_over"]);
    talk.coordinator.say("hello").await.unwrap();
    let (events, state) = talk.until_handed_over().await;
    assert_eq!(not_kept(&events), [NotKept::HandOver]);
    assert_eq!(state.waiting_for.as_deref(), Some("ada"));
}

#[tokio::test]
async fn tasks_and_notes_that_are_not_kept_are_reported() {
    let bob = "cat > /dev/null; echo '[TEAM_TASK: x] yes [NEXT: bob]'";
    let mut talk = Talk::with(
        "max_agent_turns = 1\ntask = \"first\"",
        &[("bob", bob)],
        Settings::default(),
    )
    .begun()
    .await;
    talk.record.fail(&["task"]);
    // The team file's task is recorded before the first message; if that fails, the message is not said.
    talk.coordinator.say("hello").await.unwrap_err();
    assert_eq!(talk.coordinator.message_count(), 0);
    talk.coordinator
        .set_team_task(Some("other"))
        .await
        .unwrap_err();
    assert_eq!(talk.coordinator.team_task().as_deref(), Some("first"));
    talk.record.fail(&[]);
    talk.coordinator.say("hello").await.unwrap();
    talk.record.fail(&["task", "message"]);
    let (events, _) = talk.until_handed_over().await;
    // Whether bob's task was recorded before the ledger failed is unknown; the note came after.
    let reported = not_kept(&events);
    assert!(
        !reported.is_empty()
            && reported
                .iter()
                .all(|what| matches!(what, NotKept::Task | NotKept::Note(_))),
        "{reported:?}"
    );
    assert_eq!(
        talk.record.words()[..2],
        ["task Some(\"first\")", "ada: hello"]
    );
}

#[tokio::test]
async fn a_session_that_cannot_be_closed_stays_open() {
    let mut talk = Talk::of(&[("bob", ANSWERS)]).begun().await;
    talk.record.fail(&["close"]);
    assert_eq!(
        talk.coordinator.stop().await.unwrap_err().code,
        ErrorCode::StoreUnavailable
    );
    talk.record.fail(&[]);
    talk.coordinator.stop().await.unwrap();
    assert_eq!(talk.record.words(), ["close Completed"]);
    let what = talk.event().await;
    assert!(
        matches!(
            what,
            TeamEvent::NotKept {
                what: NotKept::HandOver,
                ..
            }
        ),
        "{what:?}"
    );
}
