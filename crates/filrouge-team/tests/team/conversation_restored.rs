//! A conversation that is restored and continues.

use filrouge_team::context::{Restored, TeamState};
use filrouge_team::coordinator::{FormerSpeaker, Settings, TeamEvent};
use filrouge_team::message::{Message, Routing, Speaker, SpeakerKind};
use filrouge_team::record::Status;
use filrouge_types::{ErrorCode, Timestamp};

use crate::test_conversation::{TestConversation, team};

/// A restored context of five messages. Max, who spoke in two of them, is no longer a member.
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
        context: TeamState {
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

/// Another program gives members other ids. Their names identify them.
#[tokio::test]
async fn a_speaker_with_another_id_is_recognized_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let agents = [
        ("bob", "cat > /dev/null; echo no"),
        ("carol", "cat > /dev/null; echo yes"),
    ];
    let team = team(folder.path(), TASK, &agents);
    let mut restored = restored();
    let messages = &mut restored.context.messages;
    messages.retain(|message| &*message.speaker.id != "max");
    for message in messages {
        message.speaker.id = format!("role-{}", message.speaker.id).into();
    }
    let settings = Settings::default();
    let mut conversation = TestConversation::start(folder, team, settings, Some(restored)).unwrap();
    let (events, _) = conversation.until_handed_over().await;
    let is_report = |event: &TeamEvent| matches!(event, TeamEvent::FormerSpeakers(_));
    assert!(!events.iter().any(is_report), "{events:?}");
    // Carol was the last to address ada.
    let (messages, _) = conversation.say("where were we?").await;
    assert_eq!(messages, ["ada: where were we?", "carol: yes"]);
}

/// The line of the team file that sets a task.
const TASK: &str = "task = \"the file's task\"";

#[tokio::test]
async fn a_session_continues_with_its_context_and_waits_for_the_first_human() {
    let folder = tempfile::tempdir().unwrap();
    let agents = [
        ("bob", "cat > /dev/null; echo no"),
        ("carol", "cat > prompt; echo yes"),
    ];
    let team = team(folder.path(), TASK, &agents);
    let mut conversation =
        TestConversation::start(folder, team, Settings::default(), Some(restored())).unwrap();
    let former = vec![FormerSpeaker {
        id: "max".into(),
        name: "MAX".into(),
    }];
    let (events, state) = conversation.until_handed_over().await;
    assert!(
        events.contains(&TeamEvent::FormerSpeakers(former)),
        "{events:?}"
    );
    assert_eq!(
        (state.status, state.waiting_for.as_deref()),
        (Status::Paused, Some("ada"))
    );
    assert_eq!(state.team_task.as_deref(), Some("the old task"));
    assert!(conversation.queue.is_empty());

    // Carol was the last to address ada; max, who is no longer a member, addressed zoe.
    let (messages, _) = conversation.say("where were we?").await;
    assert_eq!(messages, ["ada: where were we?", "carol: yes"]);
    let newest = conversation.coordinator.newest(2);
    assert_eq!(
        (&*newest[0].id, newest[0].routing.parent.as_deref()),
        ("msg-10", Some("msg-4"))
    );
    let prompt = std::fs::read_to_string(conversation.path("prompt")).unwrap();
    for part in [
        "  the old task\n",
        "[msg-1] ADA (human):\n  words 1\n",
        "[msg-4] MAX (agent) to zoe:\n  words 4\n",
        "(application):\n",
    ] {
        assert!(prompt.contains(part), "{part} is not in {prompt}");
    }
    assert!(
        !conversation
            .record
            .lines()
            .iter()
            .any(|line| line.starts_with("task"))
    );
    assert_eq!(conversation.say("@zoe, and you?").await.1, "zoe");
    assert_eq!(
        conversation.say("and I?").await.0,
        ["zoe: and I?", "bob: no"]
    );
    assert_eq!(
        conversation.coordinator.newest(usize::MAX)[..5],
        restored().context.messages
    );
}

#[tokio::test]
async fn a_new_session_starts_with_the_task_of_the_team_file() {
    let mut conversation = TestConversation::with_settings(
        TASK,
        &[("bob", "cat > /dev/null; echo no")],
        Settings::default(),
    );
    let (_, state) = conversation.until_handed_over().await;
    assert_eq!(state.team_task.as_deref(), Some("the file's task"));
    assert_eq!(
        conversation.record.lines(),
        Vec::<String>::new(),
        "nothing is recorded before the first message"
    );
    conversation.say("hi").await;
    assert_eq!(
        conversation.record.lines()[..2],
        ["task Some(\"the file's task\")", "ada: hi"]
    );
    conversation.say("hi").await;
    assert_eq!(
        conversation
            .record
            .lines()
            .iter()
            .filter(|line| line.starts_with("task"))
            .count(),
        1
    );
}

#[tokio::test]
async fn a_history_with_a_duplicate_id_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut history = restored();
    let duplicate = history.context.messages[0].clone();
    history.context.messages.push(duplicate);
    let team = team(folder.path(), "", &[]);
    let refused = TestConversation::start(folder, team, Settings::default(), Some(history));
    assert_eq!(refused.err().unwrap().code, ErrorCode::Invalid);
}
