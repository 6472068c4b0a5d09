//! All reads of the world, to compare their answers before and after a change.

use std::collections::BTreeMap;

use filrouge_store::command::{Scope, SessionFilter};
use filrouge_store::contract::fixture::{Fixture, operator, rid, sid, user};
use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_types::{ErrorCode, Failure, Timestamp};

use super::{SESSIONS, scopes};
use crate::START_TIME;

/// A query, the session it concerns (none for a list, a note or the feed), and the answer.
pub(super) struct Reading {
    pub(super) query: String,
    pub(super) session: Option<&'static str>,
    pub(super) answer: Result<String, Failure>,
}

impl Reading {
    /// Whether the answer is a refusal that states the cause.
    pub(super) fn refused(&self) -> bool {
        let codes = [ErrorCode::IntegrityError, ErrorCode::KeyMissing];
        self.answer.as_ref().is_err_and(|f| codes.contains(&f.code))
    }
}

fn debug_text<T: std::fmt::Debug>(answer: Result<T, Failure>) -> Result<String, Failure> {
    answer.map(|answer| format!("{answer:?}"))
}

/// All readings, always in the same order.
pub(super) async fn readings(f: &Fixture) -> Vec<Reading> {
    let mut all = Vec::new();
    for s in SESSIONS {
        read_session(f, s, "t", &mut all).await;
    }
    read_session(f, "theirs", "u", &mut all).await;
    let mut put = |query: String, answer| {
        all.push(Reading {
            query,
            session: None,
            answer,
        });
    };
    for name in ["a", "b", "c"] {
        put(
            format!("note {name}"),
            debug_text(f.ledger.note(name).await),
        );
    }
    for (n, who) in scopes().iter().chain([&user("ann")]).enumerate() {
        for (name, filter) in filters() {
            let list = f.ledger.sessions(who, filter, None, 50).await;
            put(format!("list {n} {name}"), debug_text(list));
        }
        put(format!("agents {n}"), agents(f, who).await);
        let feed = f.ledger.changes(who, "0".parse().unwrap(), 500).await;
        put(format!("feed {n}"), debug_text(feed));
    }
    let silent = f.ledger.query(|snapshot| {
        let before = filrouge_types::Timestamp::from_micros(i64::MAX);
        snapshot.view.idle_turns(before, 99)
    });
    put("silent turns".to_owned(), debug_text(silent.await));
    for tenant in ["t", "u"] {
        let events = events_of_all(f, tenant).await;
        put(format!("events of all of {tenant}"), events);
    }
    all
}

/// The agents of all sessions, one per line; fails if the list has findings.
async fn agents(f: &Fixture, who: &Scope) -> Result<String, Failure> {
    let list = f
        .ledger
        .list_sessions(who, SessionFilter::default(), None, 50);
    let ((page, _), findings) = list.await?;
    if let Some(found) = findings.into_iter().next() {
        return Err(Failure::new(ErrorCode::IntegrityError, found.what));
    }
    let lines = page.iter().flat_map(|session| {
        let agents = session.agents.iter();
        agents.map(move |agent| format!("{} {agent}\n", session.session_id))
    });
    Ok(lines.collect())
}

async fn events_of_all(f: &Fixture, tenant: &str) -> Result<String, Failure> {
    let tenant = operator(tenant).tenant;
    let always = [i64::MIN, i64::MAX].map(Timestamp::from_micros);
    let events = f.ledger.query(move |snapshot| {
        let mut all = String::new();
        snapshot.tenant_events(&tenant, always.into(), &mut |session, event| {
            all.push_str(&format!("{session:?} {event:?}\n"));
            Ok(())
        })?;
        Ok(all)
    });
    events.await
}

/// The session's checkpoints, one per line, and the newest readable one.
async fn checkpoints(f: &Fixture, who: &Scope, s: &str) -> Result<String, Failure> {
    let (who, id) = (who.clone(), sid(s));
    let checkpoints = f.ledger.query(move |snapshot| {
        let all = snapshot.checkpoints(&who, &id)?;
        let newest = snapshot.newest_checkpoint(&snapshot.get(&who, &id)?)?;
        let shown = all.into_iter().flatten().chain(newest.checkpoint);
        Ok(shown.map(|c| format!("{c:?}\n")).collect())
    });
    checkpoints.await
}

fn filters() -> [(&'static str, SessionFilter); 5] {
    let none = SessionFilter::default;
    [
        ("all", none()),
        (
            "by title",
            SessionFilter {
                title: Some("AGAIN".into()),
                ..none()
            },
        ),
        (
            "by agent",
            SessionFilter {
                agent: Some("planner".into()),
                ..none()
            },
        ),
        (
            "by parent",
            SessionFilter {
                parent_session_id: Some(sid("parent")),
                ..none()
            },
        ),
        (
            "by status",
            SessionFilter {
                status: Some(filrouge_types::SessionStatus::Closed),
                ..none()
            },
        ),
    ]
}

async fn read_session(f: &Fixture, s: &'static str, tenant: &str, all: &mut Vec<Reading>) {
    let (who, id) = (operator(tenant), sid(s));
    let mut put = |name: &str, answer| {
        all.push(Reading {
            query: format!("{name} {s}"),
            session: Some(s),
            answer,
        });
    };
    put("session", debug_text(f.ledger.session(&who, &id).await));
    put("items", debug_text(f.ledger.items(&who, &id, 0, 100).await));
    put("tail", debug_text(f.ledger.items(&who, &id, 3, 100).await));
    for (order, include_redacted) in [(TurnOrder::Oldest, true), (TurnOrder::Newest, false)] {
        let query = TurnQuery {
            status: None,
            include_redacted,
            order,
            cursor: None,
            limit: 50,
        };
        put("turns", debug_text(f.ledger.turns(&who, &id, query).await));
    }
    for request in ["r0", "r1", "open", "replaced", "new", "more"] {
        let turn = f.keyring.turn_id(&who.tenant, &id, &rid(request));
        let answer = f.ledger.turn(&who, &id, turn).await;
        put(&format!("turn {request}"), debug_text(answer));
    }
    put(
        "events",
        debug_text(f.ledger.events(&who, &id, 0, 50).await),
    );
    let drafts = f.ledger.drafts(&who, &id, BTreeMap::new()).await;
    put("drafts", debug_text(drafts));
    put("checkpoints", checkpoints(f, &who, s).await);
    let (scope, session) = (who.clone(), id.clone());
    let now = Timestamp::from_micros(START_TIME);
    let lease = f
        .ledger
        .query(move |snapshot| snapshot.lease(&scope, &session, now));
    put("lease", debug_text(lease.await));
}
