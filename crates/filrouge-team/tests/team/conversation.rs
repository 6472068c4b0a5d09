//! Turn-taking: which member speaks next, in answer to which message, with which prompt.

use filrouge_team::coordinator::{Settings, TeamEvent, Warning};
use filrouge_team::message::{Intent, SpeakerKind};
use filrouge_team::record::Status;
use filrouge_types::ErrorCode;

use crate::memory_record::Call;
use crate::test_conversation::{TestConversation, line};

/// An agent that answers without addressing a member.
const ANSWERS: &str = "cat > /dev/null; echo 'I see.'";

#[tokio::test]
async fn a_human_and_an_agent_speak_in_turn() {
    let mut conversation =
        TestConversation::with_agents(&[("bob", "cat > prompt; printf 'one\\ntwo\\n'")])
            .started()
            .await;
    assert_eq!(conversation.coordinator.message_count(), 0);
    let id = conversation.coordinator.say("hello").await.unwrap();
    assert_eq!(id.as_deref(), Some("msg-1"));
    let (events, state) = conversation.until_handed_over().await;
    assert_eq!(
        (state.status, state.waiting_for.as_deref()),
        (Status::Paused, Some("ada"))
    );

    let texts: String = events
        .iter()
        .filter_map(|event| match event {
            TeamEvent::Text { id, text } => {
                assert_eq!(&**id, "msg-2");
                Some(&**text)
            }
            _ => None,
        })
        .collect();
    assert_eq!(texts, "one\ntwo");
    let started = events
        .iter()
        .position(|event| matches!(event, TeamEvent::Began(message) if &*message.id == "msg-2"));
    let ended = events.iter().position(|event| matches!(event, TeamEvent::Ended { message, error: None } if line(message) == "bob: one\ntwo"));
    assert!(started.unwrap() < ended.unwrap());

    assert_eq!(
        conversation.record.lines(),
        [
            "ada: hello",
            "begin msg-2",
            "end bob: one\ntwo",
            "hand over to ada"
        ]
    );
    let Call::End(message, appended, None) = &conversation.record.calls()[2] else {
        panic!("bob has ended");
    };
    assert_eq!((appended.as_str(), message.cut), ("one\ntwo", None));
    assert_eq!(
        (message.routing.parent.as_deref(), message.speaker.kind),
        (Some("msg-1"), SpeakerKind::Agent)
    );
    let prompt = std::fs::read_to_string(conversation.path("prompt")).unwrap();
    assert!(
        prompt.ends_with("# Message to answer\n\n[msg-1] ada (human):\n\nhello\n"),
        "{prompt}"
    );
    assert_eq!(conversation.coordinator.newest(1)[0].id, "msg-2".into());
}

#[tokio::test]
async fn the_next_prompt_has_the_earlier_messages() {
    let mut conversation =
        TestConversation::with_agents(&[("bob", "cat > prompt; echo 'The answer is 42.'")])
            .started()
            .await;
    conversation
        .say("[TEAM_TASK: build it] What is the answer?")
        .await;
    conversation.say("Are you sure?").await;
    let prompt = std::fs::read_to_string(conversation.path("prompt")).unwrap();
    assert!(prompt.contains("# Team task\n\n  build it\n"), "{prompt}");
    assert!(
        prompt.contains("[msg-1] ada (human):\n  What is the answer?\n"),
        "{prompt}"
    );
    assert!(
        prompt.contains("[msg-2] bob (agent), answering msg-1:\n  The answer is 42.\n"),
        "{prompt}"
    );
    assert!(
        prompt.ends_with("[msg-3] ada (human), answering msg-2:\n\nAre you sure?\n"),
        "{prompt}"
    );
    assert_eq!(
        conversation.coordinator.team_task().as_deref(),
        Some("build it")
    );
}

#[tokio::test]
async fn agents_address_each_other_and_humans() {
    let mut conversation = TestConversation::with_agents(&[
        ("bob", "cat > /dev/null; echo 'Carol knows. [NEXT: carol]'"),
        ("carol", "cat > /dev/null; echo 'I do, @zoe.'"),
    ])
    .started()
    .await;
    let (messages, floor) = conversation.say("who knows?").await;
    assert_eq!(
        messages,
        ["ada: who knows?", "bob: Carol knows.", "carol: I do, @zoe."]
    );
    assert_eq!(floor, "zoe");
    // Carol, who addressed zoe, answers her; the first agent still answers ada.
    let (messages, floor) = conversation.say("thanks").await;
    assert_eq!(messages, ["zoe: thanks", "carol: I do, @zoe."]);
    assert_eq!(floor, "zoe");
    let parents: Vec<_> = conversation
        .coordinator
        .newest(9)
        .iter()
        .map(|message| message.routing.parent.clone())
        .collect();
    assert_eq!(
        parents[1..]
            .iter()
            .flatten()
            .map(|parent| &**parent)
            .collect::<Vec<_>>(),
        ["msg-1", "msg-2", "msg-3", "msg-4"]
    );
    assert_eq!(conversation.say("@ada, and you?").await.1, "ada");
    let (messages, _) = conversation.say("and me?").await;
    assert_eq!(messages[..2], ["ada: and me?", "bob: Carol knows."]);
}

#[tokio::test]
async fn the_queue_is_served_by_intent_then_in_order() {
    let mut conversation = TestConversation::with_agents(&[
        ("bob", ANSWERS),
        ("carol", ANSWERS),
        ("dave", ANSWERS),
        ("eve", ANSWERS),
    ])
    .started()
    .await;
    let (messages, floor) = conversation
        .say("[NEXT: bob !P3, carol, dave !P1, eve, carol] go")
        .await;
    let order: Vec<&str> = messages
        .iter()
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(
        (order, floor.as_str()),
        (vec!["ada", "dave", "carol", "eve", "bob"], "ada")
    );
    let answers = conversation.coordinator.newest(4);
    assert!(
        answers
            .iter()
            .all(|message| message.routing.parent.as_deref() == Some("msg-1"))
    );
    let question = &conversation.coordinator.newest(5)[0];
    assert_eq!(question.routing.intent, Some(Intent::Interrupt));
}

#[tokio::test]
async fn the_queue_stops_at_a_human_and_the_rest_waits() {
    let mut conversation = TestConversation::with_agents(&[("bob", ANSWERS), ("carol", ANSWERS)])
        .started()
        .await;
    let (messages, floor) = conversation.say("[NEXT: bob, zoe, carol] go").await;
    assert_eq!((messages.len(), floor.as_str()), (2, "zoe"));
    let [waiting] = &conversation.queue[..] else {
        panic!("one member waits: {:?}", conversation.queue);
    };
    assert_eq!((&*waiting.member_id, &*waiting.by), ("carol", "ada"));
    let (messages, floor) = conversation.say("go on, @bob").await;
    assert_eq!(
        messages,
        ["zoe: go on, @bob", "carol: I see.", "bob: I see."]
    );
    assert_eq!(floor, "ada");
    assert!(conversation.queue.is_empty());
}

#[tokio::test]
async fn unknown_member_names_are_reported() {
    let mut conversation = TestConversation::with_agents(&[
        ("bob", "cat > /dev/null; echo '[NEXT: nobody] hm'"),
        ("carol", ANSWERS),
    ])
    .started()
    .await;
    conversation
        .coordinator
        .say("[NEXT: bbo] hello")
        .await
        .unwrap();
    let (events, state) = conversation.until_handed_over().await;
    let warned = events.iter().any(|event| {
        matches!(event, TeamEvent::Warning(Warning::Unresolved { id, identifiers, members })
            if &**id == "msg-1" && *identifiers == ["bbo".into()] && members.len() == 4)
    });
    assert!(
        warned && state.waiting_for.as_deref() == Some("ada"),
        "{events:?}"
    );
    assert_eq!(
        conversation.record.lines(),
        ["ada: hello", "hand over to ada"]
    );
    let addressee = &conversation.coordinator.newest(1)[0].routing.addressees[0];
    assert_eq!(
        (&*addressee.identifier, &addressee.member_id),
        ("bbo", &None)
    );

    // Known members answer; an agent that names only unknown members gives the floor to a human, and the rest waits.
    let (messages, floor) = conversation.say("[NEXT: bob, bbo, carol]").await;
    assert_eq!(
        (messages, floor.as_str()),
        (vec!["ada: ".into(), "bob: hm".into()], "ada")
    );
    assert_eq!(conversation.queue.len(), 1);
}

#[tokio::test]
async fn agents_that_only_answer_each_other_are_stopped_until_a_human_resumes() {
    let bob = "cat > /dev/null; echo 'ping [NEXT: carol]'";
    let carol = "cat > /dev/null; echo 'pong [NEXT: bob]'";
    let mut conversation = TestConversation::with_settings(
        "max_agent_turns = 3",
        &[("bob", bob), ("carol", carol)],
        Settings::default(),
    )
    .started()
    .await;
    conversation.coordinator.say("begin").await.unwrap();
    let (events, state) = conversation.until_handed_over().await;
    let messages: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            TeamEvent::Said(message) | TeamEvent::Ended { message, .. } => Some(line(message)),
            _ => None,
        })
        .collect();
    let note = "filrouge: 3 messages of agents have followed one another: ada has the floor.";
    assert_eq!(
        messages,
        ["ada: begin", "bob: ping", "carol: pong", "bob: ping", note]
    );
    assert!(events.contains(&TeamEvent::Warning(Warning::AgentTurns { limit: 3 })));
    assert_eq!(state.waiting_for.as_deref(), Some("ada"));
    assert_eq!(conversation.queue.len(), 1, "carol waits");
    assert!(conversation.record.lines().contains(&note.to_owned()));
    assert!(conversation.coordinator.resume().await.unwrap());
    let (messages, _) = conversation.messages_until_hand_over().await;
    assert_eq!(messages[..3], ["carol: pong", "bob: ping", "carol: pong"]);
}

#[tokio::test]
async fn markers_empty_the_queue_and_set_the_task() {
    let bob = "cat > /dev/null; echo '[DROP] [TEAM_TASK: less] enough [NEXT: dave]'";
    let mut conversation =
        TestConversation::with_agents(&[("bob", bob), ("carol", ANSWERS), ("dave", ANSWERS)])
            .started()
            .await;
    conversation
        .coordinator
        .say("[NEXT: bob, carol] go")
        .await
        .unwrap();
    let (events, _) = conversation.until_handed_over().await;
    let speakers: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            TeamEvent::Ended { message, .. } => Some(&*message.speaker.name),
            _ => None,
        })
        .collect();
    assert_eq!(speakers, ["bob", "dave"]);
    assert!(events.contains(&TeamEvent::Warning(Warning::Dropped { count: 1 })));
    assert!(events.contains(&TeamEvent::TaskSet {
        task: Some("less".into()),
        by: "bob".into()
    }));
    assert!(
        conversation
            .record
            .lines()
            .contains(&"task Some(\"less\")".to_owned())
    );
    assert_eq!(
        conversation
            .coordinator
            .say("[DROP] [TEAM_TASK: more]")
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        conversation.coordinator.team_task().as_deref(),
        Some("more")
    );
    conversation.coordinator.set_team_task(None).await.unwrap();
    assert_eq!(conversation.coordinator.team_task(), None);
}

#[tokio::test]
async fn a_task_that_is_too_long_is_refused() {
    let bob = "cat > /dev/null; printf '[TEAM_TASK: %06000d] done' 0";
    let mut conversation = TestConversation::with_agents(&[("bob", bob)])
        .started()
        .await;
    let long = format!("[TEAM_TASK: {}] x", "x".repeat(6000));
    assert_eq!(
        conversation.coordinator.say(&long).await.unwrap_err().code,
        ErrorCode::LimitExceeded
    );
    conversation.coordinator.say("go").await.unwrap();
    let (events, _) = conversation.until_handed_over().await;
    let refused = |event: &TeamEvent| matches!(event, TeamEvent::Warning(Warning::TaskRefused(failure)) if failure.code == ErrorCode::LimitExceeded);
    assert!(events.iter().any(refused));
    assert_eq!(conversation.coordinator.team_task(), None);
    assert_eq!(conversation.record.lines()[0], "ada: go");
}

#[tokio::test]
async fn blank_and_too_long_messages_are_refused() {
    let settings = Settings {
        message_bytes: 20,
        ..Settings::default()
    };
    let mut conversation = TestConversation::with_settings("", &[("bob", ANSWERS)], settings)
        .started()
        .await;
    for (text, code) in [
        (" \n", ErrorCode::Invalid),
        ("ten quotes \"\"\"\"\"", ErrorCode::LimitExceeded),
    ] {
        assert_eq!(
            conversation.coordinator.say(text).await.unwrap_err().code,
            code
        );
    }
    assert_eq!(conversation.record.lines(), Vec::<String>::new());
    let (messages, _) = conversation.say("hi").await;
    assert_eq!(messages, ["ada: hi", "bob: I see."]);
}

#[tokio::test]
async fn humans_talk_without_agents() {
    let mut conversation = TestConversation::with_agents(&[]).started().await;
    let (messages, floor) = conversation.say("hello?").await;
    assert_eq!(
        (messages, floor.as_str()),
        (vec!["ada: hello?".into()], "ada")
    );
    let (messages, floor) = conversation.say("@zoe hello").await;
    assert_eq!(
        (messages, floor.as_str()),
        (vec!["ada: @zoe hello".into()], "zoe")
    );
}
