//! The messages and the task of a team, as they survive a restart: ancestors, ids, limits, restoration.

use super::*;
use crate::message::{Cut, Routing, Speaker, SpeakerKind};
use filrouge_types::Timestamp;

fn message(id: &str, parent: Option<&str>) -> Message {
    Message {
        id: id.into(),
        at: Timestamp::from_micros(0),
        speaker: Speaker {
            id: "ada".into(),
            name: "Ada".into(),
            kind: SpeakerKind::Human,
        },
        content: id.into(),
        routing: Routing {
            parent: parent.map(Into::into),
            ..Routing::default()
        },
        cut: Some(Cut::Interrupted),
    }
}

/// The ids of a message's ancestors, the nearest first.
fn ancestors<'c>(context: &'c ContextManager, id: &str, count: usize) -> Vec<&'c str> {
    let chain = context.ancestor_indexes(id, count);
    chain
        .iter()
        .map(|index| &*context.messages[*index].id)
        .collect()
}

fn context(messages: &[(&str, Option<&str>)]) -> ContextManager {
    let mut context = ContextManager::default();
    for (id, parent) in messages {
        context.add(message(id, *parent)).unwrap();
    }
    context
}

#[test]
fn ancestors_are_listed_nearest_first() {
    let context = context(&[
        ("msg-1", None),
        ("msg-2", Some("msg-1")),
        ("msg-3", Some("msg-1")),
        ("msg-4", Some("msg-3")),
        ("msg-5", Some("msg-9")),
    ]);
    assert_eq!(ancestors(&context, "msg-4", 9), ["msg-3", "msg-1"]);
    assert_eq!(ancestors(&context, "msg-4", 1), ["msg-3"]);
    assert!(ancestors(&context, "msg-5", 9).is_empty());
    assert!(ancestors(&context, "nobody", 9).is_empty());
    assert_eq!(context.by_id("msg-2").unwrap().content, "msg-2".into());
    assert_eq!(context.newest(2).len(), 2);
    assert_eq!(context.newest(99).len(), 5);
}

#[test]
fn a_cycle_of_parents_ends_the_chain() {
    let context = context(&[
        ("msg-1", Some("msg-2")),
        ("msg-2", Some("msg-1")),
        ("x", Some("x")),
    ]);
    assert_eq!(ancestors(&context, "msg-2", 99), ["msg-1"]);
    assert!(ancestors(&context, "x", 99).is_empty());
}

#[test]
fn ids_continue_after_the_highest_ever_used() {
    let ids = [
        ("msg-7", None),
        ("msg-3", None),
        ("msg-007", None),
        ("msg--1", None),
    ];
    let mut context = context(&ids);
    assert_eq!(&*context.allocate_id(), "msg-8");
    assert_eq!(&*context.allocate_id(), "msg-9");
    for (highest_message, next) in [(20, "msg-21"), (5, "msg-8")] {
        let original = TeamState {
            messages: ids.map(|(id, parent)| message(id, parent)).to_vec(),
            team_task: None,
        };
        let mut context = restored(original, highest_message).unwrap();
        assert_eq!(&*context.allocate_id(), next);
    }
    for id in [
        "msg-",
        "msg-+1",
        "msg-01",
        "msg-1 ",
        "1",
        "msg-99999999999999999999",
    ] {
        assert_eq!(message_number(id), None, "{id}");
    }
}

#[test]
fn a_duplicate_id_is_refused() {
    let mut context = context(&[("msg-1", None)]);
    assert_eq!(
        context.add(message("msg-1", None)).unwrap_err().code,
        ErrorCode::Invalid
    );
    assert_eq!(context.messages().len(), 1);
}

#[test]
fn a_task_is_never_cut() {
    let mut context = ContextManager::default();
    let longest = "é".repeat(TEAM_TASK_BYTES_MAX / 2);
    context
        .set_team_task(Some(&format!(" {longest}\n")))
        .unwrap();
    assert_eq!(context.team_task(), Some(&*longest));
    let refused = context
        .set_team_task(Some(&format!("{longest}x")))
        .unwrap_err();
    assert_eq!(refused.code, ErrorCode::LimitExceeded);
    assert_eq!(context.team_task(), Some(&*longest));
    context.set_team_task(Some("  ")).unwrap();
    assert_eq!(context.team_task(), None);
}

fn restored(context: TeamState, highest_message: u64) -> Result<ContextManager, Failure> {
    ContextManager::from_restored(Restored {
        context,
        highest_message,
    })
}

#[test]
fn messages_and_task_are_restored() {
    let original = TeamState {
        messages: vec![message("msg-1", None), message("msg-5", Some("msg-1"))],
        team_task: Some("build".into()),
    };
    let mut context = restored(original.clone(), 0).unwrap();
    assert_eq!(context.messages(), original.messages);
    assert_eq!(context.team_task(), Some("build"));
    assert_eq!(&*context.allocate_id(), "msg-6");
    assert_eq!(ancestors(&context, "msg-5", 9), ["msg-1"]);

    for refused in [
        TeamState {
            messages: vec![message("a", None), message("a", None)],
            team_task: None,
        },
        TeamState {
            messages: vec![],
            team_task: Some("x".repeat(TEAM_TASK_BYTES_MAX + 1).into()),
        },
    ] {
        restored(refused, 0).unwrap_err();
    }
}
