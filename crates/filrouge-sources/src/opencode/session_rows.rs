//! Converts rows of the tables `session` and `session_v2` to JSON with the keys of a session file in the file storage
//! (DESIGN §10).
//!
//! Versions have different columns; a missing column is read as NULL.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use filrouge_sqlite::foreign::{Reader, Result, Row};
use serde_json::value::RawValue;

use super::neutral_message;
use super::row_place::{report_damage, row_path};
use super::storage::{Project, SessionText};
use crate::files::is_id;
use crate::object::{Object, Writer};
use crate::{SkipReason, Skipped};

/// The tables of sessions.
pub(super) const SESSION: &str = "session";
pub(super) const SESSION_V2: &str = "session_v2";

/// The generations of sessions in table `session`. The generation of those in `session_v2` is named like the table.
pub(super) const SQLITE: &str = "sqlite";
/// The generation of sessions whose messages are only in the table of this name.
pub(super) const SESSION_MESSAGE: &str = "session_message";

/// Columns with texts, each with its key in the JSON. The tables below have the same form.
const TEXTS: [(&str, &str); 9] = [
    ("slug", "slug"),
    ("version", "version"),
    ("project_id", "projectID"),
    ("directory", "directory"),
    ("parent_id", "parentID"),
    ("title", "title"),
    ("workspace_id", "workspaceID"),
    ("path", "path"),
    ("idle_outcome", "idleOutcome"),
];

/// Columns with times, for the object `time`.
const TIMES: [(&str, &str); 7] = [
    ("time_created", "created"),
    ("time_updated", "updated"),
    ("time_compacting", "compacting"),
    ("time_archived", "archived"),
    ("time_idle", "idle"),
    ("time_viewed", "viewed"),
    ("time_suspended", "suspended"),
];

/// Columns with numbers of changes, for the object `summary`.
const SUMMARY: [(&str, &str); 3] = [
    ("summary_additions", "additions"),
    ("summary_deletions", "deletions"),
    ("summary_files", "files"),
];

/// Columns with numbers of tokens, for the object `tokens`.
const TOKENS: [(&str, &str); 3] = [
    ("tokens_input", "input"),
    ("tokens_output", "output"),
    ("tokens_reasoning", "reasoning"),
];

/// Columns with numbers of tokens, for the object `cache` in `tokens`.
const CACHE: [(&str, &str); 2] = [
    ("tokens_cache_read", "read"),
    ("tokens_cache_write", "write"),
];

/// Columns with JSON; only `summary_diffs` can be large.
const JSON: [(&str, &str); 5] = [
    ("permission", "permission"),
    ("revert", "revert"),
    ("model", "model"),
    ("metadata", "metadata"),
    ("summary_diffs", "diffs"),
];

/// Columns that are converted individually.
const INDIVIDUAL_COLUMNS: [&str; 6] = [
    "id",
    "agent",
    "cost",
    "share_url",
    "fork_session_id",
    "fork_boundary",
];

/// Further columns that a query for sessions returns, before those of the session table.
const QUERY_COLUMNS: [&str; 5] = [
    "row_number",
    "project_name",
    "project_worktree",
    "in_message",
    "in_session_message",
];

/// The columns of a session table that are read, in the order of the query.
fn columns() -> impl Iterator<Item = &'static str> {
    let pairs = [&TEXTS[..], &TIMES, &SUMMARY, &TOKENS, &CACHE, &JSON];
    let names = pairs.into_iter().flatten().map(|(column, _)| *column);
    names.chain(INDIVIDUAL_COLUMNS)
}

/// The index of a column in the rows of [`Schema::select`].
fn column_index(name: &str) -> usize {
    let columns = QUERY_COLUMNS.into_iter().chain(columns());
    let index = columns.enumerate().find(|(_, column)| *column == name);
    index.map_or(usize::MAX, |(index, _)| index)
}

/// The size of the largest JSON column that is copied, in bytes; a larger one is reported and left out.
const COLUMN_BYTES_MAX: usize = 1 << 20;

/// A session, and the tables that contain its messages.
pub(super) struct SessionRow {
    pub(super) session: SessionText,
    /// The time of its creation, in milliseconds since 1970; `i64::MIN` if it is not recorded.
    pub(super) created: i64,
    /// Whether table `message` has rows of the session.
    pub(super) in_message: bool,
    /// Whether table `session_message` has rows of the session.
    pub(super) in_session_message: bool,
}

/// The tables and columns of a database.
#[derive(Debug, Default)]
pub(super) struct Schema {
    columns: HashMap<String, Vec<String>>,
}

impl Schema {
    /// Reads the schema of the tables that conversations are read from: never `event`, `account`, `credential`.
    pub(super) fn read(reader: &Reader<'_>) -> Result<Self> {
        let sql = "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c \
                   WHERE t.type = 'table' AND t.name IN ('session', 'session_v2', 'message', \
                   'part', 'session_message', 'project', 'todo')";
        let mut columns: HashMap<String, Vec<String>> = HashMap::new();
        reader.query(sql, &[], |row| {
            if let (Some(table), Some(column)) = (row.text(0), row.text(1)) {
                let table_columns = columns.entry(table.to_owned()).or_default();
                table_columns.push(column.to_owned());
            }
            ControlFlow::Continue(())
        })?;
        Ok(Self { columns })
    }

    /// Whether the table exists.
    pub(super) fn has(&self, table: &str) -> bool {
        self.columns.contains_key(table)
    }

    /// Whether the table has the column.
    pub(super) fn has_column(&self, table: &str, column: &str) -> bool {
        let columns = self.columns.get(table);
        columns.is_some_and(|columns| columns.iter().any(|name| name == column))
    }

    /// The query for all rows of a session table.
    fn select(&self, table: &str) -> String {
        let project_column = |name: &str| match self.has_column("project", name) {
            true => format!("p.{name}"),
            false => "NULL".to_owned(),
        };
        let exists_in = |of: &str| match self.has(of) {
            true => format!("EXISTS (SELECT 1 FROM {of} x WHERE x.session_id = s.id)"),
            false => "0".to_owned(),
        };
        let project = match self.has("project") {
            true => "LEFT JOIN project p ON p.id = s.project_id",
            false => "",
        };
        let session_columns = columns().map(|name| match self.has_column(table, name) {
            true => format!("s.{name}"),
            false => "NULL".to_owned(),
        });
        let session_columns: Vec<String> = session_columns.collect();
        format!(
            "SELECT s.rowid, {}, {}, {}, {}, {} FROM {table} s {project}",
            project_column("name"),
            project_column("worktree"),
            exists_in("message"),
            exists_in("session_message"),
            session_columns.join(", ")
        )
    }
}

/// Reads the rows of a session table, or only the rows of the session `id` if it is given; none if there is no such
/// table. A damaged page is reported; the rows after it are lost.
pub(super) fn read(
    reader: &Reader<'_>,
    schema: &Schema,
    (table, database): (&str, &Path),
    id: Option<&str>,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<SessionRow>> {
    let mut rows = Vec::new();
    if !schema.has(table) {
        return Ok(rows);
    }
    let mut sql = schema.select(table);
    sql.push_str(id.map_or("", |_| " WHERE s.id = ?1"));
    let place = row_path(database, table, "");
    let read = reader.query(&sql, id.as_slice(), |row| {
        match convert_row(row, &place, skipped) {
            Ok(mut row) => {
                row.session.generation = generation(table, &row, schema);
                rows.push(row);
            }
            Err(why) => skipped.push(why),
        }
        ControlFlow::Continue(())
    });
    report_damage(read, &place, skipped)?;
    Ok(rows)
}

/// The generation of a session. A session of table `session` that has no messages is `sqlite` if the database has a
/// table `message`.
fn generation(table: &str, row: &SessionRow, schema: &Schema) -> &'static str {
    let newer = row.in_session_message || !schema.has("message");
    match table {
        SESSION_V2 => SESSION_V2,
        _ if !row.in_message && newer && schema.has(SESSION_MESSAGE) => SESSION_MESSAGE,
        _ => SQLITE,
    }
}

/// Converts a row; `place` is that of the table.
fn convert_row(
    row: &Row<'_>,
    place: &Path,
    skipped: &mut Vec<Skipped>,
) -> Result<SessionRow, Skipped> {
    let text = |name| row.text(column_index(name)).map(Box::<str>::from);
    let number = |name| row.integer(column_index(name));
    let Some(id) = text("id").filter(|id| is_id(id)) else {
        let number = number("row_number").unwrap_or(0);
        let place = place.join(format!("rowid {number}"));
        return Err(Skipped::new(&place, SkipReason::BadName, "no usable id"));
    };
    let place = place.join(&*id);
    let session = SessionText {
        generation: SQLITE,
        folder: text("project_id").unwrap_or_default(),
        text: session_json(row, &id, &place, skipped).into(),
        id,
        place,
        project: Project {
            name: text("project_name"),
            worktree: text("project_worktree"),
        },
        agent: text("agent"),
        directory: None,
        fork_of: text("fork_session_id"),
        damaged: false,
    };
    Ok(SessionRow {
        session,
        created: number("time_created").unwrap_or(i64::MIN),
        in_message: number("in_message") == Some(1),
        in_session_message: number("in_session_message") == Some(1),
    })
}

/// The JSON of a session.
fn session_json(row: &Row<'_>, id: &str, place: &Path, skipped: &mut Vec<Skipped>) -> String {
    let mut out = Writer::default();
    out.text("id", id);
    for (name, key) in TEXTS {
        out.optional_text(key, row.text(column_index(name)));
    }
    let numbers = |names: &[(&str, &str)]| {
        let mut object = Writer::default();
        for (name, key) in names {
            if let Some(number) = row.integer(column_index(name)) {
                object.raw(key, &number.to_string());
            }
        }
        object
    };
    let (time, mut summary) = (numbers(&TIMES), numbers(&SUMMARY));
    let (mut tokens, cache) = (numbers(&TOKENS), numbers(&CACHE));
    out.nested("time", time);
    for (name, key) in JSON {
        if let Some(raw) = json_column(row, column_index(name), key, place, skipped) {
            match key {
                "diffs" => summary.raw(key, raw),
                _ => out.raw(key, raw),
            }
        }
    }
    out.nested("summary", summary);
    tokens.nested("cache", cache);
    out.nested("tokens", tokens);
    if let Some(cost) = row
        .real(column_index("cost"))
        .filter(|cost| cost.is_finite())
    {
        out.raw("cost", &cost.to_string());
    }
    let mut share = Writer::default();
    share.optional_text("url", row.text(column_index("share_url")));
    out.nested("share", share);
    if let Some(origin) = row.text(column_index("fork_session_id")) {
        let mut fork = Writer::default();
        fork.text("sessionID", origin);
        fork.optional_text("boundary", row.text(column_index("fork_boundary")));
        out.nested("fork", fork);
    }
    out.optional_text("agent", row.text(column_index("agent")));
    out.finish()
}

/// The value of a column with JSON. A value that is invalid or too large is reported and left out.
fn json_column<'a>(
    row: &'a Row<'_>,
    column: usize,
    key: &str,
    place: &Path,
    skipped: &mut Vec<Skipped>,
) -> Option<&'a str> {
    let bytes = row.bytes(column)?;
    let mut skip = |reason, detail: String| skipped.push(Skipped::new(place, reason, detail));
    if bytes.len() > COLUMN_BYTES_MAX {
        skip(
            SkipReason::TooLarge,
            format!("{key} has {} bytes", bytes.len()),
        );
        return None;
    }
    match serde_json::from_slice::<&RawValue>(bytes) {
        Ok(raw) => Some(raw.get()).filter(|raw| *raw != "null"),
        Err(_) => {
            skip(SkipReason::Malformed, format!("{key} is not JSON"));
            None
        }
    }
}

/// Completes a row that names no agent with the agent that the session's first messages name.
pub(super) fn add_missing_agent(
    reader: &Reader<'_>,
    schema: &Schema,
    row: &mut SessionRow,
) -> Result<()> {
    if row.session.agent.is_some() {
        return Ok(());
    }
    let (table, filter) = match (row.in_message, row.in_session_message) {
        (true, _) => ("message", ""),
        (false, true) => (
            "session_message",
            "AND type IN ('assistant', 'agent-switched')",
        ),
        (false, false) => return Ok(()),
    };
    let order = match !row.in_message && schema.has_column(table, "seq") {
        true => "seq",
        false => "time_created, id",
    };
    let sql = format!(
        "SELECT CASE WHEN octet_length(data) <= 1048576 THEN data END FROM {table} \
         WHERE session_id = ?1 {filter} ORDER BY {order} LIMIT 20"
    );
    let SessionText { agent, id, .. } = &mut row.session;
    let result = reader.query(&sql, &[&**id], |row| {
        let message = row.text(0).and_then(|text| Object::parse(text).ok());
        *agent = message.and_then(|message| neutral_message::agent(&message));
        match agent.is_some() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    report_damage(result, &row.session.place, &mut Vec::new())
}
