//! Changes of the lanes: rows that are moved from one lane to another, and the number of lanes.

use std::sync::Arc;

use filrouge_postgres::PostgresLedger;
use filrouge_store::contract::fixture::{Fixture, anyone, code, sid};
use filrouge_store::contract::lanes::session_in;
use filrouge_store::verify::Verdict;
use filrouge_store::{Lane, Ledger};
use filrouge_testbed::Database;
use filrouge_types::ErrorCode;

use super::operations::{VICTIM, case, run_case};
use super::{SESSION_TABLES, block_on, raw, world};
use crate::{database, fixture_at, keyring, lane_of, options};

const BROKEN: ErrorCode = ErrorCode::IntegrityError;

/// A store with two sessions in each lane, named after the lane.
async fn two_in_each_lane() -> (Database, Fixture) {
    let database = database();
    let f = fixture_at(&database.url(), keyring());
    for lane in f.ledger.lanes().iter() {
        for name in names(&f, lane) {
            f.complete_turn(&anyone(), &name, "r", "a").await;
        }
    }
    (database, f)
}

/// The two sessions of a lane.
fn names(f: &Fixture, lane: Lane) -> [String; 2] {
    ["s", "t"].map(|prefix| session_in(f.ledger.lanes(), lane, prefix))
}

async fn change(database: &Database, sql: &str) {
    let done = raw(&database.url()).await.batch_execute(sql).await;
    done.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}

/// The genuine older rows have valid MACs, but the log of their lane has a newer state. The other session of the lane and
/// all other lanes go on.
#[test]
fn an_older_state_of_a_session_is_detected_in_its_lane() {
    for running in [false, true] {
        block_on(async {
            let (database, f) = two_in_each_lane().await;
            let [victim, neighbor] = names(&f, Lane::new(5));
            change(&database, "CREATE TABLE old AS TABLE filrouge.head").await;
            f.complete_turn(&anyone(), &victim, "newer", "a").await;
            if !running {
                f.ledger.close().await;
            }
            let restore = format!(
                "UPDATE filrouge.head h SET data = old.data FROM old WHERE old.pk = h.pk AND h.pk =
                 (SELECT pk FROM filrouge.session WHERE session_id = '{victim}')"
            );
            change(&database, &restore).await;
            let f = match running {
                true => f,
                false => fixture_at(&database.url(), keyring()),
            };
            assert_eq!(code(f.session(&anyone(), &victim).await), BROKEN);
            for lane in f.ledger.lanes().iter() {
                for name in names(&f, lane).iter().filter(|name| **name != victim) {
                    f.complete_turn(&anyone(), name, "later", "a").await;
                }
            }
            assert_eq!(f.items(&anyone(), &neighbor, 9).await.len(), 4);
            let report = f.ledger.verify(None).await.unwrap();
            assert_eq!(report.verdict(), Verdict::Broken, "{report:?}");
            let mut named = report.findings.iter().filter_map(|f| f.session_id.as_ref());
            assert!(named.all(|id| *id == victim), "{report:?}");
            f.ledger.close().await;
        });
    }
}

/// The logs of two lanes have the same form, but each commit's link covers the lane.
#[test]
fn commits_swapped_between_lanes_are_detected() {
    for (commits, is_read) in [
        ("true", true),
        ("commit_no = 2", true),
        ("commit_no = 1", false),
    ] {
        for running in [false, true] {
            block_on(async {
                let (database, f) = two_in_each_lane().await;
                if !running {
                    f.ledger.close().await;
                }
                let swap = format!(
                    "UPDATE filrouge.commit_log SET lane = 60 WHERE lane = 2 AND {commits};
                     UPDATE filrouge.commit_log SET lane = 2 WHERE lane = 6 AND {commits};
                     UPDATE filrouge.commit_log SET lane = 6 WHERE lane = 60"
                );
                change(&database, &swap).await;
                let f = match running {
                    true => f,
                    false => fixture_at(&database.url(), keyring()),
                };
                let report = f.ledger.verify(None).await.unwrap();
                assert_eq!(report.verdict(), Verdict::Broken, "{commits}: {report:?}");
                // An older commit is read only by the feed and by `verify`.
                if is_read {
                    for lane in [2, 6] {
                        let [name, _] = names(&f, Lane::new(lane));
                        let refused = f.session(&anyone(), &name).await;
                        assert_eq!(code(refused), BROKEN, "{commits}, lane {lane}");
                        assert_eq!(code(f.create(&anyone(), &name).await), BROKEN);
                    }
                }
                let start = "0".parse().unwrap();
                let feed = f.ledger.changes(&anyone(), start, 500).await;
                assert_eq!(code(feed), BROKEN, "{commits}");
                f.ledger.close().await;
            });
        }
    }
}

/// Opens the store, and asserts that this is refused or that nothing in it can be read or written.
async fn assert_nothing_is_valid(database: &Database, name: &str) {
    let opened = PostgresLedger::open(options(&database.url(), keyring()));
    let ledger: Arc<dyn Ledger> = match opened {
        Ok(ledger) => Arc::new(ledger),
        Err(refused) => {
            let codes = [ErrorCode::Invalid, ErrorCode::KeyMissing, BROKEN];
            assert!(codes.contains(&refused.code), "{name}: {refused}");
            return;
        }
    };
    assert!(ledger.health().integrity.is_some(), "{name}");
    let who = anyone();
    for lane in ledger.lanes().iter() {
        for prefix in ["s", "t"] {
            let id = sid(&session_in(ledger.lanes(), lane, prefix));
            assert_eq!(code(ledger.session(&who, &id).await), BROKEN, "{name}");
        }
    }
    assert_eq!(
        code(ledger.put_note("n", 0, Vec::new()).await),
        BROKEN,
        "{name}"
    );
    let report = ledger.verify(None).await.unwrap();
    assert_eq!(report.verdict(), Verdict::Broken, "{name}: {report:?}");
    ledger.close().await;
}

/// The number of lanes is part of all keys of rows, so no MAC matches with another number.
#[test]
fn a_changed_number_of_lanes_is_detected() {
    let constraints = "DO $$ DECLARE c record; BEGIN
            FOR c IN SELECT conname, conrelid::regclass AS name FROM pg_constraint
                WHERE connamespace = 'filrouge'::regnamespace AND contype = 'c' LOOP
                EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.name, c.conname);
            END LOOP;
        END $$";
    for lanes in ["4", "7", "9", "64", "1", "0", "65", "-8", "", "eight"] {
        block_on(async {
            let (database, f) = two_in_each_lane().await;
            f.ledger.close().await;
            let set = format!("UPDATE filrouge.store SET value = '{lanes}' WHERE name = 'lanes'");
            change(&database, &set).await;
            assert_nothing_is_valid(&database, lanes).await;
            // Nor when all else agrees with the new number.
            if let Ok(count) = lanes.parse::<u16>() {
                let agree = format!(
                    "{constraints}; DELETE FROM filrouge.lane;
                     INSERT INTO filrouge.lane SELECT generate_series(0, {count} - 1)"
                );
                change(&database, &agree).await;
                assert_nothing_is_valid(&database, lanes).await;
            }
        });
    }
}

#[test]
fn a_store_without_its_number_of_lanes_is_not_opened() {
    block_on(async {
        let (database, f) = two_in_each_lane().await;
        f.ledger.close().await;
        change(&database, "DELETE FROM filrouge.store WHERE name = 'lanes'").await;
        let opened = PostgresLedger::open(options(&database.url(), keyring()));
        let refused = opened.map(drop).unwrap_err();
        assert_eq!(refused.code, ErrorCode::Invalid, "{refused}");
    });
}

/// The database refuses rows of a session in another lane; without this constraint they are missing in their own lane.
#[test]
fn rows_moved_to_another_lane_are_refused() {
    for (table, column, letters) in [
        ("session", "pk", "sit1an"),
        ("head", "pk", "sit1an"),
        ("turn", "session_pk", "t1a"),
        ("record", "session_pk", "it1"),
        ("item_key", "session_pk", ""),
        ("event", "session_pk", ""),
        ("checkpoint", "session_pk", ""),
    ] {
        let sql = format!(
            "ALTER TABLE filrouge.{table} DROP CONSTRAINT {table}_lane;
             UPDATE filrouge.{table} SET lane = (lane + 1) % 8 WHERE {column} = $pk"
        );
        run_case(&case("rows moved to another lane", sql, letters));
    }
}

#[test]
fn the_database_refuses_rows_of_a_session_in_another_lane() {
    block_on(async {
        let database = world();
        let client = raw(&database.url()).await;
        for table in SESSION_TABLES {
            let sql = format!("UPDATE filrouge.{table} SET lane = (lane + 1) % 8");
            let refused = client.batch_execute(&sql).await.unwrap_err();
            assert_eq!(refused.code().unwrap().code(), "23514", "{table}");
        }
    });
}

/// Without the row of its lane nobody can lock the lane, so nothing is written to it.
#[test]
fn a_lane_without_its_row_is_not_written() {
    block_on(async {
        let database = world();
        let f = fixture_at(&database.url(), keyring());
        let lane = lane_of(&*f.ledger, VICTIM);
        let delete = format!("DELETE FROM filrouge.lane WHERE lane = {lane}");
        change(&database, &delete).await;
        let position = f.ledger.position().lane(lane);
        let new = session_in(f.ledger.lanes(), lane, "new");
        assert_eq!(code(f.create(&anyone(), &new).await), BROKEN);
        assert_eq!(f.ledger.position().lane(lane), position);
        // All other lanes go on.
        for other in f.ledger.lanes().iter().filter(|other| *other != lane) {
            let new = session_in(f.ledger.lanes(), other, "new");
            f.create(&anyone(), &new).await.unwrap();
        }
        f.ledger.close().await;
    });
}
