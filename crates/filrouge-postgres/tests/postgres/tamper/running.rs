//! A running ledger finds changes made outside it at the next read or write of the session, and even without one.

use std::time::{Duration, Instant};

use filrouge_store::contract::Fixture;
use filrouge_store::contract::fixture::{anyone, append, item, rid, sid};
use filrouge_store::contract::lanes::session_in;
use filrouge_types::{Channel, ErrorCode};

use super::operations::{VICTIM, refused_operations};
use super::{block_on, raw, world};
use crate::{fixture_at, keyring, lane_of};

/// Waits until the ledger's health reports a change: sessions are compared soon after a commit.
pub(super) async fn wait_for_report(f: &Fixture) {
    let begun = Instant::now();
    for n in 0.. {
        if f.ledger.health().integrity.is_some() {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no change is reported"
        );
        if n == 0 {
            // This write is refused if the log itself was changed; then the change is reported at once.
            let _ = f.create(&anyone(), "witness").await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Genuine rows of an older state have valid MACs: only the log shows that they are not the newest.
#[test]
fn older_state_is_found_without_a_query() {
    let pk = "(SELECT pk FROM old.session WHERE session_id = 'victim')";
    for (sql, refuses_all) in [
        (
            "UPDATE filrouge.head h SET data = (SELECT data FROM old.head o WHERE o.pk = h.pk)
          WHERE pk = $pk",
            false,
        ),
        (
            "DELETE FROM filrouge.head WHERE pk = $pk; DELETE FROM filrouge.session WHERE pk = $pk",
            false,
        ),
        (
            "UPDATE filrouge.commit_log c SET data = data || '\\x00' WHERE lane = $pk % 8
          AND commit_no = (SELECT max(commit_no) FROM filrouge.commit_log o WHERE o.lane = c.lane)",
            true,
        ),
    ] {
        block_on(async {
            let database = world();
            let f = fixture_at(&database.url(), keyring());
            let change = sql.replace("$pk", pk);
            raw(&database.url())
                .await
                .batch_execute(&change)
                .await
                .unwrap();
            if refuses_all {
                // The next write to the lane finds that the newest commit has changed.
                let next = session_in(f.ledger.lanes(), lane_of(&*f.ledger, VICTIM), "next");
                let write = f.create(&anyone(), &next).await;
                assert_eq!(write.unwrap_err().code, ErrorCode::IntegrityError);
            }
            wait_for_report(&f).await;
            assert_eq!(refused_operations(&f, VICTIM, sql).await, "sit1an", "{sql}");
            assert_eq!(
                refused_operations(&f, "other", sql).await.is_empty(),
                !refuses_all,
                "{sql}"
            );
            f.ledger.close().await;
        });
    }
}

/// Restores the victim to its older state, in all tables.
const RESTORE_OLDER: &str = "
    DELETE FROM filrouge.turn WHERE session_pk = $pk;
    INSERT INTO filrouge.turn SELECT * FROM old.turn WHERE session_pk = $pk;
    DELETE FROM filrouge.record WHERE session_pk = $pk;
    INSERT INTO filrouge.record SELECT * FROM old.record WHERE session_pk = $pk;
    DELETE FROM filrouge.item_key WHERE session_pk = $pk;
    INSERT INTO filrouge.item_key SELECT * FROM old.item_key WHERE session_pk = $pk;
    UPDATE filrouge.session s SET title = o.title, state = o.state, metadata = o.metadata
        FROM old.session o WHERE o.pk = s.pk AND s.pk = $pk;
    UPDATE filrouge.head h SET data = o.data FROM old.head o WHERE o.pk = h.pk AND h.pk = $pk";

/// Two servers write other sessions meanwhile. Nothing is added to the older state, and nothing but the victim is
/// refused, before and after a restart.
#[test]
fn a_session_restored_to_an_older_state_is_refused_at_once() {
    block_on(async {
        let database = world();
        let open = || fixture_at(&database.url(), keyring());
        let (f, second) = (open(), open());
        let pk = "(SELECT pk FROM old.session WHERE tenant_id = 't' AND session_id = 'victim')";
        // The second server writes the newest state, which the first has not read yet.
        let turn = f
            .keyring
            .turn_id(&anyone().tenant, &sid(VICTIM), &rid("open"));
        let newest = append(VICTIM, turn, vec![item(Channel::Plan, "newest")], None);
        second.write(&anyone(), newest).await.unwrap();
        let restore = RESTORE_OLDER.replace("$pk", pk);
        raw(&database.url())
            .await
            .batch_execute(&format!("BEGIN; {restore}; COMMIT"))
            .await
            .unwrap();
        for f in [&f, &second] {
            for n in 0..3 {
                let new = format!("new-{}-{n}", f.ledger.position().commit_count());
                f.create(&anyone(), &new).await.unwrap();
                assert_eq!(refused_operations(f, VICTIM, "restored").await, "sit1an");
                assert_eq!(refused_operations(f, "other", "restored").await, "");
            }
            assert!(f.ledger.health().integrity.is_some());
        }
        f.ledger.close().await;
        second.ledger.close().await;
        let f = open();
        assert_eq!(refused_operations(&f, VICTIM, "reopened").await, "sit1an");
        assert_eq!(refused_operations(&f, "other", "reopened").await, "");
        f.ledger.close().await;
    });
}

/// Commits, so that all sessions are compared again, until `reached` is true.
async fn commit_until(f: &Fixture, what: &str, mut reached: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !reached().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        commit(f).await;
    }
}

async fn commit(f: &Fixture) {
    let new = format!("new-{}", f.ledger.position().commit_count());
    f.create(&anyone(), &new).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[test]
fn a_repaired_session_is_served_again() {
    block_on(async {
        let database = world();
        let f = fixture_at(&database.url(), keyring());
        let client = raw(&database.url()).await;
        let run = async |sql: &str| {
            let pk = "(SELECT pk FROM old.session WHERE tenant_id = 't' AND session_id = 'victim')";
            let sql = format!("BEGIN; {sql}; COMMIT").replace("$pk", pk);
            client.batch_execute(&sql).await.unwrap();
        };
        let put_head = |table: &str| {
            format!(
                "DELETE FROM filrouge.head WHERE pk = $pk;
                 INSERT INTO filrouge.head SELECT * FROM {table} WHERE pk = $pk"
            )
        };
        run("CREATE TABLE old.newest_head AS SELECT * FROM filrouge.head WHERE pk = $pk").await;
        for damage in [
            "UPDATE filrouge.head SET data = '\\xff'::bytea || substr(data, 2) WHERE pk = $pk",
            "DELETE FROM filrouge.head WHERE pk = $pk",
        ] {
            run(damage).await;
            let is_reported = async || f.ledger.health().integrity.is_some();
            commit_until(&f, "no change is reported", is_reported).await;
            assert_eq!(refused_operations(&f, VICTIM, damage).await, "sit1an");
            run(&put_head("old.head")).await;
            // Sessions are compared about once a second.
            for _ in 0..30 {
                let read = f.ledger.session(&anyone(), &sid(VICTIM)).await;
                assert_eq!(read.unwrap_err().code, ErrorCode::IntegrityError);
                commit(&f).await;
            }
            run(&put_head("old.newest_head")).await;
            let is_served = async || f.ledger.session(&anyone(), &sid(VICTIM)).await.is_ok();
            commit_until(&f, "the session stays refused", is_served).await;
            assert_eq!(f.ledger.health().integrity, None);
        }
        assert_eq!(refused_operations(&f, VICTIM, "repaired").await, "");
        f.assert_intact().await;
        f.ledger.close().await;
    });
}
