//! Events of all sessions by time (DESIGN §6).

use filrouge_types::{TenantId, Timestamp};

use super::fixture::{Fixture, anyone, operator, user};
use super::session_writes::event;
use crate::command::NewEvent;

fn at(n: i64) -> Timestamp {
    Timestamp::from_micros(n)
}

/// The events of tenant `t` in `from..to`, each as `session key`.
async fn events_between(f: &Fixture, tenant: &str, from: i64, to: i64) -> Vec<String> {
    let tenant = TenantId::new(tenant).unwrap();
    let query = f.ledger.query(move |snapshot| {
        let mut entries = Vec::new();
        snapshot.tenant_events(&tenant, (at(from), at(to)), &mut |session, event| {
            entries.push(format!("{} {}", session.as_str(), event.key.as_str()));
            Ok(())
        })?;
        Ok(entries)
    });
    query.await.unwrap()
}

async fn record_event_at(f: &Fixture, session: &str, key: &str, when: i64) {
    let event = NewEvent {
        at: Some(at(when)),
        ..event(session, key, "kind")
    };
    f.record(&operator("t"), event).await.unwrap();
}

pub async fn events_are_found_by_time(f: &Fixture) {
    for who in [anyone(), operator("u")] {
        f.create(&who, "a").await.unwrap();
    }
    f.create(&user("ann"), "b").await.unwrap();
    f.create(&user("ann"), "gone").await.unwrap();
    for (session, key, when) in [
        ("a", "1", 10),
        ("gone", "1", 12),
        ("b", "1", 10),
        ("a", "2", 30),
        ("b", "2", -5),
        ("a", "3", 20),
        ("a", "4", 10),
        ("b", "3", 30),
    ] {
        record_event_at(f, session, key, when).await;
    }
    let foreign = NewEvent {
        at: Some(at(15)),
        ..event("a", "foreign", "kind")
    };
    f.record(&operator("u"), foreign).await.unwrap();
    f.erase(&user("ann"), "gone").await.unwrap();
    // At the same time, the sessions' numbers decide.
    let all = match f.pk("a").await < f.pk("b").await {
        true => ["b 2", "a 1", "a 4", "b 1", "a 3", "a 2", "b 3"],
        false => ["b 2", "b 1", "a 1", "a 4", "a 3", "b 3", "a 2"],
    };
    assert_eq!(events_between(f, "t", i64::MIN, i64::MAX).await, all);
    assert_eq!(events_between(f, "t", 10, 30).await, all[1..5]);
    assert_eq!(events_between(f, "t", 11, 31).await, all[4..]);
    assert_eq!(events_between(f, "t", 30, 10).await, [""; 0]);
    assert_eq!(events_between(f, "u", 0, 99).await, ["a foreign"]);
    assert_eq!(events_between(f, "v", 0, 99).await, [""; 0]);
    f.assert_intact().await;
}

pub async fn events_found_by_time_are_paged(f: &Fixture) {
    for s in ["a", "b", "c"] {
        f.create(&anyone(), s).await.unwrap();
        for n in 0..7 {
            record_event_at(f, s, &format!("k{n}"), n % 3).await;
        }
    }
    let page = |after, limit| {
        let query = f.ledger.query(move |snapshot| {
            let rows = snapshot.view.events_at(at(0), at(2), after, limit)?;
            let position =
                |(pk, row): &(u64, crate::rows::EventRow)| (row.event.at, *pk, row.number);
            Ok(rows.iter().map(position).collect::<Vec<_>>())
        });
        async { query.await.unwrap() }
    };
    let all = page(None, 99).await;
    assert_eq!(all.len(), 15);
    assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
    for limit in [1, 2, 4, 15, 16] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let some = page(after, limit).await;
            assert!(some.len() <= limit);
            let Some(last) = some.last() else { break };
            after = Some(*last);
            found.extend(some);
        }
        assert_eq!(found, all, "pages of {limit}");
    }
    // A position before the range starts at its beginning.
    assert_eq!(page(Some((at(-9), 99, 99)), 99).await, all);
    assert!(page(Some((at(9), 0, 0)), 99).await.is_empty());
}
