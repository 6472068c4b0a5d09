//! Foreign databases: OpenCode's own files, a concurrent writer, and damaged or replaced files.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use filrouge_sqlite::foreign::{ForeignDatabase, ForeignError, ForeignKind, VALUE_BYTES_MAX};

use rusqlite::Connection;

/// A copy of a fixture's database and its WAL.
fn copy_of(name: &str) -> (tempfile::TempDir, PathBuf) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(name);
    let folder = tempfile::tempdir().unwrap();
    for file in ["opencode.db", "opencode.db-wal"] {
        if from.join(file).exists() {
            fs::copy(from.join(file), folder.path().join(file)).unwrap();
        }
    }
    let path = folder.path().join("opencode.db");
    (folder, path)
}

fn database_of(sql: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (folder, path)
}

/// The integer in the first column of the last row.
fn number(database: &ForeignDatabase, sql: &str) -> Result<i64, ForeignError> {
    database.read(|reader| {
        let mut number = -1;
        reader.query(sql, &[], |row| {
            number = row.integer(0).unwrap_or(-2);
            ControlFlow::Continue(())
        })?;
        Ok(number)
    })
}

/// The bytes of every file except the WAL's index, which readers may change.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let children = fs::read_dir(folder).unwrap().map(Result::unwrap);
    children
        .filter(|child| !child.file_name().to_str().unwrap().ends_with("-shm"))
        .map(|child| {
            let name = child.file_name().into_string().unwrap();
            (name, fs::read(child.path()).unwrap())
        })
        .collect()
}

fn names(folder: &Path) -> Vec<String> {
    let children = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = children
        .map(|c| c.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Waits until a later write is certain to have a different modification time.
fn settle() {
    std::thread::sleep(Duration::from_millis(100));
}

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
fn rows_in_the_wal_are_read_and_no_file_changes() {
    let (folder, path) = copy_of("opencode-sqlite-wal");
    let before = contents(folder.path());
    let database = ForeignDatabase::open(&path).unwrap();
    assert!(tables(&database).unwrap().contains(&"part".to_owned()));
    assert_eq!(number(&database, "SELECT count(*) FROM part").unwrap(), 4);
    database.fingerprint().unwrap();
    drop(database);
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn no_file_is_created_next_to_an_idle_database() {
    for name in [
        "opencode-sqlite",
        "opencode-sqlite-first",
        "opencode-sqlite-migrated",
    ] {
        let (folder, path) = copy_of(name);
        let before = contents(folder.path());
        let database = ForeignDatabase::open(&path).unwrap();
        settle();
        let fingerprint = database.fingerprint().unwrap().unwrap();
        assert!(number(&database, "SELECT count(*) FROM part").unwrap() > 400);
        assert_eq!(names(folder.path()), ["opencode.db"], "{name}, while open");
        assert_eq!(database.fingerprint().unwrap(), Some(fingerprint));
        drop(database);
        assert_eq!(names(folder.path()), ["opencode.db"], "{name}");
        assert_eq!(contents(folder.path()), before);
    }
}

#[test]
fn a_path_may_contain_any_characters() {
    let (folder, path) = copy_of("opencode-sqlite");
    for odd in ["a b?c=d&e#f%41.db", "é日.db", "opencode-x.db"] {
        let to = folder.path().join(odd);
        fs::copy(&path, &to).unwrap();
        let database = ForeignDatabase::open(&to).unwrap();
        assert_eq!(number(&database, "SELECT count(*) FROM part").unwrap(), 448);
    }
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(folder.path().join("opencode-x.db"), &link).unwrap();
    let database = ForeignDatabase::open(&link).unwrap();
    assert!(format!("{database:?}").contains("opencode-x.db"));
}

#[test]
fn values_are_distinguished_by_their_types() {
    let (_folder, path) = database_of(
        "CREATE TABLE t (a, b, c, d, e, f);
         INSERT INTO t VALUES ('é', x'ff00', 7, 2.5, NULL, 3.0), (CAST(x'ff' AS TEXT), 1, 1, 1, 1, 1)",
    );
    let database = ForeignDatabase::open(&path).unwrap();
    let mut seen = 0;
    database
        .read(|reader| {
            let sql = "SELECT * FROM t WHERE c >= 1 AND ?1 = 'x' ORDER BY rowid";
            reader.query(sql, &["x"], |row| {
                seen += 1;
                if seen == 1 {
                    assert_eq!(row.text(0), Some("é"));
                    assert_eq!(row.bytes(0), Some("é".as_bytes()));
                    assert_eq!((row.text(1), row.integer(0)), (None, None));
                    assert_eq!(row.bytes(1), Some(&[0xff, 0][..]));
                    assert_eq!((row.integer(2), row.real(2)), (Some(7), Some(7.0)));
                    assert_eq!((row.integer(3), row.real(3)), (None, Some(2.5)));
                    let values = |at| (row.text(at), row.bytes(at), row.integer(at), row.real(at));
                    assert_eq!(values(4), (None, None, None, None));
                    assert_eq!(values(99), (None, None, None, None));
                    assert_eq!(row.integer(5), Some(3));
                    ControlFlow::Continue(())
                } else {
                    assert_eq!((row.text(0), row.bytes(0)), (None, Some(&[0xff][..])));
                    ControlFlow::Break(())
                }
            })
        })
        .unwrap();
    assert_eq!(seen, 2);
}

#[test]
fn a_foreign_database_cannot_be_written() {
    let (folder, path) = copy_of("opencode-sqlite");
    let before = contents(folder.path());
    let database = ForeignDatabase::open(&path).unwrap();
    for sql in [
        "DELETE FROM part",
        "CREATE TABLE x (y)",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "VACUUM",
    ] {
        // Some statements fail, others have no effect.
        let _ = number(&database, sql);
        assert_eq!(contents(folder.path()), before, "{sql}");
    }
}

/// Appends rows every few milliseconds until it is killed; prints a line after the first commit.
const WRITER: &str = "
import sqlite3, sys, time
c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
c.execute('PRAGMA journal_mode = WAL')
c.execute('PRAGMA wal_autocheckpoint = 3')
n = 0
while True:
    n += 1
    c.execute('BEGIN IMMEDIATE')
    for row in (0, 1):
        c.execute('INSERT INTO t VALUES (?, ?)', (n, 'x' * 3000))
    c.execute('COMMIT')
    if n == 1: print('on', flush=True)
    time.sleep(0.002)
";

struct Writer(std::process::Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn writer(path: &Path) -> Writer {
    use std::io::{BufRead, BufReader};
    let mut child = Command::new("python3")
        .args(["-c", WRITER])
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let out = child.stdout.take().unwrap();
    let writer = Writer(child);
    BufReader::new(out).read_line(&mut line).unwrap();
    assert_eq!(line, "on\n");
    writer
}

/// Waits until `done` returns true; fails after 20 s.
fn until(mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "not done after 20 s"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_concurrent_commit_is_visible_completely_or_not_at_all() {
    let (folder, path) = database_of("PRAGMA journal_mode = WAL; CREATE TABLE t (a, b)");
    let database = ForeignDatabase::open(&path).unwrap();
    assert_eq!(number(&database, "SELECT count(*) FROM t").unwrap(), 0);
    assert_eq!(names(folder.path()), ["opencode.db"]);
    settle();
    let idle = database.fingerprint().unwrap();
    assert!(idle.is_some());
    let writer = writer(&path);
    let first = number(&database, "SELECT count(*) FROM t").unwrap();
    assert!(first >= 2);
    assert_ne!(database.fingerprint().unwrap(), idle);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                until(|| {
                    // Both queries see one snapshot, with both rows of each commit.
                    let (count, max) = database
                        .read(|reader| {
                            let mut seen = (0, 0);
                            reader.query("SELECT count(*) FROM t", &[], |row| {
                                seen.0 = row.integer(0).unwrap();
                                ControlFlow::Continue(())
                            })?;
                            reader.query("SELECT max(a) FROM t", &[], |row| {
                                seen.1 = row.integer(0).unwrap();
                                ControlFlow::Continue(())
                            })?;
                            Ok(seen)
                        })
                        .unwrap();
                    assert_eq!(count, 2 * max);
                    count > first + 100
                });
            });
        }
    });
    drop(writer);
    assert!(number(&database, "SELECT count(*) FROM t").unwrap() > first);
}

#[test]
fn repeated_checkpoints_never_expose_a_partial_commit() {
    let (_folder, path) = database_of("PRAGMA journal_mode = WAL; CREATE TABLE t (a, b)");
    let database = ForeignDatabase::open(&path).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 1..=40 {
                // Closing the last connection checkpoints and deletes the WAL, so the reader switches its mode each
                // time.
                let c = Connection::open(&path).unwrap();
                c.busy_timeout(Duration::from_secs(5)).unwrap();
                let sql = format!(
                    "BEGIN IMMEDIATE; INSERT INTO t VALUES ({n}, zeroblob(9000)); \
                     INSERT INTO t VALUES ({n}, zeroblob(9000)); COMMIT"
                );
                c.execute_batch(&sql).unwrap();
            }
        });
        while !writer.is_finished() {
            let odd = number(&database, "SELECT count(*) % 2 FROM t").unwrap();
            assert_eq!(odd, 0);
        }
    });
    assert_eq!(number(&database, "SELECT count(*) FROM t").unwrap(), 80);
}

#[test]
fn reading_through_a_wal_does_not_change_the_fingerprint() {
    let (_folder, path) = database_of("PRAGMA journal_mode = WAL; CREATE TABLE t (a)");
    let writer = Connection::open(&path).unwrap();
    let write = || writer.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    write();
    let database = ForeignDatabase::open(&path).unwrap();
    settle();
    let fingerprint = database.fingerprint().unwrap();
    assert!(fingerprint.is_some());
    // When root opens a WAL, SQLite changes the file's `ctime`.
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(number(&database, "SELECT count(*) FROM t").unwrap(), 1);
    assert_eq!(database.fingerprint().unwrap(), fingerprint);
    writer.execute_batch("UPDATE t SET a = 2").unwrap();
    assert_ne!(database.fingerprint().unwrap(), fingerprint);
}

#[test]
fn a_wal_whose_index_cannot_be_created_is_reported() {
    let (folder, path) = copy_of("opencode-sqlite-wal");
    // A dangling link can be neither opened nor created, even by root, who could write to a read-only folder.
    std::os::unix::fs::symlink("nowhere", folder.path().join("opencode.db-shm")).unwrap();
    let database = ForeignDatabase::open(&path).unwrap();
    let error = tables(&database).unwrap_err();
    assert_eq!(error.kind, ForeignKind::CannotOpen);
    // Without a WAL, no index is needed.
    let (folder, path) = copy_of("opencode-sqlite");
    std::os::unix::fs::symlink("nowhere", folder.path().join("opencode.db-shm")).unwrap();
    let database = ForeignDatabase::open(&path).unwrap();
    assert_eq!(number(&database, "SELECT count(*) FROM part").unwrap(), 448);
}

#[test]
fn damage_is_reported_by_its_kind() {
    let (folder, path) = copy_of("opencode-sqlite");
    let complete = fs::read(&path).unwrap();
    let open_and_sum = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let database = ForeignDatabase::open(&path).unwrap();
        number(&database, "SELECT sum(length(data)) FROM part")
    };
    let error = open_and_sum(&complete[..complete.len() / 3]).unwrap_err();
    assert_eq!(error.kind, ForeignKind::Corrupt);
    let error =
        open_and_sum(&b"a text file that is longer than the header of a database".repeat(99))
            .unwrap_err();
    assert_eq!(error.kind, ForeignKind::NotADatabase);
    let error = open_and_sum(b"").unwrap_err();
    assert_eq!(error.kind, ForeignKind::Refused);
    let mut torn = complete.clone();
    torn[8192..].fill(0xa5);
    let error = open_and_sum(&torn).unwrap_err();
    assert_eq!(error.kind, ForeignKind::Corrupt);
    assert!(open_and_sum(&complete).unwrap() > 10_000);
    let error = ForeignDatabase::open(folder.path()).unwrap_err();
    assert_eq!(error.kind, ForeignKind::NotADatabase);
    let error = ForeignDatabase::open(&folder.path().join("none.db")).unwrap_err();
    assert_eq!(error.kind, ForeignKind::Gone);
}

#[test]
fn a_replaced_or_deleted_file_is_noticed() {
    let (folder, path) = database_of("CREATE TABLE t (a); INSERT INTO t VALUES (1)");
    let (_other, replacement) = database_of("CREATE TABLE t (a); INSERT INTO t VALUES (2)");
    let (_third, wal) = copy_of("opencode-sqlite-wal");
    let database = ForeignDatabase::open(&path).unwrap();
    settle();
    let fingerprint = database.fingerprint().unwrap();
    assert!(fingerprint.is_some());
    assert_eq!(number(&database, "SELECT a FROM t").unwrap(), 1);
    fs::rename(&replacement, folder.path().join("new.db")).unwrap();
    fs::rename(folder.path().join("new.db"), &path).unwrap();
    assert_eq!(number(&database, "SELECT a FROM t").unwrap(), 2);
    assert_ne!(database.fingerprint().unwrap(), fingerprint);
    for end in ["", "-wal"] {
        let name = |path: &Path| PathBuf::from(format!("{}{end}", path.display()));
        fs::rename(name(&wal), name(&path)).unwrap();
    }
    assert_eq!(number(&database, "SELECT count(*) FROM part").unwrap(), 4);
    fs::remove_file(&path).unwrap();
    let error = tables(&database).unwrap_err();
    assert_eq!(error.kind, ForeignKind::Gone);
    let error = database.fingerprint().unwrap_err();
    assert_eq!(error.kind, ForeignKind::Gone);
}

#[test]
fn a_value_too_large_does_not_prevent_reading_others() {
    let size = i64::from(VALUE_BYTES_MAX) + 1;
    let (_folder, path) = database_of(&format!(
        "CREATE TABLE t (a, data); INSERT INTO t VALUES (1, zeroblob({size})), (2, 'small')"
    ));
    let database = ForeignDatabase::open(&path).unwrap();
    let error = number(&database, "SELECT length(data || '') FROM t").unwrap_err();
    assert_eq!(error.kind, ForeignKind::TooLarge);
    let mut seen = Vec::new();
    database
        .read(|reader| {
            let sql = format!(
                "SELECT a, octet_length(data), \
                 CASE WHEN octet_length(data) < {size} THEN data END FROM t"
            );
            reader.query(&sql, &[], |row| {
                seen.push((row.integer(1).unwrap(), row.text(2).map(str::to_owned)));
                ControlFlow::Continue(())
            })
        })
        .unwrap();
    assert_eq!(seen, [(size, None), (5, Some("small".to_owned()))]);
}
