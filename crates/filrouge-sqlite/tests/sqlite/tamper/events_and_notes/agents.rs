//! The agents of sessions, changed outside filrouge.

use std::collections::BTreeSet;

use filrouge_store::command::SessionFilter;
use filrouge_store::contract::fixture::{Fixture, anyone, item};
use filrouge_types::{Channel, ItemBody};

use super::{World, block_on, report};
use crate::{fixture_at, keyring};

/// The sessions of a list with their agents, and the sessions that its findings name.
async fn listed(f: &Fixture, agent: Option<&str>) -> (BTreeSet<String>, BTreeSet<String>) {
    let filter = SessionFilter {
        agent: agent.map(Into::into),
        ..SessionFilter::default()
    };
    let list = f.ledger.list_sessions(&anyone(), filter, None, 9).await;
    let ((page, _), findings) = list.unwrap();
    assert!(findings.iter().all(|found| !found.what.contains("forged")));
    let shown = page.iter();
    let shown = shown.map(|s| format!("{}: {}", s.session_id, s.agents.join(", ")));
    let named = findings.into_iter().filter_map(|found| found.session_id);
    (shown.collect(), named.collect())
}

/// A world in which an agent `coder` has spoken in `other`, with this change: under a running ledger, or before the
/// ledger is opened.
async fn changed(sql: &str, running: bool) -> (World, Fixture) {
    let (world, f) = World::new().await;
    let turn = f.start(&anyone(), "other", "r3").await;
    let body = ItemBody {
        agent: Some("coder".into()),
        ..item(Channel::Thought, "x")
    };
    f.append(&anyone(), &turn, vec![body]).await.unwrap();
    if running {
        world.sql(sql);
        return (world, f);
    }
    f.ledger.close().await;
    drop(f);
    world.sql(sql);
    let f = fixture_at(&world.0.path().join("f.db"), keyring());
    (world, f)
}

#[test]
fn changed_agents_are_left_out_and_found() {
    for (sql, agents) in [
        (
            "INSERT INTO session_agent VALUES ('forged', $s, x'010000000100000000000000000000000000000000')",
            "planner",
        ),
        (
            "INSERT INTO session_agent VALUES ('forged', $s, x'')",
            "planner",
        ),
        (
            "INSERT INTO session_agent SELECT 'forged', session_pk, data FROM session_agent WHERE session_pk = $s",
            "planner",
        ),
        (
            "INSERT INTO session_agent SELECT agent, $s, data FROM session_agent WHERE agent = 'coder'",
            "planner",
        ),
        (
            "UPDATE session_agent SET session_pk = $s WHERE agent = 'coder'",
            "planner",
        ),
        (
            "UPDATE session_agent SET agent = 'forged' WHERE session_pk = $s",
            "",
        ),
        (
            "UPDATE session_agent SET agent = x'ff' WHERE session_pk = $s",
            "",
        ),
        (
            "UPDATE session_agent SET data = CAST(x'0100000002' || substr(data, 6) AS BLOB) WHERE session_pk = $s",
            "",
        ),
    ] {
        for running in [false, true] {
            block_on(async {
                let (_world, f) = changed(sql, running).await;
                let (shown, named) = listed(&f, None).await;
                assert!(shown.contains(&format!("s: {agents}")), "{sql}: {shown:?}");
                assert_eq!(shown.len(), 2, "{sql}: {shown:?}");
                assert_eq!(named, BTreeSet::from(["s".to_owned()]), "{sql}");
                // A row that was changed does not find the session either.
                assert!(listed(&f, Some("forged")).await.0.is_empty(), "{sql}");
                let (coders, _) = listed(&f, Some("cod*")).await;
                assert!(!coders.iter().any(|s| s.starts_with("s:")), "{sql}");
                let report = report(&f).await;
                let names_s = report.findings.iter().any(|found| {
                    found.session_id.as_deref() == Some("s") || found.what.contains("\"s\"")
                });
                assert!(names_s, "{sql}: {report:?}");
            });
        }
    }
}
