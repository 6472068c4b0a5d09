//! Sources and targets that a copy refuses, and copies of sources that were tampered with.

use filrouge_store::contract::fixture::anyone;
use filrouge_store::verify::Verdict;

use super::uninterrupted::fill;
use super::*;

fn create_filled(path: &Path) {
    let f = fixture_at(path, keyring());
    block_on(async {
        fill(&f).await;
        f.ledger.close().await;
    });
}

#[track_caller]
fn assert_refused(copied: Result<Copied, Failure>, code: ErrorCode, words: &str) {
    let failure = copied.unwrap_err();
    assert_eq!(failure.code, code, "{failure}");
    assert!(failure.detail.contains(words), "{failure}");
    assert!(failure.hint.is_some(), "{failure}");
}

#[test]
fn a_target_that_is_not_an_empty_store_is_refused() {
    let pair = Pair::new();
    create_filled(&pair.source());
    create_filled(&pair.target());
    let before = files(&pair.target());
    assert_refused(pair.copy(), ErrorCode::Invalid, "already contains a store");
    assert_eq!(files(&pair.target()), before);
    // A finished copy is an ordinary store.
    fs::remove_file(pair.target()).unwrap();
    pair.copy().unwrap();
    assert_refused(pair.copy(), ErrorCode::Invalid, "already contains a store");
    fs::remove_file(pair.target()).unwrap();
    let other = Connection::open(pair.target()).unwrap();
    other.execute_batch("CREATE TABLE a (b)").unwrap();
    drop(other);
    let before = files(&pair.target());
    assert_refused(pair.copy(), ErrorCode::Invalid, "another program");
    assert_eq!(files(&pair.target()), before);
    fs::remove_file(pair.target()).unwrap();
    fs::create_dir(pair.target()).unwrap();
    assert_eq!(pair.copy().unwrap_err().code, ErrorCode::StoreUnavailable);
}

#[test]
fn an_unfinished_copy_of_another_store_is_refused() {
    let (pair, other) = (Pair::new(), Pair::new());
    create_filled(&pair.source());
    // The store gets a random id: a counted one would equal the first store's id.
    let f = SqliteLedger::open(own_options(&other.source(), keyring())).unwrap();
    block_on(f.close());
    let first_run = run(
        &other.source(),
        failing_target(&pair.target(), 9, 0),
        Progress::default(),
    );
    assert_eq!(first_run.unwrap_err(), injected_failure());
    assert_refused(pair.copy(), ErrorCode::Invalid, "copy of another store");
    run(
        &other.source(),
        copy_target(&pair.target()),
        Progress::default(),
    )
    .unwrap();
}

/// The source was restored to an older state, and new turns were written since.
#[test]
fn a_source_with_another_history_is_refused() {
    let pair = Pair::new();
    let f = fixture_at(&pair.source(), keyring());
    block_on(f.complete_turn(&anyone(), "s", "r", "a"));
    block_on(f.ledger.close());
    let older = fs::read(pair.source()).unwrap();
    let write_turn = |request: &str| {
        let f = fixture_at(&pair.source(), keyring());
        block_on(async {
            f.complete_turn(&anyone(), "s", request, request).await;
            f.ledger.close().await;
        });
    };
    write_turn("one");
    let first_run = run(
        &pair.source(),
        failing_target(&pair.target(), 3, 2),
        Progress::default(),
    );
    assert_eq!(first_run.unwrap_err(), injected_failure());
    fs::write(pair.source(), &older).unwrap();
    assert_refused(pair.copy(), ErrorCode::IntegrityError, "has changed since");
    write_turn("another");
    assert_refused(pair.copy(), ErrorCode::IntegrityError, "has changed since");
}

#[test]
fn sources_without_a_current_store_are_refused() {
    let pair = Pair::new();
    assert_eq!(pair.copy().unwrap_err().code, ErrorCode::StoreUnavailable);
    assert!(!pair.source().exists() && !pair.target().exists());
    fs::write(pair.source(), b"").unwrap();
    assert_eq!(pair.copy().unwrap_err().code, ErrorCode::Invalid);
    fs::remove_file(pair.source()).unwrap();
    create_filled(&pair.source());
    let source = Connection::open(pair.source()).unwrap();
    source.pragma_update(None, "user_version", 0).unwrap();
    drop(source);
    let before = files(&pair.source());
    assert_refused(pair.copy(), ErrorCode::Invalid, "has schema 0");
    assert_eq!(files(&pair.source()), before);
    assert!(!pair.target().exists());
}

#[test]
fn keys_of_another_store_are_refused() {
    let pair = Pair::new();
    create_filled(&pair.source());
    let wrong = Arc::new(Keyring::single([6; 32]));
    let copied = run_with(
        &pair.source(),
        wrong,
        copy_target(&pair.target()),
        Progress::default(),
    );
    assert_refused(copied, ErrorCode::IntegrityError, "cannot be copied");
    assert!(!pair.target().exists());
}

/// An unfinished copy cannot be a source either.
#[test]
fn an_unfinished_copy_is_refused_as_a_source() {
    let pair = Pair::new();
    create_filled(&pair.source());
    let first_run = run(
        &pair.source(),
        failing_target(&pair.target(), 9, 3),
        Progress::default(),
    );
    assert_eq!(first_run.unwrap_err(), injected_failure());
    let third = pair.0.path().join("third.db");
    let copied = run(&pair.target(), copy_target(&third), Progress::default());
    assert_refused(copied, ErrorCode::StoreUnavailable, "not finished");
    let migrated = filrouge_sqlite::migrate_up(&own_options(&pair.target(), keyring()));
    assert_eq!(migrated.unwrap_err().code, ErrorCode::StoreUnavailable);
}

/// Tampered rows are copied as evidence, like all others, and the report names those that cannot be copied.
#[test]
fn tampered_sources_are_copied_and_reported() {
    let pk = "(SELECT pk FROM session WHERE tenant_id = 't' AND session_id = 's')";
    let pk_of_t = "(SELECT pk FROM session WHERE tenant_id = 't' AND session_id = 't')";
    let first = format!("(SELECT record_id FROM record_key WHERE session_pk = {pk} LIMIT 1)");
    let of_turns = format!("WHERE id >> 32 = {pk}");
    // These rows are copied with their changes.
    let copied_as_is = [
        format!("UPDATE record SET body = zeroblob(40) WHERE id = {first}"),
        format!("DELETE FROM turn {of_turns}"),
        format!("DELETE FROM head WHERE pk = {pk}"),
        format!("UPDATE session SET title = 'x' WHERE pk = {pk}"),
        format!("DELETE FROM item_key WHERE session_pk = {pk}"),
        format!("DELETE FROM checkpoint WHERE session_pk = {pk_of_t} AND seq = 13"),
        format!(
            "UPDATE checkpoint SET data = (SELECT data FROM checkpoint WHERE session_pk = {pk_of_t} AND seq = 14) WHERE session_pk = {pk_of_t} AND seq = 13"
        ),
        "DELETE FROM note WHERE name = 'n'".to_owned(),
    ];
    // Rows that cannot be decoded: they are reported.
    let left_out = [
        format!("UPDATE turn SET data = x'00' {of_turns}"),
        format!("UPDATE session SET metadata = x'00' WHERE pk = {pk}"),
        format!("DELETE FROM session WHERE pk = {pk}"),
        format!("UPDATE event SET data = x'00' WHERE session_pk = {pk}"),
        format!("UPDATE event SET at = at + 1 WHERE session_pk = {pk}"),
        format!("UPDATE checkpoint SET data = x'00' WHERE session_pk = {pk_of_t} AND seq = 13"),
        "UPDATE note SET data = x'00'".to_owned(),
    ];
    // Rows that no view returns: their session is reported.
    let unseen = [
        format!("DELETE FROM record WHERE id = {first}"),
        format!("UPDATE head SET data = x'00' WHERE pk = {pk}"),
    ];
    for sql in copied_as_is.iter().chain(&left_out).chain(&unseen) {
        let pair = Pair::new();
        create_filled(&pair.source());
        let conn = Connection::open(pair.source()).unwrap();
        assert!(conn.execute(sql, []).unwrap() > 0, "{sql}");
        drop(conn);
        let copied = pair.copy().unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(copied.source.verdict(), Verdict::Broken, "{sql}");
        assert_eq!(copied.copy.verdict(), Verdict::Broken, "{sql}");
        let has_omissions = !copied.left_out.is_empty();
        assert_eq!(
            has_omissions,
            left_out.contains(sql),
            "{sql}: {:?}",
            copied.left_out
        );
        if copied_as_is.contains(sql) {
            pair.assert_equal();
        }
        // All other rows are readable as before.
        let g = fixture_at(&pair.target(), keyring());
        block_on(async {
            let who = filrouge_store::contract::fixture::user("ann");
            g.session(&who, "open").await.unwrap();
            g.ledger.close().await;
        });
    }
}

/// A store whose newest commit was changed cannot be verified.
#[test]
fn a_changed_commit_log_is_refused() {
    for sql in [
        "UPDATE commit_log SET data = zeroblob(80) WHERE commit_no = (SELECT max(commit_no) FROM commit_log)",
        "DELETE FROM commit_log WHERE commit_no = (SELECT max(commit_no) FROM commit_log)",
        "DELETE FROM commit_log",
    ] {
        let pair = Pair::new();
        create_filled(&pair.source());
        let conn = Connection::open(pair.source()).unwrap();
        conn.execute(sql, []).unwrap();
        drop(conn);
        assert_refused(pair.copy(), ErrorCode::IntegrityError, "cannot be copied");
        assert!(!pair.target().exists(), "{sql}");
    }
}
