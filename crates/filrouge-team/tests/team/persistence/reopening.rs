//! Sessions that are closed, and reopened after a restart with all that was recorded.

use filrouge_engine::restore::{RestoreQuery, Selection};
use filrouge_team::message::{Cut, Message};
use filrouge_team::record::{AgentError, Record, State, Status};
use filrouge_types::{Channel, ErrorCode, SessionStatus, TurnStatus};

use crate::persistence::world::{
    World, caller, context, cut_message, exchange, message, paused, record_message,
    record_with_error, session_id,
};

/// Records messages, and asserts that they are restored after a restart.
async fn assert_restored_after_restart(count: u64) {
    let world = World::new();
    let opened = world.open_new().await;
    let mut messages = Vec::new();
    for number in 1..=count {
        let name = if number % 2 == 1 { "Ann" } else { "Planner" };
        let message = message(number, name, &format!("message {number}"));
        record_message(&opened.record, &message).await;
        messages.push(message);
        if number % 2 == 0 {
            opened.record.hand_over(&paused()).await.unwrap();
        }
    }
    let id = opened.record.session_id().to_owned();
    opened.record.close(&paused()).await.unwrap();
    drop(opened);
    let world = world.restarted().await;
    let opened = world.open(&id).await;
    assert_eq!(opened.restored.context, context(&messages));
    assert_eq!(opened.restored.highest_message, count);
    assert_eq!(opened.status, Status::Paused);
    assert_eq!(opened.waiting_for.as_deref(), Some("ann"));
    world.assert_intact().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_is_restored() {
    let world = World::new();
    let opened = world.open_new().await;
    let greeting = message(1, "Ann", "hello");
    record_message(&opened.record, &greeting).await;
    opened.record.close(&paused()).await.unwrap();
    let id = opened.record.session_id().to_owned();
    drop(opened);
    let world = world.restarted().await;
    let opened = world.open(&id).await;
    assert_eq!(opened.restored.context, context(&[greeting]));
    assert!(opened.interrupted.is_empty());
    let turns = world.turns(&id).await;
    assert_eq!(turns[0].status, TurnStatus::Cancelled, "nobody answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_five_messages_are_restored() {
    assert_restored_after_restart(45).await;
}

/// The messages are imported, because that is the fastest way to record so many.
#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_messages_are_restored() {
    let world = World::new();
    let messages: Vec<Message> = (1..=5000)
        .map(|n| {
            message(
                n,
                ["Coder", "Ann", "Planner"][usize::try_from(n % 3).unwrap()],
                "words and words",
            )
        })
        .collect();
    let id = crate::persistence::import_export::imported_session(&world, "long", &messages).await;
    let opened = world.open(&id).await;
    assert_eq!(opened.restored.context, context(&messages));
    let more = exchange(&opened.record, 5001).await;
    opened.record.close(&paused()).await.unwrap();
    drop(opened);
    let world = world.restarted().await;
    let opened = world.open(&id).await;
    assert_eq!(opened.restored.context.messages.len(), 5002);
    assert_eq!(opened.restored.context.messages[5000..], more[..]);
    assert_eq!(opened.restored.highest_message, 5002);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_ends_with_its_last_message() {
    let world = World::new();
    let opened = world.open_new().await;
    let record = &opened.record;
    let messages = [
        message(1, "Ann", "who does it?"),
        message(2, "Planner", "the coder"),
        message(3, "Coder", "done"),
    ];
    for message in &messages {
        record_message(record, message).await;
    }
    record.hand_over(&paused()).await.unwrap();
    let id = record.session_id().to_owned();
    let turns = world.turns(&id).await;
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].status, TurnStatus::Finalized);
    let question = turns[0].question_neutral.as_ref().unwrap().to_plain();
    let answer = turns[0].answer_neutral.as_ref().unwrap().to_plain();
    assert_eq!((&*question, &*answer), ("who does it?", "done"));
    let items = world.items(&id).await;
    let channels: Vec<_> = items
        .iter()
        .map(|item| {
            let id = item.body.item_id.as_ref().unwrap();
            (id.as_str(), &item.body.channel)
        })
        .collect();
    let expected = [
        ("msg-1", &Channel::Question),
        ("msg-2", &Channel::Observation),
        ("msg-3", &Channel::Final),
    ];
    assert_eq!(channels, expected);
    assert_eq!(items[1].body.agent.as_deref(), Some("Planner"));
    assert!(
        world
            .engine
            .streams
            .unfinished(&caller(), &session_id(&id))
            .await
            .unwrap()
            .is_empty()
    );
    let query = RestoreQuery {
        selection: Selection::Pairs,
        ..RestoreQuery::default()
    };
    let plan = world
        .engine
        .context
        .restore(&caller(), &session_id(&id), query)
        .await
        .unwrap();
    let pair = plan.turns[0].pair.as_ref().unwrap();
    assert_eq!(pair.answer.to_plain(), "done");
}

/// A message, and the error if its agent failed.
type Answer<'a> = (Message, Option<&'a AgentError>);

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_recorded_however_their_turn_ends() {
    let failed = AgentError {
        code: "agent_exit",
        detail: "exit code 3".into(),
        cut: Cut::Failed,
    };
    let world = World::new();
    let opened = world.open_new().await;
    let record = &opened.record;
    let partial = |number, reason| cut_message(message(number, "Coder", "half of"), reason);
    let rounds: [(Vec<Answer<'_>>, TurnStatus); 7] = [
        (
            vec![(partial(2, Cut::Cancelled), None)],
            TurnStatus::Cancelled,
        ),
        (
            vec![(partial(4, Cut::Failed), Some(&failed))],
            TurnStatus::Failed,
        ),
        (
            vec![(partial(6, Cut::Interrupted), None)],
            TurnStatus::Failed,
        ),
        // Another agent answers.
        (
            vec![
                (partial(8, Cut::Failed), Some(&failed)),
                (message(9, "Planner", "I can"), None),
            ],
            TurnStatus::Finalized,
        ),
        // A note of the application does not determine how the turn ends.
        (
            vec![
                (message(11, "Planner", "ask Zoe"), None),
                (message(12, "System", "nobody is called Zoe"), None),
            ],
            TurnStatus::Finalized,
        ),
        (
            vec![
                (partial(14, Cut::Failed), Some(&failed)),
                (message(15, "System", "the coder failed"), None),
            ],
            TurnStatus::Failed,
        ),
        // A human speaks in between, and the agent answers later.
        (
            vec![
                (message(17, "Planner", "hm"), None),
                (message(18, "Ann", "wait"), None),
                (message(19, "Coder", "yes"), None),
            ],
            TurnStatus::Finalized,
        ),
    ];
    let (mut messages, mut statuses) = (Vec::new(), Vec::new());
    for (answers, status) in rounds {
        let last = messages.last().map_or(0, |message: &Message| {
            message.id[4..].parse::<u64>().unwrap()
        });
        let question = message(last + 1, "Ann", "well?");
        record_message(record, &question).await;
        messages.push(question);
        for (message, error) in answers {
            record_with_error(record, &message, error).await;
            messages.push(message);
        }
        record.hand_over(&paused()).await.unwrap();
        statuses.push(status);
    }
    let id = record.session_id().to_owned();
    let turns = world.turns(&id).await;
    let ended: Vec<_> = turns.iter().map(|turn| turn.status).collect();
    assert_eq!(ended, statuses);
    let items = world.items(&id).await;
    let errors = items
        .iter()
        .filter(|item| item.body.parts.as_str().contains("agent_exit"));
    assert_eq!(
        errors.count(),
        5,
        "three in messages, and two in the ends of turns"
    );
    record.close(&paused()).await.unwrap();
    drop(opened);
    let world = world.restarted().await;
    assert_eq!(world.open(&id).await.restored.context, context(&messages));
    world.assert_intact().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_task_and_notes_between_turns_are_recorded_immediately() {
    let world = World::new();
    let opened = world.open_new().await;
    let (record, id) = (&opened.record, opened.record.session_id().to_owned());
    record.write_task(Some("first")).await.unwrap();
    let mut messages = exchange(record, 1).await;
    let note = message(3, "System", "a note at the prompt");
    record_message(record, &note).await;
    messages.push(note);
    record.write_task(Some("second")).await.unwrap();
    record.write_task(Some("second")).await.unwrap();
    let long = "x".repeat(5121);
    let refused = record.write_task(Some(&long)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::LimitExceeded);
    // The session was not closed.
    world.clock.advance(std::time::Duration::from_secs(60));
    let next = world.other_process();
    let restored = next.open(&id).await.restored.context;
    assert_eq!(restored.team_task.as_deref(), Some("second"));
    assert_eq!(restored.messages, messages);
    let tasks = next.items(&id).await;
    let tasks = tasks
        .iter()
        .filter(|item| item.body.parts.as_str().contains("team_task"));
    // The tasks `first` and `second`; between them, the hand-over clears the task.
    assert_eq!(tasks.count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_hand_over_records_the_state_as_a_checkpoint() {
    let world = World::new();
    let opened = world.open_new().await;
    let (record, id) = (&opened.record, opened.record.session_id().to_owned());
    exchange(record, 1).await;
    record.hand_over(&paused()).await.unwrap();
    let checkpoint = world
        .engine
        .calls
        .latest_checkpoint(&caller(), &session_id(&id))
        .await
        .unwrap();
    assert_eq!(checkpoint.label.as_deref(), Some("paused"));
    let state: serde_json::Value = serde_json::from_str(checkpoint.state.as_str()).unwrap();
    assert_eq!(state["team_id"], "crew");
    assert_eq!(state["waiting_for"], "ann");
    assert_eq!(state["message_count"], 2);
    assert_eq!(state["members"][1]["name"], "Planner");
    let ended = State {
        status: Status::Completed,
        waiting_for: None,
        team_task: Some("done".into()),
    };
    record.close(&ended).await.unwrap();
    let late = record.write_message(&message(3, "Ann", "too late")).await;
    assert_eq!(late.unwrap_err().code, ErrorCode::LeaseExpired);
    let session = world
        .engine
        .sessions
        .get(&caller(), &session_id(&id))
        .await
        .unwrap();
    assert_eq!(session.status, SessionStatus::Closed);
    assert_eq!(session.state.as_deref(), Some("completed"));
    assert_eq!(session.team_id.as_deref(), Some("crew"));
    // Opening a completed session continues it.
    let opened = world.open(&id).await;
    assert_eq!(opened.status, Status::Completed);
    assert_eq!(opened.restored.context.team_task.as_deref(), Some("done"));
    exchange(&opened.record, 3).await;
    let session = world
        .engine
        .sessions
        .get(&caller(), &session_id(&id))
        .await
        .unwrap();
    assert_eq!(session.status, SessionStatus::Active);
    world.assert_intact().await;
}

/// The size of a hand-over's write does not grow with the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_writes_only_new_items() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    for first in (1..=41).step_by(2) {
        exchange(&opened.record, first).await;
    }
    let items = world.items(&id).await;
    assert_eq!(items.len(), 42, "one item per message, and no others");
    let checkpoints = world
        .engine
        .calls
        .checkpoints(&caller(), &session_id(&id))
        .await
        .unwrap();
    let state_bytes = checkpoints[0].as_ref().unwrap().state.as_str().len();
    assert!(state_bytes < 400, "{state_bytes}");
}
