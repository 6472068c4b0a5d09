//! Sources and targets that a copy refuses, and copies of sources that were tampered with.

use filrouge_store::contract::fixture::user;
use filrouge_store::contract::session_writes::{patch, title};
use filrouge_store::verify::Verdict;
use filrouge_types::{SessionId, TenantId};

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

/// Whether a store has a session of the tenant `t`.
async fn has_session(ledger: &dyn Ledger, id: &'static str) -> bool {
    let (tenant, id) = (TenantId::new("t").unwrap(), SessionId::new(id).unwrap());
    let found = ledger.query(move |snapshot| snapshot.view.session(&tenant, &id, None));
    found.await.unwrap().is_some()
}

/// Copies a filled store that `sql` has damaged.
fn copy_damaged(sql: &str) -> (Pair, Copied) {
    let pair = Pair::new();
    create_filled(&pair.source());
    let conn = Connection::open(pair.source()).unwrap();
    assert!(conn.execute(sql, []).unwrap() > 0, "{sql}");
    drop(conn);
    let copied = pair.copy().unwrap_or_else(|e| panic!("{sql}: {e}"));
    assert_eq!(copied.source.verdict(), Verdict::Broken, "{sql}");
    (pair, copied)
}

/// A damaged session is left out of the copy: signed again, it would become valid.
#[test]
fn damaged_sessions_are_left_out_and_reported() {
    let pk = "(SELECT pk FROM session WHERE tenant_id = 't' AND session_id = 's')";
    let pk_of_t = "(SELECT pk FROM session WHERE tenant_id = 't' AND session_id = 't')";
    let first = format!("(SELECT record_id FROM record_key WHERE session_pk = {pk} LIMIT 1)");
    let of_turns = format!("WHERE id >> 32 = {pk}");
    let damages_of_s = [
        format!("UPDATE record SET body = zeroblob(40) WHERE id = {first}"),
        format!("DELETE FROM record WHERE id = {first}"),
        format!("DELETE FROM turn {of_turns}"),
        format!("UPDATE turn SET data = x'00' {of_turns}"),
        format!("DELETE FROM head WHERE pk = {pk}"),
        format!("UPDATE head SET data = x'00' WHERE pk = {pk}"),
        format!("UPDATE session SET title = 'x' WHERE pk = {pk}"),
        format!("UPDATE session SET metadata = x'00' WHERE pk = {pk}"),
        format!("DELETE FROM session WHERE pk = {pk}"),
        format!("DELETE FROM item_key WHERE session_pk = {pk}"),
        format!("UPDATE event SET data = x'00' WHERE session_pk = {pk}"),
        format!("UPDATE event SET at = at + 1 WHERE session_pk = {pk}"),
        // Only the commit log counts events.
        format!("DELETE FROM event WHERE session_pk = {pk} AND number = 5"),
    ];
    let damages_of_t = [
        format!("DELETE FROM checkpoint WHERE session_pk = {pk_of_t} AND seq = 13"),
        format!("UPDATE checkpoint SET data = x'00' WHERE session_pk = {pk_of_t} AND seq = 13"),
        format!(
            "UPDATE checkpoint SET data = (SELECT data FROM checkpoint WHERE session_pk = {pk_of_t} AND seq = 14) WHERE session_pk = {pk_of_t} AND seq = 13"
        ),
    ];
    let of_s = damages_of_s.iter().map(|sql| (sql, "s", "t"));
    let of_t = damages_of_t.iter().map(|sql| (sql, "t", "s"));
    for (sql, damaged, intact) in of_s.chain(of_t) {
        let (pair, copied) = copy_damaged(sql);
        assert_eq!(copied.copy.verdict(), Verdict::Intact, "{sql}");
        assert!(!copied.left_out.is_empty(), "{sql}");
        assert_eq!(copied.copy.sessions, 7, "{sql}");
        let g = fixture_at(&pair.target(), keyring());
        block_on(async {
            g.assert_intact().await;
            assert!(!has_session(&*g.ledger, damaged).await, "{sql}");
            assert!(has_session(&*g.ledger, intact).await, "{sql}");
            g.ledger.close().await;
        });
    }
}

#[test]
fn damaged_notes_are_left_out_and_reported() {
    for (sql, left_out) in [
        ("UPDATE note SET data = x'00' WHERE name = 'n'", 1),
        (
            "UPDATE note SET data = (SELECT data FROM note WHERE name = 'm') WHERE name = 'n'",
            1,
        ),
        ("DELETE FROM note WHERE name = 'n'", 0),
    ] {
        let (_pair, copied) = copy_damaged(sql);
        assert_eq!(
            copied.left_out.len(),
            left_out,
            "{sql}: {:?}",
            copied.left_out
        );
        assert_eq!((copied.copy.sessions, copied.copy.notes), (8, 1), "{sql}");
    }
}

/// All rows of the session are genuine, but only the commit log shows that they are not the newest ones.
#[test]
fn a_session_that_was_put_back_to_an_older_state_is_left_out() {
    let pair = Pair::new();
    let (ann, f) = (user("ann"), fixture_at(&pair.source(), keyring()));
    block_on(async {
        f.create(&ann, "s").await.unwrap();
        f.create(&ann, "t").await.unwrap();
    });
    let conn = Connection::open(pair.source()).unwrap();
    let select = "SELECT data FROM head WHERE pk = 1";
    let older: Vec<u8> = conn.query_row(select, [], |row| row.get(0)).unwrap();
    block_on(async {
        let patched = patch("s", title("a title"));
        f.write_session(&ann, patched).await.unwrap();
        f.ledger.close().await;
    });
    conn.execute("UPDATE head SET data = ?1 WHERE pk = 1", [older])
        .unwrap();
    conn.execute("UPDATE session SET title = NULL WHERE pk = 1", [])
        .unwrap();
    drop(conn);
    let copied = pair.copy().unwrap();
    assert_eq!(copied.source.verdict(), Verdict::Broken);
    let left_out: Vec<_> = copied.left_out.iter().map(|f| &f.session_id).collect();
    assert_eq!(left_out, [&Some("s".to_owned())]);
    let g = fixture_at(&pair.target(), keyring());
    block_on(async {
        g.assert_intact().await;
        assert!(!has_session(&*g.ledger, "s").await && has_session(&*g.ledger, "t").await);
        g.ledger.close().await;
    });
}

/// Without an intact log, it is unknown whether the sessions are complete.
#[test]
fn a_changed_commit_log_is_refused() {
    for sql in [
        "UPDATE commit_log SET data = zeroblob(80) WHERE commit_no = 3",
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
