//! Erased sessions, secrets, and the index of agents, changed outside filrouge.

use std::collections::BTreeSet;

use filrouge_store::command::{Scope, SessionFilter, Viewer};
use filrouge_store::contract::fixture::{anyone, code, item, operator, sid, user};
use filrouge_store::contract::session_writes::{anyone_with_secret, link, patch, title};
use filrouge_types::{Channel, ErrorCode, ItemBody, TenantId};

use super::{BROKEN, World, assert_names, block_on, report};
use crate::{fixture_at, keyring};

#[test]
fn a_restored_erased_session_is_refused() {
    let rows = "INSERT INTO record SELECT * FROM old.record WHERE id IN (SELECT record_id FROM old.record_key WHERE session_pk = $gone);
        INSERT INTO record_key SELECT * FROM old.record_key WHERE session_pk = $gone;
        INSERT INTO item_key SELECT * FROM old.item_key WHERE session_pk = $gone;
        INSERT INTO turn SELECT * FROM old.turn WHERE id >> 32 = $gone;
        INSERT INTO event SELECT * FROM old.event WHERE session_pk = $gone;
        INSERT INTO checkpoint SELECT * FROM old.checkpoint WHERE session_pk = $gone";
    let head = "REPLACE INTO head SELECT * FROM old.head WHERE pk = $gone";
    let row = "UPDATE session SET erased = NULL, status = 0 WHERE session_id = 'gone'";
    for (name, sql) in [
        ("row", row.to_owned()),
        ("another receipt", "UPDATE session SET erased = substr(erased, 1, length(erased) - 1) || x'07' WHERE session_id = 'gone'".to_owned()),
        ("receipt emptied", "UPDATE session SET erased = x'' WHERE session_id = 'gone'".to_owned()),
        ("row and head", format!("{row}; {head}")),
        ("all", format!("{row}; {head}; {rows}")),
        ("deleted", "DELETE FROM session WHERE session_id = 'gone'; DELETE FROM head WHERE pk = $gone".to_owned()),
    ] {
        for running in [false, true] {
            block_on(async {
                let (_world, f) = World::changed(&sql, running).await;
                for who in [anyone(), operator("t"), user("ann")] {
                    assert_eq!(code(f.session(&who, "gone").await), BROKEN, "{name}");
                    assert_eq!(code(f.ledger.items(&who, &sid("gone"), 0, 9).await), BROKEN);
                    assert_eq!(code(f.create(&who, "gone").await), BROKEN, "{name}");
                }
                assert_names(&f, "gone", name).await;
                assert_eq!(f.items(&anyone(), "s", 9).await.len(), 4, "{name}");
            });
        }
    }
    // While the tombstone exists, none of these rows is read; `verify` reports the restored ones.
    let all: Vec<&str> = rows.split(';').collect();
    let records = all[..2].join(";");
    for sql in [&records, rows, all[2], all[3], all[4], all[5]] {
        block_on(async {
            let (_world, f) = World::changed(sql, false).await;
            let read = f.ledger.items(&anyone(), &sid("gone"), 0, 9).await;
            assert_eq!(code(read), ErrorCode::SessionErased);
            assert_names(&f, "gone", sql).await;
        });
    }
}

#[test]
fn changed_session_secrets_are_refused() {
    for (session, value) in [
        ("kept", "NULL"),
        ("kept", "x'00112233445566778899aabbccddeeff'"),
        ("kept", "x'00'"),
        ("kept", "'text'"),
        ("s", "(SELECT token FROM session WHERE session_id = 'kept')"),
    ] {
        for running in [false, true] {
            block_on(async {
                let sql =
                    format!("UPDATE session SET token = {value} WHERE session_id = '{session}'");
                let (_world, f) = World::changed(&sql, running).await;
                for who in [
                    anyone(),
                    anyone_with_secret(&f, "secret"),
                    user("ann"),
                    operator("t"),
                ] {
                    assert_eq!(
                        code(f.session(&who, session).await),
                        BROKEN,
                        "{session} {value} {who:?}"
                    );
                    let linked = f.write_session(&who, link(session, "ann")).await;
                    assert_eq!(code(linked), BROKEN, "{session} {value}");
                }
                assert_names(&f, session, value).await;
            });
        }
    }
}

/// A deleted row of an agent hides the session from lists by this agent, until `verify` compares the rows with the
/// items.
#[test]
fn a_changed_agent_index_cannot_forge_results() {
    block_on(async {
        let sql = "DELETE FROM session_agent WHERE session_pk = $s;
            INSERT INTO session_agent VALUES ('forged', $other, x''), ('forged', $gone, x''), ('forged', 77, x'')";
        let (_world, f) = World::changed(sql, false).await;
        let report = report(&f).await;
        let findings = report.findings.iter().map(|f| f.session_id.as_deref());
        let named: BTreeSet<_> = findings.collect();
        let expected = [None, Some("gone"), Some("other"), Some("s")];
        assert_eq!(named, BTreeSet::from(expected), "{report:?}");
        for (agent, expected) in [("planner", vec![sid("other")]), ("forged", vec![])] {
            let filter = SessionFilter {
                agent: Some(agent.into()),
                ..SessionFilter::default()
            };
            let found = f.ledger.list_sessions(&anyone(), filter, None, 9).await;
            let ((found, _), _) = found.unwrap();
            let found: Vec<_> = found.into_iter().map(|s| s.session_id).collect();
            assert_eq!(found, expected, "{agent}");
        }
        // The next item of an agent restores its index entry.
        let turn = f.start(&anyone(), "s", "r3").await;
        let body = ItemBody {
            agent: Some("planner".into()),
            ..item(Channel::Thought, "x")
        };
        f.append(&anyone(), &turn, vec![body]).await.unwrap();
        let filter = SessionFilter {
            agent: Some("planner".into()),
            ..SessionFilter::default()
        };
        let found = f.ledger.sessions(&anyone(), filter, None, 9).await;
        assert_eq!(found.unwrap().0.len(), 2);
    });
}

/// A missing session blocks the feed of its tenant, but of no other tenant.
#[test]
fn a_missing_session_blocks_only_its_tenants_feed() {
    for sql in [
        "DELETE FROM session WHERE tenant_id = 'u'",
        "UPDATE session SET tenant_id = 't' WHERE tenant_id = 'u'",
        "UPDATE session SET title = x'ff' WHERE tenant_id = 'u'",
        "UPDATE session SET title = 'x' WHERE tenant_id = 'u'",
        "DELETE FROM head WHERE pk = (SELECT pk FROM session WHERE tenant_id = 'u')",
    ] {
        for running in [false, true] {
            block_on(async {
                let (world, f) = World::new().await;
                let other_tenant = Scope::new(TenantId::new("u").unwrap(), Viewer::EndUser(None));
                f.create(&other_tenant, "of_u").await.unwrap();
                f.write_session(&other_tenant, patch("of_u", title("t")))
                    .await
                    .unwrap();
                let f = if running {
                    f
                } else {
                    f.ledger.close().await;
                    fixture_at(&world.0.path().join("f.db"), keyring())
                };
                world.sql(sql);
                f.clock.advance(60_000_000);
                let feed = f.feed(&operator("t"), 5).await;
                assert!(feed.len() > 20 && feed.iter().all(|c| c.session_id != sid("of_u")));
                for who in [other_tenant, operator("u")] {
                    let refused = f.ledger.changes(&who, "0".parse().unwrap(), 5).await;
                    assert_eq!(code(refused), BROKEN, "{sql}");
                }
                f.ledger.close().await;
            });
        }
    }
}
