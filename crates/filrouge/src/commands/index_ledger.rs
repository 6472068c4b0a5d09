//! The index of the ledger, for `filrouge index`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use filrouge_search::ledger::LedgerFeed;
use filrouge_store::text_index::{TextIndex, Which};
use filrouge_types::{Failure, SystemClock};

use super::{index_status, index_update};
use crate::config::Config;
use crate::config::sources::Found;
use crate::ledger_index::place;
use crate::open::{Index, Opened};
use crate::output::{bar, printable, say};

/// What the ledger is called among the sources.
const NAME: &str = "ledger";
/// How often progress is shown, and how soon an update can be stopped.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// The ledger's row of `index status`, where the ledger is asked for and there.
pub(super) async fn status(
    config: &Config,
    found: &mut Found,
) -> anyhow::Result<Option<index_status::Row>> {
    let Some(opened) = ledger(config, found, Index::IfThere).await? else {
        return Ok(None);
    };
    let row = row(config, &opened).await;
    opened.close().await;
    Ok(Some(row?))
}

async fn row(config: &Config, opened: &Opened) -> anyhow::Result<index_status::Row> {
    let row = index_status::Row {
        source: NAME,
        generation: NAME.to_owned(),
        place: config.store.to_string(),
        file: place(&config.store),
        ..index_status::Row::default()
    };
    let Some((feed, index)) = feed(opened) else {
        return Ok(row);
    };
    let stands = feed.stands().await?;
    let told = asked(index, |index| {
        let unread = index.known(Which::Unread(usize::MAX))?.sessions.len();
        Ok((index.status()?, unread))
    });
    let (status, unread) = told.await?;
    let sessions = usize::try_from(status.sessions).unwrap_or(usize::MAX);
    Ok(index_status::Row {
        sessions,
        fresh: sessions.saturating_sub(unread),
        stale: unread,
        pending: unread,
        behind: Some(stands.behind),
        as_of: stands.as_of.filter(|_| !stands.forgotten),
        ..row
    }
    .with(status))
}

/// Brings the ledger's index up to date, where the ledger is asked for and there; `anew` empties it first.
pub(super) async fn update(
    config: &Config,
    found: &mut Found,
    anew: bool,
    stopped: &Arc<AtomicBool>,
) -> anyhow::Result<Option<index_update::Row>> {
    let Some(opened) = ledger(config, found, Index::Made).await? else {
        return Ok(None);
    };
    let done = match feed(&opened) {
        Some((feed, index)) => one(&feed, index, anew, stopped).await.map(Some),
        None => Ok(None),
    };
    opened.close().await;
    Ok(done?)
}

async fn one(
    feed: &LedgerFeed,
    index: Arc<dyn TextIndex>,
    anew: bool,
    stopped: &Arc<AtomicBool>,
) -> Result<index_update::Row, Failure> {
    let began = Instant::now();
    let is_stopped = || stopped.load(Ordering::Relaxed);
    let before = asked(index.clone(), move |index| {
        if anew {
            index.clear()?;
        }
        Ok(index.status()?.text_bytes)
    });
    let before = before.await?;
    let bar = bar("{msg:28} {bar:40} {pos}/{len} commits");
    bar.set_message(NAME);
    let mut most = 0;
    let done = loop {
        let progress = feed.catch_up(SHOWN_EVERY, &is_stopped).await?;
        // How many of the commits that were there are behind it.
        most = progress.behind.max(most);
        bar.set_length(most);
        bar.set_position(most - progress.behind);
        if progress.done || is_stopped() {
            break progress.done;
        }
    };
    bar.finish_and_clear();
    let end = stopped.clone();
    let after = asked(index, move |index| {
        while !end.load(Ordering::Relaxed) && index.tidy()? {}
        Ok(index.status()?.text_bytes)
    });
    let after = after.await?;
    let counts = feed.counts();
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    Ok(index_update::Row {
        source: NAME,
        generation: NAME.to_owned(),
        sessions: number(counts.sessions),
        documents: number(counts.documents),
        text_bytes: number(after.saturating_sub(before)),
        unread: number(counts.unreadable),
        millis: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        status: if done { "updated" } else { "stopped" },
    })
}

/// The ledger, open; what is there and cannot be opened is told.
async fn ledger(
    config: &Config,
    found: &mut Found,
    index: Index,
) -> anyhow::Result<Option<Opened>> {
    let told = found.notes.len();
    let opened = found.open_ledger(config, index).await?;
    for note in found.notes.iter().skip(told) {
        say(printable(note));
    }
    Ok(opened)
}

fn feed(opened: &Opened) -> Option<(LedgerFeed, Arc<dyn TextIndex>)> {
    let index = opened.engine.index_feed.index()?.clone();
    let clock = Arc::new(SystemClock);
    let feed = LedgerFeed::new(opened.engine.clone(), index.clone(), clock);
    Some((feed, index))
}

/// Asks an index, beside the runtime's own threads.
async fn asked<T: Send + 'static>(
    index: Arc<dyn TextIndex>,
    ask: impl FnOnce(&dyn TextIndex) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let asked = tokio::task::spawn_blocking(move || ask(&*index));
    let broke = |error: tokio::task::JoinError| {
        Failure::new(filrouge_types::ErrorCode::Internal, error.to_string())
    };
    asked.await.map_err(broke)?
}
