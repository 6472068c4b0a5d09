//! Older rows restored over newer ones.

use super::{Case, OLD_TABLES, World, block_on, run_case};

/// Attaches `old.db`, the older rows that [`super::world`] keeps next to the store.
const ATTACH: &str = "ATTACH (SELECT replace(file, 'f.db', 'old.db') FROM pragma_database_list WHERE name = 'main') AS old;";
const PK: &str = "(SELECT pk FROM session WHERE session_id = 'victim')";

fn case(name: &'static str, text: &str, letters: &'static str) -> Case {
    let sql = format!("{ATTACH} BEGIN IMMEDIATE; {text}; COMMIT;").replace("$pk", PK);
    Case {
        name,
        sql,
        reopened: letters,
        running: letters,
        confined: true,
        verify_finds_it: true,
    }
}

#[test]
fn restored_older_rows_are_refused() {
    block_on(run_case(&case(
        "older head",
        "REPLACE INTO head SELECT * FROM old.head WHERE pk = $pk",
        "sit1an",
    )));
    block_on(run_case(&case(
        "older turn",
        "REPLACE INTO turn SELECT * FROM old.turn WHERE id >> 32 = $pk AND open_since IS NOT NULL",
        "ta",
    )));
    block_on(run_case(&case(
        "older head and turn",
        "REPLACE INTO head SELECT * FROM old.head WHERE pk = $pk;
         REPLACE INTO turn SELECT * FROM old.turn WHERE id >> 32 = $pk",
        "sit1an",
    )));
}

/// Restores the victim's older rows.
const RESTORE_OLDER: &str = "DELETE FROM turn WHERE id >> 32 = $pk;
    INSERT INTO turn SELECT * FROM old.turn WHERE id >> 32 = $pk;
    REPLACE INTO head SELECT * FROM old.head WHERE pk = $pk;
    DELETE FROM item_key WHERE session_pk = $pk;
    INSERT INTO item_key SELECT * FROM old.item_key WHERE session_pk = $pk;
    DELETE FROM record WHERE id IN (SELECT record_id FROM record_key WHERE session_pk = $pk
        AND first_seq NOT IN (SELECT first_seq FROM old.record_key WHERE session_pk = $pk));
    DELETE FROM record_key WHERE session_pk = $pk
        AND first_seq NOT IN (SELECT first_seq FROM old.record_key WHERE session_pk = $pk)";

#[test]
fn a_removed_tail_is_detected() {
    block_on(run_case(&case("tail cut", RESTORE_OLDER, "sit1an")));
    let with_log = format!(
        "{RESTORE_OLDER}; DELETE FROM commit_log WHERE commit_no > (SELECT max(commit_no) FROM old.commit_log)"
    );
    // The other session then has newer commits than the log. Which of the two is wrong is unknown, so both sessions are
    // refused.
    block_on(run_case(&Case {
        confined: false,
        ..case("tail cut, with its commits", &with_log, "sit1an")
    }));
}

/// Deletes all of the victim's rows.
const DELETE_VICTIM: &str =
    "DELETE FROM record WHERE id IN (SELECT record_id FROM record_key WHERE session_pk = $pk);
    DELETE FROM record_key WHERE session_pk = $pk; DELETE FROM item_key WHERE session_pk = $pk;
    DELETE FROM turn WHERE id >> 32 = $pk; DELETE FROM head WHERE pk = $pk;
    DELETE FROM session WHERE session_id = 'victim'";

#[test]
fn a_deleted_session_is_detected() {
    block_on(run_case(&case("session gone", DELETE_VICTIM, "sit1an")));
    let with_log = format!(
        "DELETE FROM commit_log WHERE commit_no <= (SELECT max(commit_no) FROM old.commit_log); {DELETE_VICTIM}"
    );
    block_on(run_case(&Case {
        confined: false,
        ..case("session gone, with its commits", &with_log, "sit1an")
    }));
    let with_log = format!("DELETE FROM commit_log; {DELETE_VICTIM}");
    block_on(run_case(&Case {
        confined: false,
        ..case("session gone, with all commits", &with_log, "sit1an")
    }));
}

#[test]
fn a_rolled_back_store_is_detected() {
    let text = OLD_TABLES
        .map(|table| format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM old.{table}"))
        .join(";");
    let rolled_back = Case {
        confined: false,
        verify_finds_it: false,
        reopened: "",
        ..case("rolled back", &text, "sit1an")
    };
    block_on(run_case(&rolled_back));
}

#[test]
fn only_the_anchor_detects_a_restored_file() {
    block_on(async {
        let (world, f): (World, _) = super::world().await;
        f.ledger.close().await;
        let kept = world.folder.path().join("kept.db");
        std::fs::copy(world.path(), &kept).unwrap();
        let f = super::fixture_at(&world.path(), super::keyring());
        f.complete_turn(&super::anyone(), "victim", "later", "a")
            .await;
        let newest = f.ledger.position();
        f.ledger.close().await;
        std::fs::copy(&kept, world.path()).unwrap();
        let f = super::fixture_at(&world.path(), super::keyring());
        assert!(
            f.ledger.position().commit_count() < newest.commit_count(),
            "the anchor would detect it"
        );
        f.assert_intact().await;
        f.ledger
            .distrust("the store is older than its anchor".to_owned());
        assert_eq!(
            super::refused_operations(&f, "victim", "distrusted").await,
            "sit1an"
        );
        assert!(f.ledger.health().integrity.is_some());
    });
}

/// Genuine records of an abandoned history are authenticated and at the expected positions, but do not belong to the
/// later commits.
#[test]
fn records_of_another_history_are_refused() {
    for with_later_item in [false, true] {
        block_on(async {
            let (world, f) = super::world().await;
            let (who, victim) = (super::anyone(), super::sid("victim"));
            f.ledger.close().await;
            let fork = world.folder.path().join("fork.db");
            std::fs::copy(world.path(), &fork).unwrap();
            for (path, words) in [(&fork, "another"), (&world.path(), "genuine")] {
                let f = super::fixture_at(path, super::keyring());
                let turn = f.start(&who, "victim", "open").await;
                f.append(&who, &turn, vec![super::keyed("fork", words)])
                    .await
                    .unwrap();
                if with_later_item {
                    f.append(&who, &turn, vec![super::keyed("later", "it")])
                        .await
                        .unwrap();
                }
                f.ledger.close().await;
            }
            let newest =
                "(SELECT record_id FROM record_key WHERE session_pk = $pk AND first_seq = 11)";
            let text = format!(
                "ATTACH '{}' AS fork; UPDATE record SET
                    head = (SELECT head FROM fork.record f WHERE f.id = record.id),
                    body = (SELECT body FROM fork.record f WHERE f.id = record.id) WHERE id = {newest}",
                fork.display()
            );
            world.raw().execute_batch(&text.replace("$pk", PK)).unwrap();
            let f = super::fixture_at(&world.path(), super::keyring());
            let failure = f.ledger.items(&who, &victim, 0, 100).await.unwrap_err();
            assert_eq!(
                failure.location.unwrap().seq,
                Some(if with_later_item { 12 } else { 11 })
            );
            let tail = f.ledger.items(&who, &victim, 10, 100).await;
            assert!(tail.is_err(), "reading the tail alone detects it too");
            super::assert_broken(&f, "another history").await;
        });
    }
}
