//! Locks that another program holds on a foreign database.

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
fn a_lock_of_another_program_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let holder = Connection::open(&path).unwrap();
    holder
        .execute_batch("CREATE TABLE t (a); BEGIN EXCLUSIVE")
        .unwrap();
    let mut database = ForeignDatabase::open(&path).unwrap();
    database.busy_timeout = Duration::from_millis(50);
    let error = tables(&database).unwrap_err();
    assert_eq!(error.kind, ForeignKind::Busy);
    holder.execute_batch("COMMIT").unwrap();
    assert_eq!(tables(&database).unwrap(), ["t"]);
}

#[test]
fn only_the_first_of_several_queries_waits_for_a_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let holder = Connection::open(&path).unwrap();
    holder
        .execute_batch("CREATE TABLE t (a); BEGIN EXCLUSIVE")
        .unwrap();
    let mut database = ForeignDatabase::open(&path).unwrap();
    database.busy_timeout = Duration::from_millis(50);
    assert_eq!(database.current_timeout(), database.busy_timeout);
    for _ in 0..3 {
        let error = tables(&database).unwrap_err();
        assert_eq!(error.kind, ForeignKind::Busy);
        assert_eq!(database.current_timeout(), Duration::ZERO);
    }
    // A query after the release succeeds at once, and the next lock is waited for as before.
    holder.execute_batch("COMMIT").unwrap();
    tables(&database).unwrap();
    assert_eq!(database.current_timeout(), database.busy_timeout);
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    tables(&database).unwrap_err();
    let long_ago = Instant::now().checked_sub(BUSY_PAUSE);
    *lock(&database.timed_out_at) = Some(long_ago.unwrap());
    assert_eq!(database.current_timeout(), database.busy_timeout);
}
