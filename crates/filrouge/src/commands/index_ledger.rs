//! The index of the ledger, for `filrouge index`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use filrouge_search::ledger::LedgerFeed;
use filrouge_store::text_index::{SessionSelection, TextIndex};
use filrouge_types::{Failure, SystemClock};

use super::{index_status, index_update};
use crate::config::Config;
use crate::config::sources::FoundHistories;
use crate::ledger_index::index_location;
use crate::open::{Index, OpenStore};
use crate::output::{print_stderr, progress_bar};

/// The name under which the ledger is listed among the sources.
const NAME: &str = "ledger";
/// The interval at which progress is shown, and the maximum time until an update reacts to a stop.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// The ledger's row of `index status`, if the ledger was requested and exists.
pub(super) async fn status(
    config: &Config,
    found: &mut FoundHistories,
) -> anyhow::Result<Option<index_status::IndexRow>> {
    let Some(opened) = open_ledger(config, found, Index::IfExists).await? else {
        return Ok(None);
    };
    let row = row(config, &opened).await;
    opened.close().await;
    Ok(Some(row?))
}

async fn row(config: &Config, opened: &OpenStore) -> anyhow::Result<index_status::IndexRow> {
    let row = index_status::IndexRow {
        source: NAME,
        generation: NAME.to_owned(),
        place: config.store.to_string(),
        file: index_location(config),
        ..index_status::IndexRow::default()
    };
    let Some((feed, index)) = feed(opened) else {
        return Ok(row);
    };
    let progress = feed.read_progress().await?;
    let counts_query = query(index, |index| {
        let unread = index
            .state(SessionSelection::Unread(usize::MAX))?
            .sessions
            .len();
        Ok((index.status()?, unread))
    });
    let (status, unread) = counts_query.await?;
    let sessions = usize::try_from(status.sessions).unwrap_or(usize::MAX);
    Ok(index_status::IndexRow {
        sessions,
        fresh: sessions.saturating_sub(unread),
        stale: unread,
        pending: unread,
        behind: Some(progress.lag_commits),
        as_of: progress.as_of.filter(|_| !progress.forgotten),
        ..row
    }
    .with_status(status))
}

/// Updates the ledger's index, if the ledger was requested and exists; `rebuild` empties the index first.
pub(super) async fn update(
    config: &Config,
    found: &mut FoundHistories,
    rebuild: bool,
    stopped: &Arc<AtomicBool>,
) -> anyhow::Result<Option<index_update::UpdatedIndexRow>> {
    let Some(opened) = open_ledger(config, found, Index::Create).await? else {
        return Ok(None);
    };
    let result = match feed(&opened) {
        Some((feed, index)) => update_index(&feed, index, rebuild, stopped).await.map(Some),
        None => Ok(None),
    };
    opened.close().await;
    Ok(result?)
}

async fn update_index(
    feed: &LedgerFeed,
    index: Arc<dyn TextIndex>,
    rebuild: bool,
    stopped: &Arc<AtomicBool>,
) -> Result<index_update::UpdatedIndexRow, Failure> {
    let started = Instant::now();
    let is_stopped = || stopped.load(Ordering::Relaxed);
    let bytes_before = query(index.clone(), move |index| {
        if rebuild {
            index.clear()?;
        }
        Ok(index.status()?.text_bytes)
    });
    let bytes_before = bytes_before.await?;
    let bar = progress_bar("{msg:28} {bar:40} {pos}/{len} commits");
    bar.set_message(NAME);
    let mut largest_lag = 0;
    let is_done = loop {
        let progress = feed.catch_up(PROGRESS_INTERVAL, &is_stopped).await?;
        // The bar's length is the largest lag seen until now: the lag grows when commits arrive during the update.
        largest_lag = progress.lag_commits.max(largest_lag);
        bar.set_length(largest_lag);
        bar.set_position(largest_lag - progress.lag_commits);
        if progress.done || is_stopped() {
            break progress.done;
        }
    };
    bar.finish_and_clear();
    let stop_flag = stopped.clone();
    let bytes_after = query(index, move |index| {
        while !stop_flag.load(Ordering::Relaxed) && index.tidy()? {}
        Ok(index.status()?.text_bytes)
    });
    let bytes_after = bytes_after.await?;
    let counts = feed.counts();
    let saturating_usize = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    Ok(index_update::UpdatedIndexRow {
        source: NAME,
        generation: NAME.to_owned(),
        sessions: saturating_usize(counts.sessions),
        documents: saturating_usize(counts.documents),
        text_bytes: saturating_usize(bytes_after.saturating_sub(bytes_before)),
        unread: saturating_usize(counts.unreadable),
        millis: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        status: if is_done { "updated" } else { "stopped" },
    })
}

/// Opens the ledger if it was requested and exists. A ledger that exists and cannot be opened is an error if it was
/// requested by name; otherwise it is reported on stderr, and the result is `None`.
async fn open_ledger(
    config: &Config,
    found: &mut FoundHistories,
    index: Index,
) -> anyhow::Result<Option<OpenStore>> {
    let earlier_warnings = found.warnings.len();
    let opened = found.open_ledger(config, index).await?;
    for warning in found.warnings.iter().skip(earlier_warnings) {
        print_stderr(warning);
    }
    Ok(opened)
}

fn feed(opened: &OpenStore) -> Option<(LedgerFeed, Arc<dyn TextIndex>)> {
    let index = opened.engine.index_feed.index()?.clone();
    let clock = Arc::new(SystemClock);
    let feed = LedgerFeed::new(opened.engine.clone(), index.clone(), clock);
    Some((feed, index))
}

/// Queries an index on a thread that is allowed to block.
async fn query<T: Send + 'static>(
    index: Arc<dyn TextIndex>,
    query: impl FnOnce(&dyn TextIndex) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let result = tokio::task::spawn_blocking(move || query(&*index));
    let to_failure = |error: tokio::task::JoinError| {
        Failure::new(filrouge_types::ErrorCode::Internal, error.to_string())
    };
    result.await.map_err(to_failure)?
}
