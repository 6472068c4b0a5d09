//! A login gives an anonymous session its owner, permanently (DESIGN §7).

use filrouge_types::{Channel, ErrorCode, IdentityId};
use tokio::task::JoinSet;

use super::fixture::{Fixture, anyone, cmd, code, finalize, item, operator, sid, start, user};
use super::session_writes::{anyone_with_secret, close_session, link, with_secret};
use crate::command::SessionFilter;

pub async fn the_first_linked_identity_is_permanent(f: &Fixture) {
    let turn = f.start(&anyone(), "s", "r").await;
    let before = f.session(&anyone(), "s").await.unwrap();
    let ann = user("ann");
    f.clock.advance(5);
    let linked = f.write_session(&ann, link("s", "ann")).await.unwrap();
    assert_eq!(linked.identity_id, ann.viewer.identity().cloned());
    assert_eq!(linked.last_seq, 2);
    assert_ne!(linked.version, before.version);
    let link_item = f.items(&ann, "s", 9).await.pop().unwrap();
    assert_eq!(
        (link_item.turn_id, link_item.body.channel),
        (None, Channel::Link)
    );
    assert_eq!(
        link_item.body.parts.as_str(),
        r#"[{"type":"session_link","identity_id":"ann"}]"#
    );
    let position = f.ledger.position();
    // A repeated link changes nothing, also by callers that act for the owner without an identity.
    for who in [&ann, &anyone(), &operator("t")] {
        assert_eq!(
            f.write_session(who, link("s", "ann")).await.unwrap(),
            linked
        );
    }
    for (who, name) in [
        (user("bob"), "bob"),
        (anyone(), "bob"),
        (operator("t"), "bob"),
    ] {
        let refused = f.write_session(&who, link("s", name)).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::SessionLinked);
        assert!(
            !format!("{refused:?}").contains("ann"),
            "it does not reveal the owner"
        );
    }
    assert_eq!(f.ledger.position(), position);
    for who in [anyone(), user("bob"), operator("u")] {
        assert_eq!(code(f.session(&who, "s").await), ErrorCode::SessionNotFound);
        let late = f.write(&who, finalize("s", turn.turn_id, Some("a"))).await;
        assert_eq!(code(late), ErrorCode::SessionNotFound);
    }
    let refused = f
        .try_start(&anyone(), start(&anyone(), "s", "r", "r"))
        .await;
    assert_eq!(code(refused), ErrorCode::SessionConflict);
    // The open turn continues under the owner.
    f.append(&ann, &turn, vec![item(Channel::Plan, "p")])
        .await
        .unwrap();
    f.write_turn(&ann, finalize("s", turn.turn_id, Some("a")))
        .await
        .unwrap();
    let listed = f.ledger.sessions(&ann, SessionFilter::default(), None, 9);
    assert_eq!(listed.await.unwrap().0.len(), 1);
    f.assert_intact().await;
}

pub async fn users_link_only_to_themselves(f: &Fixture) {
    f.start(&user("ann"), "hers", "r").await;
    f.start(&anyone(), "s", "r").await;
    for session in ["hers", "s", "absent"] {
        let refused = f.write_session(&user("bob"), link(session, "ann")).await;
        assert_eq!(code(refused), ErrorCode::Forbidden, "{session}");
    }
    assert_eq!(f.session(&anyone(), "s").await.unwrap().identity_id, None);
    for who in [user("bob"), anyone(), operator("t")] {
        let refused = f.write_session(&who, link("absent", "bob")).await;
        assert_eq!(code(refused), ErrorCode::SessionNotFound);
    }
    // Another tenant's session of this name looks absent.
    let refused = f.write_session(&operator("u"), link("s", "bob")).await;
    assert_eq!(code(refused), ErrorCode::SessionNotFound);
}

pub async fn one_of_many_logins_wins(f: &Fixture) {
    for round in 0..6 {
        let session = format!("s{round}");
        f.start(&anyone(), &session, "r").await;
        let mut tasks = JoinSet::new();
        for n in 0..8 {
            let (ledger, session) = (f.ledger.clone(), session.clone());
            tasks.spawn(async move {
                let name = format!("user{n}");
                (
                    ledger.put(cmd(&user(&name), link(&session, &name))).await,
                    name,
                )
            });
        }
        let mut winners = Vec::new();
        for (outcome, name) in tasks.join_all().await {
            match outcome {
                Ok(_) => winners.push(name),
                Err(refused) => assert_eq!(refused.code, ErrorCode::SessionLinked),
            }
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        let now = f.session(&operator("t"), &session).await.unwrap();
        assert_eq!(now.identity_id, IdentityId::new(winners[0].as_str()).ok());
        assert_eq!(now.last_seq, 2, "one link item");
    }
    f.assert_intact().await;
}

pub async fn linking_needs_the_secret_and_removes_it(f: &Fixture) {
    let (holder, ann) = (anyone_with_secret(f, "secret"), user("ann"));
    f.start(&holder, "s", "r").await;
    for who in [ann.clone(), anyone(), with_secret(f, &ann, "wrong")] {
        let refused = f.write_session(&who, link("s", "ann")).await;
        assert_eq!(code(refused), ErrorCode::SessionNotFound);
    }
    let with = with_secret(f, &ann, "secret");
    let linked = f.write_session(&with, link("s", "ann")).await.unwrap();
    assert_eq!(f.session(&ann, "s").await.unwrap(), linked);
    assert_eq!(
        code(f.session(&holder, "s").await),
        ErrorCode::SessionNotFound
    );
    let bob = with_secret(f, &user("bob"), "secret");
    assert_eq!(code(f.session(&bob, "s").await), ErrorCode::SessionNotFound);
    let refused = f.write_session(&bob, link("s", "bob")).await;
    assert_eq!(code(refused), ErrorCode::SessionLinked);
    let id = sid("s");
    let row = f.ledger.query_session(&ann, &id, |snapshot, scope, id| {
        Ok(snapshot.get(scope, id)?.row)
    });
    assert_eq!(row.await.unwrap().token, None);
    f.assert_intact().await;
}

pub async fn closed_sessions_are_linked_too(f: &Fixture) {
    f.start(&anyone(), "s", "r").await;
    f.write_session(&anyone(), close_session("s", None))
        .await
        .unwrap();
    let linked = f
        .write_session(&user("ann"), link("s", "ann"))
        .await
        .unwrap();
    assert_eq!(linked.status, filrouge_types::SessionStatus::Closed);
    f.assert_intact().await;
}
