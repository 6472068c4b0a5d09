//! Exports sessions to Parquet files, in the columns of the [tables](crate::tables): one folder for each table, in it
//! one for each day in UTC (docs/projections-tables.md#parquet).
//!
//! Erasures and redactions do not reach these files ([`NOT_ERASED`]).

mod error;
mod file;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use filrouge_types::{Failure, TenantId};
use serde_json::{Map, Value};

use crate::SessionUpdate;
use crate::tables::{Table, rows};
use file::{create_folder, write_file};

pub use error::ExportError;

/// What to say wherever files are exported.
pub const NOT_ERASED: &str =
    "erasures and redactions do not reach exported files: delete the folder, and export again";

/// The size, in bytes, of the rows in memory from which some of them are written.
const BUFFERED_MAX: usize = 256 << 20;

/// What was exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// The number of sessions.
    pub sessions: u64,
    /// The number of files.
    pub files: u64,
    /// The number of rows of each table that has any.
    pub rows: BTreeMap<&'static str, u64>,
}

/// Exports the sessions that `next` returns, until it returns `None`, into a new or empty folder. Each update must have
/// its entire session, and each session must come once. `tenant_ids` are those of
/// [`TablesSettings`](crate::tables::TablesSettings).
///
/// # Errors
/// [`ExportError`].
pub async fn export(
    folder: &Path,
    tenant_ids: &BTreeMap<TenantId, i32>,
    mut next: impl AsyncFnMut() -> Result<Option<SessionUpdate>, Failure>,
) -> Result<ExportReport, ExportError> {
    let mut export = Export::begin(folder)?;
    while let Some(update) = next().await? {
        let number = tenant_ids.get(&update.key.tenant).copied();
        export.add(&update, number)?;
    }
    export.finish()
}

/// The rows of a table of one day that are not written yet.
#[derive(Default)]
struct Buffer {
    rows: Vec<Map<String, Value>>,
    bytes: usize,
}

/// A table's name and a day.
type Place = (&'static str, String);

struct Export<'a> {
    folder: &'a Path,
    buffers: BTreeMap<Place, Buffer>,
    /// The size of all buffers.
    bytes: usize,
    /// The number of files of each place.
    parts: BTreeMap<Place, u64>,
    report: ExportReport,
}

impl<'a> Export<'a> {
    fn begin(folder: &'a Path) -> Result<Self, ExportError> {
        create_folder(folder)?;
        let mut entries = fs::read_dir(folder).map_err(|e| ExportError::file(folder, e))?;
        if entries.next().is_some() {
            return Err(ExportError::NotEmpty(folder.to_owned()));
        }
        Ok(Self {
            folder,
            buffers: BTreeMap::new(),
            bytes: 0,
            parts: BTreeMap::new(),
            report: ExportReport::default(),
        })
    }

    fn add(&mut self, update: &SessionUpdate, tenant_id: Option<i32>) -> Result<(), ExportError> {
        self.report.sessions += 1;
        for row in rows(update, tenant_id) {
            let Some(table) = Table::named(row.table) else {
                continue;
            };
            let bytes = size(row.content.values());
            let place = (table.name, day_of(table, &row.content));
            let buffer = self.buffers.entry(place).or_default();
            buffer.rows.push(row.content);
            buffer.bytes += bytes;
            self.bytes += bytes;
        }
        if self.bytes > BUFFERED_MAX {
            self.write_largest()?;
        }
        Ok(())
    }

    /// Writes the largest buffers, until half of the memory is free.
    fn write_largest(&mut self) -> Result<(), ExportError> {
        let buffers = self.buffers.iter();
        let mut places: Vec<_> = buffers.map(|(place, b)| (b.bytes, place.clone())).collect();
        places.sort();
        while self.bytes > BUFFERED_MAX / 2
            && let Some((_, place)) = places.pop()
        {
            self.write(place)?;
        }
        Ok(())
    }

    fn write(&mut self, place: Place) -> Result<(), ExportError> {
        let (Some(buffer), Some(table)) = (self.buffers.remove(&place), Table::named(place.0))
        else {
            return Ok(());
        };
        let folder = self.folder.join(place.0).join(format!("date={}", place.1));
        let part = self.parts.entry(place).or_default();
        write_file(&folder, *part, table, &buffer.rows)?;
        *part += 1;
        self.bytes -= buffer.bytes;
        self.report.files += 1;
        *self.report.rows.entry(table.name).or_default() += buffer.rows.len() as u64;
        Ok(())
    }

    fn finish(mut self) -> Result<ExportReport, ExportError> {
        while let Some((place, _)) = self.buffers.first_key_value() {
            let place = place.clone();
            self.write(place)?;
        }
        Ok(self.report)
    }
}

/// The day of a row in UTC, such as `2026-11-30`.
fn day_of(table: &Table, row: &Map<String, Value>) -> String {
    let time = row.get(table.day).and_then(Value::as_str);
    let day = time.and_then(|time| time.get(..10));
    let is_date = |day: &&str| day.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    day.filter(is_date).unwrap_or("unknown").to_owned()
}

/// The approximate size of values in memory.
fn size<'a>(values: impl IntoIterator<Item = &'a Value>) -> usize {
    let sizes = values.into_iter().map(|value| {
        let content = match value {
            Value::String(text) => text.len(),
            Value::Array(values) => size(values),
            Value::Object(members) => size(members.values()),
            _ => 0,
        };
        content + 64
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tables::TABLES;

    #[test]
    fn a_row_belongs_to_the_day_of_its_time() {
        let row = |time: &str| Map::from_iter([("created_at".to_owned(), json!(time))]);
        let day = |time| day_of(&TABLES[0], &row(time));
        assert_eq!(day("2026-11-30T23:59:59.999999Z"), "2026-11-30");
        assert_eq!(day("../../etc/passwd"), "unknown");
        assert_eq!(day("77us"), "unknown");
    }
}
