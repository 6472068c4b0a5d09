//! Reads Codex's own index, `state_<number>.sqlite`, which contains titles, the times at which sessions were archived,
//! and the parents of sessions. Rollouts can be read without it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use filrouge_sqlite::foreign::{ForeignDatabase, Reader, Result};

use crate::jsonl::title_of;
use crate::{SkipReason, Skipped};

/// The facts that the index records about one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(super) title: Option<Box<str>>,
    /// When it was archived, in milliseconds since 1970: 0 if the time is unknown, `None` if it is not archived.
    pub(super) archived: Option<i64>,
    pub(super) project_id: Option<Box<str>>,
    pub(super) agent: Option<Box<str>>,
    pub(super) parent: Option<Box<str>>,
}

/// Threads by their ids.
type ById = HashMap<Box<str>, Thread>;

/// Reads the index in `home`. An index that cannot be read is reported in `skipped`.
pub(super) fn read_index(home: &Path, skipped: &mut Vec<Skipped>) -> ById {
    let Some(path) = newest_index_path(home) else {
        return ById::new();
    };
    let read = ForeignDatabase::open(&path).and_then(|index| index.read(read_threads));
    read.unwrap_or_else(|why| {
        skipped.push(Skipped::new(&path, SkipReason::Unreadable, why.to_string()));
        ById::new()
    })
}

/// Returns the path of the index with the highest number.
fn newest_index_path(home: &Path) -> Option<PathBuf> {
    let number = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let digits = name.strip_prefix("state_")?.strip_suffix(".sqlite")?;
        digits.parse::<u32>().ok()
    };
    let entries = std::fs::read_dir(home).ok()?;
    let files = entries
        .flatten()
        .filter(|child| child.file_type().is_ok_and(|t| t.is_file()));
    let index_files = files
        .map(|child| child.path())
        .filter(|path| number(path).is_some());
    index_files.max_by_key(number)
}

fn read_threads(reader: &Reader<'_>) -> Result<ById> {
    let mut by_id = ById::new();
    let columns = reader.columns("threads")?;
    if columns.iter().any(|column| column == "id") {
        let optional_columns = [
            "name",
            "title",
            "preview",
            "archived",
            "archived_at",
            "project_id",
            "agent_role",
        ];
        let exists = |name: &&str| columns.iter().any(|column| column == name);
        let column_list = optional_columns
            .map(|name| if exists(&name) { name } else { "NULL" })
            .join(", ");
        let sql = format!("SELECT id, {column_list} FROM threads");
        reader.query(&sql, &[], |row| {
            let text = |column| row.text(column).filter(|text| !text.is_empty());
            let titles = [text(1), text(2), text(3)];
            let thread = Thread {
                title: titles.into_iter().flatten().find_map(title_of),
                archived: (row.integer(4) == Some(1))
                    .then(|| row.integer(5).unwrap_or(0).saturating_mul(1000)),
                project_id: text(6).map(Into::into),
                agent: text(7).map(Into::into),
                parent: None,
            };
            if let Some(id) = row.text(0) {
                by_id.insert(id.into(), thread);
            }
            ControlFlow::Continue(())
        })?;
    }
    if !reader.columns("thread_spawn_edges")?.is_empty() {
        let sql = "SELECT child_thread_id, parent_thread_id FROM thread_spawn_edges";
        reader.query(sql, &[], |row| {
            if let (Some(child), Some(parent)) = (row.text(0), row.text(1)) {
                by_id.entry(child.into()).or_default().parent = Some(parent.into());
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(by_id)
}
