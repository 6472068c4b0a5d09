//! Locks, and marks of the schema.

use super::*;

#[test]
fn a_lock_of_somebody_elses_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let holder = Connection::open(&path).unwrap();
    holder
        .execute_batch("CREATE TABLE t (a); BEGIN EXCLUSIVE")
        .unwrap();
    let mut database = ForeignDatabase::open(&path).unwrap();
    database.busy_timeout = Duration::from_millis(50);
    let tables = || database.read(|reader| reader.tables());
    let why = tables().unwrap_err();
    assert!(matches!(why, ForeignError::Busy { .. }), "{why:?}");
    holder.execute_batch("COMMIT").unwrap();
    assert_eq!(tables().unwrap(), ["t"]);
}

#[test]
fn a_lock_is_waited_for_once_and_not_by_each_question() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let holder = Connection::open(&path).unwrap();
    holder
        .execute_batch("CREATE TABLE t (a); BEGIN EXCLUSIVE")
        .unwrap();
    let mut database = ForeignDatabase::open(&path).unwrap();
    database.busy_timeout = Duration::from_millis(50);
    assert_eq!(database.patience(), database.busy_timeout);
    for _ in 0..3 {
        let why = database.read(|reader| reader.tables()).unwrap_err();
        assert!(matches!(why, ForeignError::Busy { .. }), "{why:?}");
        assert_eq!(database.patience(), Duration::ZERO);
    }
    // Whoever asks once it is free is answered at once, and waits again for the next lock.
    holder.execute_batch("COMMIT").unwrap();
    database.read(|reader| reader.tables()).unwrap();
    assert_eq!(database.patience(), database.busy_timeout);
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    database.read(|reader| reader.tables()).unwrap_err();
    let long_ago = Instant::now().checked_sub(BUSY_AGAIN);
    *lock(&database.given_up) = Some(long_ago.unwrap());
    assert_eq!(database.patience(), database.busy_timeout);
}

#[test]
fn the_mark_of_the_schema_follows_tables_and_not_rows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("CREATE TABLE t (a)").unwrap();
    let database = ForeignDatabase::open(&path).unwrap();
    let before = database.schema_mark().unwrap();
    writer.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(database.schema_mark().unwrap(), before);
    writer.execute_batch("ALTER TABLE t ADD b").unwrap();
    assert_ne!(database.schema_mark().unwrap(), before);
}
