//! The statements that change and read the rows of sessions.

use filrouge_store::plain::Statement;

use super::definition::{Column, Kind, TENANT, Table, VERSION};
use super::sql::{Dialect, PROJECTED, Sql, join, names, quoted};

/// The columns in which the changes of a call name their sessions.
const CHANGE: &[Column] = &[
    column(TENANT, Kind::Text),
    column("session_id", Kind::Text),
    column(VERSION, Kind::Integer),
    column("replaced", Kind::Boolean),
    column("removed", Kind::Boolean),
];

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

impl Sql {
    /// The rows of a JSON array of objects, the first parameter, as a table named `r`.
    fn rows_of_json(&self, columns: &[Column]) -> String {
        let columns = columns.iter();
        match self.dialect {
            Dialect::Postgres => {
                let columns: Vec<_> = columns
                    .map(|column| format!("{} {}", quoted(column.name), self.type_of(column.kind)))
                    .collect();
                format!("json_to_recordset($1::json) AS r({})", columns.join(", "))
            }
            Dialect::Sqlite => {
                let columns: Vec<_> = columns
                    .map(|column| {
                        format!("value ->> '$.{0}' AS {1}", column.name, quoted(column.name))
                    })
                    .collect();
                format!("(SELECT {} FROM json_each(?1)) AS r", columns.join(", "))
            }
        }
    }

    /// Records changes of sessions, which must be different ones. An older change than the one that last replaced or
    /// removed all rows of a session has no effect: [`Self::upsert`] leaves its rows out, too.
    ///
    /// The parameter is a JSON array of objects with the members `tenant`, `session_id`, `version`, `replaced` (all
    /// rows of the session are replaced) and `removed`.
    pub(super) fn record_changes(&self, generation: u64, changes: String) -> Statement {
        let projected = self.table(PROJECTED, generation);
        let sessions = self.table("sessions", generation);
        let text = format!(
            "INSERT INTO {projected} AS p (\"tenant\", \"session_id\", \"version\", \"gone\")
             SELECT r.\"tenant\", r.\"session_id\",
                 CASE WHEN r.\"replaced\" OR r.\"removed\" THEN r.\"version\" ELSE 0 END,
                 r.\"removed\" AND NOT EXISTS (SELECT 1 FROM {sessions} AS s WHERE s.\"tenant\" = r.\"tenant\"
                     AND s.\"session_id\" = r.\"session_id\" AND s.\"version\" > r.\"version\")
             FROM {} LEFT JOIN {projected} AS q ON q.\"tenant\" = r.\"tenant\" AND q.\"session_id\" = r.\"session_id\"
             WHERE q.\"version\" IS NULL OR q.\"version\" <= r.\"version\"
             ON CONFLICT (\"tenant\", \"session_id\") DO UPDATE SET \"gone\" = excluded.\"gone\",
                 \"version\" = CASE WHEN excluded.\"version\" > p.\"version\" THEN excluded.\"version\" ELSE p.\"version\" END",
            self.rows_of_json(CHANGE)
        );
        Statement::with(text, [changes])
    }

    /// Writes rows of a table, except those that are older than a stored row, or than a change that replaced or removed
    /// all rows of their session.
    ///
    /// The parameter is a JSON array of objects with all columns.
    pub(super) fn upsert(&self, generation: u64, table: &Table, rows: String) -> Statement {
        let version = column(VERSION, Kind::Integer);
        let columns: Vec<_> = table.columns.iter().copied().chain([version]).collect();
        let names = names(table);
        let changed: Vec<_> = names
            .iter()
            .copied()
            .filter(|name| !table.key.contains(name))
            .collect();
        let text = format!(
            "INSERT INTO {name} AS t ({columns}) SELECT {values}
             FROM {source} CROSS JOIN {projected} AS p
             WHERE p.\"tenant\" = r.\"tenant\" AND p.\"session_id\" = r.{session} AND p.\"version\" <= r.\"version\"
             ON CONFLICT ({key}) DO UPDATE SET {changed} WHERE excluded.\"version\" >= t.\"version\"",
            name = self.table(table.name, generation),
            columns = join(&names, quoted),
            values = join(&names, |name| format!("r.{}", quoted(name))),
            source = self.rows_of_json(&columns),
            projected = self.table(PROJECTED, generation),
            session = quoted(table.session),
            key = join(table.key, quoted),
            changed = join(&changed, |name| format!("{0} = excluded.{0}", quoted(name))),
        );
        Statement::with(text, [rows])
    }

    /// Deletes the rows of sessions that are older than a change which replaced all rows of their session, or up to a
    /// change which removed them. The parameter is that of [`Self::record_changes`].
    pub(super) fn delete_older(
        &self,
        generation: u64,
        table: &Table,
        changes: String,
    ) -> Statement {
        let name = self.table(table.name, generation);
        let source = self.rows_of_json(CHANGE);
        let matches = format!(
            "t.\"tenant\" = r.\"tenant\" AND t.{} = r.\"session_id\"
                 AND (t.\"version\" < r.\"version\" OR r.\"removed\" AND t.\"version\" = r.\"version\")
                 AND (r.\"replaced\" OR r.\"removed\")",
            quoted(table.session)
        );
        let text = match self.dialect {
            Dialect::Postgres => format!("DELETE FROM {name} AS t USING {source} WHERE {matches}"),
            Dialect::Sqlite => format!(
                "DELETE FROM {name} WHERE rowid IN (SELECT t.rowid FROM {source} CROSS JOIN {name} AS t WHERE {matches})"
            ),
        };
        Statement::with(text, [changes])
    }

    /// Reads the sessions with rows, after a session, in the order of their bytes.
    pub(super) fn sessions(&self, generation: u64, after: [String; 2], limit: usize) -> Statement {
        let (tenant, session) = (self.by_bytes("tenant"), self.by_bytes("session_id"));
        let text = format!(
            "SELECT \"tenant\", \"session_id\" FROM {} WHERE NOT \"gone\" AND ({tenant}, {session}) > ({}, {})
             ORDER BY {tenant}, {session} LIMIT {limit}",
            self.table(PROJECTED, generation),
            self.parameter(1),
            self.parameter(2)
        );
        Statement::with(text, after)
    }

    /// Reads the columns of a session's rows in a table, as texts.
    pub(super) fn stored(&self, generation: u64, table: &Table, session: [String; 2]) -> Statement {
        let columns = table.columns.iter().map(|column| {
            let name = quoted(column.name);
            match (self.dialect, column.kind) {
                (Dialect::Postgres, Kind::Time) => {
                    format!(
                        "to_char({name} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
                    )
                }
                _ => format!("CAST({name} AS text)"),
            }
        });
        let columns: Vec<_> = columns.collect();
        let text = format!(
            "SELECT {} FROM {} WHERE \"tenant\" = {} AND {} = {}",
            columns.join(", "),
            self.table(table.name, generation),
            self.parameter(1),
            quoted(table.session),
            self.parameter(2)
        );
        Statement::with(text, session)
    }
}
