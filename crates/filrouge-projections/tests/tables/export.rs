//! Parquet files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};

use filrouge_projections::parquet::{ExportError, export};
use filrouge_projections::tables::TABLES;
use filrouge_projections::{Row, SessionUpdate, Target};
use filrouge_types::{ErrorCode, Failure, Timestamp};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Map, Value};

use crate::sessions::{MIDNIGHT, key, short_session};
use crate::world::{World, settings};

/// The files in a folder and the folders in it, by their paths from there.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(found.insert(path.strip_prefix(folder).unwrap().to_owned())),
            }
        }
    }
    found
}

/// The rows of a file, with the values that the tables return.
fn read(path: &Path, table: &str) -> Vec<Map<String, Value>> {
    let table = TABLES.iter().find(|t| t.name == table).unwrap();
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    let rows = rows.map(|row| {
        let row = row.unwrap();
        let values = row.get_column_iter().map(|(name, field)| {
            let column = table.columns.iter().find(|c| c.name == name).unwrap();
            let is_json = column.kind == filrouge_projections::tables::Kind::Json;
            let value = match field {
                Field::Null => Value::Null,
                Field::Bool(value) => (*value).into(),
                Field::Int(value) => (*value).into(),
                Field::Long(value) => (*value).into(),
                Field::TimestampMicros(micros) => {
                    Timestamp::from_micros(*micros).to_string().into()
                }
                Field::Str(text) if is_json => serde_json::from_str(text).unwrap(),
                Field::Str(text) => text.as_str().into(),
                other => panic!("{name} is {other}"),
            };
            (name.clone(), value)
        });
        Map::from_iter(values)
    });
    rows.collect()
}

async fn export_all(
    folder: &Path,
    sessions: &[SessionUpdate],
) -> Result<filrouge_projections::parquet::ExportReport, ExportError> {
    let mut left: VecDeque<_> = sessions.iter().cloned().collect();
    let tenant_ids = settings().tenant_ids;
    export(folder, &tenant_ids, async || Ok(left.pop_front())).await
}

#[tokio::test]
async fn files_have_the_rows_of_the_tables_by_day() {
    let world = World::on_sqlite();
    let first = short_session(&key("acme", "first"), 5, "where is\nmy \0 order? 🧵");
    let mut second = short_session(&key("other", "second"), 6, "words");
    let evening = Timestamp::from_micros(MIDNIGHT - 1);
    second.recorded.session.created_at = evening;
    second.recorded.turns[0].0.created_at = evening;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("new/export");
    let report = export_all(&folder, &[first.clone(), second.clone()])
        .await
        .unwrap();

    let expected: Vec<Row> = [&first, &second].map(|s| world.tables.rows(s)).concat();
    let mut found = BTreeMap::<String, Vec<Map<String, Value>>>::new();
    for path in files(&folder) {
        let names: Vec<_> = path.iter().map(|name| name.to_str().unwrap()).collect();
        let [table, day, "part-0.parquet"] = names[..] else {
            panic!("{}", path.display())
        };
        let rows = read(&folder.join(&path), table);
        let is_evening = day == "date=2026-11-29";
        assert!(is_evening || day == "date=2026-11-30");
        assert!(!is_evening || rows.iter().all(|row| row["session_id"] == "second"));
        found.entry(table.to_owned()).or_default().extend(rows);
    }
    for table in TABLES {
        let expected = expected.iter().filter(|row| row.table == table.name);
        let expected: Vec<_> = expected.map(|row| row.content.clone()).collect();
        let mut found = found.remove(table.name).unwrap_or_default();
        assert_eq!(report.rows[table.name], expected.len() as u64);
        for row in &expected {
            let at = found.iter().position(|f| f == row);
            found.swap_remove(at.unwrap_or_else(|| panic!("{row:?} is absent")));
        }
        assert!(found.is_empty(), "{found:?}");
    }
    assert_eq!(report.sessions, 2);
    // Sessions and turns have two days.
    assert_eq!(report.files, TABLES.len() as u64 + 2);
}

#[tokio::test]
async fn a_folder_with_files_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("other"), "").unwrap();
    let exported = export_all(folder.path(), &[]).await;
    assert!(matches!(exported, Err(ExportError::NotEmpty(_))));
    assert_eq!(files(folder.path()).len(), 1);
}

#[tokio::test]
async fn an_unreadable_session_ends_the_export() {
    let folder = tempfile::tempdir().unwrap();
    let damaged = || Failure::new(ErrorCode::IntegrityError, "damaged");
    let exported = export(folder.path(), &BTreeMap::new(), async || Err(damaged())).await;
    assert!(matches!(exported, Err(ExportError::Session(_))));
    assert!(files(folder.path()).is_empty());
}
