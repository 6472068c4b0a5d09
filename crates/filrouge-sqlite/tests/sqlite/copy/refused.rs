//! What is not copied, what is not copied into, and what a source that was tampered with comes to.

use filrouge_store::contract::fixture::anyone;
use filrouge_store::verify::Verdict;

use super::whole::fill;
use super::*;
use crate::schema::back_to;

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
fn a_target_that_is_no_empty_store() {
    let pair = Pair::new();
    filled(&pair.from());
    filled(&pair.to());
    let before = files(&pair.to());
    refused(pair.copy(), ErrorCode::Invalid, "holds a store already");
    assert_eq!(files(&pair.to()), before);
    // A finished copy is a store as any other.
    fs::remove_file(pair.to()).unwrap();
    pair.copy().unwrap();
    refused(pair.copy(), ErrorCode::Invalid, "holds a store already");
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
fn an_unfinished_copy_of_another_store() {
    let (pair, other) = (Pair::new(), Pair::new());
    filled(&pair.from());
    // Not the name that is counted for the first.
    let f = SqliteLedger::open(own_options(&other.from(), keyring())).unwrap();
    block_on(f.close());
    let begun = run(&other.from(), brittle(&pair.to(), 9, 0), Seen::default());
    assert_eq!(begun.unwrap_err(), broke_down());
    refused(pair.copy(), ErrorCode::Invalid, "copy of another store");
    run(&other.from(), intake(&pair.to()), Seen::default()).unwrap();
}

/// The source was put back to an older state and has gone on from there.
#[test]
fn another_history() {
    let pair = Pair::new();
    let f = on(&pair.from(), keyring());
    block_on(f.whole(&anyone(), "s", "r", "a"));
    block_on(f.ledger.close());
    let older = fs::read(pair.from()).unwrap();
    let go_on = |request: &str| {
        let f = on(&pair.from(), keyring());
        block_on(async {
            f.whole(&anyone(), "s", request, request).await;
            f.ledger.close().await;
        });
    };
    go_on("one");
    let begun = run(&pair.from(), brittle(&pair.to(), 3, 2), Seen::default());
    assert_eq!(begun.unwrap_err(), broke_down());
    fs::write(pair.from(), &older).unwrap();
    refused(pair.copy(), ErrorCode::IntegrityError, "not what it was");
    go_on("another");
    refused(pair.copy(), ErrorCode::IntegrityError, "not what it was");
}

#[test]
fn sources_that_are_none() {
    let pair = Pair::new();
    assert_eq!(pair.copy().unwrap_err().code, ErrorCode::StoreUnavailable);
    assert!(!pair.from().exists() && !pair.to().exists());
    fs::write(pair.from(), b"").unwrap();
    assert_eq!(pair.copy().unwrap_err().code, ErrorCode::Invalid);
    fs::remove_file(pair.from()).unwrap();
    filled(&pair.from());
    back_to(&Connection::open(pair.from()).unwrap(), 2);
    let before = files(&pair.from());
    refused(pair.copy(), ErrorCode::Invalid, "has schema 2");
    assert_eq!(files(&pair.from()), before);
    assert!(!pair.to().exists());
}

#[test]
fn keys_that_do_not_fit() {
    let pair = Pair::new();
    filled(&pair.from());
    let wrong = Arc::new(Keyring::single([6; 32]));
    let copied = run_with(&pair.from(), wrong, intake(&pair.to()), Seen::default());
    refused(copied, ErrorCode::IntegrityError, "cannot be copied");
    assert!(!pair.to().exists());
}

/// A copy under way is no source either.
#[test]
fn an_unfinished_copy_is_no_source() {
    let pair = Pair::new();
    filled(&pair.from());
    let begun = run(&pair.from(), brittle(&pair.to(), 9, 3), Seen::default());
    assert_eq!(begun.unwrap_err(), broke_down());
    let third = pair.0.path().join("third.db");
    let copied = run(&pair.to(), intake(&third), Seen::default());
    refused(copied, ErrorCode::StoreUnavailable, "not finished");
    let upped = filrouge_sqlite::migrate_up(&own_options(&pair.to(), keyring()));
    assert_eq!(upped.unwrap_err().code, ErrorCode::StoreUnavailable);
}

/// The evidence goes over, the rest as well, and nothing is hushed up.
#[test]
fn sources_that_were_tampered_with() {
    let pk = "(SELECT pk FROM session WHERE tenant_id = 't' AND session_id = 's')";
    let checked = "(SELECT pk FROM session WHERE tenant_id = 't' AND session_id = 't')";
    let first = format!("(SELECT record_id FROM record_key WHERE session_pk = {pk} LIMIT 1)");
    let of_turns = format!("WHERE id >> 32 = {pk}");
    // Goes over as it stands.
    let same = [
        format!("UPDATE record SET body = zeroblob(40) WHERE id = {first}"),
        format!("DELETE FROM turn {of_turns}"),
        format!("DELETE FROM head WHERE pk = {pk}"),
        format!("UPDATE session SET title = 'x' WHERE pk = {pk}"),
        format!("DELETE FROM item_key WHERE session_pk = {pk}"),
        format!("DELETE FROM checkpoint WHERE session_pk = {checked} AND seq = 13"),
        format!(
            "UPDATE checkpoint SET data = (SELECT data FROM checkpoint WHERE session_pk = {checked} AND seq = 14) WHERE session_pk = {checked} AND seq = 13"
        ),
        "DELETE FROM note WHERE name = 'n'".to_owned(),
    ];
    // Cannot be read, and is named.
    let left_out = [
        format!("UPDATE turn SET data = x'00' {of_turns}"),
        format!("UPDATE session SET metadata = x'00' WHERE pk = {pk}"),
        format!("DELETE FROM session WHERE pk = {pk}"),
        format!("UPDATE event SET data = x'00' WHERE session_pk = {pk}"),
        format!("UPDATE event SET at = at + 1 WHERE session_pk = {pk}"),
        format!("UPDATE checkpoint SET data = x'00' WHERE session_pk = {checked} AND seq = 13"),
        "UPDATE note SET data = x'00'".to_owned(),
    ];
    // No view shows it: its session is what is named.
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
        let told = !copied.left_out.is_empty();
        assert_eq!(told, left_out.contains(sql), "{sql}: {:?}", copied.left_out);
        if same.contains(sql) {
            pair.equal();
        }
        // Whatever else is there can be read as before.
        let g = on(&pair.to(), keyring());
        block_on(async {
            let who = filrouge_store::contract::fixture::user("ann");
            g.session(&who, "open").await.unwrap();
            g.ledger.close().await;
        });
    }
}

/// Nothing vouches for a store whose newest commit was changed.
#[test]
fn a_commit_log_that_was_changed() {
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
