//! `filrouge index status`

use std::io::{self, Write};

use filrouge_search::feed::Overview;
use filrouge_store::text_index::IndexStatus;
use filrouge_types::{Failure, Timestamp};
use serde::Serialize;
use serde_json::json;

use super::index_ledger;
use crate::cli::Sources;
use crate::config::{Config, sources::histories};
use crate::exit::Usage;
use crate::indexes::indexes;
use crate::output::{print_stderr, show, table, utc_time};

/// The state of an index. The numbers that only an index can report are absent while it is missing.
#[derive(Default, Serialize)]
pub(super) struct IndexRow {
    pub(super) source: &'static str,
    /// The forms in which the program stored its sessions, such as `sqlite`.
    pub(super) generation: String,
    /// Where the history is stored.
    pub(super) place: String,
    /// Where the index is stored.
    pub(super) file: String,
    /// The number of sessions of the history.
    pub(super) sessions: usize,
    /// The number of sessions whose current state is indexed.
    pub(super) fresh: usize,
    /// The number of the other sessions.
    pub(super) stale: usize,
    /// The number of stale sessions that can be indexed.
    pub(super) pending: usize,
    /// For the ledger: the number of commits that are not indexed.
    pub(super) behind: Option<u64>,
    /// The time up to which the index is compared with the history.
    pub(super) as_of: Option<Timestamp>,
    pub(super) documents: Option<u64>,
    /// The number of documents that searches scan one by one.
    pub(super) pending_documents: Option<u64>,
    /// The size of the index in bytes.
    pub(super) bytes: Option<u64>,
    /// The size of the indexed texts in bytes.
    pub(super) text_bytes: Option<u64>,
    /// The number of vectors of each embedder.
    pub(super) vectors: Vec<(Box<str>, u64)>,
    /// The reason why the state is unknown.
    pub(super) error: Option<String>,
}

pub(super) async fn run(config: &Config, sources: &Sources) -> anyhow::Result<()> {
    let mut found = histories(config, &sources.sources)?;
    let Some(indexes) = indexes(config, &found.sources, false) else {
        return Err(indexes_disabled().into());
    };
    let rows = tokio::task::spawn_blocking(move || {
        let overviews = (0..indexes.len()).map(|number| indexes.overview(number));
        overviews
            .filter_map(Result::transpose)
            .collect::<Result<Vec<_>, Failure>>()
    });
    let mut rows: Vec<IndexRow> = rows.await??.into_iter().map(row).collect();
    rows.extend(index_ledger::status(config, &mut found).await?);
    show(config.json, &json!({ "indexes": rows }), |out| {
        write(out, &rows)
    })?;
    if config.json {
        return Ok(());
    }
    if rows.is_empty() {
        print_stderr("there is no history here to index; --source names one");
    } else if rows.iter().any(|row| row.documents.is_none()) {
        print_stderr("`filrouge index update` creates the missing indexes");
    }
    Ok(())
}

/// The error when indexes are disabled.
pub(super) fn indexes_disabled() -> Usage {
    Usage::new("search.index is false: there are no indexes")
        .with_hint("set search.index = true, or leave it out")
}

fn row(overview: Overview) -> IndexRow {
    let snapshot = overview.snapshot;
    let fresh = snapshot.as_ref().map_or(0, |snapshot| snapshot.fresh.len());
    let row = IndexRow {
        source: overview.source,
        generation: overview.generation,
        place: overview.source_path.to_string_lossy().into_owned(),
        file: overview.file.to_string_lossy().into_owned(),
        sessions: overview.sessions,
        fresh,
        stale: overview.sessions.saturating_sub(fresh),
        pending: snapshot
            .as_ref()
            .map_or(overview.sessions, |snapshot| snapshot.pending),
        as_of: snapshot.map(|snapshot| snapshot.as_of),
        ..IndexRow::default()
    };
    match overview.status {
        Some(status) => row.with_status(status),
        None => row,
    }
}

impl IndexRow {
    /// Adds the numbers that the index reports.
    pub(super) fn with_status(self, status: IndexStatus) -> Self {
        Self {
            documents: Some(status.documents),
            pending_documents: Some(status.pending),
            bytes: Some(status.bytes),
            text_bytes: Some(status.text_bytes),
            vectors: status.vectors,
            ..self
        }
    }
}

fn write(out: &mut impl Write, rows: &[IndexRow]) -> io::Result<()> {
    let or_dash = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let cells = rows.iter().map(|row| {
        [
            history_name(row.source, &row.generation),
            row.sessions.to_string(),
            row.fresh.to_string(),
            row.pending.to_string(),
            or_dash(row.documents),
            or_dash(row.bytes),
            bytes_per_text_byte(row),
            row.as_of.map_or_else(|| "-".to_owned(), utc_time),
        ]
    });
    if !rows.is_empty() {
        let header = [
            "SOURCE",
            "SESSIONS",
            "FRESH",
            "PENDING",
            "DOCUMENTS",
            "BYTES",
            "OF TEXT",
            "AS OF",
        ];
        writeln!(out, "{}", table(header, 1..7, cells))?;
    }
    for row in rows.iter().filter(|row| row.documents.is_some()) {
        writeln!(out, "{}", row.file)?;
        if let Some(behind) = row.behind.filter(|behind| *behind > 0) {
            writeln!(out, "  {behind} commits behind")?;
        }
        for (embedder, count) in &row.vectors {
            writeln!(out, "  {count} vectors of {embedder}")?;
        }
    }
    Ok(())
}

/// The name of a history, with its generation if the generation has another name.
pub(super) fn history_name(source: &str, generation: &str) -> String {
    if source == generation {
        return source.to_owned();
    }
    format!("{source} ({generation})")
}

/// The number of bytes of the index for each byte of text.
fn bytes_per_text_byte(row: &IndexRow) -> String {
    match (row.bytes, row.text_bytes) {
        (Some(bytes), Some(text)) if text > 0 => format!("{:.2}", bytes as f64 / text as f64),
        _ => "-".to_owned(),
    }
}
