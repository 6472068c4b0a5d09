//! Turn-taking: who speaks when, in answer to which message, with which prompt.

use filrouge_team::coordinator::{Settings, TeamEvent, Warning};
use filrouge_team::message::{Intent, SpeakerKind};
use filrouge_team::record::Status;
use filrouge_types::ErrorCode;

use crate::kept::Kept;
use crate::talk::{Talk, line};

/// Answers, without addressees.
const ANSWERS: &str = "cat > /dev/null; echo 'I see.'";

#[tokio::test]
async fn a_human_and_an_agent_speak_in_turn() {
    let mut talk = Talk::of(&[("bob", "cat > prompt; printf 'one\\ntwo\\n'")])
        .begun()
        .await;
    assert_eq!(talk.coordinator.message_count(), 0);
    let id = talk.coordinator.say("hello").await.unwrap();
    assert_eq!(id.as_deref(), Some("msg-1"));
    let (events, state) = talk.until_handed_over().await;
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
    let began = events
        .iter()
        .position(|e| matches!(e, TeamEvent::Began(m) if &*m.id == "msg-2"));
    let ended = events.iter().position(|e| matches!(e, TeamEvent::Ended { message, error: None } if line(message) == "bob: one\ntwo"));
    assert!(began.unwrap() < ended.unwrap());

    assert_eq!(
        talk.record.words(),
        [
            "ada: hello",
            "begin msg-2",
            "end bob: one\ntwo",
            "over to ada"
        ]
    );
    let Kept::End(message, said, None) = &talk.record.kept()[2] else {
        panic!("bob has ended");
    };
    assert_eq!((said.as_str(), message.cut), ("one\ntwo", None));
    assert_eq!(
        (message.routing.parent.as_deref(), message.speaker.kind),
        (Some("msg-1"), SpeakerKind::Agent)
    );
    let prompt = std::fs::read_to_string(talk.path("prompt")).unwrap();
    assert!(
        prompt.ends_with("# Message to answer\n\n[msg-1] ada (human):\n\nhello\n"),
        "{prompt}"
    );
    assert_eq!(talk.coordinator.newest(1)[0].id, "msg-2".into());
}

#[tokio::test]
async fn the_next_prompt_has_the_earlier_messages() {
    let mut talk = Talk::of(&[("bob", "cat > prompt; echo 'The answer is 42.'")])
        .begun()
        .await;
    talk.say("[TEAM_TASK: build it] What is the answer?").await;
    talk.say("Are you sure?").await;
    let prompt = std::fs::read_to_string(talk.path("prompt")).unwrap();
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
    assert_eq!(talk.coordinator.team_task().as_deref(), Some("build it"));
}

#[tokio::test]
async fn agents_address_each_other_and_humans() {
    let mut talk = Talk::of(&[
        ("bob", "cat > /dev/null; echo 'Carol knows. [NEXT: carol]'"),
        ("carol", "cat > /dev/null; echo 'I do, @zoe.'"),
    ])
    .begun()
    .await;
    let (said, floor) = talk.say("who knows?").await;
    assert_eq!(
        said,
        ["ada: who knows?", "bob: Carol knows.", "carol: I do, @zoe."]
    );
    assert_eq!(floor, "zoe");
    // Zoe is answered by the agent who spoke to her; ada is still answered by the first agent.
    let (said, floor) = talk.say("thanks").await;
    assert_eq!(said, ["zoe: thanks", "carol: I do, @zoe."]);
    assert_eq!(floor, "zoe");
    let parents: Vec<_> = talk
        .coordinator
        .newest(9)
        .iter()
        .map(|m| m.routing.parent.clone())
        .collect();
    assert_eq!(
        parents[1..]
            .iter()
            .flatten()
            .map(|p| &**p)
            .collect::<Vec<_>>(),
        ["msg-1", "msg-2", "msg-3", "msg-4"]
    );
    assert_eq!(talk.say("@ada, and you?").await.1, "ada");
    let (said, _) = talk.say("and me?").await;
    assert_eq!(said[..2], ["ada: and me?", "bob: Carol knows."]);
}

#[tokio::test]
async fn the_queue_is_served_by_intent_then_in_order() {
    let mut talk = Talk::of(&[
        ("bob", ANSWERS),
        ("carol", ANSWERS),
        ("dave", ANSWERS),
        ("eve", ANSWERS),
    ])
    .begun()
    .await;
    let (said, floor) = talk
        .say("[NEXT: bob !P3, carol, dave !P1, eve, carol] go")
        .await;
    let order: Vec<&str> = said
        .iter()
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(
        (order, floor.as_str()),
        (vec!["ada", "dave", "carol", "eve", "bob"], "ada")
    );
    let answered = talk.coordinator.newest(4);
    assert!(
        answered
            .iter()
            .all(|m| m.routing.parent.as_deref() == Some("msg-1"))
    );
    let asked = &talk.coordinator.newest(5)[0];
    assert_eq!(asked.routing.intent, Some(Intent::Interrupt));
}

#[tokio::test]
async fn a_human_in_the_queue_stops_it_and_the_rest_waits() {
    let mut talk = Talk::of(&[("bob", ANSWERS), ("carol", ANSWERS)])
        .begun()
        .await;
    let (said, floor) = talk.say("[NEXT: bob, zoe, carol] go").await;
    assert_eq!((said.len(), floor.as_str()), (2, "zoe"));
    let [waits] = &talk.queue[..] else {
        panic!("one waits: {:?}", talk.queue);
    };
    assert_eq!((&*waits.member_id, &*waits.by), ("carol", "ada"));
    let (said, floor) = talk.say("go on, @bob").await;
    assert_eq!(said, ["zoe: go on, @bob", "carol: I see.", "bob: I see."]);
    assert_eq!(floor, "ada");
    assert!(talk.queue.is_empty());
}

#[tokio::test]
async fn unknown_names_are_reported() {
    let mut talk = Talk::of(&[
        ("bob", "cat > /dev/null; echo '[NEXT: nobody] hm'"),
        ("carol", ANSWERS),
    ])
    .begun()
    .await;
    talk.coordinator.say("[NEXT: bbo] hello").await.unwrap();
    let (events, state) = talk.until_handed_over().await;
    let warned = events.iter().any(|event| {
        matches!(event, TeamEvent::Warning(Warning::Unresolved { id, identifiers, members })
            if &**id == "msg-1" && *identifiers == ["bbo".into()] && members.len() == 4)
    });
    assert!(
        warned && state.waiting_for.as_deref() == Some("ada"),
        "{events:?}"
    );
    assert_eq!(talk.record.words(), ["ada: hello", "over to ada"]);
    let addressee = &talk.coordinator.newest(1)[0].routing.addressees[0];
    assert_eq!(
        (&*addressee.identifier, &addressee.member_id),
        ("bbo", &None)
    );

    // Known names are served; an agent that names only unknown members ends its turn, and the rest waits.
    let (said, floor) = talk.say("[NEXT: bob, bbo, carol]").await;
    assert_eq!(
        (said, floor.as_str()),
        (vec!["ada: ".into(), "bob: hm".into()], "ada")
    );
    assert_eq!(talk.queue.len(), 1);
}

#[tokio::test]
async fn agents_without_a_human_are_stopped_until_a_human_resumes() {
    let bob = "cat > /dev/null; echo 'ping [NEXT: carol]'";
    let carol = "cat > /dev/null; echo 'pong [NEXT: bob]'";
    let mut talk = Talk::with(
        "max_agent_turns = 3",
        &[("bob", bob), ("carol", carol)],
        Settings::default(),
    )
    .begun()
    .await;
    talk.coordinator.say("begin").await.unwrap();
    let (events, state) = talk.until_handed_over().await;
    let said: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            TeamEvent::Said(message) | TeamEvent::Ended { message, .. } => Some(line(message)),
            _ => None,
        })
        .collect();
    let note = "filrouge: 3 messages of agents have followed one another: ada has the floor.";
    assert_eq!(
        said,
        ["ada: begin", "bob: ping", "carol: pong", "bob: ping", note]
    );
    assert!(events.contains(&TeamEvent::Warning(Warning::AgentTurns { limit: 3 })));
    assert_eq!(state.waiting_for.as_deref(), Some("ada"));
    assert_eq!(talk.queue.len(), 1, "carol waits, and that is shown");
    assert!(talk.record.words().contains(&note.to_owned()));
    assert!(talk.coordinator.resume().await.unwrap());
    let (said, _) = talk.listen().await;
    assert_eq!(said[..3], ["carol: pong", "bob: ping", "carol: pong"]);
}

#[tokio::test]
async fn markers_empty_the_queue_and_set_the_task() {
    let bob = "cat > /dev/null; echo '[DROP] [TEAM_TASK: less] enough [NEXT: dave]'";
    let mut talk = Talk::of(&[("bob", bob), ("carol", ANSWERS), ("dave", ANSWERS)])
        .begun()
        .await;
    talk.coordinator.say("[NEXT: bob, carol] go").await.unwrap();
    let (events, _) = talk.until_handed_over().await;
    let who: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            TeamEvent::Ended { message, .. } => Some(&*message.speaker.name),
            _ => None,
        })
        .collect();
    assert_eq!(who, ["bob", "dave"]);
    assert!(events.contains(&TeamEvent::Warning(Warning::Dropped { count: 1 })));
    assert!(events.contains(&TeamEvent::TaskSet {
        task: Some("less".into()),
        by: "bob".into()
    }));
    assert!(
        talk.record
            .words()
            .contains(&"task Some(\"less\")".to_owned())
    );
    assert_eq!(
        talk.coordinator
            .say("[DROP] [TEAM_TASK: more]")
            .await
            .unwrap(),
        None
    );
    assert_eq!(talk.coordinator.team_task().as_deref(), Some("more"));
    talk.coordinator.set_team_task(None).await.unwrap();
    assert_eq!(talk.coordinator.team_task(), None);
}

#[tokio::test]
async fn a_task_that_is_too_long_is_refused() {
    let bob = "cat > /dev/null; printf '[TEAM_TASK: %06000d] done' 0";
    let mut talk = Talk::of(&[("bob", bob)]).begun().await;
    let long = format!("[TEAM_TASK: {}] x", "x".repeat(6000));
    assert_eq!(
        talk.coordinator.say(&long).await.unwrap_err().code,
        ErrorCode::LimitExceeded
    );
    talk.coordinator.say("go").await.unwrap();
    let (events, _) = talk.until_handed_over().await;
    let refused = |event: &TeamEvent| matches!(event, TeamEvent::Warning(Warning::TaskRefused(f)) if f.code == ErrorCode::LimitExceeded);
    assert!(events.iter().any(refused));
    assert_eq!(talk.coordinator.team_task(), None);
    assert_eq!(talk.record.words()[0], "ada: go");
}

#[tokio::test]
async fn blank_and_too_long_messages_are_refused() {
    let settings = Settings {
        message_bytes: 20,
        ..Settings::default()
    };
    let mut talk = Talk::with("", &[("bob", ANSWERS)], settings).begun().await;
    for (text, code) in [
        (" \n", ErrorCode::Invalid),
        ("ten quotes \"\"\"\"\"", ErrorCode::LimitExceeded),
    ] {
        assert_eq!(talk.coordinator.say(text).await.unwrap_err().code, code);
    }
    assert_eq!(talk.record.words(), Vec::<String>::new());
    let (said, _) = talk.say("hi").await;
    assert_eq!(said, ["ada: hi", "bob: I see."]);
}

#[tokio::test]
async fn humans_talk_without_agents() {
    let mut talk = Talk::of(&[]).begun().await;
    let (said, floor) = talk.say("hello?").await;
    assert_eq!((said, floor.as_str()), (vec!["ada: hello?".into()], "ada"));
    let (said, floor) = talk.say("@zoe hello").await;
    assert_eq!(
        (said, floor.as_str()),
        (vec!["ada: @zoe hello".into()], "zoe")
    );
}
