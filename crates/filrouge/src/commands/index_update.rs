//! `filrouge index update`, `filrouge index rebuild`

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use filrouge_search::feed::{Indexes, Progress, SourceIndex};
use filrouge_types::Failure;
use serde::Serialize;
use serde_json::json;

use super::index_ledger;
use super::index_open::indexes;
use super::index_status::{name, switched_off};
use crate::cli::Sources;
use crate::config::{Config, sources::histories};
use crate::output::{bar, say, show};
use crate::stop::Stop;

/// What was done to an index.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) source: &'static str,
    pub(super) generation: String,
    /// Sessions that were read.
    pub(super) sessions: usize,
    /// Documents that were put.
    pub(super) documents: usize,
    pub(super) text_bytes: usize,
    /// Sessions that are not in it as they are now, because they cannot be read, or not completely.
    pub(super) unread: usize,
    pub(super) millis: u64,
    /// `updated`, `stopped`, or `busy`: another process feeds it.
    pub(super) status: &'static str,
}

pub(super) async fn run(
    config: &Config,
    sources: &Sources,
    anew: bool,
) -> anyhow::Result<ExitCode> {
    let mut found = histories(config, &sources.sources)?;
    let Some(indexes) = indexes(&config.search.index, &found.sources, true) else {
        return Err(switched_off().into());
    };
    let stopped = Arc::new(AtomicBool::new(false));
    let told = stopped.clone();
    let mut stop = Stop::taken()?;
    tokio::spawn(async move {
        stop.asked().await;
        told.store(true, Ordering::Relaxed);
    });
    let done = stopped.clone();
    let rows = tokio::task::spawn_blocking(move || all(&indexes, anew, &done));
    let mut rows = rows.await??;
    if !stopped.load(Ordering::Relaxed) {
        rows.extend(index_ledger::update(config, &mut found, anew, &stopped).await?);
    }
    let is_stopped = stopped.load(Ordering::Relaxed);
    show(config.json, &json!({ "indexes": rows }), |out| {
        write(out, &rows)
    })?;
    if rows.is_empty() && !config.json {
        say("there is no history here to index; --source names one");
    }
    if is_stopped {
        say("stopped; what was brought in stays, and the next `filrouge index update` goes on");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn all(indexes: &Indexes, anew: bool, stopped: &AtomicBool) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for at in 0..indexes.len() {
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        if let Some(index) = indexes.make(at)? {
            rows.push(one(&index, anew, stopped)?);
        }
    }
    Ok(rows)
}

fn one(index: &SourceIndex, anew: bool, stopped: &AtomicBool) -> Result<Row, Failure> {
    let began = Instant::now();
    let is_stopped = || stopped.load(Ordering::Relaxed);
    let bar = bar("{msg:28} {bar:40} {pos}/{len} sessions");
    bar.set_message(index.source().name());
    let each = &mut |progress: Progress| {
        bar.set_length(progress.of as u64);
        bar.set_position(progress.sessions as u64);
    };
    let is_free = !anew || index.clear()?;
    let progress = match is_free {
        true => index.update(each, &is_stopped),
        false => Ok(Progress {
            elsewhere: true,
            ..Progress::default()
        }),
    };
    bar.finish_and_clear();
    let progress = progress?;
    while !is_stopped() && index.tidy()? {}
    let known = index.known(std::time::Duration::ZERO);
    Ok(Row {
        source: index.source().name(),
        generation: index
            .source()
            .list()
            .map_or_else(|_| String::new(), |listing| listing.forms()),
        sessions: progress.sessions,
        documents: progress.documents,
        text_bytes: progress.text_bytes,
        unread: known.stale.len() - known.pending.min(known.stale.len()),
        millis: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        status: match (progress.elsewhere, is_stopped()) {
            (true, _) => "busy",
            (false, true) => "stopped",
            (false, false) => "updated",
        },
    })
}

fn write(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    for row in rows {
        write!(out, "{}: ", name(row.source, &row.generation))?;
        if row.status == "busy" {
            writeln!(out, "another process brings it up to date")?;
            continue;
        }
        let (sessions, documents) = (row.sessions, row.documents);
        let seconds = row.millis as f64 / 1000.0;
        write!(
            out,
            "{sessions} sessions read, {documents} documents put in {seconds:.1} s"
        )?;
        match row.unread {
            0 => writeln!(out)?,
            unread => writeln!(out, "; not read completely: {unread}")?,
        }
    }
    Ok(())
}
