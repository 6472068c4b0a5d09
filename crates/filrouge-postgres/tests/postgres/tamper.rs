//! A change made outside filrouge is refused by the next read or write that touches it, and found by `verify`: in a
//! ledger that is opened afterwards and in a running one (P7).

use std::collections::BTreeMap;
use std::sync::Arc;

use filrouge_store::command::{NewEvent, NewSession, Outcome, Scope, SessionPatch, Viewer, Write};
use filrouge_store::contract::differential::memory;
use filrouge_store::contract::drafts::{delta, put, stream};
use filrouge_store::contract::fixture::{
    Fixture, anyone, cancel, fail, interrupt, item, keyed, operator, redact_items, replacement,
    sid, user,
};
use filrouge_store::contract::session_writes::{
    anyone_with_secret, close_session, event, json, link, metadata, patch,
};
use filrouge_store::rows::SessionPk;
use filrouge_store::{Keyring, Ledger};
use filrouge_testbed::Database;
use filrouge_types::{Channel, ItemBody, ProjectId, SessionId, TenantId};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::shared_leases::{acquire, checkpoint, release};
use super::{SCHEMA, fixture_at, keyring};

mod agents;
mod cases;
mod columns;
mod drafts;
mod lanes;
mod operations;
mod readings;
mod rollback;
mod running;

/// The sessions of tenant `t` in the world. Tenant `u` has the session `theirs`.
const SESSIONS: [&str; 9] = [
    "parent", "victim", "redacted", "gone", "linked", "kept", "drafting", "adopted", "other",
];

/// The tables with rows of sessions.
const SESSION_TABLES: [&str; 10] = [
    "session",
    "head",
    "turn",
    "record",
    "item_key",
    "session_agent",
    "event",
    "checkpoint",
    "draft",
    "draft_chunk",
];

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work);
}

/// A connection that bypasses the guards, as a superuser can.
async fn raw(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let bypass = "SET session_replication_role = replica";
    client.batch_execute(bypass).await.unwrap();
    client
}

/// The rows of a statement as text; the inner `None` is NULL.
async fn rows(client: &Client, sql: &str) -> Vec<Vec<Option<String>>> {
    let messages = client.simple_query(sql).await;
    let messages = messages.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| (0..row.len()).map(|n| row.get(n).map(Into::into)).collect())
        .collect()
}

/// A store with rows of every kind, and its older state in the tables `old.…`, as an attacker may have saved it.
pub(crate) fn world() -> Database {
    // The template is named after everything that determines its contents.
    let sources = [
        SCHEMA,
        include_str!("../../src/migrate/keys.rs"),
        include_str!("tamper.rs"),
    ];
    let name = sources.concat();
    Database::from_template(&name, |url| {
        // The caller may already be driving a runtime.
        std::thread::scope(|scope| {
            let created = scope.spawn(|| block_on(create_world(url)));
            created.join().unwrap();
        });
    })
}

async fn create_world(url: &str) {
    let f = fixture_at(url, keyring());
    write_first_half(&f).await;
    let client = raw(url).await;
    let copies = client.batch_execute(
        "CREATE SCHEMA old;
         DO $$ DECLARE t text; BEGIN
             FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'filrouge' LOOP
                 EXECUTE format('CREATE TABLE old.%I AS TABLE filrouge.%I', t, t);
             END LOOP;
         END $$",
    );
    copies.await.unwrap();
    write_second_half(&f).await;
    f.assert_intact().await;
    f.ledger.close().await;
}

fn thought_by(agent: &str) -> ItemBody {
    ItemBody {
        agent: Some(agent.into()),
        ..item(Channel::Thought, agent)
    }
}

/// Writes the first half of the world.
async fn write_first_half(f: &Fixture) {
    let (who, ann) = (anyone(), user("ann"));
    for s in ["parent", "victim", "redacted", "gone", "other"] {
        f.complete_turn(&who, s, "r0", "first answer").await;
        f.complete_turn(&who, s, "r1", "answer").await;
        let turn = f.start(&who, s, "open").await;
        let items = vec![keyed("k1", "one"), thought_by("planner")];
        f.append(&who, &turn, items).await.unwrap();
        for n in 1..=2 {
            f.record(&who, event(s, &format!("e{n}"), "kind"))
                .await
                .unwrap();
        }
        for (seq, label) in [(1, "START"), (4, "QUALIF")] {
            f.write(&who, checkpoint(s, Some(seq), label, 9))
                .await
                .unwrap();
        }
        acquire_and_release(f, s).await;
    }
    let linked = NewSession {
        parent_session_id: Some(sid("parent")),
        project_id: ProjectId::new("project").ok(),
        title: Some("Titled".into()),
        metadata: json(r#"{"a":1}"#),
        ..NewSession::with_id(sid("linked"))
    };
    f.write(&who, Write::CreateSession(linked)).await.unwrap();
    f.write_session(&ann, link("linked", "ann")).await.unwrap();
    f.create(&anyone_with_secret(f, "secret"), "kept")
        .await
        .unwrap();
    let other_tenant = Scope::new(TenantId::new("u").unwrap(), Viewer::EndUser(None));
    f.complete_turn(&other_tenant, "theirs", "r", "a").await;
    for name in ["a", "b"] {
        assert!(f.ledger.put_note(name, 0, b"old".to_vec()).await.unwrap());
    }
}

async fn acquire_and_release(f: &Fixture, s: &str) {
    let who = anyone();
    let lease = f.write(&who, acquire(s, "worker", None)).await.unwrap();
    let Outcome::Lease { lease, .. } = lease else {
        panic!("{lease:?}");
    };
    f.write(&who, release(s, "worker", lease.fence))
        .await
        .unwrap();
}

/// Writes the second half of the world.
async fn write_second_half(f: &Fixture) {
    let who = anyone();
    for s in ["victim", "redacted", "other"] {
        let open = f.start(&who, s, "open").await;
        assert!(open.replayed);
        f.append(&who, &open, vec![keyed("k2", "two")])
            .await
            .unwrap();
        for (request, end) in [("failed", 0), ("cancelled", 1), ("silent", 2)] {
            let turn = f.start(&who, s, request).await;
            let end = match end {
                0 => fail(s, turn.turn_id, "error"),
                1 => cancel(s, turn.turn_id),
                _ => interrupt(s, turn.turn_id, i64::MAX),
            };
            f.write(&who, end).await.unwrap();
        }
        let old = f.complete_turn(&who, s, "replaced", "words").await;
        let new = replacement(&who, s, "new", old.turn_id, "better words");
        f.write(&who, new).await.unwrap();
        let with_detail = NewEvent {
            detail: Some(json(r#"{"d":"detail"}"#)),
            ..event(s, "e3", "kind")
        };
        f.record(&who, with_detail).await.unwrap();
        f.write(&who, checkpoint(s, None, "CONFIRMED", 9))
            .await
            .unwrap();
        acquire_and_release(f, s).await;
    }
    let redacted = f.complete_turn(&who, "redacted", "more", "words").await;
    f.redact_turn(&who, &redacted).await.unwrap();
    f.write_redaction(&who, redact_items("redacted", &[(2, 2), (6, 7)]))
        .await
        .unwrap();
    f.erase(&who, "gone").await.unwrap();
    let title = SessionPatch {
        title: Some(Some("Again \u{e9}".into())),
        state: Some(Some("state".into())),
        ..SessionPatch::default()
    };
    f.write_session(&who, patch("kept", title.clone()))
        .await
        .unwrap_err();
    f.write_session(&anyone_with_secret(f, "secret"), patch("kept", title))
        .await
        .unwrap();
    let ann = user("ann");
    f.write_session(&ann, patch("linked", metadata(r#"{"b":2}"#)))
        .await
        .unwrap();
    f.write_session(&ann, close_session("linked", Some("over")))
        .await
        .unwrap();
    for n in 0..4 {
        let turn = f.start(&who, "drafting", "r").await.turn_id;
        let deltas = match n {
            0 => Vec::new(),
            n => vec![delta(0, n == 1, "shown")],
        };
        f.write(&who, put("drafting", turn, stream(1), n, deltas))
            .await
            .unwrap();
    }
    adopt(f).await;
    for name in ["a", "b"] {
        assert!(f.ledger.put_note(name, 1, b"new".to_vec()).await.unwrap());
    }
}

/// Copies a session from a store with other keys; its turns are found by their request ids.
async fn adopt(f: &Fixture) {
    let who = anyone();
    let donor = memory(std::sync::Arc::new(Keyring::single([6; 32])));
    donor
        .complete_turn(&who, "adopted", "r", "of another store")
        .await;
    let turn = donor.start(&who, "adopted", "open").await;
    let items = vec![keyed("k", "x"), thought_by("coder")];
    donor.append(&who, &turn, items).await.unwrap();
    let mut adoption = donor.adopt_command_for(&who, "adopted").await;
    adoption.session.team_id = Some("team".into());
    f.write(&who, Write::Adopt(Arc::new(adoption)))
        .await
        .unwrap();
}

/// The session's number.
async fn pk(ledger: &dyn Ledger, tenant: &str, id: &str) -> SessionPk {
    let (tenant, id) = (TenantId::new(tenant).unwrap(), SessionId::new(id).unwrap());
    let found = ledger.query(move |snapshot| snapshot.view.session(&tenant, &id, None));
    found.await.unwrap().unwrap().pk
}

type SessionPkName = BTreeMap<SessionPk, &'static str>;

/// The number and name of each session.
async fn names(ledger: &dyn Ledger) -> SessionPkName {
    let mut names = BTreeMap::new();
    for s in SESSIONS {
        names.insert(pk(ledger, "t", s).await, s);
    }
    names.insert(pk(ledger, "u", "theirs").await, "theirs");
    names
}

fn scopes() -> [Scope; 2] {
    [operator("t"), operator("u")]
}
