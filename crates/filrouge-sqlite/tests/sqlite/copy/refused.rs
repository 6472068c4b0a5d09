//! Sources and targets that a copy refuses, and copies of sources that were tampered with.

use filrouge_store::contract::fixture::anyone;
use filrouge_store::verify::Verdict;

use super::uninterrupted::fill;
use super::*;

fn filled(path: &Path) {
    let f = on(path, keyring());
    block_on(async {
        fill(&f).await;
        f.ledger.close().await;
    });
}

#[track_caller]
fn refused(copied: Result<Copied, Failure>, code: ErrorCode, words: &str) {
    let failure = copied.unwrap_err();
    assert_eq!(failure.code, code, "{failure}");
    assert!(failure.detail.contains(words), "{failure}");
    assert!(failure.hint.is_some(), "{failure}");
}

#[test]
fn a_target_that_is_not_an_empty_store_is_refused() {
    let pair = Pair::new();
    filled(&pair.from());
    filled(&pair.to());
    let before = files(&pair.to());
    refused(pair.copy(), ErrorCode::Invalid, "already contains a store");
    assert_eq!(files(&pair.to()), before);
    // A finished copy is an ordinary store.
    fs::remove_file(pair.to()).unwrap();
    pair.copy().unwrap();
    refused(pair.copy(), ErrorCode::Invalid, "already contains a store");
    fs::remove_file(pair.to()).unwrap();
    let other = Connection::open(pair.to()).unwrap();
    other.execute_batch("CREATE TABLE a (b)").unwrap();
    drop(other);
    let before = files(&pair.to());
    refused(pair.copy(), ErrorCode::Invalid, "another program");
    assert_eq!(files(&pair.to()), before);
    fs::remove_file(pair.to()).unwrap();
    fs::create_dir(pair.to()).unwrap();
    assert_eq!(pair.copy().unwrap_err().code, ErrorCode::StoreUnavailable);
}

#[test]
fn an_unfinished_copy_of_another_store_is_refused() {
    let (pair, other) = (Pair::new(), Pair::new());
    filled(&pair.from());
    // The store gets a random id: a counted one would equal the first store's id.
    let f = SqliteLedger::open(own_options(&other.from(), keyring())).unwrap();
    block_on(f.close());
    let first_run = run(
        &other.from(),
        brittle(&pair.to(), 9, 0),
        Progress::default(),
    );
    assert_eq!(first_run.unwrap_err(), broke_down());
    refused(pair.copy(), ErrorCode::Invalid, "copy of another store");
    run(&other.from(), copy_target(&pair.to()), Progress::default()).unwrap();
}

/// The source was restored to an older state and has continued from there.
#[test]
fn a_source_with_another_history_is_refused() {
    let pair = Pair::new();
    let f = on(&pair.from(), keyring());
    block_on(f.complete_turn(&anyone(), "s", "r", "a"));
    block_on(f.ledger.close());
    let older = fs::read(pair.from()).unwrap();
    let proceed = |request: &str| {
        let f = on(&pair.from(), keyring());
        block_on(async {
            f.complete_turn(&anyone(), "s", request, request).await;
            f.ledger.close().await;
        });
    };
    proceed("one");
    let first_run = run(&pair.from(), brittle(&pair.to(), 3, 2), Progress::default());
    assert_eq!(first_run.unwrap_err(), broke_down());
    fs::write(pair.from(), &older).unwrap();
    refused(pair.copy(), ErrorCode::IntegrityError, "has changed since");
    proceed("another");
    refused(pair.copy(), ErrorCode::IntegrityError, "has changed since");
}

#[test]
fn sources_without_a_current_store_are_refused() {
    let pair = Pair::new();
    assert_eq!(pair.copy().unwrap_err().code, ErrorCode::StoreUnavailable);
    assert!(!pair.from().exists() && !pair.to().exists());
    fs::write(pair.from(), b"").unwrap();
    assert_eq!(pair.copy().unwrap_err().code, ErrorCode::Invalid);
    fs::remove_file(pair.from()).unwrap();
    filled(&pair.from());
    let source = Connection::open(pair.from()).unwrap();
    source.pragma_update(None, "user_version", 0).unwrap();
    drop(source);
    let before = files(&pair.from());
    refused(pair.copy(), ErrorCode::Invalid, "has schema 0");
    assert_eq!(files(&pair.from()), before);
    assert!(!pair.to().exists());
}

#[test]
fn keys_of_another_store_are_refused() {
    let pair = Pair::new();
    filled(&pair.from());
    let wrong = Arc::new(Keyring::single([6; 32]));
    let copied = run_with(
        &pair.from(),
        wrong,
        copy_target(&pair.to()),
        Progress::default(),
    );
    refused(copied, ErrorCode::IntegrityError, "cannot be copied");
    assert!(!pair.to().exists());
}

/// An unfinished copy cannot be a source either.
#[test]
fn an_unfinished_copy_is_refused_as_a_source() {
    let pair = Pair::new();
    filled(&pair.from());
    let first_run = run(&pair.from(), brittle(&pair.to(), 9, 3), Progress::default());
    assert_eq!(first_run.unwrap_err(), broke_down());
    let third = pair.0.path().join("third.db");
    let copied = run(&pair.to(), copy_target(&third), Progress::default());
    refused(copied, ErrorCode::StoreUnavailable, "not finished");
    let migrated = filrouge_sqlite::migrate_up(&own_options(&pair.to(), keyring()));
    assert_eq!(migrated.unwrap_err().code, ErrorCode::StoreUnavailable);
}

/// Tampered rows are copied as evidence, like all others, and the report names those that cannot be copied.
#[test]
fn tampered_sources_are_copied_and_reported() {
    let pk = "(SELECT pk FROM session WHERE tenant_id = 't' AND session_id = 's')";
    let pk_of_t = "(SELECT pk FROM session WHERE tenant_id = 't' AND session_id = 't')";
    let first = format!("(SELECT record_id FROM record_key WHERE session_pk = {pk} LIMIT 1)");
    let of_turns = format!("WHERE id >> 32 = {pk}");
    // Tampered rows that are copied unchanged.
    let same = [
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
    for sql in same.iter().chain(&left_out).chain(&unseen) {
        let pair = Pair::new();
        filled(&pair.from());
        let conn = Connection::open(pair.from()).unwrap();
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
        if same.contains(sql) {
            pair.equal();
        }
        // All other rows are readable as before.
        let g = on(&pair.to(), keyring());
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
        filled(&pair.from());
        let conn = Connection::open(pair.from()).unwrap();
        conn.execute(sql, []).unwrap();
        drop(conn);
        refused(pair.copy(), ErrorCode::IntegrityError, "cannot be copied");
        assert!(!pair.to().exists(), "{sql}");
    }
}
