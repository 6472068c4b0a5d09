//! Redacted and erased contents are deleted from the index in the same transaction.

use filrouge_store::contract::fixture::{Fixture, anyone, redact_items, sid};
use filrouge_store::contract::text_index::{IndexTestExt as _, found, shard, texts};
use filrouge_store::text_index::{IndexScope, Shard, TextIndex};
use filrouge_testbed::Database;
use filrouge_types::ErrorCode;

use super::{count, on, row};
use crate::many::callers::eventually;
use crate::many::wait;
use crate::{database, keyring};

/// A store with two indexed sessions, each with a vector.
async fn filled() -> (Database, Fixture) {
    let database = database();
    let f = crate::on(&database.url(), keyring());
    for s in ["s", "other"] {
        f.complete_turn(&anyone(), s, "r", "an elephant").await;
    }
    let url = database.url();
    blocking(move || {
        let index = on(&url);
        let both = ["s", "other"].map(|s| texts(&own(), s, &["an elephant", "in the room"]));
        index.apply(&both, Some(b"1")).unwrap();
        let all = index.without_vector("e", u32::MAX, 9).unwrap();
        let vectors: Vec<_> = all.into_iter().map(|no| (no, vec![1, 2])).collect();
        index.put_vectors("e", &vectors).unwrap();
    })
    .await;
    (database, f)
}

fn own() -> Shard {
    shard(anyone().tenant.as_str(), "somebody")
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn forgotten(database: &Database) -> u64 {
    let row = row(database, "SELECT forgotten FROM filrouge.search_state");
    row[0].as_ref().unwrap().parse().unwrap()
}

#[test]
fn a_redaction_deletes_the_sessions_documents() {
    wait(async {
        let (database, f) = filled().await;
        assert_eq!(forgotten(&database), 0);
        f.redacted(&anyone(), redact_items("s", &[(1, 1), (2, 2)]))
            .await
            .unwrap();
        assert_eq!(forgotten(&database), 1, "counted once for all its records");
        assert_eq!(count(&database, "search_document"), 2);
        assert_eq!(count(&database, "search_vector"), 2);
        let url = database.url();
        blocking(move || {
            let index = on(&url);
            let unread = index.unread(9).unwrap();
            assert_eq!(unread.len(), 1);
            assert_eq!(
                (&*unread[0].entry.key, unread[0].entry.stamp),
                ("s", [0, 0])
            );
            assert_eq!(found(&index, &own(), &["elephant"]), ["0=an elephant"]);
            assert_eq!(index.position().unwrap().as_deref(), Some(&b"1"[..]));
        })
        .await;
        f.intact().await;
        f.ledger.close().await;
    });
}

#[test]
fn an_erasure_deletes_the_session() {
    wait(async {
        let (database, f) = filled().await;
        f.erase(&anyone(), "s").await.unwrap();
        assert_eq!(forgotten(&database), 1);
        assert_eq!(count(&database, "search_session"), 1);
        assert_eq!(count(&database, "search_document"), 2);
        assert_eq!(count(&database, "search_shard"), 1);
        f.erase(&anyone(), "other").await.unwrap();
        for table in ["shard", "session", "document", "vector"] {
            assert_eq!(count(&database, &format!("search_{table}")), 0, "{table}");
        }
        f.intact().await;
        f.ledger.close().await;
    });
}

/// A rollback restores what the transaction has deleted.
#[test]
fn documents_that_are_not_redacted_stay() {
    wait(async {
        let (database, f) = filled().await;
        let refused = f.redacted(&anyone(), redact_items("s", &[(1, 99)])).await;
        assert_eq!(refused.unwrap_err().code, ErrorCode::Invalid);
        database.sql(
            "BEGIN; SET LOCAL filrouge.redacts = '1'; UPDATE filrouge.record SET body = '' WHERE session_pk = 1; ROLLBACK",
        );
        assert_eq!(count(&database, "search_document"), 4);
        assert_eq!(forgotten(&database), 0);
        f.ledger.close().await;
    });
}

/// A feeder that has read a session before its redaction writes nothing back, whichever of the two comes first.
#[test]
fn text_read_before_a_redaction_is_not_written_back() {
    wait(async {
        let (database, f) = filled().await;
        let url = database.url();
        let seen = {
            let url = url.clone();
            blocking(move || on(&url).seen().unwrap()).await
        };
        f.redacted(&anyone(), redact_items("s", &[(2, 2)]))
            .await
            .unwrap();
        blocking(move || {
            let index = on(&url);
            let late = [texts(&own(), "s", &["an elephant"])];
            assert!(!index.apply_if(&seen, &late, Some(b"2")).unwrap());
            assert_eq!(found(&index, &own(), &["elephant"]).len(), 1);
            let seen = index.seen().unwrap();
            assert!(index.apply_if(&seen, &late, Some(b"2")).unwrap());
            assert!(
                !index.apply_if(&seen, &late, Some(b"3")).unwrap(),
                "only one of two feeders advances"
            );
        })
        .await;
        f.ledger.close().await;
    });
}

/// A redaction waits for a running change, and deletes what it wrote.
#[test]
fn a_redaction_waits_for_a_running_change() {
    wait(async {
        let (database, f) = filled().await;
        let (feeder, connection) = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        feeder
            .batch_execute(
                "BEGIN; SELECT pg_advisory_xact_lock(7380400768617177960);
                 INSERT INTO filrouge.search_document
                     (realm, shard, session, unit, created, digest, kind, bytes, key, folded, body)
                 SELECT realm, shard, session, 9, 0, 0, 1, 1, 'late', 'late words', '' FROM filrouge.search_document
                 ORDER BY no LIMIT 1",
            )
            .await
            .unwrap();
        let who = anyone();
        let redact = f.redacted(&who, redact_items("s", &[(2, 2)]));
        let commit = async {
            let waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
            eventually("it waits", || !database.sql(waits).is_empty()).await;
            feeder.batch_execute("COMMIT").await.unwrap();
        };
        let (redacted, ()) = tokio::join!(redact, commit);
        redacted.unwrap();
        assert_eq!(count(&database, "search_document"), 2);
        assert_eq!(count(&database, "search_document WHERE key = 'late'"), 0);
        assert!(f.items(&anyone(), "s", 9).await[1].redacted);
        f.ledger.close().await;
    });
}

/// Forgotten contents leave no trace in the files' live pages: the tables are vacuumed, and statistics keep no samples.
#[test]
fn old_versions_are_removed() {
    wait(async {
        let (database, f) = filled().await;
        database.sql("ANALYZE filrouge.search_document; ANALYZE filrouge.search_vector");
        let samples = "SELECT 1 FROM pg_stats WHERE schemaname = 'filrouge' AND tablename IN ('search_document', 'search_vector')
            AND attname IN ('folded', 'body', 'key', 'data')";
        assert!(database.sql(samples).is_empty());
        let url = database.url();
        let gone = blocking(move || {
            let index = on(&url);
            assert_eq!(index.forget(b"nobody", "s").unwrap(), 0);
            index.forget(&own().realm, "s").unwrap()
        })
        .await;
        assert_eq!(gone, 2);
        eventually("it is vacuumed", || {
            database
                .sql("SELECT 1 FROM filrouge.store WHERE name = 'erasing'")
                .is_empty()
        })
        .await;
        let dead = "SELECT n_dead_tup, vacuum_count > 0 FROM pg_stat_all_tables WHERE relid = 'filrouge.search_document'::regclass";
        assert_eq!(
            row(&database, dead),
            [Some("0".to_owned()), Some("t".to_owned())]
        );
        f.ledger.close().await;
    });
}

/// Verification and the ledger's lists ignore the index, except for its triggers.
#[test]
fn a_missing_trigger_is_reported() {
    wait(async {
        let (database, f) = filled().await;
        f.intact().await;
        database.sql("DROP INDEX filrouge.search_words");
        f.intact().await;
        database.sql("ALTER TABLE filrouge.record DISABLE TRIGGER search_forget");
        let report = f.ledger.verify(None).await.unwrap();
        assert!(
            report
                .findings
                .iter()
                .any(|f| f.what.contains("search_forget")),
            "{report:?}"
        );
        assert!(f.ledger.session(&anyone(), &sid("s")).await.is_ok());
        f.ledger.close().await;
    });
}

/// A query of a realm finds all owners of a tenant, and none of another one.
#[test]
fn a_realm_covers_all_its_shards() {
    wait(async {
        let database = database();
        let url = database.url();
        blocking(move || {
            let index = on(&url);
            let shards = [("r", "a"), ("q", "a"), ("r", "b"), ("q", "b")].map(|(r, o)| shard(r, o));
            for (n, of) in shards.iter().enumerate() {
                index
                    .apply(&[texts(of, &format!("s{n}"), &["apple"])], None)
                    .unwrap();
            }
            let realm = IndexScope::Realm(b"r".as_slice().into());
            let keys = |index: &dyn TextIndex| -> Vec<String> {
                let sessions = index.sessions(&realm).unwrap();
                sessions.iter().map(|s| s.entry.key.to_string()).collect()
            };
            assert_eq!(keys(&index), ["s0", "s2"]);
            // Removes the first shard of the realm: the remaining ones and a new one still belong to the same realm.
            let gone = filrouge_store::text_index::IndexUpdate::Gone((
                b"r".as_slice().into(),
                "s0".into(),
            ));
            index
                .apply(&[gone, texts(&shard("r", "c"), "s9", &["apple"])], None)
                .unwrap();
            assert_eq!(keys(&index), ["s2", "s9"]);
            let terms = filrouge_store::contract::text_index::all_of(&["apple"]);
            let asked = filrouge_store::contract::text_index::query(&realm, &terms);
            assert_eq!(index.candidates(&asked).unwrap().len(), 2);
        })
        .await;
    });
}
