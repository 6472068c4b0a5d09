//! The baselines (limits, docs/bench.md): the same tasks with plain SQLite reads and `LIKE`, or with ripgrep.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags};

/// Opens the database read-only.
pub(super) fn open(root: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    Ok(Connection::open_with_flags(
        root.join("opencode.db"),
        flags,
    )?)
}

/// Reads all rows of a session as bytes, without parsing; returns the number of bytes.
pub(super) fn read_rows(db: &Connection, session: &str) -> Result<usize> {
    let mut bytes = 0;
    for sql in [
        "SELECT id, data FROM message WHERE session_id = ?1 ORDER BY time_created, id",
        "SELECT id, message_id, data FROM part WHERE session_id = ?1",
    ] {
        let mut statement = db.prepare_cached(sql)?;
        let last = statement.column_count() - 1;
        let mut rows = statement.query([session])?;
        while let Some(row) = rows.next()? {
            bytes += row.get_ref(last)?.as_bytes()?.len();
        }
    }
    Ok(bytes)
}

/// The number of parts that contain a text, by `LIKE`.
pub(super) fn count_like(db: &Connection, text: &str) -> Result<i64> {
    let sql = "SELECT count(*) FROM part WHERE data LIKE '%' || ?1 || '%'";
    Ok(db
        .prepare_cached(sql)?
        .query_row([text], |row| row.get(0))?)
}

/// The number of files that contain a text, by ripgrep over the parts at full speed.
pub(super) fn ripgrep(root: &Path, text: &str, regex: bool) -> Result<usize> {
    let mut command = Command::new("rg");
    command.args(["--files-with-matches", "--ignore-case", "--no-ignore"]);
    if !regex {
        command.arg("--fixed-strings");
    }
    let out = command
        .args(["-e", text])
        .arg(root.join("storage/part"))
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run rg: install the package ripgrep")?;
    // Status 1 means that nothing was found.
    ensure!(matches!(out.status.code(), Some(0 | 1)), "{}", out.status);
    Ok(out.stdout.iter().filter(|b| **b == b'\n').count())
}
