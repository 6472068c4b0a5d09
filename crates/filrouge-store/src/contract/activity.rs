//! Lists of sessions by their last activity.

use filrouge_types::{Channel, ErrorCode};

use super::fixture::{Fixture, anyone, code, finalize, item, operator, sid, user};
use crate::command::{NewSession, Scope, SessionFilter, SessionSort, Write};

/// The ids of the sessions that `who` lists by last activity, read in pages of `limit`.
async fn ids_by_activity(f: &Fixture, who: &Scope, parent: Option<&str>, limit: usize) -> String {
    let (mut ids, mut cursor) = (String::new(), None);
    loop {
        let filter = SessionFilter {
            parent_session_id: parent.map(sid),
            order: SessionSort::Updated,
            ..SessionFilter::default()
        };
        let page = f.ledger.sessions(who, filter, cursor, limit).await;
        let (sessions, next) = page.unwrap();
        ids.extend(sessions.iter().map(|s| s.session_id.as_str()));
        cursor = next;
        if cursor.is_none() {
            return ids;
        }
    }
}

pub async fn sessions_are_listed_by_last_activity(f: &Fixture) {
    let (ann, all) = (user("ann"), operator("t"));
    let order_of = async |who: &Scope, parent: Option<&str>| {
        let ids = ids_by_activity(f, who, parent, 10).await;
        for limit in [1, 2] {
            assert_eq!(ids_by_activity(f, who, parent, limit).await, ids);
        }
        ids
    };
    for (s, parent) in [("a", None), ("b", Some("a")), ("c", Some("a"))] {
        let new = NewSession {
            parent_session_id: parent.map(sid),
            ..NewSession::with_id(sid(s))
        };
        f.write(&ann, Write::CreateSession(new)).await.unwrap();
        f.clock.advance(10);
    }
    f.create(&anyone(), "x").await.unwrap();
    f.clock.advance(10);
    assert_eq!(order_of(&ann, None).await, "cba");
    let turn = f.start(&ann, "a", "r").await;
    f.clock.advance(10);
    f.start(&ann, "b", "r").await;
    f.clock.advance(10);
    assert_eq!(order_of(&all, None).await, "baxc");
    // An append within a turn is no activity of lists; the end of a turn is.
    let thought = vec![item(Channel::Thought, "hm")];
    f.append(&ann, &turn, thought).await.unwrap();
    assert_eq!(order_of(&ann, None).await, "bac");
    f.write_turn(&ann, finalize("a", turn.turn_id, Some("done")))
        .await
        .unwrap();
    assert_eq!(order_of(&all, None).await, "abxc");
    assert_eq!(order_of(&ann, Some("a")).await, "bc");
    assert_eq!(order_of(&anyone(), None).await, "x");
    let by_creation = SessionFilter::default();
    let (created, _) = f
        .ledger
        .sessions(&all, by_creation, None, 10)
        .await
        .unwrap();
    let created: String = created.iter().map(|s| s.session_id.as_str()).collect();
    assert_eq!(created, "xcba");
    // Each order has its own cursors.
    for text in ["", "1", "x.1", "1.x", "1.0", "1.99999999"] {
        let filter = SessionFilter {
            order: SessionSort::Updated,
            ..SessionFilter::default()
        };
        let page = f.ledger.sessions(&all, filter, Some(text.into()), 2).await;
        assert_eq!(code(page), ErrorCode::Invalid, "{text:?}");
    }
    f.assert_intact().await;
}
