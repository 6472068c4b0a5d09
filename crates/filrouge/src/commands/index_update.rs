//! `filrouge index update`, `filrouge index rebuild`

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use filrouge_search::feed::{BuildProgress, Indexes, SourceIndex};
use filrouge_types::Failure;
use serde::Serialize;
use serde_json::json;

use super::index_ledger;
use super::index_status::{history_name, indexes_disabled};
use crate::cli::Sources;
use crate::config::{Config, sources::histories};
use crate::exit::ExitCode;
use crate::indexes::indexes;
use crate::output::{print_stderr, progress_bar, show};
use crate::stop::StopSignals;

/// The result of updating an index.
#[derive(Serialize)]
pub(super) struct UpdatedIndexRow {
    pub(super) source: &'static str,
    pub(super) generation: String,
    /// The number of sessions that were read.
    pub(super) sessions: usize,
    /// The number of documents that were written.
    pub(super) documents: usize,
    pub(super) text_bytes: usize,
    /// The number of sessions whose current state is not indexed, because they cannot be read completely.
    pub(super) unread: usize,
    pub(super) millis: u64,
    /// `updated`; `stopped` by a signal; or `busy`, if another process is updating the index.
    pub(super) status: &'static str,
}

pub(super) async fn run(
    config: &Config,
    sources: &Sources,
    rebuild: bool,
) -> anyhow::Result<ExitCode> {
    let mut found = histories(config, &sources.sources)?;
    let Some(indexes) = indexes(config, &found.sources, true) else {
        return Err(indexes_disabled().into());
    };
    let stopped = Arc::new(AtomicBool::new(false));
    let stop_flag = stopped.clone();
    let mut signals = StopSignals::install()?;
    tokio::spawn(async move {
        signals.requested().await;
        stop_flag.store(true, Ordering::Relaxed);
    });
    let stop_flag = stopped.clone();
    let rows = tokio::task::spawn_blocking(move || update_all(&indexes, rebuild, &stop_flag));
    let mut rows = rows.await??;
    if !stopped.load(Ordering::Relaxed) {
        rows.extend(index_ledger::update(config, &mut found, rebuild, &stopped).await?);
    }
    let is_stopped = stopped.load(Ordering::Relaxed);
    show(config.json, &json!({ "indexes": rows }), |out| {
        write(out, &rows)
    })?;
    if rows.is_empty() && !config.json {
        print_stderr("there is no history here to index; --source names one");
    }
    if is_stopped {
        print_stderr(
            "stopped; the indexed sessions are kept, and the next `filrouge index update` continues",
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn update_all(
    indexes: &Indexes,
    rebuild: bool,
    stopped: &AtomicBool,
) -> Result<Vec<UpdatedIndexRow>, Failure> {
    let mut rows = Vec::new();
    for number in 0..indexes.len() {
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        if let Some(index) = indexes.open_or_create(number)? {
            rows.push(update_index(&index, rebuild, stopped)?);
        }
    }
    Ok(rows)
}

fn update_index(
    index: &SourceIndex,
    rebuild: bool,
    stopped: &AtomicBool,
) -> Result<UpdatedIndexRow, Failure> {
    let started = Instant::now();
    let is_stopped = || stopped.load(Ordering::Relaxed);
    let bar = progress_bar("{msg:28} {bar:40} {pos}/{len} sessions");
    bar.set_message(index.source().name());
    let show_progress = &mut |progress: BuildProgress| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.sessions as u64);
    };
    let can_update = !rebuild || index.clear()?;
    let progress = match can_update {
        true => index.update(show_progress, &is_stopped),
        false => Ok(BuildProgress {
            is_locked: true,
            ..BuildProgress::default()
        }),
    };
    bar.finish_and_clear();
    let progress = progress?;
    while !is_stopped() && index.tidy()? {}
    let snapshot = index.snapshot(std::time::Duration::ZERO);
    Ok(UpdatedIndexRow {
        source: index.source().name(),
        generation: index
            .source()
            .list()
            .map_or_else(|_| String::new(), |listing| listing.generations()),
        sessions: progress.sessions,
        documents: progress.documents,
        text_bytes: progress.text_bytes,
        unread: snapshot.stale.len() - snapshot.pending.min(snapshot.stale.len()),
        millis: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        status: match (progress.is_locked, is_stopped()) {
            (true, _) => "busy",
            (false, true) => "stopped",
            (false, false) => "updated",
        },
    })
}

fn write(out: &mut impl Write, rows: &[UpdatedIndexRow]) -> io::Result<()> {
    for row in rows {
        write!(out, "{}: ", history_name(row.source, &row.generation))?;
        if row.status == "busy" {
            writeln!(out, "another process is updating it")?;
            continue;
        }
        let (sessions, documents) = (row.sessions, row.documents);
        let seconds = row.millis as f64 / 1000.0;
        write!(
            out,
            "{sessions} sessions read, {documents} documents indexed in {seconds:.1} s"
        )?;
        match row.unread {
            0 => writeln!(out)?,
            unread => writeln!(out, "; not read completely: {unread}")?,
        }
    }
    Ok(())
}
