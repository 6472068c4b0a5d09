//! Events of a session are recorded once per key and read in the order of recording (DESIGN §6).

use filrouge_types::{ErrorCode, SessionEvent, Timestamp};
use tokio::task::JoinSet;

use super::fixture::{Fixture, anyone, cmd, code, operator, sid, user};
use super::session_writes::{close_session, event, json};
use crate::command::{NewEvent, Outcome, Scope, Write};

async fn events(f: &Fixture, who: &Scope, session: &str, page: usize) -> Vec<SessionEvent> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let found = f.ledger.events(who, &sid(session), after, page).await;
        let (found, next) = found.unwrap();
        assert!(found.len() <= page);
        all.extend(found);
        match next {
            Some(next) => after = next.parse().unwrap(),
            None => return all,
        }
    }
}

fn detailed(key: &str, detail: &str) -> NewEvent {
    NewEvent {
        at: Some(Timestamp::from_micros(5)),
        detail: Some(json(detail)),
        ..event("s", key, "transferred")
    }
}

pub async fn an_event_is_recorded_once_per_key(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let detail = r#"{ "to": "queue", "n": 1.0 }"#;
    let (first, created) = f.record(&who, detailed("k", detail)).await.unwrap();
    assert!(created);
    assert_eq!(first.detail.as_ref().unwrap().as_str(), detail, "as posted");
    assert_eq!(first.at, Timestamp::from_micros(5));
    let (plain, _) = f
        .record(&who, event("s", "plain", "call_started"))
        .await
        .unwrap();
    assert_eq!((plain.at, &plain.detail), (plain.created_at, &None));
    let position = f.ledger.position();
    f.clock.advance(50);
    let again = f.record(&who, detailed("k", detail)).await.unwrap();
    assert_eq!(again, (first.clone(), false));
    // An absent time matches any time.
    let unsaid = NewEvent {
        at: None,
        ..detailed("k", detail)
    };
    assert_eq!(
        f.record(&who, unsaid).await.unwrap(),
        (first.clone(), false)
    );
    let again = f
        .record(&who, event("s", "plain", "call_started"))
        .await
        .unwrap();
    assert_eq!(again, (plain.clone(), false));
    for other in [
        detailed("k", r#"{"to":"queue","n":1.0}"#),
        NewEvent {
            kind: "call_ended".into(),
            ..detailed("k", detail)
        },
        NewEvent {
            at: Some(Timestamp::from_micros(6)),
            ..detailed("k", detail)
        },
        NewEvent {
            detail: None,
            ..detailed("k", detail)
        },
        NewEvent {
            key: plain.key.clone(),
            ..detailed("k", detail)
        },
    ] {
        let refused = f.record(&who, other).await;
        assert_eq!(code(refused), ErrorCode::IdempotencyMismatch);
    }
    assert_eq!(f.ledger.position(), position);
    assert_eq!(events(f, &who, "s", 9).await, [first, plain]);
    // The same key in another session names another event.
    f.create(&who, "t").await.unwrap();
    assert!(f.record(&who, event("t", "k", "kind")).await.unwrap().1);
    assert_eq!(f.session(&who, "s").await.unwrap().last_seq, 0, "no item");
    f.assert_intact().await;
}

pub async fn events_are_paged_in_order(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    f.create(&who, "other").await.unwrap();
    for n in 0..23 {
        // Descending keys, so that only the order of recording can be the order of the page.
        let key = format!("k{:02}", 99 - n);
        f.clock.advance(if n % 3 == 0 { -7 } else { 5 });
        f.record(&who, event("s", &key, "kind")).await.unwrap();
        f.record(&who, event("other", &key, "kind")).await.unwrap();
    }
    let keys: Vec<String> = (0..23).map(|n| format!("k{:02}", 99 - n)).collect();
    for page in [1, 2, 7, 22, 23, 24, 500] {
        let found = events(f, &who, "s", page).await;
        let found: Vec<&str> = found.iter().map(|e| e.key.as_str()).collect();
        assert_eq!(found, keys, "pages of {page}");
    }
    for after in [23, 24, u64::MAX] {
        let (none, next) = f.ledger.events(&who, &sid("s"), after, 5).await.unwrap();
        assert_eq!((none.len(), next), (0, None));
    }
    f.assert_intact().await;
}

pub async fn strangers_neither_read_nor_record_events(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    f.record(&who, event("s", "k", "kind")).await.unwrap();
    for stranger in [user("bob"), anyone(), operator("u")] {
        for (session, key) in [("s", "k"), ("s", "new"), ("absent", "k")] {
            let refused = f.record(&stranger, event(session, key, "kind")).await;
            assert_eq!(code(refused), ErrorCode::SessionNotFound);
        }
        let refused = f.ledger.events(&stranger, &sid("s"), 0, 9).await;
        assert_eq!(code(refused), ErrorCode::SessionNotFound);
    }
    assert_eq!(events(f, &operator("t"), "s", 9).await.len(), 1);
    assert!(
        !f.record(&operator("t"), event("s", "k", "kind"))
            .await
            .unwrap()
            .1
    );
    // The end of a call is recorded after the session is closed.
    f.write_session(&who, close_session("s", None))
        .await
        .unwrap();
    assert!(
        f.record(&who, event("s", "end", "call_ended"))
            .await
            .unwrap()
            .1
    );
    f.assert_intact().await;
}

pub async fn a_session_has_an_event_limit(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..50 {
        let (ledger, who) = (f.ledger.clone(), who.clone());
        tasks.spawn(async move {
            for n in 0..200 {
                let command = event("s", &format!("{task} {n}"), "kind");
                let write = Write::RecordEvent(Box::new(command));
                ledger.put(cmd(&who, write)).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let refused = f.record(&who, event("s", "one more", "kind")).await;
    assert_eq!(code(refused), ErrorCode::LimitExceeded);
    assert!(!f.record(&who, event("s", "0 0", "kind")).await.unwrap().1);
    f.assert_intact().await;
}

pub async fn one_of_many_equal_events_is_new(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let mut tasks = JoinSet::new();
    for n in 0..60 {
        let (ledger, who) = (f.ledger.clone(), who.clone());
        let command = event("s", &format!("k{}", n % 6), "kind");
        tasks.spawn(async move {
            let write = Write::RecordEvent(Box::new(command));
            ledger.put(cmd(&who, write)).await.unwrap()
        });
    }
    let all = tasks.join_all().await;
    let new = all
        .iter()
        .filter(|o| matches!(o, Outcome::Event { created: true, .. }));
    assert_eq!(new.count(), 6);
    assert_eq!(events(f, &who, "s", 4).await.len(), 6);
    f.assert_intact().await;
}
