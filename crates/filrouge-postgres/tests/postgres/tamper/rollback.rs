//! Older rows restored over newer ones, and changes of notes, tokens and erased sessions. The letters of the cases: see
//! `OPERATIONS` in `operations.rs`.

use filrouge_store::contract::fixture::{anyone, code, operator, sid, user};
use filrouge_store::contract::session_writes::anyone_with_secret;
use filrouge_store::verify::Verdict;
use filrouge_types::ErrorCode;

use super::operations::{Case, case, run_case};
use super::{SESSION_TABLES, block_on, raw, world};
use crate::{fixture_at, keyring};

const BROKEN: ErrorCode = ErrorCode::IntegrityError;
/// Restores the victim's older head.
const HEAD: &str =
    "UPDATE filrouge.head SET data = (SELECT data FROM old.head WHERE pk = $pk) WHERE pk = $pk";

/// Selects a commit `c` in the older log.
const OLD_COMMIT: &str =
    "SELECT FROM old.commit_log o WHERE o.lane = c.lane AND o.commit_no = c.commit_no";

#[test]
fn restored_older_rows_are_refused() {
    let turns = "DELETE FROM filrouge.turn WHERE session_pk = $pk;
        INSERT INTO filrouge.turn SELECT * FROM old.turn WHERE session_pk = $pk";
    let turn =
        "UPDATE filrouge.turn t SET (data, open_since) = (SELECT data, open_since FROM old.turn o
        WHERE o.session_pk = $pk AND o.open) WHERE session_pk = $pk AND open";
    run_case(&case("older head", HEAD, "sit1an"));
    run_case(&case("older turn", turn, "ta"));
    run_case(&case(
        "older head and turns",
        format!("{HEAD}; {turns}"),
        "sit1an",
    ));
    let cut = format!(
        "{HEAD}; {turns}; DELETE FROM filrouge.item_key WHERE session_pk = $pk;
         INSERT INTO filrouge.item_key SELECT * FROM old.item_key WHERE session_pk = $pk;
         DELETE FROM filrouge.event WHERE session_pk = $pk AND number > 2;
         DELETE FROM filrouge.checkpoint WHERE session_pk = $pk AND seq > 4;
         DELETE FROM filrouge.record WHERE session_pk = $pk
             AND first_seq NOT IN (SELECT first_seq FROM old.record WHERE session_pk = $pk)"
    );
    run_case(&case("tail cut", cut.clone(), "sit1an"));
    // The other session also has commits that the log lacks. Either it or the log may be wrong, so it may be refused,
    // too.
    let with_log =
        format!("{cut}; DELETE FROM filrouge.commit_log c WHERE NOT EXISTS ({OLD_COMMIT})");
    run_case(&Case {
        confined: false,
        ..case("tail cut, with its commits", with_log, "sit1an")
    });
}

#[test]
fn a_removed_session_is_found() {
    let tables = [
        "record",
        "item_key",
        "turn",
        "event",
        "session_agent",
        "checkpoint",
    ];
    let delete_rows = tables
        .map(|table| format!("DELETE FROM filrouge.{table} WHERE session_pk = $pk;"))
        .concat();
    let delete_rows = format!(
        "{delete_rows} DELETE FROM filrouge.head WHERE pk = $pk; DELETE FROM filrouge.session WHERE pk = $pk;"
    );
    run_case(&case("session gone", delete_rows.clone(), "sit1an"));
    for commits in ["true", &format!("EXISTS ({OLD_COMMIT})")] {
        let sql = format!("{delete_rows} DELETE FROM filrouge.commit_log c WHERE {commits}");
        run_case(&Case {
            confined: false,
            ..case("session gone, with its commits", sql, "sit1an")
        });
    }
}

#[test]
fn a_rolled_back_store_is_found() {
    let restore = |t: &str| {
        format!("DELETE FROM filrouge.{t}; INSERT INTO filrouge.{t} SELECT * FROM old.{t};")
    };
    let tables = SESSION_TABLES.into_iter().chain(["note", "commit_log"]);
    let sql = format!("BEGIN; {} COMMIT", tables.map(restore).collect::<String>());
    run_case(&Case {
        confined: false,
        verify_finds_it: false,
        ..case("rolled back", sql, "sit1an")
    });
}

/// Runs `check` after `sql`, on a ledger that is opened afterwards or on a running one.
async fn after(sql: &str, running: bool, check: impl AsyncFn(&filrouge_store::contract::Fixture)) {
    let database = world();
    let mut open = running.then(|| fixture_at(&database.url(), keyring()));
    let pk = "(SELECT pk FROM old.session WHERE session_id = 'gone')";
    let done = raw(&database.url())
        .await
        .batch_execute(&sql.replace("$gone", pk))
        .await;
    done.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    let f = open
        .take()
        .unwrap_or_else(|| fixture_at(&database.url(), keyring()));
    let report = f.ledger.verify(None).await.unwrap();
    assert_eq!(report.verdict(), Verdict::Broken, "{sql}: {report:?}");
    if running {
        super::running::wait_for_report(&f).await;
    }
    check(&f).await;
    f.ledger.close().await;
}

#[test]
fn a_restored_erased_session_is_refused() {
    let row = "UPDATE filrouge.session SET erased = NULL, status = 0 WHERE pk = $gone";
    let head = "UPDATE filrouge.head SET data = (SELECT data FROM old.head WHERE pk = $gone) WHERE pk = $gone";
    let rows = ["record", "item_key", "turn", "event", "checkpoint"].map(|t| {
        format!("INSERT INTO filrouge.{t} SELECT * FROM old.{t} WHERE session_pk = $gone")
    });
    for running in [false, true] {
        for sql in [
            row.to_owned(),
            format!("{row}; {head}"),
            format!("{row}; {head}; {}", rows.join(";")),
        ] {
            block_on(after(&sql, running, async |f| {
                for who in [anyone(), operator("t"), user("ann")] {
                    assert_eq!(code(f.session(&who, "gone").await), BROKEN, "{sql}");
                    assert_eq!(code(f.ledger.items(&who, &sid("gone"), 0, 9).await), BROKEN);
                    assert_eq!(code(f.create(&who, "gone").await), BROKEN, "{sql}");
                }
                assert!(f.items(&anyone(), "other", 9).await.len() > 4);
            }));
        }
    }
    // Reads stop at the tombstone; `verify` finds the restored rows.
    for sql in rows {
        block_on(after(&sql, false, async |f| {
            let read = f.ledger.items(&anyone(), &sid("gone"), 0, 9).await;
            assert_eq!(code(read), ErrorCode::SessionErased);
        }));
    }
}

#[test]
fn changed_tokens_are_refused() {
    for (session, value) in [
        ("kept", "NULL"),
        ("kept", "'\\x00112233445566778899aabbccddeeff'"),
        ("kept", "'\\x00'"),
        (
            "victim",
            "(SELECT token FROM filrouge.session WHERE session_id = 'kept')",
        ),
    ] {
        for running in [false, true] {
            let sql = format!(
                "UPDATE filrouge.session SET token = {value} WHERE session_id = '{session}'"
            );
            block_on(after(&sql, running, async |f| {
                for who in [
                    anyone(),
                    anyone_with_secret(f, "secret"),
                    user("ann"),
                    operator("t"),
                ] {
                    let read = f.session(&who, session).await;
                    assert_eq!(code(read), BROKEN, "{session} {value} {who:?}");
                }
            }));
        }
    }
}

#[test]
fn changed_notes_are_refused() {
    for sql in [
        "UPDATE filrouge.note SET data = '' WHERE name = 'a'",
        "DELETE FROM filrouge.note WHERE name = 'a'",
        "UPDATE filrouge.note SET name = 'c' WHERE name = 'a'",
        "ALTER TABLE filrouge.note DROP CONSTRAINT note_lane_check; UPDATE filrouge.note SET lane = 1 WHERE name = 'a'",
        "UPDATE filrouge.note SET data = (SELECT data FROM old.note WHERE name = 'a') WHERE name = 'a'",
        "UPDATE filrouge.note SET data = (SELECT data FROM filrouge.note WHERE name = 'b') WHERE name = 'a'",
    ] {
        for running in [false, true] {
            block_on(after(sql, running, async |f| {
                assert_eq!(code(f.ledger.note("a").await), BROKEN, "{sql}");
                for version in [0, 2, 3] {
                    let put = f.ledger.put_note("a", version, b"forged".to_vec()).await;
                    assert_eq!(code(put), BROKEN, "{sql}");
                }
                assert_eq!(f.ledger.note("b").await.unwrap().unwrap().value, b"new");
                f.complete_turn(&anyone(), "victim", "more", "a").await;
            }));
        }
    }
}
