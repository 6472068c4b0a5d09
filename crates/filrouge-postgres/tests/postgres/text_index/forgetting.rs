//! Redacted and erased contents are deleted from the index in the same transaction.

use filrouge_store::contract::fixture::{Fixture, anyone, redact_items, sid};
use filrouge_store::contract::text_index::{IndexTestExt as _, matching_bodies, shard, texts};
use filrouge_store::text_index::{IndexScope, IndexUpdate, Shard, TextIndex};
use filrouge_testbed::Database;
use filrouge_types::ErrorCode;

use super::{count, index_at, row};
use crate::servers::block_on;
use crate::servers::callers::eventually;
use crate::{database, keyring};

/// A store with two indexed sessions, each with a vector.
async fn filled_store() -> (Database, Fixture) {
    let database = database();
    let f = crate::fixture_at(&database.url(), keyring());
    for s in ["s", "other"] {
        f.complete_turn(&anyone(), s, "r", "an elephant").await;
    }
    let url = database.url();
    blocking(move || {
        let index = index_at(&url);
        let both = ["s", "other"].map(|s| texts(&own_shard(), s, &["an elephant", "in the room"]));
        index.apply(&both, Some(b"1")).unwrap();
        let all = index.without_vector("e", u32::MAX, 9).unwrap();
        let vectors: Vec<_> = all.into_iter().map(|no| (no, vec![1, 2])).collect();
        index.put_vectors("e", &vectors).unwrap();
    })
    .await;
    (database, f)
}

fn own_shard() -> Shard {
    shard(anyone().tenant.as_str(), "somebody")
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// The index's count of forgettings, which makes feeders read again.
fn forgotten(database: &Database) -> u64 {
    let row = row(database, "SELECT forgotten FROM filrouge.search_state");
    row[0].as_ref().unwrap().parse().unwrap()
}

#[test]
fn a_redaction_deletes_the_sessions_documents() {
    block_on(async {
        let (database, f) = filled_store().await;
        assert_eq!(forgotten(&database), 0);
        f.write_redaction(&anyone(), redact_items("s", &[(1, 1), (2, 2)]))
            .await
            .unwrap();
        assert_eq!(forgotten(&database), 1, "counted once for all its records");
        assert_eq!(count(&database, "search_document"), 2);
        assert_eq!(count(&database, "search_vector"), 2);
        let url = database.url();
        blocking(move || {
            let index = index_at(&url);
            let unread = index.unread(9).unwrap();
            assert_eq!(unread.len(), 1);
            assert_eq!(
                (&*unread[0].entry.key, unread[0].entry.stamp),
                ("s", [0, 0])
            );
            assert_eq!(
                matching_bodies(&index, &own_shard(), &["elephant"]),
                ["0=an elephant"]
            );
            assert_eq!(index.position().unwrap().as_deref(), Some(&b"1"[..]));
        })
        .await;
        f.assert_intact().await;
        f.ledger.close().await;
    });
}

#[test]
fn an_erasure_deletes_the_session() {
    block_on(async {
        let (database, f) = filled_store().await;
        f.erase(&anyone(), "s").await.unwrap();
        assert_eq!(forgotten(&database), 1);
        assert_eq!(count(&database, "search_document"), 2);
        let sql = "SELECT stamp_0, stamp_1, updated, project FROM filrouge.search_session WHERE key = 's'";
        let zero = || Some("0".to_owned());
        assert_eq!(row(&database, sql), [zero(), zero(), zero(), None]);
        f.erase(&anyone(), "other").await.unwrap();
        for table in ["document", "vector"] {
            assert_eq!(count(&database, &format!("search_{table}")), 0, "{table}");
        }
        // A feeder, which can seal the shard, removes the rows of the sessions.
        let url = database.url();
        blocking(move || {
            let index = index_at(&url);
            let scope = IndexScope::Shard(own_shard());
            index.verify(&scope).unwrap();
            let gone = ["s", "other"].map(|s| IndexUpdate::Removed((own_shard().realm, s.into())));
            index.apply(&gone, None).unwrap();
            index.verify(&scope).unwrap();
            assert_eq!(index.damaged(), 0);
        })
        .await;
        for table in ["shard", "session"] {
            assert_eq!(count(&database, &format!("search_{table}")), 0, "{table}");
        }
        f.assert_intact().await;
        f.ledger.close().await;
    });
}

#[test]
fn documents_of_a_refused_or_rolled_back_redaction_stay() {
    block_on(async {
        let (database, f) = filled_store().await;
        let refused = f
            .write_redaction(&anyone(), redact_items("s", &[(1, 99)]))
            .await;
        assert_eq!(refused.unwrap_err().code, ErrorCode::Invalid);
        database.sql(
            "BEGIN; SELECT set_config('filrouge.redacts', pk::text, true) FROM filrouge.session WHERE session_id = 's';
             UPDATE filrouge.record SET body = ''
             WHERE session_pk = (SELECT pk FROM filrouge.session WHERE session_id = 's'); ROLLBACK",
        );
        assert_eq!(count(&database, "search_document"), 4);
        assert_eq!(forgotten(&database), 0);
        f.ledger.close().await;
    });
}

/// A feeder that has read a session before its redaction writes nothing back, whichever of the two comes first.
#[test]
fn text_read_before_a_redaction_is_not_written_back() {
    block_on(async {
        let (database, f) = filled_store().await;
        let url = database.url();
        let seen = {
            let url = url.clone();
            blocking(move || index_at(&url).version().unwrap()).await
        };
        f.write_redaction(&anyone(), redact_items("s", &[(2, 2)]))
            .await
            .unwrap();
        blocking(move || {
            let index = index_at(&url);
            let late = [texts(&own_shard(), "s", &["an elephant"])];
            assert!(!index.apply_if(&seen, &late, Some(b"2")).unwrap());
            assert_eq!(
                matching_bodies(&index, &own_shard(), &["elephant"]).len(),
                1
            );
            let seen = index.version().unwrap();
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

/// A redaction waits for a running change of the index, and deletes the documents that it wrote.
#[test]
fn a_redaction_waits_for_a_running_change() {
    block_on(async {
        let (database, f) = filled_store().await;
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
        let redact = f.write_redaction(&who, redact_items("s", &[(2, 2)]));
        let commit = async {
            let waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
            eventually("the redaction waits for the feeder", || {
                !database.sql(waits).is_empty()
            })
            .await;
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
fn old_row_versions_are_removed() {
    block_on(async {
        let (database, f) = filled_store().await;
        database.sql("ANALYZE filrouge.search_document; ANALYZE filrouge.search_vector");
        let samples = "SELECT 1 FROM pg_stats WHERE schemaname = 'filrouge' AND tablename IN ('search_document', 'search_vector')
            AND attname IN ('folded', 'body', 'key', 'data')";
        assert!(database.sql(samples).is_empty());
        let url = database.url();
        let forgotten = blocking(move || {
            let index = index_at(&url);
            assert_eq!(index.forget(b"other", "s").unwrap(), 0);
            index.forget(&own_shard().realm, "s").unwrap()
        })
        .await;
        assert_eq!(forgotten, 2);
        eventually("the tables are vacuumed", || {
            database.sql("SELECT 1 FROM filrouge.erasing").is_empty()
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

/// Verification and reads of the ledger ignore the search index, except for its triggers.
#[test]
fn a_missing_trigger_is_reported() {
    block_on(async {
        let (database, f) = filled_store().await;
        f.assert_intact().await;
        database.sql("DROP INDEX filrouge.search_words");
        f.assert_intact().await;
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
    block_on(async {
        let database = database();
        let url = database.url();
        blocking(move || {
            let index = index_at(&url);
            let shards = [("r", "a"), ("q", "a"), ("r", "b"), ("q", "b")].map(|(r, o)| shard(r, o));
            for (n, shard) in shards.iter().enumerate() {
                index
                    .apply(&[texts(shard, &format!("s{n}"), &["apple"])], None)
                    .unwrap();
            }
            let realm = IndexScope::Realm(b"r".as_slice().into());
            let keys = |index: &dyn TextIndex| -> Vec<String> {
                let sessions = index.sessions(&realm).unwrap();
                sessions.iter().map(|s| s.entry.key.to_string()).collect()
            };
            assert_eq!(keys(&index), ["s0", "s2"]);
            // Removes the first shard of the realm: the remaining ones and a new one still belong to the same realm.
            let removal = filrouge_store::text_index::IndexUpdate::Removed((
                b"r".as_slice().into(),
                "s0".into(),
            ));
            index
                .apply(&[removal, texts(&shard("r", "c"), "s9", &["apple"])], None)
                .unwrap();
            assert_eq!(keys(&index), ["s2", "s9"]);
            let terms = filrouge_store::contract::text_index::all_words(&["apple"]);
            let query = filrouge_store::contract::text_index::query(&realm, &terms);
            assert_eq!(index.candidates(&query).unwrap().len(), 2);
        })
        .await;
    });
}
