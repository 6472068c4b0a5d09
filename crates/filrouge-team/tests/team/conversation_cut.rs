//! Messages that are cut short: their agents fail, are cancelled, or are interrupted.

use filrouge_team::coordinator::{Settings, TeamEvent, Warning};
use filrouge_team::message::Cut;
use filrouge_team::record::{AgentError, Status};

use crate::memory_record::Call;
use crate::test_conversation::{TestConversation, is_running, wait_for};

/// An agent that starts to speak, starts a child process, writes both process ids to a file, and does not end.
const ENDLESS: &str = "echo 'I begin'; sleep 1000 & echo $$ $! > pids; wait";

/// The ids of the processes of [`ENDLESS`].
async fn pids(conversation: &TestConversation) -> Vec<u32> {
    let written = conversation.read_when_written("pids").await;
    written
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

/// Waits until a member says this text; returns the member's id.
async fn wait_for_text(conversation: &mut TestConversation, expected: &str) -> Box<str> {
    let mut speaker = Box::default();
    loop {
        match conversation.next_event().await {
            TeamEvent::Began(message) => speaker = message.speaker.id,
            TeamEvent::Text { text, .. } => {
                assert_eq!(&*text, expected);
                return speaker;
            }
            _ => {}
        }
    }
}

/// The text, the cut and the error of the message that ended last.
fn last_end(conversation: &TestConversation) -> (String, Option<Cut>, Option<AgentError>) {
    let calls = conversation.record.calls();
    let mut ends = calls.into_iter().filter_map(|call| match call {
        Call::End(message, _, error) => Some((message.content.into(), message.cut, error)),
        _ => None,
    });
    ends.next_back().expect("an agent has ended")
}

#[tokio::test]
async fn cancelling_records_the_text_so_far_and_ends_all_processes() {
    let mut conversation = TestConversation::with_agents(&[("bob", ENDLESS), ("carol", "echo no")])
        .started()
        .await;
    conversation
        .coordinator
        .say("[NEXT: bob, carol] go")
        .await
        .unwrap();
    assert_eq!(&*wait_for_text(&mut conversation, "I begin").await, "bob");
    let pids = pids(&conversation).await;
    assert!(pids.iter().all(|pid| is_running(*pid)));
    assert!(conversation.coordinator.cancel().await.unwrap());
    assert!(pids.iter().all(|pid| !is_running(*pid)));
    assert_eq!(
        last_end(&conversation),
        ("I begin".into(), Some(Cut::Cancelled), None)
    );
    let (events, state) = conversation.until_handed_over().await;
    assert_eq!(
        (state.status, state.waiting_for.as_deref()),
        (Status::Paused, Some("ada"))
    );
    assert!(events.contains(&TeamEvent::Warning(Warning::Dropped { count: 1 })));
    assert!(conversation.queue.is_empty());
    assert_eq!(
        conversation.record.lines().last().unwrap(),
        "hand over to ada"
    );
    // No member is speaking now.
    assert!(!conversation.coordinator.cancel().await.unwrap());
}

#[tokio::test]
async fn an_agent_that_fails_gives_the_floor_to_a_human() {
    let bob = "cat > /dev/null; echo 'Half [NEXT: carol]'; echo 'no key' >&2; exit 3";
    let mut conversation =
        TestConversation::with_agents(&[("bob", bob), ("carol", "cat > /dev/null; echo yes")])
            .started()
            .await;
    conversation
        .coordinator
        .say("[NEXT: bob, carol] go")
        .await
        .unwrap();
    let (events, state) = conversation.until_handed_over().await;
    let (content, cut, error) = last_end(&conversation);
    let error = error.unwrap();
    assert_eq!(
        (content.as_str(), cut, error.code),
        ("Half", Some(Cut::Failed), "agent_exit")
    );
    assert_eq!(&*error.detail, "it ended with exit code 3; stderr: no key");
    assert!(events.iter().any(
        |event| matches!(event, TeamEvent::Ended { error: Some(ended), .. } if *ended == error)
    ));
    assert_eq!(state.waiting_for.as_deref(), Some("ada"));
    // The member whom the human addressed still waits; the marker of the failed bob is ignored.
    assert_eq!(conversation.queue.len(), 1);
    assert!(conversation.coordinator.resume().await.unwrap());
    let (messages, _) = conversation.messages_until_hand_over().await;
    assert_eq!(messages, ["carol: yes"]);
    assert!(!conversation.coordinator.resume().await.unwrap());
}

#[tokio::test]
async fn an_agent_whose_message_is_too_long_is_stopped() {
    let settings = Settings {
        message_bytes: 40,
        ..Settings::default()
    };
    let mut conversation = TestConversation::with_settings("", &[("bob", "yes é")], settings)
        .started()
        .await;
    conversation.say("go").await;
    let (content, cut, error) = last_end(&conversation);
    assert_eq!(
        (content.as_str(), cut),
        ("é\né\né\né\né\né\né\né\né\né", Some(Cut::Failed))
    );
    assert_eq!(error.unwrap().code, "agent_output");
}

#[tokio::test]
async fn a_missing_program_is_reported() {
    let mut conversation = TestConversation::with_agents(&[("bob", "exec /no/such/program")])
        .started()
        .await;
    conversation.say("go").await;
    assert_eq!(last_end(&conversation).2.unwrap().code, "agent_exit");
    conversation.coordinator.stop().await.unwrap();
    let text = "name = \"t\"\nmembers = [{ name = \"ada\", kind = \"human\" }, \
                { name = \"bob\", kind = \"agent\", command = \"no-such-program\" }]";
    let team = filrouge_team::team::Team::parse(
        text,
        filrouge_team::team_file::Format::Toml,
        conversation.folder.path(),
    );
    let mut conversation = TestConversation::start(
        conversation.folder,
        team.unwrap(),
        Settings::default(),
        None,
    )
    .unwrap();
    let (messages, floor) = {
        conversation.messages_until_hand_over().await;
        conversation.say("go").await
    };
    assert_eq!(
        (messages.last().unwrap().as_str(), floor.as_str()),
        ("bob: ", "ada")
    );
    let error = last_end(&conversation).2.unwrap();
    assert_eq!(error.code, "agent_not_started");
    assert!(error.detail.contains("install it"), "{error:?}");
}

#[tokio::test]
async fn invalid_utf8_output_is_reported() {
    let mut conversation =
        TestConversation::with_agents(&[("bob", "cat > /dev/null; printf 'a\\377b'")])
            .started()
            .await;
    conversation.coordinator.say("go").await.unwrap();
    let (events, _) = conversation.until_handed_over().await;
    let warned = TeamEvent::Warning(Warning::Malformed {
        id: "msg-2".into(),
        replaced: 1,
    });
    assert!(events.contains(&warned), "{events:?}");
    assert_eq!(last_end(&conversation).0, "a\u{fffd}b");
}

#[tokio::test]
async fn a_human_who_speaks_while_an_agent_does_is_answered_afterwards() {
    let bob = "cat > /dev/null; echo first; echo > started; while [ ! -e go ]; do sleep 0.01; done; echo second";
    let mut conversation =
        TestConversation::with_agents(&[("bob", bob), ("carol", "cat > prompt; echo yes")])
            .started()
            .await;
    conversation.coordinator.say("begin").await.unwrap();
    conversation.read_when_written("started").await;
    let id = conversation.coordinator.say("@carol, too").await.unwrap();
    assert_eq!(id.as_deref(), Some("msg-3"));
    std::fs::write(conversation.path("go"), "").unwrap();
    let (messages, _) = conversation.messages_until_hand_over().await;
    assert_eq!(
        messages,
        [
            "ada: begin",
            "ada: @carol, too",
            "bob: first\nsecond",
            "carol: yes"
        ]
    );
    let prompt = std::fs::read_to_string(conversation.path("prompt")).unwrap();
    assert!(
        prompt.contains("[msg-2] bob (agent), answering msg-1:\n  first\n  second\n"),
        "{prompt}"
    );
}

#[tokio::test]
async fn the_text_so_far_is_recorded_when_a_conversation_is_left_or_stopped() {
    for (status, close) in [
        (Status::Paused, "close Paused"),
        (Status::Completed, "close Completed"),
    ] {
        let mut conversation = TestConversation::with_agents(&[("bob", ENDLESS)])
            .started()
            .await;
        conversation.coordinator.say("go").await.unwrap();
        wait_for_text(&mut conversation, "I begin").await;
        let pids = pids(&conversation).await;
        match status {
            Status::Completed => conversation.coordinator.stop().await.unwrap(),
            _ => conversation.coordinator.leave().await.unwrap(),
        }
        assert!(pids.iter().all(|pid| !is_running(*pid)));
        assert_eq!(
            conversation.record.lines()[2..],
            ["end bob: I begin", close]
        );
        assert_eq!(last_end(&conversation).1, Some(Cut::Cancelled));
        loop {
            if let TeamEvent::Closed(state) = conversation.next_event().await {
                assert_eq!(
                    (state.status, state.waiting_for.as_deref()),
                    (status, Some("ada"))
                );
                break;
            }
        }
        conversation.coordinator.say("more").await.unwrap_err();
    }
}

#[tokio::test]
async fn dropping_the_coordinator_interrupts_the_speaker() {
    let mut conversation = TestConversation::with_agents(&[("bob", ENDLESS)])
        .started()
        .await;
    conversation.coordinator.say("go").await.unwrap();
    wait_for_text(&mut conversation, "I begin").await;
    let pids = pids(&conversation).await;
    let TestConversation {
        coordinator,
        record,
        ..
    } = conversation;
    drop(coordinator);
    let closed = || {
        record
            .lines()
            .contains(&"close Paused".to_owned())
            .then_some(())
    };
    wait_for("the session to be released", closed).await;
    assert!(pids.iter().all(|pid| !is_running(*pid)));
    let interrupted = |call: &Call| {
        matches!(call, Call::End(message, _, None)
            if message.cut == Some(Cut::Interrupted) && &*message.content == "I begin")
    };
    assert!(record.calls().iter().any(interrupted));
}
