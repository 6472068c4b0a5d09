//! No caller sees another owner's sessions (P6).

use filrouge_types::{Channel, ErrorCode, TurnId};

use super::fixture::{
    Fixture, anyone, append, cancel, code, finalize, interrupt, item, operator, sid, start, user,
};
use crate::command::{Scope, SessionFilter, Viewer};
use crate::read::{TurnOrder, TurnQuery};

fn all() -> TurnQuery {
    TurnQuery {
        status: None,
        include_redacted: false,
        order: TurnOrder::Oldest,
        cursor: None,
        limit: 10,
    }
}

/// The results of all calls of `who` on session `s` and turn `id` as text, except for starting a turn.
async fn results_of(f: &Fixture, who: &Scope, s: &str, id: TurnId) -> Vec<String> {
    let session = sid(s);
    let mut results = Vec::new();
    results.push(format!(
        "{:?}",
        f.ledger.session(who, &session).await.unwrap_err()
    ));
    results.push(format!(
        "{:?}",
        f.ledger.turn(who, &session, id).await.unwrap_err()
    ));
    results.push(format!(
        "{:?}",
        f.ledger.turns(who, &session, all()).await.unwrap_err()
    ));
    results.push(format!(
        "{:?}",
        f.ledger.items(who, &session, 0, 10).await.unwrap_err()
    ));
    for write in [
        append(s, id, vec![item(Channel::Plan, "p")], None),
        finalize(s, id, Some("a")),
        cancel(s, id),
        interrupt(s, id, i64::MAX),
    ] {
        results.push(format!("{:?}", f.write(who, write).await.unwrap_err()));
    }
    let report = f.ledger.verify(Some((who.clone(), session))).await;
    results.push(format!("{:?}", report.unwrap_err()));
    results
}

pub async fn a_foreign_session_looks_absent(f: &Fixture) {
    let turn = f.start(&user("ann"), "secret", "r").await;
    for who in [user("bob"), anyone(), operator("u")] {
        let foreign = results_of(f, &who, "secret", turn.turn_id).await;
        let absent = results_of(f, &who, "absent", turn.turn_id).await;
        let absent: Vec<String> = absent
            .iter()
            .map(|t| t.replace("absent", "secret"))
            .collect();
        assert_eq!(foreign, absent);
        assert!(foreign.iter().all(|t| t.contains("SessionNotFound")));
    }
    f.assert_intact().await;
}

pub async fn a_foreign_session_id_cannot_be_used(f: &Fixture) {
    f.start(&user("ann"), "s", "r").await;
    for who in [user("bob"), anyone()] {
        assert_eq!(code(f.create(&who, "s").await), ErrorCode::SessionConflict);
        for request in ["r", "new"] {
            let refused = f.try_start(&who, start(&who, "s", request, request)).await;
            assert_eq!(code(refused), ErrorCode::SessionConflict);
        }
    }
    assert_eq!(f.last_seq(&user("ann"), "s").await, 1);
}

pub async fn tenants_are_isolated(f: &Fixture) {
    let (t, u) = (
        anyone(),
        Scope::new(operator("u").tenant, Viewer::EndUser(None)),
    );
    let a = f.start(&t, "s", "r").await;
    let b = f.start(&u, "s", "r").await;
    assert_ne!(a.turn_id, b.turn_id);
    f.write_turn(&u, finalize("s", b.turn_id, Some("b")))
        .await
        .unwrap();
    assert_eq!(
        (f.last_seq(&t, "s").await, f.last_seq(&u, "s").await),
        (1, 2)
    );
    assert_eq!(
        code(f.write(&t, cancel("s", b.turn_id)).await),
        ErrorCode::TurnNotFound
    );
    assert_eq!(
        code(f.ledger.turn(&u, &sid("s"), a.turn_id).await),
        ErrorCode::TurnNotFound
    );
    for tenant in ["t", "u"] {
        let (list, _) = f
            .ledger
            .sessions(&operator(tenant), SessionFilter::default(), None, 9)
            .await
            .unwrap();
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].tenant_id.as_str(), tenant);
    }
    f.assert_intact().await;
}

pub async fn lists_show_only_own_sessions(f: &Fixture) {
    for (who, s) in [
        (user("ann"), "a"),
        (anyone(), "n"),
        (user("bob"), "b"),
        (user("ann"), "a2"),
    ] {
        f.create(&who, s).await.unwrap();
        f.clock.advance(1);
    }
    for (who, expected) in [
        (user("ann"), vec!["a2", "a"]),
        (user("bob"), vec!["b"]),
        (anyone(), vec!["n"]),
        (user("eve"), vec![]),
        (operator("t"), vec!["a2", "b", "n", "a"]),
        (operator("u"), vec![]),
    ] {
        let (list, next) = f
            .ledger
            .sessions(&who, SessionFilter::default(), None, 10)
            .await
            .unwrap();
        let ids: Vec<&str> = list.iter().map(|s| s.session_id.as_str()).collect();
        assert_eq!((ids, next), (expected, None), "{who:?}");
    }
}

pub async fn the_operator_sees_the_tenant(f: &Fixture) {
    let turn = f.start(&user("ann"), "s", "r").await;
    let operator = operator("t");
    assert_eq!(f.items(&operator, "s", 10).await.len(), 1);
    f.write_turn(&operator, finalize("s", turn.turn_id, Some("a")))
        .await
        .unwrap();
    let session = f.ledger.session(&operator, &sid("s")).await.unwrap();
    assert_eq!(session.identity_id, user("ann").viewer.identity().cloned());
}

pub async fn foreign_turns_look_absent(f: &Fixture) {
    let ann = user("ann");
    let foreign = f.start(&user("bob"), "theirs", "r").await;
    f.start(&ann, "mine", "r").await;
    let absent = TurnId::from_derived([9; 16]);
    let error_for = async |id: TurnId| {
        let a = f.ledger.turn(&ann, &sid("mine"), id).await.unwrap_err();
        let b = f.write(&ann, cancel("mine", id)).await.unwrap_err();
        format!("{a:?} {b:?}").replace(&id.to_string(), "ID")
    };
    assert_eq!(error_for(foreign.turn_id).await, error_for(absent).await);
}

pub async fn anonymous_sessions_are_found_by_id(f: &Fixture) {
    f.start(&anyone(), "s", "r").await;
    let ann = user("ann");
    assert_eq!(f.items(&ann, "s", 10).await.len(), 1);
    let turn = f.start(&ann, "s", "r2").await;
    assert_eq!(turn.identity_id, ann.viewer.identity().cloned());
    assert_eq!(
        f.ledger
            .session(&anyone(), &sid("s"))
            .await
            .unwrap()
            .identity_id,
        None
    );
}
