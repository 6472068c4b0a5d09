//! Locks.

use super::*;

fn tables(database: &ForeignDatabase) -> Result<Vec<String>, ForeignError> {
    database.read(|reader| {
        let mut names = Vec::new();
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
        reader.query(sql, &[], |row| {
            names.extend(row.text(0).map(str::to_owned));
            ControlFlow::Continue(())
        })?;
        Ok(names)
    })
}

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
    let why = tables(&database).unwrap_err();
    assert_eq!(why.kind, ForeignKind::Busy);
    holder.execute_batch("COMMIT").unwrap();
    assert_eq!(tables(&database).unwrap(), ["t"]);
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
        let why = tables(&database).unwrap_err();
        assert_eq!(why.kind, ForeignKind::Busy);
        assert_eq!(database.patience(), Duration::ZERO);
    }
    // Whoever asks once it is free is answered at once, and waits again for the next lock.
    holder.execute_batch("COMMIT").unwrap();
    tables(&database).unwrap();
    assert_eq!(database.patience(), database.busy_timeout);
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    tables(&database).unwrap_err();
    let long_ago = Instant::now().checked_sub(BUSY_AGAIN);
    *lock(&database.given_up) = Some(long_ago.unwrap());
    assert_eq!(database.patience(), database.busy_timeout);
}
