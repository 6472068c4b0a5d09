//! Agents that fail, are stopped, or are interrupted.

use filrouge_team::coordinator::{Settings, TeamEvent, Warning};
use filrouge_team::message::Cut;
use filrouge_team::record::{AgentError, Status};

use crate::kept::Kept;
use crate::talk::{Talk, runs, wait_for};

/// Begins to speak, starts a child, and does not end. Writes both process ids.
const ENDLESS: &str = "echo 'I begin'; sleep 1000 & echo $$ $! > pids; wait";

async fn pids(talk: &Talk) -> Vec<u32> {
    let written = talk.written("pids").await;
    written
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

/// Waits for this text; returns its speaker.
async fn text_seen(talk: &mut Talk, wanted: &str) -> Box<str> {
    let mut speaker = Box::default();
    loop {
        match talk.event().await {
            TeamEvent::Began(message) => speaker = message.speaker.id,
            TeamEvent::Text { text, .. } => {
                assert_eq!(&*text, wanted);
                return speaker;
            }
            _ => {}
        }
    }
}

fn last_end(talk: &Talk) -> (String, Option<Cut>, Option<AgentError>) {
    let kept = talk.record.kept();
    let mut ends = kept.into_iter().filter_map(|kept| match kept {
        Kept::End(message, _, error) => Some((message.content.into(), message.cut, error)),
        _ => None,
    });
    ends.next_back().expect("an agent has ended")
}

#[tokio::test]
async fn cancelling_keeps_the_text_and_ends_all_processes() {
    let mut talk = Talk::of(&[("bob", ENDLESS), ("carol", "echo no")])
        .begun()
        .await;
    talk.coordinator.say("[NEXT: bob, carol] go").await.unwrap();
    assert_eq!(&*text_seen(&mut talk, "I begin").await, "bob");
    let pids = pids(&talk).await;
    assert!(pids.iter().all(|pid| runs(*pid)));
    assert!(talk.coordinator.cancel().await.unwrap());
    assert!(pids.iter().all(|pid| !runs(*pid)));
    assert_eq!(
        last_end(&talk),
        ("I begin".into(), Some(Cut::Cancelled), None)
    );
    let (events, state) = talk.until_handed_over().await;
    assert_eq!(
        (state.status, state.waiting_for.as_deref()),
        (Status::Paused, Some("ada"))
    );
    assert!(events.contains(&TeamEvent::Warning(Warning::Dropped { count: 1 })));
    assert!(talk.queue.is_empty());
    assert_eq!(talk.record.words().last().unwrap(), "over to ada");
    // No member speaks now.
    assert!(!talk.coordinator.cancel().await.unwrap());
}

#[tokio::test]
async fn an_agent_that_fails_gives_the_floor_to_a_human() {
    let bob = "cat > /dev/null; echo 'Half [NEXT: carol]'; echo 'no key' >&2; exit 3";
    let mut talk = Talk::of(&[("bob", bob), ("carol", "cat > /dev/null; echo yes")])
        .begun()
        .await;
    talk.coordinator.say("[NEXT: bob, carol] go").await.unwrap();
    let (events, state) = talk.until_handed_over().await;
    let (content, cut, error) = last_end(&talk);
    let error = error.unwrap();
    assert_eq!(
        (content.as_str(), cut, error.code),
        ("Half", Some(Cut::Failed), "agent_exit")
    );
    assert_eq!(&*error.detail, "it ended with exit code 3; stderr: no key");
    assert!(
        events.iter().any(
            |event| matches!(event, TeamEvent::Ended { error: Some(one), .. } if *one == error)
        )
    );
    assert_eq!(state.waiting_for.as_deref(), Some("ada"));
    // The member whom the human addressed still waits; the marker of the failed bob is ignored.
    assert_eq!(talk.queue.len(), 1);
    assert!(talk.coordinator.resume().await.unwrap());
    let (said, _) = talk.listen().await;
    assert_eq!(said, ["carol: yes"]);
    assert!(!talk.coordinator.resume().await.unwrap());
}

#[tokio::test]
async fn an_agent_that_says_too_much_is_stopped() {
    let settings = Settings {
        message_bytes: 40,
        ..Settings::default()
    };
    let mut talk = Talk::with("", &[("bob", "yes é")], settings).begun().await;
    talk.say("go").await;
    let (content, cut, error) = last_end(&talk);
    assert_eq!(
        (content.as_str(), cut),
        ("é\né\né\né\né\né\né\né\né\né", Some(Cut::Failed))
    );
    assert_eq!(error.unwrap().code, "agent_output");
}

#[tokio::test]
async fn a_missing_program_is_reported() {
    let mut talk = Talk::of(&[("bob", "exec /no/such/program")]).begun().await;
    talk.say("go").await;
    assert_eq!(last_end(&talk).2.unwrap().code, "agent_exit");
    talk.coordinator.stop().await.unwrap();
    let text = "name = \"t\"\nmembers = [{ name = \"ada\", kind = \"human\" }, \
                { name = \"bob\", kind = \"agent\", command = \"no-such-program\" }]";
    let team = filrouge_team::team::Team::of(
        text,
        filrouge_team::team_file::Form::Toml,
        talk.folder.path(),
    );
    let mut talk = Talk::begin(talk.folder, team.unwrap(), Settings::default(), None).unwrap();
    let (said, floor) = {
        talk.listen().await;
        talk.say("go").await
    };
    assert_eq!(
        (said.last().unwrap().as_str(), floor.as_str()),
        ("bob: ", "ada")
    );
    let error = last_end(&talk).2.unwrap();
    assert_eq!(error.code, "agent_not_started");
    assert!(error.detail.contains("install it"), "{error:?}");
}

#[tokio::test]
async fn invalid_utf8_output_is_reported() {
    let mut talk = Talk::of(&[("bob", "cat > /dev/null; printf 'a\\377b'")])
        .begun()
        .await;
    talk.coordinator.say("go").await.unwrap();
    let (events, _) = talk.until_handed_over().await;
    let warned = TeamEvent::Warning(Warning::Malformed {
        id: "msg-2".into(),
        replaced: 1,
    });
    assert!(events.contains(&warned), "{events:?}");
    assert_eq!(last_end(&talk).0, "a\u{fffd}b");
}

#[tokio::test]
async fn humans_may_speak_during_an_agents_speech_and_are_answered_after_it() {
    let bob = "cat > /dev/null; echo first; echo > begun; while [ ! -e go ]; do sleep 0.01; done; echo second";
    let mut talk = Talk::of(&[("bob", bob), ("carol", "cat > prompt; echo yes")])
        .begun()
        .await;
    talk.coordinator.say("begin").await.unwrap();
    talk.written("begun").await;
    let id = talk.coordinator.say("@carol, too").await.unwrap();
    assert_eq!(id.as_deref(), Some("msg-3"));
    std::fs::write(talk.path("go"), "").unwrap();
    let (said, _) = talk.listen().await;
    assert_eq!(
        said,
        [
            "ada: begin",
            "ada: @carol, too",
            "bob: first\nsecond",
            "carol: yes"
        ]
    );
    let prompt = std::fs::read_to_string(talk.path("prompt")).unwrap();
    assert!(
        prompt.contains("[msg-2] bob (agent), answering msg-1:\n  first\n  second\n"),
        "{prompt}"
    );
}

#[tokio::test]
async fn leaving_and_stopping_keep_the_text() {
    for (status, word) in [
        (Status::Paused, "close Paused"),
        (Status::Completed, "close Completed"),
    ] {
        let mut talk = Talk::of(&[("bob", ENDLESS)]).begun().await;
        talk.coordinator.say("go").await.unwrap();
        text_seen(&mut talk, "I begin").await;
        let pids = pids(&talk).await;
        match status {
            Status::Completed => talk.coordinator.stop().await.unwrap(),
            _ => talk.coordinator.leave().await.unwrap(),
        }
        assert!(pids.iter().all(|pid| !runs(*pid)));
        assert_eq!(talk.record.words()[2..], ["end bob: I begin", word]);
        assert_eq!(last_end(&talk).1, Some(Cut::Cancelled));
        loop {
            if let TeamEvent::Closed(state) = talk.event().await {
                assert_eq!(
                    (state.status, state.waiting_for.as_deref()),
                    (status, Some("ada"))
                );
                break;
            }
        }
        talk.coordinator.say("more").await.unwrap_err();
    }
}

#[tokio::test]
async fn dropping_the_coordinator_interrupts_the_speaker() {
    let mut talk = Talk::of(&[("bob", ENDLESS)]).begun().await;
    talk.coordinator.say("go").await.unwrap();
    text_seen(&mut talk, "I begin").await;
    let pids = pids(&talk).await;
    let Talk {
        coordinator,
        record,
        ..
    } = talk;
    drop(coordinator);
    let closed = || {
        record
            .words()
            .contains(&"close Paused".to_owned())
            .then_some(())
    };
    wait_for("the session to be released", closed).await;
    assert!(pids.iter().all(|pid| !runs(*pid)));
    let kept = record.kept();
    assert!(kept.iter().any(|one| matches!(one, Kept::End(m, _, None) if m.cut == Some(Cut::Interrupted) && &*m.content == "I begin")));
}
