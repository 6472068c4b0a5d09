//! The indexes of histories, opened

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_search::feed::{Indexes, Step};
use filrouge_sources::Source;
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::text_index::TextIndex;
use filrouge_types::Failure;

use crate::config::IndexConfig;

/// So many sessions at most are brought in behind an answer, and for so long.
const FEW: usize = 20;
const BEHIND: Duration = Duration::from_millis(200);
/// What an answer went by is not asked again.
const ANSWERED: Duration = Duration::from_secs(60);

/// The indexes of `sources`, by their places; `None` when the settings want none. With `makes` those that are not there are
/// made.
pub(super) fn indexes(
    settings: &IndexConfig,
    sources: &[Arc<dyn Source>],
    makes: bool,
) -> Option<Arc<Indexes>> {
    let open = Box::new(open);
    settings
        .on
        .then(|| Arc::new(Indexes::new(sources, &settings.dir, makes, open)))
}

fn open(file: &Path) -> Result<Arc<dyn TextIndex>, Failure> {
    Ok(Arc::new(SqliteIndex::open(file)?))
}

/// Brings in what little has changed, once the answer was given. What fails was told, and is tried again the next time.
pub(super) fn follow(indexes: &Indexes) {
    let began = Instant::now();
    let is_late = || began.elapsed() >= BEHIND;
    for index in indexes.open_all() {
        if index.asked().is_none() {
            continue;
        }
        if (1..=FEW).contains(&index.known(ANSWERED).pending) {
            while !is_late() && matches!(index.step(&is_late), Ok(Step::Done(_))) {}
        }
    }
}
