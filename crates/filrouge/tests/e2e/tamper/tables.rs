//! Reads and changes single rows of a store, as SQL literals, as somebody with access to the database.

use std::fs;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rusqlite::Connection;

use crate::world::{World, copy_tree};

/// The tables whose rows are edited, of both stores. Not `store`, which is read only when the store is opened.
const TABLES: [&str; 11] = [
    "session",
    "head",
    "turn",
    "record",
    "item_key",
    "session_agent",
    "event",
    "checkpoint",
    "note",
    "commit_log",
    "record_key",
];

/// A kind of edit of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// Another character in one value: of a byte string, another nibble.
    Byte,
    /// An older state of the row.
    Older,
    /// The values of another row, perhaps of another session, under the row's key.
    OtherRow,
    Delete,
    /// A copy of the row under another key.
    Double,
}

/// A row, as SQL literals.
type Row = Vec<String>;

/// A table, with the names of its columns and those of its key.
struct Table {
    name: &'static str,
    columns: Vec<String>,
    key: Vec<String>,
}

/// The tables of a store.
pub(super) struct Tables<'w> {
    world: &'w World,
    is_file: bool,
    tables: Vec<Table>,
}

impl<'w> Tables<'w> {
    pub(super) const fn of_file(world: &'w World) -> Self {
        Self {
            world,
            is_file: true,
            tables: Vec::new(),
        }
    }

    pub(super) const fn of_database(world: &'w World) -> Self {
        Self {
            world,
            is_file: false,
            tables: Vec::new(),
        }
    }

    /// The schema of the current rows.
    const fn schema(&self) -> &'static str {
        if self.is_file { "main" } else { "filrouge" }
    }

    /// A connection to the file, to which the older rows are attached.
    fn connect(&self) -> Connection {
        let conn = Connection::open(self.world.store()).unwrap();
        conn.busy_timeout(std::time::Duration::from_secs(5))
            .unwrap();
        let old = self.world.path("old.db");
        if old.exists() {
            conn.execute("ATTACH ?1 AS old", [old.to_str().unwrap()])
                .unwrap();
        }
        conn
    }

    /// The rows of a query, whose columns are text.
    fn query(&self, sql: &str) -> Vec<Row> {
        if !self.is_file {
            let rows = self.world.database().sql(sql).into_iter();
            return rows
                .map(|row| row.into_iter().map(Option::unwrap).collect())
                .collect();
        }
        let conn = self.connect();
        let mut statement = conn.prepare(sql).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|n| row.get(n)).collect());
        rows.unwrap().map(Result::unwrap).collect()
    }

    /// Runs statements in one transaction; without effect if one is refused, such as a second row with the same key.
    fn try_execute(&self, sql: &str) {
        if self.is_file {
            let done = self
                .connect()
                .execute_batch(&format!("BEGIN IMMEDIATE; {sql}; COMMIT"));
            // The transaction of a refused statement ends with the connection.
            drop(done);
            return;
        }
        self.world.database().sql(&format!(
            "SET session_replication_role = replica;
             DO $edit$ BEGIN {sql}; EXCEPTION WHEN OTHERS THEN NULL; END $edit$"
        ));
    }

    /// The tables that the store has, with rows.
    fn describe(&self) -> Vec<Table> {
        let names = |sql: String| self.query(&sql).into_iter().flatten().collect::<Vec<_>>();
        let describe = |name: &'static str| {
            match self.is_file {
            true => Table {
                name,
                columns: names(format!(
                    "SELECT name FROM pragma_table_info('{name}') ORDER BY cid"
                )),
                key: names(format!(
                    "SELECT name FROM pragma_table_info('{name}') WHERE pk > 0 ORDER BY pk"
                )),
            },
            false => Table {
                name,
                columns: names(format!(
                    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('filrouge.{name}')
                     AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
                )),
                key: names(format!(
                    "SELECT a.attname FROM pg_index i
                     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                     WHERE i.indrelid = to_regclass('filrouge.{name}') AND i.indisprimary ORDER BY a.attnum"
                )),
            },
        }
        };
        let tables = TABLES.into_iter().map(describe);
        tables.filter(|table| !table.columns.is_empty()).collect()
    }

    /// The rows of a table in `schema`, ordered.
    fn rows(&self, schema: &str, table: &Table) -> Vec<Row> {
        let literal = |column: &String| match self.is_file {
            true => format!("quote({column})"),
            false => format!("format('%L::%s', {column}::text, pg_typeof({column}))"),
        };
        let literals: Vec<String> = table.columns.iter().map(literal).collect();
        let sql = format!(
            "SELECT {} FROM {schema}.{}",
            literals.join(", "),
            table.name
        );
        let mut rows = self.query(&sql);
        rows.sort_unstable();
        rows
    }

    /// Keeps a copy of all rows, as an attacker might; the store is closed.
    pub(super) fn keep_older_rows(&mut self) {
        self.tables = self.describe();
        if self.is_file {
            let old = self.world.path("old.db");
            let conn = self.connect();
            conn.execute("VACUUM INTO ?1", [old.to_str().unwrap()])
                .unwrap();
        } else {
            self.copy_tables("old");
        }
    }

    /// Keeps a copy of all rows for [`Self::restore`]; the store is closed.
    pub(super) fn keep_rows(&self) {
        if self.is_file {
            copy_tree(&self.world.path("data"), &self.world.path("good-data"));
        } else {
            self.copy_tables("good");
        }
    }

    fn copy_tables(&self, schema: &str) {
        let copies = self.tables.iter().map(|Table { name, .. }| {
            format!("CREATE TABLE {schema}.{name} AS TABLE filrouge.{name};")
        });
        let copies: String = copies.collect();
        let sql = format!("CREATE SCHEMA {schema}; {copies}");
        self.world.database().sql(&sql);
    }

    /// Restores all rows; the store is closed.
    pub(super) fn restore(&self) {
        if self.is_file {
            fs::remove_dir_all(self.world.path("data")).unwrap();
            copy_tree(&self.world.path("good-data"), &self.world.path("data"));
            return;
        }
        let restored = self.tables.iter().map(|Table { name, .. }| {
            format!("DELETE FROM filrouge.{name}; INSERT INTO filrouge.{name} SELECT * FROM good.{name};")
        });
        let restored: String = restored.collect();
        let sql = format!("SET session_replication_role = replica; BEGIN; {restored} COMMIT");
        self.world.database().sql(&sql);
    }

    /// Makes one edit; returns the table and a description.
    pub(super) fn edit(&self, kind: Edit, rng: &mut StdRng) -> (&'static str, String) {
        loop {
            let table = self.tables.choose(rng).unwrap();
            let rows = self.rows(self.schema(), table);
            let Some(row) = rows.choose(rng) else {
                continue;
            };
            let older = self.rows("old", table);
            let Some((deleted, inserted)) =
                table.change(kind, row, (rows.as_slice(), older.as_slice()), rng)
            else {
                continue;
            };
            let into = format!("{}.{}", self.schema(), table.name);
            let mut statements = Vec::new();
            if let Some(row) = &deleted {
                let equal = |(column, value)| format!("{column} IS NOT DISTINCT FROM {value}");
                let condition: Vec<String> = table.columns.iter().zip(row).map(equal).collect();
                let condition = condition.join(" AND ");
                statements.push(format!("DELETE FROM {into} WHERE {condition}"));
            }
            if let Some(row) = &inserted {
                statements.push(format!("INSERT INTO {into} VALUES ({})", row.join(", ")));
            }
            self.try_execute(&statements.join("; "));
            return (table.name, format!("{kind:?}: {}", statements.join("; ")));
        }
    }
}

impl Table {
    fn is_key(&self, column: usize) -> bool {
        self.key.contains(&self.columns[column])
    }

    fn has_same_key(&self, a: &[String], b: &[String]) -> bool {
        let mut columns = 0..self.columns.len();
        !self.key.is_empty() && columns.all(|n| !self.is_key(n) || a[n] == b[n])
    }

    /// The row to delete and the row to insert for an edit of `row`; `None` if the table has no rows for such an edit.
    fn change(
        &self,
        kind: Edit,
        row: &[String],
        (rows, older): (&[Row], &[Row]),
        rng: &mut StdRng,
    ) -> Option<(Option<Row>, Option<Row>)> {
        let edited = |row: &[String], select: &dyn Fn(usize) -> bool, rng: &mut StdRng| {
            let columns: Vec<usize> = (0..row.len()).filter(|n| select(*n)).collect();
            let column = *columns.choose(rng)?;
            let mut edited = row.to_vec();
            edited[column] = with_another_character(&row[column], rng)?;
            Some(edited)
        };
        match kind {
            Edit::Byte => Some((Some(row.to_vec()), Some(edited(row, &|_| true, rng)?))),
            Edit::Older => {
                let changed: Vec<&Row> = older.iter().filter(|old| !rows.contains(old)).collect();
                let old = *changed.choose(rng)?;
                let current = rows.iter().find(|row| self.has_same_key(row, old));
                Some((current.cloned(), Some(old.clone())))
            }
            Edit::OtherRow => {
                let other = rows.choose(rng)?;
                let values =
                    (0..row.len()).map(|n| if self.is_key(n) { &row[n] } else { &other[n] });
                let mixed: Row = values.cloned().collect();
                (mixed != *row).then(|| (Some(row.to_vec()), Some(mixed)))
            }
            Edit::Delete => Some((Some(row.to_vec()), None)),
            Edit::Double => Some((None, Some(edited(row, &|n| self.is_key(n), rng)?))),
        }
    }
}

/// A literal with one hexadecimal digit replaced by another one of its kind; `None` if it has none.
fn with_another_character(literal: &str, rng: &mut StdRng) -> Option<String> {
    if literal.starts_with("NULL") {
        return None;
    }
    let (start, end) = match (literal.find('\''), literal.rfind('\'')) {
        (Some(start), Some(end)) => (start, end),
        _ => (0, literal.len()),
    };
    let mut bytes = literal.as_bytes().to_vec();
    let digits: Vec<usize> = (start..end)
        .filter(|n| bytes[*n].is_ascii_hexdigit())
        .collect();
    let at = *digits.choose(rng)?;
    let (first, count) = match bytes[at] {
        b'0'..=b'9' => (b'0', 10),
        b'a'..=b'f' => (b'a', 6),
        _ => (b'A', 6),
    };
    bytes[at] = first + (bytes[at] - first + rng.random_range(1..count)) % count;
    String::from_utf8(bytes).ok()
}
