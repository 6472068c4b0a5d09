//! Patches change a session's listed fields, optionally only in a known version.

use filrouge_types::{ErrorCode, ProjectId, SessionStatus};
use tokio::task::JoinSet;

use super::fixture::{Fixture, anyone, cmd, code, item, operator, user};
use super::session_writes::{json, metadata, patch, patch_if, title};
use crate::command::{NewSession, Scope, SessionPatch, Write};

/// A session of ann with all fields set.
async fn create_full_session(f: &Fixture) -> Scope {
    let who = user("ann");
    let new = NewSession {
        title: Some("a title".into()),
        project_id: ProjectId::new("p").ok(),
        metadata: json(r#"{"a":1,"b":{"c":[2],"d":"e"}}"#),
        ..NewSession::with_id(super::fixture::sid("s"))
    };
    f.write(&who, Write::CreateSession(new)).await.unwrap();
    who
}

pub async fn each_field_is_patched_separately(f: &Fixture) {
    let who = create_full_session(f).await;
    let all = [
        title("another"),
        SessionPatch {
            status: Some(SessionStatus::Paused),
            ..SessionPatch::default()
        },
        SessionPatch {
            state: Some(Some("WAIT".into())),
            ..SessionPatch::default()
        },
        SessionPatch {
            project_id: Some(ProjectId::new("q").ok()),
            ..SessionPatch::default()
        },
        metadata(r#"{"a":2}"#),
        SessionPatch {
            title: Some(None),
            ..SessionPatch::default()
        },
        SessionPatch {
            state: Some(None),
            ..SessionPatch::default()
        },
        SessionPatch {
            project_id: Some(None),
            ..SessionPatch::default()
        },
        SessionPatch {
            status: Some(SessionStatus::Active),
            ..SessionPatch::default()
        },
    ];
    for change in all {
        let before = f.session(&who, "s").await.unwrap();
        f.clock.advance(10);
        let mut expected = before.clone();
        let now = f
            .write_session(&who, patch("s", change.clone()))
            .await
            .unwrap();
        if let Some(title) = change.title {
            expected.title = title;
        }
        if let Some(state) = change.state {
            expected.state = state;
        }
        if let Some(project) = change.project_id {
            expected.project_id = project;
        }
        expected.status = change.status.unwrap_or(expected.status);
        if change.metadata.is_some() {
            expected.metadata = json(r#"{"a":2,"b":{"c":[2],"d":"e"}}"#);
        }
        assert!(now.updated_at > before.updated_at && now.version != before.version);
        expected.updated_at = now.updated_at;
        expected.version = now.version;
        assert_eq!(now, expected, "nothing else has changed");
        assert_eq!(f.session(&who, "s").await.unwrap(), now);
        assert_eq!(f.session(&operator("t"), "s").await.unwrap(), now);
    }
    f.assert_intact().await;
}

pub async fn metadata_is_patched_by_members(f: &Fixture) {
    let who = create_full_session(f).await;
    for (change, expected) in [
        (r#"{"z":null}"#, r#"{"a":1,"b":{"c":[2],"d":"e"}}"#),
        (
            r#"{"a":null,"n":9007199254740993}"#,
            r#"{"b":{"c":[2],"d":"e"},"n":9007199254740993}"#,
        ),
        (
            r#"{"b":{"c":null,"x":1.0}}"#,
            r#"{"b":{"d":"e","x":1.0},"n":9007199254740993}"#,
        ),
        (r#"{"b":[null]}"#, r#"{"b":[null],"n":9007199254740993}"#),
        (
            r#"{"b":{"y":{"z":null}}}"#,
            r#"{"b":{"y":{}},"n":9007199254740993}"#,
        ),
        (r#"{"b":null,"n":null}"#, "{}"),
    ] {
        let now = f.write_session(&who, patch("s", metadata(change))).await;
        assert_eq!(now.unwrap().metadata.as_str(), expected, "{change}");
    }
    let long = format!(r#"{{"k":"{}"}}"#, "x".repeat(150));
    f.write_session(&who, patch("s", metadata(&long)))
        .await
        .unwrap();
    let more = metadata(&long.replace('k', "l"));
    let refused = f.write_session(&who, patch("s", more)).await;
    assert_eq!(
        code(refused),
        ErrorCode::LimitExceeded,
        "all metadata counts"
    );
    let kept = f.session(&who, "s").await.unwrap();
    assert_eq!(kept.metadata.as_str(), long);
    let none = SessionPatch {
        metadata: Some(None),
        ..SessionPatch::default()
    };
    let emptied = f.write_session(&who, patch("s", none)).await.unwrap();
    assert_eq!(emptied.metadata.as_str(), "{}");
    f.assert_intact().await;
}

pub async fn a_patch_without_effect_writes_nothing(f: &Fixture) {
    let who = user("ann");
    let new = NewSession {
        metadata: json(r#"{ "a" : 1, "b":{ }, "c": "a \" {  } \\", "d": [ 1.0 ] }"#),
        ..NewSession::with_id(super::fixture::sid("s"))
    };
    f.write(&who, Write::CreateSession(new)).await.unwrap();
    f.write_session(&who, patch("s", title("t"))).await.unwrap();
    let (before, position) = (f.session(&who, "s").await.unwrap(), f.ledger.position());
    f.clock.advance(10);
    for change in [
        SessionPatch::default(),
        title("t"),
        metadata("{}"),
        metadata(r#"{"a":1}"#),
        metadata(r#"{"gone":null}"#),
        metadata(r#"{"b":{}}"#),
        metadata(r#"{"c":"a \" {  } \\","d":[1.0]}"#),
        SessionPatch {
            status: Some(SessionStatus::Active),
            state: Some(None),
            ..title("t")
        },
    ] {
        let now = f.write_session(&who, patch("s", change.clone())).await;
        assert_eq!(now.unwrap(), before, "{change:?}");
    }
    assert_eq!(f.ledger.position(), position);
    assert_eq!(f.session(&who, "s").await.unwrap(), before);
    for change in [r#"{"c":"a \" { } \\"}"#, r#"{"d":[1]}"#, r#"{"d":[1.0,1]}"#] {
        let position = f.ledger.position();
        f.write_session(&who, patch("s", metadata(change)))
            .await
            .unwrap();
        assert_ne!(f.ledger.position(), position, "{change}");
    }
}

pub async fn only_patches_change_the_version(f: &Fixture) {
    let who = create_full_session(f).await;
    let first = f.session(&who, "s").await.unwrap().version;
    let turn = f.start(&who, "s", "r").await;
    let more = vec![item(filrouge_types::Channel::Plan, "p")];
    f.append(&who, &turn, more).await.unwrap();
    f.complete_turn(&who, "s", "r2", "a").await;
    let now = f.session(&who, "s").await.unwrap();
    assert_eq!(now.version, first, "items do not change the version");
    let current = Some(vec![[0; 16], first]);
    let write = patch_if("s", title("new"), current.clone());
    let second = f.write_session(&who, write).await.unwrap().version;
    assert_ne!(second, first);
    // A retry meets the result of its first attempt: a patch without effect succeeds, whatever the condition.
    let again = patch_if("s", title("new"), current.clone());
    assert_eq!(f.write_session(&who, again).await.unwrap().version, second);
    for versions in [current, Some(Vec::new())] {
        let position = f.ledger.position();
        let late = patch_if("s", title("late"), versions);
        let refused = f.write_session(&who, late).await;
        assert_eq!(code(refused), ErrorCode::PreconditionFailed);
        assert_eq!(f.ledger.position(), position);
    }
    let same = patch_if("s", title("new"), Some(vec![second]));
    assert_eq!(f.write_session(&who, same).await.unwrap().version, second);
    assert_ne!(
        f.write_session(&who, patch("s", title("newer")))
            .await
            .unwrap()
            .version,
        second
    );
    f.assert_intact().await;
}

pub async fn strangers_patch_nothing(f: &Fixture) {
    let who = create_full_session(f).await;
    let before = f.session(&who, "s").await.unwrap();
    for stranger in [user("bob"), anyone(), operator("u")] {
        for versions in [None, Some(vec![before.version]), Some(vec![[0; 16]])] {
            let write = patch_if("s", title("mine"), versions);
            let refused = f.write_session(&stranger, write).await;
            assert_eq!(code(refused), ErrorCode::SessionNotFound);
        }
    }
    assert_eq!(f.session(&who, "s").await.unwrap(), before);
    let by_operator = f
        .write_session(&operator("t"), patch("s", title("named")))
        .await;
    let by_operator = by_operator.unwrap();
    assert_eq!(
        by_operator.identity_id, before.identity_id,
        "its owner is unchanged"
    );
    assert_eq!(f.session(&who, "s").await.unwrap(), by_operator);
}

pub async fn one_of_many_patches_finds_its_version(f: &Fixture) {
    let who = create_full_session(f).await;
    let mut version = f.session(&who, "s").await.unwrap().version;
    for round in 0..4 {
        let mut tasks = JoinSet::new();
        for n in 0..8 {
            let (ledger, who) = (f.ledger.clone(), who.clone());
            let change = title(&format!("{round} {n}"));
            let write = patch_if("s", change, Some(vec![version]));
            tasks.spawn(async move { ledger.put(cmd(&who, write)).await });
        }
        let (done, refused): (Vec<_>, Vec<_>) =
            tasks.join_all().await.into_iter().partition(Result::is_ok);
        assert_eq!((done.len(), refused.len()), (1, 7));
        for outcome in refused {
            assert_eq!(code(outcome), ErrorCode::PreconditionFailed);
        }
        version = f.session(&who, "s").await.unwrap().version;
    }
    f.assert_intact().await;
}
