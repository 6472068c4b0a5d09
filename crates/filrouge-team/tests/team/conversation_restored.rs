//! The same conversation, another day.

use filrouge_team::context::{Context, Restored};
use filrouge_team::coordinator::{Drifted, Settings, TeamEvent};
use filrouge_team::message::{Message, Routing, Speaker, SpeakerKind};
use filrouge_team::record::Status;
use filrouge_types::{ErrorCode, Timestamp};

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
async fn a_session_continues_with_its_context_and_waits_for_the_first_human() {
    let folder = tempfile::tempdir().unwrap();
    let agents = [
        ("bob", "cat > /dev/null; echo no"),
        ("carol", "cat > prompt; echo yes"),
    ];
    let team = team(folder.path(), TASK, &agents);
    let mut talk = Talk::begin(folder, team, Settings::default(), Some(restored())).unwrap();
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
    assert!(talk.queue.is_empty());

    // Carol last spoke to ada; max, who is no longer a member, to zoe.
    let (said, _) = talk.say("where were we?").await;
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
    assert_eq!(talk.say("@zoe, and you?").await.1, "zoe");
    assert_eq!(talk.say("and I?").await.0, ["zoe: and I?", "bob: no"]);
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
    talk.say("hi").await;
    assert_eq!(
        talk.record.words()[..2],
        ["task Some(\"the file's task\")", "ada: hi"]
    );
    talk.say("hi").await;
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
async fn a_history_with_a_duplicate_id_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut twice = restored();
    let duplicate = twice.context.messages[0].clone();
    twice.context.messages.push(duplicate);
    let team = team(folder.path(), "", &[]);
    let refused = Talk::begin(folder, team, Settings::default(), Some(twice));
    assert_eq!(refused.err().unwrap().code, ErrorCode::Invalid);
}
