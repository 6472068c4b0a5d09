//! The statements that the product sends for one turn, read from the server's log, so that the baseline always runs
//! the product's current statements.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::server::{DurableServer, FIRST_SESSION};
use crate::product::Product;
use crate::workload::{Turns, session_id};

/// A statement as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentStatement {
    pub(crate) text: String,
    /// The values bound to `$1`, `$2`, …, as PostgreSQL writes them.
    pub(crate) values: Vec<Option<String>>,
}

/// A line of the server's log.
#[derive(Deserialize)]
struct LogEntry {
    #[serde(default)]
    dbname: String,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    detail: String,
}

/// The statements of a group with one complete turn to an existing session, from BEGIN to COMMIT.
pub(crate) async fn capture_turn(server: &DurableServer) -> Result<Vec<SentStatement>> {
    let store = server.store();
    let name = &store.name;
    server.sql(
        "postgres",
        &format!("ALTER DATABASE {name} SET log_statement = 'all'"),
    );
    let dir = store.anchor_dir()?;
    let product = Product::open_postgres(&store.url(), dir.path()).await?;
    let request = Turns::new(99).next_turn().request()?;
    product
        .engine
        .turns
        .start(&product.caller, session_id(FIRST_SESSION)?, request)
        .await?;
    product.close().await;
    let start = Instant::now();
    loop {
        let log = server.first_value("postgres", "SELECT pg_read_file('log/statements.json')")?;
        if let Some(sent) = find_transaction(&log, name)? {
            return Ok(sent);
        }
        // Another process writes the log, so it may lag.
        ensure!(
            start.elapsed() < Duration::from_secs(10),
            "the server's log does not show the turn's transaction"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The transaction of `database` that inserted a record, once its COMMIT is in the log.
fn find_transaction(log: &str, database: &str) -> Result<Option<Vec<SentStatement>>> {
    // The last line may be incomplete.
    let complete = log.rfind('\n').map_or("", |end| &log[..end]);
    let entries: Vec<LogEntry> = complete
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect::<Result<_>>()?;
    let is_of_database = |e: &&LogEntry| e.dbname == database;
    let inserts_record = |e: &&LogEntry| e.message.contains("INSERT INTO filrouge.record");
    let Some(writer) = entries
        .iter()
        .filter(is_of_database)
        .find(inserts_record)
        .map(|e| e.pid)
    else {
        return Ok(None);
    };
    let writer_entries: Vec<&LogEntry> = entries
        .iter()
        .filter(is_of_database)
        .filter(|e| e.pid == writer)
        .collect();
    let Some(insert) = writer_entries.iter().position(inserts_record) else {
        return Ok(None);
    };
    let Some(end) = writer_entries[insert..]
        .iter()
        .position(|e| e.message == "statement: COMMIT")
    else {
        return Ok(None);
    };
    let begin = writer_entries[..insert]
        .iter()
        .rposition(|e| e.message.starts_with("statement: BEGIN"))
        .context("the turn's transaction has no BEGIN")?;
    let mut sent = Vec::new();
    for entry in &writer_entries[begin..=insert + end] {
        sent.extend(parse_statements(entry)?);
    }
    Ok(Some(sent))
}

/// The statements in a message of the form `statement: TEXT; TEXT` or `execute NAME: TEXT`.
fn parse_statements(entry: &LogEntry) -> Result<Vec<SentStatement>> {
    if let Some(texts) = entry.message.strip_prefix("statement: ") {
        let plain = |text: &str| SentStatement {
            text: text.to_owned(),
            values: Vec::new(),
        };
        return Ok(texts.split("; ").map(plain).collect());
    }
    let Some((_, text)) = entry
        .message
        .strip_prefix("execute ")
        .and_then(|rest| rest.split_once(": "))
    else {
        bail!("a log message of an unexpected form: {:?}", entry.message);
    };
    Ok(vec![SentStatement {
        text: text.to_owned(),
        values: parse_parameters(&entry.detail)?,
    }])
}

/// The values in a detail of the form `parameters: $1 = 'VALUE', $2 = NULL, …`; quotes within a value are doubled.
fn parse_parameters(detail: &str) -> Result<Vec<Option<String>>> {
    let mut values = Vec::new();
    let mut rest = match detail.split_once(": ") {
        Some((_, rest)) => rest,
        None => return Ok(values),
    };
    loop {
        let name = format!("${} = ", values.len() + 1);
        rest = rest
            .strip_prefix(&name)
            .with_context(|| detail.to_owned())?;
        if let Some(after) = rest.strip_prefix("NULL") {
            values.push(None);
            rest = after;
        } else {
            let (value, after) = parse_quoted(rest).with_context(|| detail.to_owned())?;
            values.push(Some(value));
            rest = after;
        }
        match rest.strip_prefix(", ") {
            Some(next) => rest = next,
            None => return Ok(values),
        }
    }
}

/// A quoted value at the beginning of the text, and the rest.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text.strip_prefix('\'')?;
    loop {
        let (before, after) = rest.split_once('\'')?;
        value.push_str(before);
        match after.strip_prefix('\'') {
            Some(more) => {
                value.push('\'');
                rest = more;
            }
            None => return Some((value, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_parsed_as_the_log_writes_them() {
        let parsed =
            parse_parameters(r"parameters: $1 = '{a,''b''}', $2 = NULL, $3 = '\x00'").unwrap();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parsed, [some("{a,'b'}"), None, some(r"\x00")]);
        assert!(parse_parameters("").unwrap().is_empty());
        assert!(parse_parameters("parameters: $1 = 'open").is_err());
    }

    #[test]
    fn a_transaction_is_found_once_it_is_complete() {
        let line = |message: &str| {
            format!(
                r#"{{"dbname":"d","pid":7,"message":"{message}","detail":"parameters: $1 = '{{1}}'"}}"#
            ) + "\n"
        };
        let insert = "INSERT INTO filrouge.record VALUES ($1)";
        let mut log = line("statement: BEGIN; SELECT 1") + &line(&format!("execute s1: {insert}"));
        assert_eq!(find_transaction(&log, "d").unwrap(), None);
        log += &line("statement: COMMIT");
        let found = find_transaction(&log, "d").unwrap().unwrap();
        let texts: Vec<&str> = found.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(texts, ["BEGIN", "SELECT 1", insert, "COMMIT"]);
        assert_eq!(found[2].values, [Some("{1}".to_owned())]);
        assert_eq!(find_transaction(&log, "another").unwrap(), None);
    }
}
