//! Changes every column of every table, as the database itself lists them: flips one bit of a row, replaces NULL by a
//! value, and a value by NULL.

use std::collections::BTreeMap;
use std::sync::Arc;

use filrouge_postgres::PostgresLedger;
use filrouge_store::Ledger;
use filrouge_store::contract::fixture::{Fixture, operator, sid};
use filrouge_store::verify::{Finding, Verdict, VerificationReport};
use filrouge_types::ErrorCode;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::readings::{Reading, readings};
use super::{SessionPkName, block_on, names, raw, rows, world};
use crate::{fixture_at, keyring, options};

/// A column of a table.
struct Column {
    table: String,
    name: String,
    kind: String,
    nullable: bool,
}

/// One change: its description and the new value.
struct Change {
    what: &'static str,
    value: String,
}

async fn columns(client: &Client) -> Vec<Column> {
    let sql =
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
         WHERE table_schema = 'filrouge' ORDER BY table_name, ordinal_position";
    let found = rows(client, sql).await.into_iter().map(|row| {
        let [table, name, kind, nullable] = row.try_into().unwrap();
        Column {
            table: table.unwrap(),
            name: name.unwrap(),
            kind: kind.unwrap(),
            nullable: nullable.unwrap() == "YES",
        }
    });
    found.collect()
}

impl Column {
    /// The value with bit `n` flipped; `n` wraps around at the end of the value.
    fn flipped(&self, n: usize) -> String {
        let c = &self.name;
        let flip = |bytes: &str| {
            let at = format!("{n} % (8 * length({bytes}))");
            format!("set_bit({bytes}, {at}, 1 - get_bit({bytes}, {at}))")
        };
        match self.kind.as_str() {
            "bigint" | "smallint" => format!("{c} # {}", 1 << (n % 15)),
            "boolean" => format!("NOT {c}"),
            "bytea" => format!("CASE length({c}) WHEN 0 THEN '\\x01' ELSE {} END", flip(c)),
            "uuid" => format!("encode({}, 'hex')::uuid", flip(&format!("uuid_send({c})"))),
            "text" => format!("chr(ascii({c}) # {}) || substr({c}, 2)", 1 << (n % 3)),
            other => panic!("{}.{c} has an unknown type: {other}", self.table),
        }
    }

    /// A value to replace NULL with.
    fn value_for_null(&self) -> &'static str {
        match self.kind.as_str() {
            "bytea" => "'\\x00112233445566778899aabbccddeeff'",
            "text" => "'x'",
            _ => "1",
        }
    }

    /// The changes to try on the value of one row; `n` selects the bit.
    fn changes(&self, is_null: bool, n: usize) -> Vec<Change> {
        let change = |what, value: &str| Change {
            what,
            value: value.to_owned(),
        };
        match (is_null, self.nullable) {
            (true, _) => vec![change("from NULL", self.value_for_null())],
            (false, true) => vec![change("bit", &self.flipped(n)), change("to NULL", "NULL")],
            (false, false) => vec![change("bit", &self.flipped(n))],
        }
    }

    /// The column with the session's number, if the table's rows belong to sessions.
    fn owner(&self) -> Option<&'static str> {
        match self.table.as_str() {
            "session" | "head" => Some("pk"),
            "note" | "commit_log" | "store" => None,
            _ => Some("session_pk"),
        }
    }
}

/// The places of up to `max_rows` rows to change: first the first row, the last one and one in the middle.
async fn rows_to_change(client: &Client, table: &str, max_rows: usize) -> Vec<String> {
    let sql = format!("SELECT ctid::text FROM filrouge.{table} ORDER BY ctid");
    let all: Vec<String> = rows(client, &sql)
        .await
        .into_iter()
        .map(|mut r| r.remove(0).unwrap())
        .collect();
    assert!(!all.is_empty(), "the world has no {table}");
    let (last, middle) = (all.len() - 1, all.len() / 2);
    let mut chosen = vec![0, last, middle];
    chosen.extend(1..last);
    chosen.truncate(max_rows);
    chosen.sort_unstable();
    chosen.dedup();
    chosen.into_iter().map(|n| all[n].clone()).collect()
}

struct Trial<'a> {
    url: &'a str,
    client: Client,
    before: Vec<Reading>,
    names: SessionPkName,
    running: bool,
}

impl Trial<'_> {
    /// Changes one value, checks the effect, and restores the value.
    async fn change(&self, column: &Column, place: &mut String, n: usize) {
        let (table, c) = (&column.table, &column.name);
        let owner = column.owner().unwrap_or("NULL::bigint");
        let sql = format!("SELECT {c}::text, {owner} FROM filrouge.{table} WHERE ctid = '{place}'");
        let row = rows(&self.client, &sql).await.remove(0);
        let (old, pk) = (row[0].clone(), row[1].clone());
        for change in column.changes(old.is_none(), n) {
            let name = format!(
                "{table}.{c} {} {n} of {old:?} (running: {})",
                change.what, self.running
            );
            let open = if self.running {
                Some(fixture_at(self.url, keyring()))
            } else {
                None
            };
            let Some(changed) = self.put(column, place, &change.value).await else {
                continue;
            };
            *place = changed;
            self.check(column, open, pk.as_deref(), &name).await;
            let back = old.as_ref().map_or("NULL".to_owned(), |old| {
                format!("'{}'::{}", old.replace('\'', "''"), column.kind)
            });
            *place = self.put(column, place, &back).await.unwrap();
        }
    }

    /// Stores a value; returns the row's new place, or `None` if another row has that key, or if a row of that key
    /// belongs to another lane.
    async fn put(&self, column: &Column, place: &str, value: &str) -> Option<String> {
        let (table, c) = (&column.table, &column.name);
        let sql = format!(
            "UPDATE filrouge.{table} SET {c} = {value} WHERE ctid = '{place}' RETURNING ctid::text"
        );
        match self.client.simple_query(&sql).await {
            Ok(_) => {}
            Err(e)
                if [SqlState::UNIQUE_VIOLATION, SqlState::CHECK_VIOLATION]
                    .iter()
                    .any(|state| e.code() == Some(state)) =>
            {
                return None;
            }
            Err(e) => panic!("{sql}: {e:?}"),
        }
        let newest = format!(
            "SELECT ctid::text FROM filrouge.{table} ORDER BY xmin::text::bigint DESC LIMIT 1"
        );
        rows(&self.client, &newest).await.remove(0).remove(0)
    }

    /// Asserts that the change is detected, and that no other session is refused.
    async fn check(&self, column: &Column, open: Option<Fixture>, pk: Option<&str>, name: &str) {
        if column.table == "store" {
            return self.check_opening(name).await;
        }
        let f = open.unwrap_or_else(|| fixture_at(self.url, keyring()));
        let (now, report) = (readings(&f).await, f.ledger.verify(None).await.unwrap());
        f.ledger.close().await;
        let session = pk.map(|pk| self.names[&pk.parse().unwrap()]);
        let mut detected = report.verdict() != Verdict::Intact;
        for (before, now) in self.before.iter().zip(&now) {
            if before.answer == now.answer {
                continue;
            }
            assert!(
                now.refused() || may_differ(column, before, now),
                "{name}: a wrong answer to {:?}: {:?}, which was {:?}",
                now.query,
                now.answer,
                before.answer
            );
            detected |= now.refused();
            self.assert_confined(column, session, now, name);
        }
        // Spare bits of a compressed frame may change what is stored without changing its contents.
        let may_be_undetected = (&*column.table, &*column.name) == ("record", "body");
        assert!(detected || may_be_undetected, "{name}: no read was refused");
        if !may_be_undetected {
            assert_ne!(
                report.verdict(),
                Verdict::Intact,
                "{name}: verify found nothing"
            );
            assert_names(column, session, &report, name);
        }
    }

    /// Asserts that a change in one session does not block reads of others.
    fn assert_confined(&self, column: &Column, changed: Option<&str>, now: &Reading, name: &str) {
        // A moved row concerns the session it was moved to.
        let moved = column.owner() == Some(column.name.as_str());
        if let (Some(changed), Some(session)) = (changed, now.session) {
            assert!(
                changed == session || moved,
                "{name}: {} is refused: {:?}",
                now.query,
                now.answer
            );
        }
        if column.table == "note" {
            assert!(
                now.query.starts_with("note"),
                "{name}: {} is refused",
                now.query
            );
        }
    }

    /// Asserts that the store is not opened, or that nothing in it is valid: the table `store` is read only then.
    async fn check_opening(&self, name: &str) {
        let refused = match PostgresLedger::open(options(self.url, keyring())) {
            Err(refused) => refused,
            Ok(ledger) => {
                let ledger: Arc<dyn Ledger> = Arc::new(ledger);
                let session = ledger.session(&operator("t"), &sid("other")).await;
                ledger.close().await;
                session.unwrap_err()
            }
        };
        let codes = [
            ErrorCode::Invalid,
            ErrorCode::KeyMissing,
            ErrorCode::IntegrityError,
        ];
        assert!(codes.contains(&refused.code), "{name}: {refused}");
    }
}

/// Whether a reading may differ without being refused.
fn may_differ(column: &Column, before: &Reading, now: &Reading) -> bool {
    let code = now.answer.as_ref().err().map(|f| f.code);
    match (column.table.as_str(), column.name.as_str()) {
        // A hidden agent does not find its session.
        ("session_agent", _) => {
            let is_hidden = now.query.starts_with("agents") && !shows_more(before, now);
            now.query.contains("by agent") || is_hidden
        }
        // The turn's id no longer finds it: lists and `verify` report the cause.
        ("turn", "session_pk" | "turn_id") if code == Some(ErrorCode::TurnNotFound) => true,
        // Only `verify` reports unreadable open turns.
        ("turn", _) => now.query == "silent turns",
        // Drafts are not chained, so reads do not detect a missing one.
        ("draft", "session_pk" | "place") => now.query == "drafts drafting",
        // A page without the newest events is well-formed; the log shows how many there were.
        ("event", "session_pk" | "number") => now.query.starts_with("events"),
        // Events of a missing session are orphans, in any tenant; `verify` reports it.
        ("session", "pk" | "tenant_id") => {
            now.query.starts_with("events of all") && !shows_more(before, now)
        }
        // An unreadable checkpoint is skipped in favor of an older one, never of one that was not written.
        ("checkpoint", _) => now.query.starts_with("checkpoints") && !shows_more(before, now),
        _ => false,
    }
}

/// Whether an answer has a line that was not there before.
fn shows_more(before: &Reading, now: &Reading) -> bool {
    match (&before.answer, &now.answer) {
        (Ok(before), Ok(now)) => now.lines().any(|line| !before.lines().any(|b| b == line)),
        _ => true,
    }
}

/// Asserts that `verify` names the session, if the row belongs to one.
fn assert_names(column: &Column, session: Option<&str>, report: &VerificationReport, name: &str) {
    let Some(session) = session.filter(|_| column.owner() != Some(column.name.as_str())) else {
        return;
    };
    let names = |f: &Finding| {
        f.session_id.as_deref() == Some(session) || f.what.contains(&format!("{session:?}"))
    };
    assert!(report.findings.iter().any(names), "{name}: {report:?}");
}

/// Tries each column of the tables that `select` accepts, in `max_rows` rows or as many as `FILROUGE_TAMPER_ROWS` says.
fn try_columns(running: bool, max_rows: usize, select: impl Fn(&str) -> bool) {
    let max_rows = std::env::var("FILROUGE_TAMPER_ROWS").map_or(max_rows, |n| n.parse().unwrap());
    let database = world();
    let url = database.url();
    block_on(async {
        let f = fixture_at(&url, keyring());
        let (before, names) = (readings(&f).await, names(&*f.ledger).await);
        f.ledger.close().await;
        let trial = Trial {
            url: &url,
            client: raw(&url).await,
            before,
            names,
            running,
        };
        let columns = columns(&trial.client).await;
        let mut by_table: BTreeMap<&str, Vec<&Column>> = BTreeMap::new();
        // The search index and the requests of vacuums are derived and not verified; `lanes` changes the lanes.
        let other_tables = ["lane", "erasing"];
        let verified = columns
            .iter()
            .filter(|c| !c.table.starts_with("search_") && !other_tables.contains(&&*c.table));
        for column in verified.filter(|c| select(&c.table)) {
            by_table.entry(&column.table).or_default().push(column);
        }
        assert!(!by_table.is_empty());
        let mut n = 0;
        for (table, columns) in by_table {
            for mut place in rows_to_change(&trial.client, table, max_rows).await {
                for column in &columns {
                    n += 37;
                    trial.change(column, &mut place, n).await;
                }
            }
        }
        let f = fixture_at(&url, keyring());
        f.assert_intact().await;
        let after = readings(&f).await;
        assert!(
            after
                .iter()
                .zip(&trial.before)
                .all(|(a, b)| a.answer == b.answer)
        );
        f.ledger.close().await;
    });
}

const SESSIONS: [&str; 2] = ["session", "head"];
const ITEMS: [&str; 3] = ["turn", "record", "item_key"];

#[test]
fn changed_columns_of_sessions_are_found() {
    try_columns(false, 3, |table| SESSIONS.contains(&table));
}

#[test]
fn changed_columns_of_items_are_found() {
    try_columns(false, 2, |table| ITEMS.contains(&table));
}

#[test]
fn changed_columns_of_other_tables_are_found() {
    try_columns(false, 2, |table| {
        !SESSIONS.contains(&table) && !ITEMS.contains(&table)
    });
}

/// Not the tables whose changes a running ledger finds later, when it compares them with the log (see `running`).
#[test]
fn a_running_ledger_finds_changed_columns() {
    let compared_later = ["session", "head", "note", "commit_log", "store"];
    try_columns(true, 1, |table| !compared_later.contains(&table));
}
