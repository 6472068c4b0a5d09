//! Rows that are edited, deleted, swapped or forged outside filrouge are refused.

use super::operations::{Case, case, run_case};

/// The letters of all operations.
const ALL: &str = "sit1an";
/// Selects the victim's open turn.
const OPEN: &str = "WHERE session_pk = $pk AND open";

#[test]
fn changed_sessions_and_heads_are_refused() {
    for (name, sql) in [
        (
            "renamed",
            "UPDATE filrouge.session SET session_id = 'renamed' WHERE pk = $pk",
        ),
        (
            "session of another tenant",
            "UPDATE filrouge.session SET tenant_id = 'u' WHERE pk = $pk",
        ),
        (
            "session of another number",
            "UPDATE filrouge.session SET pk = pk + 800 WHERE pk = $pk",
        ),
        (
            "title that is not text",
            "UPDATE filrouge.session SET title = '\\xff00' WHERE pk = $pk",
        ),
        ("row deleted", "DELETE FROM filrouge.session WHERE pk = $pk"),
        ("head deleted", "DELETE FROM filrouge.head WHERE pk = $pk"),
        (
            "head emptied",
            "UPDATE filrouge.head SET data = '' WHERE pk = $pk",
        ),
        (
            "head of another session",
            "UPDATE filrouge.head SET data = (SELECT data FROM filrouge.head WHERE pk = $other) WHERE pk = $pk",
        ),
    ] {
        run_case(&case(name, sql, ALL));
    }
    let swapped = "UPDATE filrouge.head h SET data = (SELECT data FROM filrouge.head o
        WHERE o.pk = CASE h.pk WHEN $pk THEN $other ELSE $pk END) WHERE pk IN ($pk, $other)";
    run_case(&Case {
        confined: false,
        ..case("heads swapped", swapped, ALL)
    });
}

#[test]
fn changed_turns_are_refused() {
    for (name, sql, letters) in [
        ("turn deleted", format!("DELETE FROM filrouge.turn {OPEN}"), "ta"),
        (
            "finished turn deleted",
            "DELETE FROM filrouge.turn WHERE session_pk = $pk AND place = 256".into(),
            "t1",
        ),
        (
            "turn hidden from the sweep",
            format!("UPDATE filrouge.turn SET open_since = NULL {OPEN}"),
            "ta",
        ),
        ("turn marked as closed", format!("UPDATE filrouge.turn SET open = false {OPEN}"), "ta"),
        ("turn data emptied", format!("UPDATE filrouge.turn SET data = '' {OPEN}"), "ta"),
        (
            "turn id changed",
            format!("UPDATE filrouge.turn SET turn_id = gen_random_uuid() {OPEN}"),
            "t",
        ),
        (
            "turn moved to another place",
            format!("UPDATE filrouge.turn SET place = place + 4096 {OPEN}"),
            "ta",
        ),
        (
            "turn with its record deleted",
            "DELETE FROM filrouge.turn WHERE session_pk = $pk AND place = 256;
             DELETE FROM filrouge.record WHERE session_pk = $pk AND first_seq = 1"
                .into(),
            "it1",
        ),
        (
            "forged replacement",
            "INSERT INTO filrouge.turn SELECT lane, session_pk, place + 1, gen_random_uuid(), open, open_since, data
             FROM filrouge.turn WHERE session_pk = $pk AND place = 256"
                .into(),
            "t1",
        ),
        (
            "turn id changed with the turn",
            "DELETE FROM filrouge.turn WHERE session_pk = $pk AND place = 256;
             INSERT INTO filrouge.turn SELECT $lane, $pk, place, turn_id, open, open_since, data
             FROM filrouge.turn WHERE session_pk = $other AND place = 256"
                .into(),
            "t",
        ),
    ] {
        run_case(&case(name, sql, letters));
    }
}

#[test]
fn changed_records_are_refused() {
    let newest = "(SELECT max(first_seq) FROM filrouge.record WHERE session_pk = $pk)";
    let first = "WHERE session_pk = $pk AND first_seq = 1";
    let last = format!("WHERE session_pk = $pk AND first_seq = {newest}");
    for (name, sql, letters) in [
        ("record deleted", format!("DELETE FROM filrouge.record {first}"), "it1"),
        ("newest record deleted", format!("DELETE FROM filrouge.record {last}"), "itan"),
        (
            "two records of a session swapped",
            "UPDATE filrouge.record SET first_seq = 1000 WHERE session_pk = $pk AND first_seq = 1;
             UPDATE filrouge.record SET first_seq = 1 WHERE session_pk = $pk AND first_seq = 3;
             UPDATE filrouge.record SET first_seq = 3 WHERE session_pk = $pk AND first_seq = 1000"
                .into(),
            "it1",
        ),
        (
            "record of another session",
            "UPDATE filrouge.record r SET (head, body) = (SELECT head, body FROM filrouge.record o
             WHERE o.session_pk = $other AND o.first_seq = 1) WHERE session_pk = $pk AND first_seq = 1"
                .into(),
            "it1",
        ),
        (
            "forged record appended",
            format!(
                "INSERT INTO filrouge.record SELECT lane, session_pk, {newest} + 2, count, head, body
                 FROM filrouge.record {first}"
            ),
            "ian",
        ),
        ("count changed", format!("UPDATE filrouge.record SET count = count + 1 {first}"), "it1"),
        (
            "count huge",
            format!("UPDATE filrouge.record SET count = 9223372036854775807 {first}"),
            "it1",
        ),
        (
            "newest count huge",
            format!("UPDATE filrouge.record SET count = 9223372036854775807 {last}"),
            "itan",
        ),
        ("body emptied", format!("UPDATE filrouge.record SET body = '' {first}"), "it1"),
        ("head emptied", format!("UPDATE filrouge.record SET head = '' {first}"), "it1"),
    ] {
        run_case(&case(name, sql, letters));
    }
    let swapped =
        "UPDATE filrouge.record SET lane = 7, session_pk = 999 WHERE session_pk = $pk AND first_seq = 1;
        UPDATE filrouge.record SET lane = $lane, session_pk = $pk WHERE session_pk = $other AND first_seq = 1;
        UPDATE filrouge.record SET lane = $other % 8, session_pk = $other WHERE session_pk = 999";
    run_case(&Case {
        confined: false,
        ..case("records of two sessions swapped", swapped, "it1")
    });
}

#[test]
fn changed_rows_that_refer_to_items_are_refused() {
    for (name, sql) in [
        ("item keys deleted", "DELETE FROM filrouge.item_key WHERE session_pk = $pk"),
        ("item keys moved", "UPDATE filrouge.item_key SET seq = seq + 1 WHERE session_pk = $pk"),
        ("item key added", "INSERT INTO filrouge.item_key SELECT $lane, $pk, gen_random_uuid(), 1"),
        ("an event deleted", "DELETE FROM filrouge.event WHERE session_pk = $pk AND number = 2"),
        ("the newest event deleted", "DELETE FROM filrouge.event WHERE session_pk = $pk AND number = 3"),
        (
            "an event twice",
            "INSERT INTO filrouge.event SELECT lane, session_pk, 4, gen_random_uuid(), data, at FROM filrouge.event
             WHERE session_pk = $pk AND number = 3",
        ),
        (
            "an event of another session",
            "UPDATE filrouge.event e SET data = (SELECT data FROM filrouge.event o
             WHERE o.session_pk = $other AND o.number = 2) WHERE session_pk = $pk AND number = 2",
        ),
        (
            "an event at another time",
            "UPDATE filrouge.event SET at = at + 1 WHERE session_pk = $pk AND number = 2",
        ),
        (
            "a checkpoint deleted",
            "DELETE FROM filrouge.checkpoint WHERE session_pk = $pk AND seq = 1",
        ),
        (
            "the newest checkpoint deleted",
            "DELETE FROM filrouge.checkpoint WHERE session_pk = $pk
             AND seq = (SELECT max(seq) FROM filrouge.checkpoint WHERE session_pk = $pk)",
        ),
        (
            "a checkpoint of another session",
            "UPDATE filrouge.checkpoint c SET data = (SELECT data FROM filrouge.checkpoint o
             WHERE o.session_pk = $other AND o.seq = 4) WHERE session_pk = $pk AND seq = 4",
        ),
        (
            "a checkpoint of another seq",
            "UPDATE filrouge.checkpoint SET data = (SELECT data FROM filrouge.checkpoint
             WHERE session_pk = $pk AND seq = 1) WHERE session_pk = $pk AND seq = 4",
        ),
        (
            "a checkpoint twice",
            "INSERT INTO filrouge.checkpoint SELECT lane, session_pk, 3, data FROM filrouge.checkpoint
             WHERE session_pk = $pk AND seq = 4",
        ),
        (
            "a draft of another session",
            "INSERT INTO filrouge.draft SELECT $lane, $pk, place, data FROM filrouge.draft LIMIT 1",
        ),
    ] {
        run_case(&case(name, sql, ""));
    }
}

#[test]
fn rows_without_a_session_are_refused() {
    for (name, sql) in [
        (
            "a session never created",
            "INSERT INTO filrouge.session (lane, pk, tenant_id, session_id, status, metadata, created_at)
             VALUES (5, 77, 't', 'forged', 0, '{}', 0)",
        ),
        (
            "a head never created",
            "INSERT INTO filrouge.head SELECT 5, 77, data, updated_at FROM filrouge.head LIMIT 1",
        ),
        (
            "an orphaned record",
            "INSERT INTO filrouge.record SELECT 6, 78, first_seq, count, head, body FROM filrouge.record LIMIT 1",
        ),
        (
            "an orphaned turn",
            "INSERT INTO filrouge.turn SELECT 7, 79, 256, gen_random_uuid(), false, NULL, data FROM filrouge.turn LIMIT 1",
        ),
        (
            "an orphaned item key",
            "INSERT INTO filrouge.item_key SELECT 0, 80, gen_random_uuid(), 1",
        ),
        (
            "an orphaned event",
            "INSERT INTO filrouge.event SELECT 1, 81, number, key, data, at FROM filrouge.event LIMIT 1",
        ),
        (
            "an orphaned checkpoint",
            "INSERT INTO filrouge.checkpoint SELECT 3, 83, seq, data FROM filrouge.checkpoint LIMIT 1",
        ),
        (
            "an orphaned draft",
            "INSERT INTO filrouge.draft SELECT 2, 82, place, data FROM filrouge.draft LIMIT 1",
        ),
        (
            "rows of a negative number",
            "INSERT INTO filrouge.event SELECT 0, -8, number, key, data, at FROM filrouge.event LIMIT 1",
        ),
        (
            "a session of a negative number",
            "INSERT INTO filrouge.session (lane, pk, tenant_id, session_id, status, metadata, created_at)
             VALUES (0, -8, 't', 'forged', 0, '{}', 0)",
        ),
    ] {
        run_case(&case(name, sql, ""));
    }
}

#[test]
fn a_changed_commit_log_is_refused() {
    let newest = "(SELECT max(commit_no) FROM filrouge.commit_log WHERE lane = $lane)";
    for (name, sql) in [
        (
            "newest commit edited",
            format!("UPDATE filrouge.commit_log SET data = substr(data, 1, length(data) - 1) || '\\x55'
                WHERE lane = $lane AND commit_no = {newest}"),
        ),
        (
            "newest commit emptied",
            format!("UPDATE filrouge.commit_log SET data = '' WHERE lane = $lane AND commit_no = {newest}"),
        ),
        (
            "newest commits deleted",
            "DELETE FROM filrouge.commit_log WHERE lane = $lane AND commit_no > 3".to_owned(),
        ),
        (
            "log of the lane deleted",
            "DELETE FROM filrouge.commit_log WHERE lane = $lane".to_owned(),
        ),
        ("log deleted", "DELETE FROM filrouge.commit_log".to_owned()),
        (
            "a commit forged",
            format!("INSERT INTO filrouge.commit_log SELECT lane, commit_no + 1, data FROM filrouge.commit_log
                WHERE lane = $lane AND commit_no = {newest}"),
        ),
        (
            "a commit of a negative number",
            "INSERT INTO filrouge.commit_log SELECT lane, -1, data FROM filrouge.commit_log WHERE commit_no = 1;
             DELETE FROM filrouge.commit_log WHERE commit_no > 0".to_owned(),
        ),
    ] {
        run_case(&Case { confined: false, ..case(name, sql, ALL) });
    }
    for (name, sql) in [
        (
            "older commit edited",
            "UPDATE filrouge.commit_log SET data = data || '\\x00' WHERE lane = $lane AND commit_no = 2",
        ),
        (
            "older commit deleted",
            "DELETE FROM filrouge.commit_log WHERE lane = $lane AND commit_no = 2",
        ),
    ] {
        run_case(&case(name, sql, ""));
    }
}
