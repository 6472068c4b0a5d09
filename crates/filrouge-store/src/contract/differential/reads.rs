//! All reads of a ledger, to compare their results.

use std::collections::BTreeMap;

use filrouge_types::{SessionStatus, Timestamp};

use super::caller;
use crate::command::{Scope, SessionFilter};
use crate::contract::fixture::{Fixture, anyone, operator, sid, user};
use crate::read::{SessionChange, TurnOrder, TurnQuery};

fn filters() -> [SessionFilter; 3] {
    [
        SessionFilter {
            agent: Some("agent1".into()),
            ..SessionFilter::default()
        },
        SessionFilter {
            title: Some("MADE".into()),
            parent_session_id: Some(sid("s0")),
            ..SessionFilter::default()
        },
        SessionFilter {
            status: Some(SessionStatus::Closed),
            ..SessionFilter::default()
        },
    ]
}

/// The results of all reads of a session by one caller.
async fn readings_of(f: &Fixture, who: &Scope, s: &str) -> Vec<String> {
    let mut results = vec![
        format!("{:?}", f.ledger.session(who, &sid(s)).await),
        format!("{:?}", f.ledger.items(who, &sid(s), 1, 30).await),
    ];
    let drafts = f.ledger.drafts(who, &sid(s), BTreeMap::new()).await;
    results.push(format!("{drafts:?}"));
    let events = f.ledger.events(who, &sid(s), 0, 2).await;
    results.push(format!("{events:?}"));
    results.push(format!("{:?}", f.lease(who, s).await));
    results.push(format!("{:?}", f.checkpoints(who, s).await));
    for order in [TurnOrder::Oldest, TurnOrder::Newest] {
        let query = TurnQuery {
            status: None,
            include_redacted: order == TurnOrder::Oldest,
            order,
            cursor: None,
            limit: 3,
        };
        results.push(format!("{:?}", f.ledger.turns(who, &sid(s), query).await));
    }
    results
}

/// The results of all reads of session `s0` by every caller.
pub async fn session_readings(f: &Fixture) -> Vec<String> {
    let mut results = Vec::new();
    for who in [anyone(), user("ann"), caller(&f.keyring, 4), operator("t")] {
        results.extend(readings_of(f, &who, "s0").await);
    }
    results
}

/// The callers of all reads.
fn readers(f: &Fixture) -> [Scope; 6] {
    [
        anyone(),
        user("ann"),
        user("bob"),
        caller(&f.keyring, 4),
        operator("t"),
        operator("u"),
    ]
}

/// All that callers can read, and the verification. It does not depend on the number of lanes.
pub(super) async fn answers(f: &Fixture) -> Vec<String> {
    let mut results = Vec::new();
    for who in readers(f) {
        let sessions = f
            .ledger
            .sessions(&who, SessionFilter::default(), None, 50)
            .await;
        results.push(format!("{sessions:?}"));
        for filter in filters() {
            let found = f.ledger.sessions(&who, filter, None, 50).await;
            results.push(format!("{found:?}"));
        }
        let feed = f.feed(&who, 50).await;
        let shown = |change: &SessionChange| {
            let seqs = (change.first_seq, change.last_seq);
            format!(
                "{:?} {} {seqs:?} {:?}",
                change.kind, change.session_id, change.at
            )
        };
        results.extend(feed.iter().map(shown));
        for s in ["s0", "s1", "s2"] {
            results.extend(readings_of(f, &who, s).await);
        }
    }
    let silent = f.ledger.query(|snapshot| {
        let turns = snapshot
            .view
            .idle_turns(Timestamp::from_micros(i64::MAX), 9)?;
        Ok(turns
            .into_iter()
            .map(|(_, turn)| turn.turn_id)
            .collect::<Vec<_>>())
    });
    results.push(format!("{:?}", silent.await));
    let tenant = operator("t").tenant;
    let events = f.ledger.query(move |snapshot| {
        let mut events = Vec::new();
        let always = [i64::MIN, i64::MAX].map(Timestamp::from_micros);
        snapshot.tenant_events(&tenant, always.into(), &mut |session, event| {
            events.push(format!("{session} {event:?}"));
            Ok(())
        })?;
        Ok(events)
    });
    results.push(format!("{:?}", events.await));
    for name in ["n0", "n1"] {
        results.push(format!("{:?}", f.ledger.note(name).await));
    }
    results.push(format!("{:?}", f.ledger.verify(None).await));
    results
}

/// [`answers`], and readings that ledgers of the same id and number of lanes have in common.
pub(super) async fn readings(f: &Fixture) -> Vec<String> {
    let mut results = answers(f).await;
    let position = f.ledger.position();
    let lanes = f.ledger.lanes().iter().map(|lane| position.lane(lane));
    results.push(format!("{:?}", lanes.collect::<Vec<_>>()));
    for who in readers(f) {
        for page in [1, 3, 50] {
            results.push(format!("{:?}", f.feed(&who, page).await));
        }
    }
    let rows = f.ledger.query(|snapshot| {
        let always = [i64::MIN, i64::MAX].map(Timestamp::from_micros);
        Ok((
            snapshot.view.idle_turns(always[1], 9)?,
            snapshot.view.events_at(always[0], always[1], None, 50)?,
        ))
    });
    results.push(format!("{:?}", rows.await));
    results
}
