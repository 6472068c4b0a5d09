//! Writes one Parquet file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use ::parquet::basic::Compression;
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::parser::parse_message_type;
use filrouge_types::Timestamp;
use serde_json::{Map, Value};

use super::error::ExportError;
use crate::tables::{Kind, Table};

type Rows = [Map<String, Value>];

/// Creates a folder and those above it, if they are missing. Only their owner can access them, because conversations
/// are private.
pub(super) fn create_folder(folder: &Path) -> std::result::Result<(), ExportError> {
    let mut builder = DirBuilder::new();
    let created = builder.recursive(true).mode(0o700).create(folder);
    created.map_err(|e| ExportError::file(folder, e))
}

/// Writes the file of this number into a folder. It gets its name when it is complete and flushed.
pub(super) fn write_file(
    folder: &Path,
    number: u64,
    table: &Table,
    rows: &Rows,
) -> std::result::Result<(), ExportError> {
    create_folder(folder)?;
    let path = folder.join(format!("part-{number}.parquet"));
    let temporary = folder.join(format!(".part-{number}.tmp"));
    let failed = |e| ExportError::file(&path, e);
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600);
    let file = opened.open(&temporary).map_err(failed)?;
    write_rows(&file, table, rows).map_err(|e| ExportError::Parquet {
        path: path.clone(),
        detail: e.to_string(),
    })?;
    file.sync_all().map_err(failed)?;
    fs::rename(&temporary, &path).map_err(failed)?;
    let folder = File::open(folder).and_then(|folder| folder.sync_all());
    folder.map_err(failed)
}

fn write_rows(file: &File, table: &Table, rows: &Rows) -> Result<()> {
    let schema = Arc::new(parse_message_type(&schema(table))?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()))?;
    let mut group = writer.next_row_group()?;
    for column in table.columns {
        if let Some(mut writer) = group.next_column()? {
            let values = rows.iter().map(|row| row.get(column.name));
            write_column(&mut writer, column.kind, values)?;
            writer.close()?;
        }
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

/// The schema of a table, in Parquet's notation. JSON is text, because not every reader knows Parquet's type for it.
fn schema(table: &Table) -> String {
    let columns = table.columns.iter().map(|column| {
        let name = column.name;
        match column.kind {
            Kind::Text | Kind::Uuid | Kind::Json => format!("OPTIONAL BYTE_ARRAY {name} (STRING);"),
            Kind::Integer => format!("OPTIONAL INT64 {name};"),
            Kind::Small => format!("OPTIONAL INT32 {name};"),
            Kind::Boolean => format!("OPTIONAL BOOLEAN {name};"),
            Kind::Time => format!("OPTIONAL INT64 {name} (TIMESTAMP(MICROS,true));"),
        }
    });
    let columns: Vec<_> = columns.collect();
    format!("message {} {{ {} }}", table.name, columns.join(" "))
}

fn write_column<'a>(
    writer: &mut SerializedColumnWriter<'_>,
    kind: Kind,
    values: impl Iterator<Item = Option<&'a Value>>,
) -> Result<()> {
    match kind {
        Kind::Text | Kind::Uuid => write::<ByteArrayType>(writer, values, |value| {
            Some(ByteArray::from(value.as_str()?))
        }),
        Kind::Json => write::<ByteArrayType>(writer, values, |value| {
            (!value.is_null()).then(|| ByteArray::from(value.to_string().into_bytes()))
        }),
        Kind::Integer => write::<Int64Type>(writer, values, Value::as_i64),
        Kind::Small => {
            write::<Int32Type>(writer, values, |value| i32::try_from(value.as_i64()?).ok())
        }
        Kind::Boolean => write::<BoolType>(writer, values, Value::as_bool),
        Kind::Time => write::<Int64Type>(writer, values, |value| {
            let time: Timestamp = value.as_str()?.parse().ok()?;
            Some(time.as_micros())
        }),
    }
}

/// Writes the values of a column; NULL where there is none or `convert` returns `None`.
fn write<'a, T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: impl Iterator<Item = Option<&'a Value>>,
    convert: impl Fn(&Value) -> Option<T::T>,
) -> Result<()> {
    let values: Vec<_> = values.map(|value| value.and_then(&convert)).collect();
    let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
    let present: Vec<_> = values.into_iter().flatten().collect();
    let column = writer.typed::<T>();
    column.write_batch(&present[..], Some(&levels[..]), None)?;
    Ok(())
}
