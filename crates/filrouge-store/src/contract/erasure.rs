//! Erasure leaves only a session's name, and refuses further writes under it (DESIGN §9).

use std::sync::Arc;

use filrouge_types::{Channel, ErrorCode, ItemBody, SessionStatus, Timestamp};
use tokio::task::JoinSet;

use super::fixture::{
    Fixture, anyone, append, cancel, cmd, code, finalize, interrupt, item, keyed, operator, redact,
    replacement, rid, sid, start, user,
};
use super::session_writes::{
    anyone_with_secret, close_session, event, link, patch, title, with_secret,
};
use crate::command::{NewSession, Outcome, RedactionTarget, Scope, SessionFilter, Write};
use crate::read::{ChangeKind, TurnQuery};

/// Creates a session with rows of every kind; returns its number.
async fn create_full_session(f: &Fixture, who: &Scope, session: &str) -> u64 {
    let new = NewSession {
        title: Some("a title".into()),
        metadata: super::session_writes::json(r#"{"a":1}"#),
        ..NewSession::with_id(sid(session))
    };
    f.write(who, Write::CreateSession(new)).await.unwrap();
    f.complete_turn(who, session, "whole", "an answer").await;
    let turn = f.start(who, session, "open").await;
    let item = ItemBody {
        agent: Some("planner".into()),
        ..keyed("k", "words")
    };
    f.append(who, &turn, vec![item]).await.unwrap();
    f.record(who, event(session, "e", "call_started"))
        .await
        .unwrap();
    f.pk(session).await
}

/// Every read and write of a session fails with `expected`, and a write that would create it with `creating`.
async fn assert_refused(
    f: &Fixture,
    who: &Scope,
    s: &str,
    expected: ErrorCode,
    creating: ErrorCode,
) {
    let turn = f.keyring.turn_id(&who.tenant, &sid(s), &rid("open"));
    let (id, position) = (sid(s), f.ledger.position());
    assert_eq!(code(f.session(who, s).await), expected);
    assert_eq!(code(f.ledger.items(who, &id, 0, 9).await), expected);
    let query = TurnQuery {
        limit: 9,
        ..TurnQuery::default()
    };
    assert_eq!(code(f.ledger.turns(who, &id, query).await), expected);
    assert_eq!(code(f.ledger.turn(who, &id, turn).await), expected);
    assert_eq!(code(f.ledger.events(who, &id, 0, 9).await), expected);
    let verify = f.ledger.verify(Some((who.clone(), id.clone()))).await;
    assert_eq!(code(verify), expected);
    for write in [
        append(s, turn, vec![item(Channel::Plan, "late")], None),
        append(s, turn, vec![keyed("k", "words")], None),
        finalize(s, turn, Some("late")),
        cancel(s, turn),
        interrupt(s, turn, i64::MAX),
        redact(s, RedactionTarget::Turn(turn)),
        replacement(who, s, "new", turn, "late"),
        patch(s, title("late")),
        close_session(s, None),
        Write::RecordEvent(Box::new(event(s, "late", "kind"))),
    ] {
        let detail = format!("{write:?}");
        assert_eq!(code(f.write(who, write).await), expected, "{detail}");
    }
    assert_eq!(code(f.create(who, s).await), creating);
    for request in ["whole", "open", "new"] {
        let late = f.try_start(who, start(who, s, request, request)).await;
        assert_eq!(code(late), creating);
    }
    assert_eq!(f.ledger.position(), position, "nothing was written");
}

pub async fn only_the_name_remains(f: &Fixture) {
    let (ann, bob) = (user("ann"), user("bob"));
    let pk = create_full_session(f, &ann, "s").await;
    create_full_session(f, &ann, "other").await;
    let others = f.items(&ann, "other", 50).await;
    let adopt_command = f.adopt_command_for(&ann, "s").await;
    f.clock.advance(1000);
    let now = filrouge_types::Clock::now(&*f.clock);
    let receipt = f.erase(&ann, "s").await.unwrap();
    assert_eq!((receipt.items, receipt.turns, receipt.at), (4, 2, now));
    f.clock.advance(1000);
    assert_refused(
        f,
        &ann,
        "s",
        ErrorCode::SessionErased,
        ErrorCode::SessionErased,
    )
    .await;
    assert_refused(
        f,
        &operator("t"),
        "s",
        ErrorCode::SessionErased,
        ErrorCode::SessionErased,
    )
    .await;
    for who in [&bob, &anyone(), &anyone_with_secret(f, "x")] {
        assert_refused(
            f,
            who,
            "s",
            ErrorCode::SessionNotFound,
            ErrorCode::SessionConflict,
        )
        .await;
        assert_eq!(code(f.erase(who, "s").await), ErrorCode::SessionNotFound);
    }
    let by_ann = f
        .write(&ann, Write::Adopt(Arc::new(adopt_command.clone())))
        .await;
    assert_eq!(code(by_ann), ErrorCode::SessionErased);
    let by_bob = f.write(&bob, Write::Adopt(Arc::new(adopt_command))).await;
    assert_eq!(code(by_bob), ErrorCode::SessionConflict);
    for who in [&ann, &bob] {
        let name = who.viewer.identity().unwrap().as_str().to_owned();
        let expected = if who == &ann {
            ErrorCode::SessionErased
        } else {
            ErrorCode::SessionNotFound
        };
        assert_eq!(code(f.write_session(who, link("s", &name)).await), expected);
    }
    let planner = SessionFilter {
        agent: Some("planner".into()),
        ..SessionFilter::default()
    };
    for (who, filter) in [
        (&ann, SessionFilter::default()),
        (&ann, planner),
        (&operator("t"), SessionFilter::default()),
    ] {
        let (list, _) = f.ledger.sessions(who, filter, None, 9).await.unwrap();
        assert!(list.iter().all(|s| s.session_id != sid("s")));
    }
    assert_erased_rows(f, pk).await;
    assert_eq!(f.items(&ann, "other", 50).await, others);
    f.assert_intact().await;
}

/// Checks the stored rows.
async fn assert_erased_rows(f: &Fixture, pk: u64) {
    let query = f.ledger.query(move |snapshot| {
        let view = snapshot.view;
        let stored = view.session_by_pk(pk)?.unwrap();
        assert!(view.records(pk, 1, 9)?.is_empty() && view.events(pk, 0, 9)?.is_empty());
        assert_eq!((view.newest_seq(pk)?, view.turn_row_count(pk)?), (0, 0));
        assert_eq!((view.item_key_count(pk)?, view.newest_event(pk)?), (0, 0));
        assert!(
            view.idle_turns(Timestamp::from_micros(i64::MAX), 9)?
                .iter()
                .all(|(p, _)| *p != pk)
        );
        Ok((stored.row, stored.head.unwrap()))
    });
    let (row, head) = query.await.unwrap();
    assert_eq!((row.title, row.identity_id, row.token), (None, None, None));
    assert_eq!(
        (row.metadata.as_str(), row.status),
        ("{}", SessionStatus::Closed)
    );
    assert!(row.erased.is_some());
    assert_eq!(
        (
            head.last_seq,
            head.turn_count,
            head.turn_rows,
            head.open_turns
        ),
        (0, 0, 0, 0)
    );
}

pub async fn a_repeated_erasure_returns_the_first_receipt(f: &Fixture) {
    let ann = user("ann");
    f.complete_turn(&ann, "s", "r", "a").await;
    let receipt = f.erase(&ann, "s").await.unwrap();
    let position = f.ledger.position();
    f.clock.advance(99);
    for who in [&ann, &operator("t"), &ann] {
        assert_eq!(f.erase(who, "s").await.unwrap(), receipt);
    }
    assert_eq!(f.ledger.position(), position, "nothing more is written");
    assert_eq!(
        code(f.erase(&ann, "absent").await),
        ErrorCode::SessionNotFound
    );
    assert_eq!(
        code(f.erase(&operator("u"), "s").await),
        ErrorCode::SessionNotFound
    );
    f.assert_intact().await;
}

pub async fn only_those_who_saw_the_session_learn_of_its_erasure(f: &Fixture) {
    let holder = anyone_with_secret(f, "secret");
    let known = with_secret(f, &user("ann"), "secret");
    f.start(&holder, "kept", "r").await;
    f.start(&anyone(), "open", "r").await;
    f.start(&user("bob"), "theirs", "r").await;
    assert_eq!(
        code(f.erase(&anyone(), "kept").await),
        ErrorCode::SessionNotFound
    );
    assert_eq!(
        code(f.erase(&user("ann"), "theirs").await),
        ErrorCode::SessionNotFound
    );
    // A caller with the secret could see the session, so they learn of its erasure, whatever their identity.
    let receipt = f.erase(&known, "kept").await.unwrap();
    for who in [&known, &holder, &operator("t")] {
        assert_eq!(f.erase(who, "kept").await.unwrap(), receipt);
        assert_eq!(code(f.session(who, "kept").await), ErrorCode::SessionErased);
    }
    for who in [anyone(), user("ann"), anyone_with_secret(f, "another")] {
        assert_refused(
            f,
            &who,
            "kept",
            ErrorCode::SessionNotFound,
            ErrorCode::SessionConflict,
        )
        .await;
    }
    // Anonymous sessions were visible to all.
    f.erase(&user("ann"), "open").await.unwrap();
    for who in [anyone(), user("bob"), holder, operator("t")] {
        assert_eq!(
            code(f.session(&who, "open").await),
            ErrorCode::SessionErased
        );
        assert_eq!(code(f.create(&who, "open").await), ErrorCode::SessionErased);
    }
    f.erase(&operator("t"), "theirs").await.unwrap();
    assert_eq!(
        code(f.session(&user("bob"), "theirs").await),
        ErrorCode::SessionErased
    );
    assert_eq!(
        code(f.session(&user("ann"), "theirs").await),
        ErrorCode::SessionNotFound
    );
    f.assert_intact().await;
}

pub async fn the_feed_shows_the_owner_an_erasure(f: &Fixture) {
    let (ann, bob) = (user("ann"), user("bob"));
    f.complete_turn(&ann, "hers", "r", "a").await;
    f.start(&anyone(), "open", "r").await;
    f.start(&anyone_with_secret(f, "secret"), "kept", "r").await;
    for s in ["hers", "open", "kept"] {
        f.erase(&operator("t"), s).await.unwrap();
        f.clock.advance(1);
    }
    let visible_sessions = async |who: &Scope| -> Vec<String> {
        let feed = f.feed(who, 2).await;
        let erased = feed.iter().filter(|c| c.kind == ChangeKind::Erased);
        let all: Vec<_> = erased.map(|c| c.session_id.to_string()).collect();
        assert_eq!(feed.len(), all.len() * 2, "created and erased");
        all
    };
    assert_eq!(visible_sessions(&ann).await, ["hers"]);
    assert_eq!(visible_sessions(&anyone()).await, ["open"]);
    assert_eq!(
        visible_sessions(&anyone_with_secret(f, "secret")).await,
        ["kept"]
    );
    assert_eq!(
        visible_sessions(&operator("t")).await,
        ["hers", "open", "kept"]
    );
    for who in [bob, operator("u"), anyone_with_secret(f, "another")] {
        assert_eq!(visible_sessions(&who).await, Vec::<String>::new());
    }
}

pub async fn a_session_of_many_records_is_erased(f: &Fixture) {
    let ann = user("ann");
    let turn = f.start(&ann, "s", "r").await;
    for n in 0..40 {
        let batch = (0..70)
            .map(|i| keyed(&format!("{n}-{i}"), "words"))
            .collect();
        f.append(&ann, &turn, batch).await.unwrap();
    }
    for n in 0..60 {
        f.complete_turn(&ann, "s", &format!("r{n}"), &"a".repeat(3000))
            .await;
        f.record(&ann, event("s", &format!("e{n}"), "kind"))
            .await
            .unwrap();
    }
    let who = ann.clone();
    let query = f
        .ledger
        .query(move |snapshot| Ok(snapshot.get(&who, &sid("s"))?.pk));
    let pk = query.await.unwrap();
    let receipt = f.erase(&ann, "s").await.unwrap();
    assert_eq!((receipt.items, receipt.turns), (1 + 40 * 70 + 120, 61));
    assert_erased_rows(f, pk).await;
    f.assert_intact().await;
}

/// Concurrent appends either precede the erasure or find the tombstone.
pub async fn late_writes_find_the_tombstone(f: &Fixture) {
    let ann = user("ann");
    let turn = f.start(&ann, "s", "r").await;
    let mut tasks = JoinSet::new();
    for n in 0..24 {
        let (ledger, ann, id) = (f.ledger.clone(), ann.clone(), turn.turn_id);
        tasks.spawn(async move {
            let write = match n {
                12 => super::session_writes::erase("s"),
                _ => append("s", id, vec![keyed(&format!("{n}"), "x")], None),
            };
            ledger.put(cmd(&ann, write)).await
        });
    }
    let (mut before, mut items) = (0, 0);
    for outcome in tasks.join_all().await {
        match outcome {
            Ok(Outcome::Erased(receipt)) => items = receipt.items,
            Ok(_) => before += 1,
            Err(failure) => assert_eq!(failure.code, ErrorCode::SessionErased),
        }
    }
    assert_eq!(items, 1 + before);
    f.assert_intact().await;
}
