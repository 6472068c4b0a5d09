//! The agents of sessions, changed outside filrouge.

use std::collections::BTreeSet;

use filrouge_store::command::SessionFilter;
use filrouge_store::contract::fixture::{Fixture, operator, sid};

use super::operations::VICTIM;
use super::{block_on, raw, world};
use crate::{fixture_at, keyring};

/// The agents of the victim as a list shows them, `None` if the list lacks the victim; and the sessions that the
/// findings name.
async fn listed(f: &Fixture, agent: Option<&str>) -> (Option<String>, BTreeSet<String>) {
    let filter = SessionFilter {
        agent: agent.map(Into::into),
        ..SessionFilter::default()
    };
    let who = operator("t");
    let list = f.ledger.list_sessions(&who, filter, None, 50).await;
    let ((page, _), findings) = list.unwrap();
    assert!(findings.iter().all(|found| !found.what.contains("forged")));
    let victim = page.iter().find(|s| s.session_id == sid(VICTIM));
    let named = findings.into_iter().filter_map(|found| found.session_id);
    (victim.map(|s| s.agents.join(", ")), named.collect())
}

#[test]
fn changed_agents_are_left_out_and_found() {
    let number = |column: &str| {
        format!(
            "(SELECT {column} FROM old.session WHERE tenant_id = 't' AND session_id = '{VICTIM}')"
        )
    };
    let (lane, pk) = (number("lane"), number("pk"));
    let rows = "filrouge.session_agent";
    for (sql, agents) in [
        (
            format!(
                "INSERT INTO {rows} VALUES ({lane}, {pk}, 'forged', '\\x010000000100000000000000000000000000000000')"
            ),
            "planner",
        ),
        (
            format!(
                "INSERT INTO {rows} SELECT lane, session_pk, 'forged', data FROM {rows} WHERE session_pk = {pk}"
            ),
            "planner",
        ),
        (
            format!(
                "INSERT INTO {rows} SELECT {lane}, {pk}, agent, data FROM {rows} WHERE agent = 'coder'"
            ),
            "planner",
        ),
        (
            format!("UPDATE {rows} SET lane = {lane}, session_pk = {pk} WHERE agent = 'coder'"),
            "planner",
        ),
        (
            format!(
                "DROP INDEX filrouge.session_agent_key; INSERT INTO {rows} SELECT * FROM {rows} WHERE session_pk = {pk}"
            ),
            "planner",
        ),
        (
            format!("UPDATE {rows} SET agent = 'forged' WHERE session_pk = {pk}"),
            "",
        ),
        (
            format!("UPDATE {rows} SET agent = '\\xff' WHERE session_pk = {pk}"),
            "",
        ),
    ] {
        for running in [false, true] {
            block_on(async {
                let database = world();
                let url = database.url();
                let mut f = fixture_at(&url, keyring());
                if !running {
                    f.ledger.close().await;
                }
                raw(&url).await.batch_execute(&sql).await.unwrap();
                if !running {
                    f = fixture_at(&url, keyring());
                }
                let (shown, named) = listed(&f, None).await;
                assert_eq!(shown.as_deref(), Some(agents), "{sql}");
                assert_eq!(named, BTreeSet::from([VICTIM.to_owned()]), "{sql}");
                // A row that was changed does not find the session either.
                for agent in ["forged", "cod*"] {
                    assert_eq!(listed(&f, Some(agent)).await.0, None, "{sql}");
                }
                let report = f.ledger.verify(None).await.unwrap();
                let mut findings = report.findings.iter();
                assert!(
                    findings.any(|found| found.session_id.as_deref() == Some(VICTIM)),
                    "{sql}: {report:?}"
                );
                f.ledger.close().await;
            });
        }
    }
}
