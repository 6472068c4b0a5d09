//! The statements that apply updates.

use std::collections::HashSet;
use std::mem;

use filrouge_store::plain::Statement;
use serde_json::{Value, json};

use super::definition::{TABLES, Table, VERSION};
use super::sql::Sql;
use crate::Update;

/// The size in bytes from which the rows of a table are divided among several statements.
const STATEMENT_BYTES: usize = 4 << 20;

/// The statements that apply updates of different sessions to a generation.
pub(super) fn statements(sql: &Sql, generation: u64, updates: &[Update]) -> Vec<Statement> {
    let changes = Value::Array(updates.iter().map(change).collect()).to_string();
    let mut statements = vec![sql.record_changes(generation, changes.clone())];
    for table in TABLES {
        let rows = updates.iter().flat_map(|update| rows_in(table, update));
        let arrays = arrays(rows).into_iter();
        statements.extend(arrays.map(|array| sql.upsert(generation, table, array)));
    }
    let deletes = |update: &Update| match update {
        Update::Rows { is_entire, .. } => *is_entire,
        Update::Removed { .. } => true,
    };
    if updates.iter().any(deletes) {
        let tables = TABLES.iter();
        statements.extend(tables.map(|table| sql.delete_older(generation, table, changes.clone())));
    }
    statements
}

/// The session of an update, as [`Sql::record_changes`] takes it.
fn change(update: &Update) -> Value {
    let (version, is_replaced, is_removed) = match update {
        Update::Rows {
            version, is_entire, ..
        } => (version, *is_entire, false),
        Update::Removed { version, .. } => (version, false, true),
    };
    json!({
        "tenant": update.key().tenant.as_str(),
        "session_id": update.key().session.as_str(),
        "version": version,
        "replaced": is_replaced,
        "removed": is_removed,
    })
}

/// The rows of a table in an update, each as a JSON object with the version.
fn rows_in(table: &Table, update: &Update) -> Vec<String> {
    let Update::Rows { version, rows, .. } = update else {
        return Vec::new();
    };
    let rows = rows.iter().filter(|row| row.table == table.name);
    let objects = rows.map(|row| {
        let mut content = row.content.clone();
        content.insert(VERSION.to_owned(), (*version).into());
        Value::Object(content).to_string()
    });
    objects.collect()
}

/// Divides objects among JSON arrays of about [`STATEMENT_BYTES`].
fn arrays(objects: impl Iterator<Item = String>) -> Vec<String> {
    let mut arrays: Vec<String> = Vec::new();
    for object in objects {
        match arrays.last_mut() {
            Some(array) if array.len() + object.len() <= STATEMENT_BYTES => {
                array.push(',');
                array.push_str(&object);
            }
            _ => arrays.push(format!("[{object}")),
        }
    }
    for array in &mut arrays {
        array.push(']');
    }
    arrays
}

/// Divides updates, in order, so that no part has two of one session.
pub(super) fn parts(updates: Vec<Update>) -> Vec<Vec<Update>> {
    let (mut parts, mut part, mut keys) = (Vec::new(), Vec::new(), HashSet::new());
    for update in updates {
        if !keys.insert(update.key().clone()) {
            parts.push(mem::take(&mut part));
            keys = HashSet::from([update.key().clone()]);
        }
        part.push(update);
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}
