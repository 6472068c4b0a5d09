//! Rows that are edited, deleted, swapped or forged outside filrouge.

use super::{Case, block_on, run_case};

const PK: &str = "(SELECT pk FROM session WHERE session_id = 'victim')";

fn sql(text: &str) -> String {
    text.replace("$pk", PK)
}

/// A case that the operations `letters` must refuse, after opening and while running.
fn case(name: &'static str, text: &str, letters: &'static str) -> Case {
    Case {
        name,
        sql: sql(text),
        reopened: letters,
        running: letters,
        confined: true,
        verify_finds_it: true,
    }
}

#[test]
fn changed_session_rows_are_refused() {
    let all_operations = "sit1an";
    for (column, value) in [
        ("title", "'forged'"),
        ("title", "x'ff00'"),
        ("identity_id", "'mallory'"),
        ("project_id", "'p'"),
        ("parent_session_id", "'other'"),
        ("team_id", "'team'"),
        ("status", "2"),
        ("status", "77"),
        ("status", "-1"),
        ("state", "'DONE'"),
        ("metadata", "'{\"a\":1}'"),
        ("metadata", "x'00'"),
        ("created_at", "created_at + 1"),
        ("created_at", "'soon'"),
        ("tenant_id", "'u'"),
        ("session_id", "'renamed'"),
        ("pk", "99"),
    ] {
        let text = format!("UPDATE session SET {column} = {value} WHERE session_id = 'victim'");
        block_on(run_case(&case(
            "a session row's column",
            &text,
            all_operations,
        )));
    }
    block_on(run_case(&case(
        "session row deleted",
        "DELETE FROM session WHERE session_id = 'victim'",
        all_operations,
    )));
}

#[test]
fn changed_heads_are_refused() {
    let all_operations = "sit1an";
    block_on(run_case(&case(
        "head deleted",
        "DELETE FROM head WHERE pk = $pk",
        all_operations,
    )));
    block_on(run_case(&case(
        "head emptied",
        "UPDATE head SET data = x'' WHERE pk = $pk",
        all_operations,
    )));
    block_on(run_case(&case(
        "head of another session",
        "UPDATE head SET data = (SELECT data FROM head WHERE pk <> $pk) WHERE pk = $pk",
        all_operations,
    )));
}

#[test]
fn changed_turns_are_refused() {
    let open = "WHERE id >> 32 = $pk AND open_since IS NOT NULL";
    block_on(run_case(&case(
        "turn deleted",
        &format!("DELETE FROM turn {open}"),
        "ta",
    )));
    block_on(run_case(&case(
        "finished turn deleted",
        "DELETE FROM turn WHERE id = ($pk << 32) | (1 << 8)",
        "t1",
    )));
    block_on(run_case(&case(
        "turn hidden from the sweep",
        &format!("UPDATE turn SET open_since = NULL {open}"),
        "ta",
    )));
    block_on(run_case(&case(
        "turn data emptied",
        &format!("UPDATE turn SET data = x'' {open}"),
        "ta",
    )));
    block_on(run_case(&case(
        "turn id changed",
        &format!("UPDATE turn SET turn_id = randomblob(16) {open}"),
        "t",
    )));
    block_on(run_case(&case(
        "turn moved to another place",
        &format!("UPDATE turn SET id = id + 4096 {open}"),
        "ta",
    )));
    block_on(run_case(&case(
        "turn with its rows deleted",
        "DELETE FROM turn WHERE id = ($pk << 32) | (1 << 8);
         DELETE FROM record_key WHERE session_pk = $pk AND first_seq = 1;
         DELETE FROM record WHERE id NOT IN (SELECT record_id FROM record_key)",
        "it1",
    )));
    block_on(run_case(&case(
        "forged replacement",
        "INSERT INTO turn (id, turn_id, open_since, data)
         SELECT id + 1, randomblob(16), open_since, data FROM turn WHERE id = ($pk << 32) | (1 << 8)",
        "t1",
    )));
}

#[test]
fn changed_records_are_refused() {
    let first = "(SELECT record_id FROM record_key WHERE session_pk = $pk AND first_seq = 1)";
    let newest = "(SELECT max(first_seq) FROM record_key WHERE session_pk = $pk)";
    let list = [
        ("record deleted", format!("DELETE FROM record WHERE id = {first}"), "it1"),
        ("record key deleted", "DELETE FROM record_key WHERE session_pk = $pk AND first_seq = 1".into(), "it1"),
        ("newest record deleted",
         format!("DELETE FROM record WHERE id = (SELECT record_id FROM record_key WHERE session_pk = $pk AND first_seq = {newest})"), "itan"),
        ("newest record key deleted", format!("DELETE FROM record_key WHERE session_pk = $pk AND first_seq = {newest}"), "itan"),
        ("two records of a session swapped",
         "UPDATE record_key SET record_id = CASE first_seq
            WHEN 1 THEN (SELECT record_id FROM record_key WHERE session_pk = $pk AND first_seq = 3)
            ELSE (SELECT record_id FROM record_key WHERE session_pk = $pk AND first_seq = 1) END
          WHERE session_pk = $pk AND first_seq IN (1, 3)".into(), "it1"),
        ("record of another session",
         "UPDATE record_key SET record_id =
            (SELECT record_id FROM record_key WHERE session_pk <> $pk AND first_seq = 1)
          WHERE session_pk = $pk AND first_seq = 1".into(), "it1"),
        ("forged record appended",
         format!("INSERT INTO record (head, body) SELECT head, body FROM record WHERE id = {first};
          INSERT INTO record_key SELECT $pk, {newest} + 2, count, last_insert_rowid() FROM record_key
          WHERE session_pk = $pk AND first_seq = 1"), "ian"),
        ("count changed", "UPDATE record_key SET count = count + 1 WHERE session_pk = $pk AND first_seq = 1".into(), "it1"),
        ("count huge", "UPDATE record_key SET count = 9223372036854775807 WHERE session_pk = $pk AND first_seq = 1".into(), "it1"),
        ("newest count huge", format!("UPDATE record_key SET count = 9223372036854775807 WHERE session_pk = $pk AND first_seq = {newest}"), "itan"),
        ("body of another type", format!("UPDATE record SET body = 'text' WHERE id = {first}"), "it1"),
    ];
    for (name, text, letters) in list {
        block_on(run_case(&case(name, &text, letters)));
    }
}

#[test]
fn records_swapped_between_sessions_are_refused() {
    let text = "UPDATE record_key SET record_id = (SELECT o.record_id FROM record_key o
            WHERE o.session_pk <> record_key.session_pk AND o.first_seq = 1) WHERE first_seq = 1";
    block_on(run_case(&Case {
        confined: false,
        ..case("records of two sessions swapped", text, "it1")
    }));
}

#[test]
fn changed_item_keys_are_refused() {
    for (name, text) in [
        (
            "item key deleted",
            "DELETE FROM item_key WHERE session_pk = $pk",
        ),
        (
            "item key moved",
            "UPDATE item_key SET seq = seq + 1 WHERE session_pk = $pk",
        ),
        (
            "item key added",
            "INSERT INTO item_key SELECT $pk, randomblob(16), 1",
        ),
    ] {
        block_on(run_case(&case(name, text, "")));
    }
}

#[test]
fn rows_without_an_owner_are_reported() {
    for (name, text) in [
        (
            "a session never created",
            "INSERT INTO session (tenant_id, session_id, status, metadata, created_at) VALUES ('t', 'forged', 0, '{}', 0)",
        ),
        (
            "a head never created",
            "INSERT INTO head SELECT 77, data, tenant_id, updated_at FROM head LIMIT 1",
        ),
        (
            "an orphaned record",
            "INSERT INTO record_key SELECT 78, 1, 1, 1",
        ),
        (
            "an orphaned turn",
            "INSERT INTO turn SELECT (79 << 32) | 256, x'00', NULL, data FROM turn LIMIT 1",
        ),
        (
            "an orphaned item key",
            "INSERT INTO item_key SELECT 1 << 62, randomblob(16), 1",
        ),
    ] {
        block_on(run_case(&case(name, text, "")));
    }
}

#[test]
fn a_changed_commit_log_is_detected() {
    let all_operations = "sit1an";
    for (name, text, reopened) in [
        (
            "newest commit edited",
            "UPDATE commit_log SET data = substr(data, 1, length(data) - 1) || x'55'
          WHERE commit_no = (SELECT max(commit_no) FROM commit_log)",
            all_operations,
        ),
        (
            "newest commit emptied",
            "UPDATE commit_log SET data = x''
          WHERE commit_no = (SELECT max(commit_no) FROM commit_log)",
            all_operations,
        ),
        (
            "newest commits deleted",
            "DELETE FROM commit_log WHERE commit_no > 3",
            all_operations,
        ),
        ("log deleted", "DELETE FROM commit_log", all_operations),
    ] {
        block_on(run_case(&Case {
            confined: false,
            ..case(name, text, reopened)
        }));
    }
    block_on(run_case(&case(
        "older commit edited",
        "UPDATE commit_log SET data = data || x'00' WHERE commit_no = 2",
        "",
    )));
    block_on(run_case(&case(
        "older commit deleted",
        "DELETE FROM commit_log WHERE commit_no = 2",
        "",
    )));
}
