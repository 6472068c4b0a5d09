//! The same conversation, another day.

use filrouge_team::context::{Context, Restored};
use filrouge_team::coordinator::{Coordinator, Drifted, Settings, TeamEvent};
use filrouge_team::message::{Message, Routing, Speaker, SpeakerKind};
use filrouge_team::record::Status;
use filrouge_types::{ErrorCode, FixedClock, Timestamp};

use crate::kept::Memory;
use crate::talk::{Talk, team};

fn restored() -> Restored {
    let message = |number: u32, name: &str, kind, to: Option<&str>| Message {
        id: format!("msg-{number}").into(),
        at: Timestamp::from_micros(1),
        speaker: Speaker {
            id: name.into(),
            name: name.to_uppercase().into(),
            kind,
        },
        content: format!("words {number}").into(),
        routing: Routing {
            addressees: to
                .into_iter()
                .map(|to| filrouge_team::message::Addressee {
                    identifier: to.into(),
                    member_id: Some(to.into()),
                    member_name: Some(to.into()),
                })
                .collect(),
            ..Routing::default()
        },
        cut: None,
    };
    Restored {
        session_id: "session-1".into(),
        team_id: "bridge".into(),
        context: Context {
            messages: vec![
                message(1, "ada", SpeakerKind::Human, None),
                message(2, "max", SpeakerKind::Agent, None),
                message(3, "carol", SpeakerKind::Agent, Some("ada")),
                message(4, "max", SpeakerKind::Agent, Some("zoe")),
                message(5, "system", SpeakerKind::System, None),
            ],
            team_task: Some("the old task".into()),
        },
        highest_message: 9,
    }
}

const TASK: &str = "task = \"the file's task\"";

#[tokio::test]
async fn it_goes_on_with_its_context_and_waits_for_the_first_human() {
    let mut talk = Talk::of(&[]).begun().await;
    talk.coordinator.stop().await.unwrap();
    let agents = [
        ("bob", "cat > /dev/null; echo no"),
        ("carol", "cat > prompt; echo yes"),
    ];
    let team = team(talk.folder.path(), TASK, &agents);
    talk.begin(team, Some(restored())).unwrap();
    let drift = vec![Drifted {
        id: "max".into(),
        name: "MAX".into(),
    }];
    let (events, state) = talk.until_handed_over().await;
    assert!(events.contains(&TeamEvent::Drift(drift)), "{events:?}");
    assert_eq!(
        (state.status, state.waiting_for.as_deref()),
        (Status::Paused, Some("ada"))
    );
    assert_eq!(state.team_task.as_deref(), Some("the old task"));
    assert!(talk.coordinator.routing_queue().is_empty());
    assert_eq!(talk.coordinator.standing().borrow().running, None);

    // Carol spoke to ada last; max, who is gone, to zoe.
    let (said, _) = talk.said("where were we?").await;
    assert_eq!(said, ["ada: where were we?", "carol: yes"]);
    let newest = talk.coordinator.newest(2);
    assert_eq!(
        (&*newest[0].id, newest[0].routing.parent.as_deref()),
        ("msg-10", Some("msg-4"))
    );
    let prompt = std::fs::read_to_string(talk.path("prompt")).unwrap();
    for part in [
        "  the old task\n",
        "[msg-1] ADA (human):\n  words 1\n",
        "[msg-4] MAX (agent) to zoe:\n  words 4\n",
        "(application):\n",
    ] {
        assert!(prompt.contains(part), "{part} is not in {prompt}");
    }
    assert!(
        !talk
            .record
            .words()
            .iter()
            .any(|word| word.starts_with("task"))
    );
    talk.coordinator.say_as("zoe", "and I?").await.unwrap();
    assert_eq!(talk.listen().await.0, ["zoe: and I?", "bob: no"]);
    assert_eq!(
        talk.coordinator.newest(usize::MAX)[..5],
        restored().context.messages
    );
}

#[tokio::test]
async fn a_new_session_begins_with_the_task_of_the_file() {
    let mut talk = Talk::with(
        TASK,
        &[("bob", "cat > /dev/null; echo no")],
        Settings::default(),
    );
    let (_, state) = talk.until_handed_over().await;
    assert_eq!(state.team_task.as_deref(), Some("the file's task"));
    assert_eq!(
        talk.record.words(),
        Vec::<String>::new(),
        "nothing was said yet"
    );
    talk.said("hi").await;
    assert_eq!(
        talk.record.words()[..2],
        ["task Some(\"the file's task\")", "ada: hi"]
    );
    talk.said("hi").await;
    assert_eq!(
        talk.record
            .words()
            .iter()
            .filter(|word| word.starts_with("task"))
            .count(),
        1
    );
}

#[tokio::test]
async fn what_is_not_this_team_s_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let clock = std::sync::Arc::new(FixedClock::at(0));
    let (mut coordinator, _events) = Coordinator::new(clock, Settings::default());
    let mut refused = |restored: Restored| {
        let record = std::sync::Arc::new(Memory::default());
        let failure = coordinator.set_team(team(folder.path(), "", &[]), record, Some(restored));
        failure.unwrap_err()
    };
    let other_team = refused(Restored {
        team_id: "bridge2".into(),
        ..restored()
    });
    assert_eq!(other_team.code, ErrorCode::Invalid);
    assert!(other_team.detail.contains("bridge2") && other_team.hint.is_some());
    let other_session = refused(Restored {
        session_id: "session-10".into(),
        ..restored()
    });
    assert_eq!(other_session.code, ErrorCode::Invalid);
    let mut twice = restored();
    twice
        .context
        .messages
        .push(twice.context.messages[0].clone());
    assert_eq!(refused(twice).code, ErrorCode::Invalid);
    assert_eq!(coordinator.start().unwrap_err().code, ErrorCode::Invalid);
    assert_eq!(
        coordinator.say("hi").await.unwrap_err().code,
        ErrorCode::Invalid
    );
}

#[tokio::test]
async fn one_session_at_a_time() {
    let mut talk = Talk::of(&[]).begun().await;
    let again = team(talk.folder.path(), "", &[]);
    assert_eq!(
        talk.begin(again.clone(), None).unwrap_err().code,
        ErrorCode::Invalid
    );
    talk.coordinator.leave().await.unwrap();
    talk.begin(again, None).unwrap();
    assert_eq!(talk.coordinator.status(), Status::Paused);
}
