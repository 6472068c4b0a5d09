//! Opens the indexes of histories.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_engine::keyfile;
use filrouge_search::feed::{Indexes, StepOutcome};
use filrouge_sources::Source;
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::Keyring;
use filrouge_store::text_index::TextIndex;
use filrouge_types::Failure;

use crate::config::Config;

/// The maximum number of sessions with pending changes of an index that is updated after a search.
const PENDING_SESSIONS_MAX: usize = 20;
/// The time limit of all updates after a search.
const UPDATE_TIME_MAX: Duration = Duration::from_millis(200);
/// The maximum age of the listing that the update reuses: the one of the search.
const LISTING_AGE_MAX: Duration = Duration::from_secs(60);

/// The indexes of `sources`, in the same order; `None` when the settings disable them. With `create`, missing ones are
/// created. They are sealed if there is a keyring.
pub(crate) fn indexes(
    config: &Config,
    sources: &[Arc<dyn Source>],
    create: bool,
) -> Option<Arc<Indexes>> {
    let settings = &config.search.index;
    if !settings.enabled {
        return None;
    }
    let keyring = config
        .keyring
        .exists()
        .then(|| keyfile::load(&config.keyring));
    let keyring = keyring.transpose().unwrap_or_else(|why| {
        tracing::warn!(%why, "the indexes of histories are used without checks: the keyring cannot be read");
        None
    });
    let open = Box::new(move |file: &Path| open(file, keyring.as_ref()));
    Some(Arc::new(Indexes::new(sources, &settings.dir, create, open)))
}

fn open(file: &Path, keyring: Option<&Keyring>) -> Result<Arc<dyn TextIndex>, Failure> {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    let key = keyring.map(|keyring| keyring.index_key(name));
    Ok(Arc::new(SqliteIndex::open(file)?.with_key(key)))
}

/// Updates the indexes that a search used, after its results were printed, if they lack only a few changes. The indexes
/// log their failures; the next search tries again.
pub(crate) fn update_if_few_changes(indexes: &Indexes) {
    let started = Instant::now();
    let is_late = || started.elapsed() >= UPDATE_TIME_MAX;
    for index in indexes.open_all() {
        if index.last_used().is_none() {
            continue;
        }
        if (1..=PENDING_SESSIONS_MAX).contains(&index.snapshot(LISTING_AGE_MAX).pending) {
            while !is_late() && matches!(index.step(&is_late), Ok(StepOutcome::Done(_))) {}
        }
    }
}
