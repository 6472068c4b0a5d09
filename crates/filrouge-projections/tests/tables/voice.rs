//! The tables of the voice design.

use std::collections::BTreeSet;

use filrouge_projections::{SessionKey, SessionUpdate, Target};
use filrouge_types::{SessionStatus, TenantId};

use crate::sessions::{event, key, session, short_session, turn};
use crate::world::World;

/// A call of two turns, with the events that a resume records.
fn call(key: &SessionKey, events: &[&str]) -> SessionUpdate {
    let two = ["un rendez-vous", "le deux"].into_iter().zip(1..);
    let turns = two.map(|(words, number)| turn(key.session.as_str(), number, words));
    let mut call = session(key, 5, turns.collect());
    let kinds = events.iter().zip(1..);
    let events = kinds.map(|(kind, number)| event(&format!("{kind}-{number}"), kind));
    call.events.extend(events);
    call
}

/// The queries are those of the design, with the windows that it describes in words.
pub(crate) async fn the_voice_designs_key_figures_are_counted(world: &World) {
    world.tables.create(1).await.unwrap();
    let (first, second) = (key("acme", "call-1"), key("acme", "call-2"));
    let events = ["resume_from_pg", "resume_from_pg", "call_lock_timeout"];
    world.write(&call(&first, &events)).await;
    let mut closed = call(&second, &["transferred_human"]);
    closed.recorded.session.status = SessionStatus::Closed;
    world.write(&closed).await;
    world.tables.publish(1).await.unwrap();
    for (query, value) in [
        (
            "SELECT COUNT(*) FROM ivr_events WHERE event='resume_from_pg'",
            "2",
        ),
        (
            "SELECT COUNT(*) FROM ivr_events WHERE event='call_lock_timeout' AND tenant_id=7 AND ts >= '2026-11-29' AND ts < '2026-12-07'",
            "1",
        ),
        (
            "SELECT COUNT(*) FROM call_sessions WHERE tenant_id=7 AND started_at >= '2026-11-29' AND started_at < '2026-12-07'",
            "2",
        ),
        (
            "SELECT status FROM call_sessions WHERE tenant_id=7 AND call_id='call-2'",
            "closed",
        ),
        (
            "SELECT last_state FROM call_sessions WHERE tenant_id=7 AND call_id='call-1'",
            "WAIT_CONFIRM",
        ),
        (
            "SELECT last_seq FROM call_sessions WHERE tenant_id=7 AND call_id='call-1'",
            "4",
        ),
        (
            "SELECT role FROM call_messages WHERE tenant_id=7 AND call_id='call-1' AND seq=2",
            "agent",
        ),
        (
            "SELECT text FROM call_messages WHERE tenant_id=7 AND call_id='call-1' AND role='user' ORDER BY seq DESC LIMIT 1",
            "le deux",
        ),
        (
            "SELECT state_json ->> 'slots' FROM call_state_checkpoints WHERE tenant_id=7 AND call_id='call-1' ORDER BY ts DESC LIMIT 1",
            "",
        ),
        (
            "SELECT seq FROM call_state_checkpoints WHERE tenant_id=7 AND call_id='call-1' AND seq <= 4 ORDER BY ts DESC LIMIT 1",
            "4",
        ),
    ] {
        let found = world.value(query).await;
        match value {
            // The two databases write JSON with different spaces.
            "" => assert_eq!(found.replace(' ', ""), r#"["9:00","9:30"]"#, "{query}"),
            value => assert_eq!(found, value, "{query}"),
        }
    }
}

pub(crate) async fn a_tenant_without_a_number_has_no_calls(world: &World) {
    let other = key("other", "call");
    world.tables.create(1).await.unwrap();
    world.write(&short_session(&other, 5, "words")).await;
    let tables: BTreeSet<&str> = world
        .stored(&other)
        .await
        .into_iter()
        .map(|row| row.table)
        .collect();
    assert_eq!(
        tables,
        BTreeSet::from(["events", "items", "sessions", "turns"])
    );
    let without = world.tables.tenants_without_number();
    assert_eq!(without, [TenantId::new("other").unwrap()]);
}

#[test]
fn two_tenants_must_not_have_one_number() {
    let mut settings = crate::world::settings();
    settings
        .tenant_ids
        .insert(TenantId::new("other").unwrap(), 7);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tables.db");
    let opened = filrouge_projections::tables::Tables::sqlite(&path, settings);
    assert!(opened.is_err());
}
