//! Opens the indexes of histories.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_search::feed::{Indexes, StepOutcome};
use filrouge_sources::Source;
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::text_index::TextIndex;
use filrouge_types::Failure;

use crate::config::IndexConfig;

/// An index is updated after an answer only if at most this many of its sessions have pending changes.
const SESSIONS_MAX: usize = 20;
/// The time limit of all updates after an answer.
const TIME_MAX: Duration = Duration::from_millis(200);
/// The update after an answer reuses a listing of at most this age: the one that the answer used.
const LISTING_AGE_MAX: Duration = Duration::from_secs(60);

/// The indexes of `sources`, in the same order; `None` when the settings disable them. With `creates`, missing ones are
/// created.
pub(super) fn indexes(
    settings: &IndexConfig,
    sources: &[Arc<dyn Source>],
    creates: bool,
) -> Option<Arc<Indexes>> {
    let open = Box::new(open);
    settings
        .on
        .then(|| Arc::new(Indexes::new(sources, &settings.dir, creates, open)))
}

fn open(file: &Path) -> Result<Arc<dyn TextIndex>, Failure> {
    Ok(Arc::new(SqliteIndex::open(file)?))
}

/// Updates the indexes that an answer used, after it was printed, if they lack only a few changes. The indexes report
/// their failures themselves; the next answer tries again.
pub(super) fn update_a_few(indexes: &Indexes) {
    let began = Instant::now();
    let is_late = || began.elapsed() >= TIME_MAX;
    for index in indexes.open_all() {
        if index.last_used().is_none() {
            continue;
        }
        if (1..=SESSIONS_MAX).contains(&index.snapshot(LISTING_AGE_MAX).pending) {
            while !is_late() && matches!(index.step(&is_late), Ok(StepOutcome::Done(_))) {}
        }
    }
}
