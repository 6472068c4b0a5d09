//! Opens the requested histories.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filrouge_search::feed::Indexes;
use filrouge_search::ledger::LedgerFeed;
use filrouge_search::{LedgerSearch, Searcher};
use filrouge_sources::ledger::LedgerSource;
use filrouge_sources::programs::PROGRAMS;
use filrouge_sources::{Library, Program, Source, Surroundings};
use filrouge_types::SystemClock;
use tokio::runtime::Handle;

use super::SourceName;
use crate::config::{Config, env_path, home_folder};
use crate::exit::{Result, Usage, detail_and_hint};
use crate::open::{self, IfMissing, Index, OpenStore, operator};

/// The maximum size in bytes of the cache of conversations, which each process has.
const CACHE_BYTES: usize = 48 << 20;
/// The maximum age of a listing that answers a query. A program may have changed its history since the listing.
const MAX_LISTING_AGE: Duration = Duration::from_secs(1);

/// The histories of coding agents that were found, and how the ledger was requested.
#[derive(Default)]
pub(crate) struct FoundHistories {
    /// The sources, in the order in which they are queried.
    pub(crate) sources: Vec<Arc<dyn Source>>,
    /// How the ledger was requested; `None` if it was not.
    pub(crate) ledger: Option<SourceRequest>,
    /// The locations of the queried histories, for messages.
    pub(crate) locations: Vec<String>,
    /// Which existing histories cannot be read, and why.
    pub(crate) warnings: Vec<String>,
}

/// How a source was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceRequest {
    /// It was requested by its name, and must exist.
    Named,
    /// It was requested as one of all sources that exist.
    IfExists,
}

/// Finds the histories that `requested` names. If it is empty, finds those that the settings name; if these name none,
/// all that exist. Reads no history yet.
///
/// # Errors
/// [`Usage`] for a named history that does not exist or cannot be opened.
pub(crate) fn histories(config: &Config, requested: &[SourceName]) -> Result<FoundHistories> {
    let mut found = FoundHistories::default();
    let named = match &config.sources {
        _ if !requested.is_empty() => requested,
        Some(names) => names,
        None => {
            found.ledger = Some(SourceRequest::IfExists);
            for program in PROGRAMS {
                found.add_if_exists(program);
            }
            return Ok(found);
        }
    };
    for name in named {
        match name {
            SourceName::Ledger => found.ledger = Some(SourceRequest::Named),
            SourceName::Program(program, path) => found.add(program, path.as_deref())?,
        }
    }
    Ok(found)
}

/// The sources of a program's history, at this path or in the program's default folders.
///
/// # Errors
/// [`Usage`] for a history that does not exist or cannot be opened.
pub(crate) fn open_program(
    program: &'static Program,
    path: Option<&Path>,
) -> Result<Vec<Arc<dyn Source>>> {
    let mut found = FoundHistories::default();
    found.add(program, path)?;
    Ok(found.sources)
}

/// The environment of this process.
struct ProcessEnvironment;

impl Surroundings for ProcessEnvironment {
    fn path_in(&self, variable: &str) -> Option<PathBuf> {
        env_path(variable)
    }

    fn home(&self) -> Option<PathBuf> {
        home_folder()
    }
}

impl FoundHistories {
    fn add(&mut self, program: &'static Program, path: Option<&Path>) -> Result<()> {
        // Without a path, the program's environment variables determine where its history is.
        let paths = match path {
            Some(path) => vec![path.to_owned()],
            None => (program.places)(&ProcessEnvironment),
        };
        if paths.is_empty() {
            let detail = format!("{}: HOME is not set", program.name);
            return Err(Usage::new(detail).with_hint("name a path, or set HOME"));
        }
        let (mut last_error, mut missing, count) = (None, Vec::new(), paths.len());
        for path in paths {
            match (program.open)(&path) {
                Ok(sources) => self.push(program, &path, sources),
                Err(e) => {
                    last_error = Some(e);
                    missing.push(path);
                }
            }
        }
        match last_error {
            Some(e) if missing.len() == count => {
                Err(Usage::new(e.to_string()).with_hint(program.hint_for(&e)))
            }
            // At least one path exists. The missing paths are watched, because they may be created later.
            _ => {
                let watched = missing.iter().flat_map(|path| (program.watch)(path));
                self.sources.extend(watched);
                Ok(())
            }
        }
    }

    /// Adds a program's history if it exists. A missing history is not reported: it is watched, and read once it
    /// exists.
    fn add_if_exists(&mut self, program: &'static Program) {
        for path in (program.places)(&ProcessEnvironment) {
            let sources = (program.watch)(&path);
            match path.exists() {
                true => self.push(program, &path, sources),
                false => self.sources.extend(sources),
            }
        }
    }

    /// Opens the ledger if it was requested. A ledger that was requested by name must exist. Otherwise a missing ledger
    /// is left out, and a failure to open it is only added to `warnings`.
    ///
    /// # Errors
    /// When a ledger that was requested by name cannot be opened.
    pub(crate) async fn open_ledger(
        &mut self,
        config: &Config,
        index: Index,
    ) -> anyhow::Result<Option<OpenStore>> {
        let opened = match self.ledger {
            None => return Ok(None),
            Some(SourceRequest::Named) => {
                return open::open(config, IfMissing::Fail, index).await.map(Some);
            }
            Some(SourceRequest::IfExists) => match open::store_exists(config) {
                Ok(false) => return Ok(None),
                Ok(true) => open::open(config, IfMissing::Fail, index).await,
                Err(e) => Err(e),
            },
        };
        let add_warning = |e| {
            let warning = format!("ledger: {}", detail_and_hint(&e).0);
            self.warnings.push(warning);
        };
        Ok(opened.map_err(add_warning).ok())
    }

    /// The histories as one library, without the ledger.
    pub(crate) fn library(&self) -> Library {
        let sources = self.sources.clone();
        Library::new(sources, CACHE_BYTES).with_max_listing_age(MAX_LISTING_AGE)
    }

    fn push(&mut self, program: &Program, path: &Path, sources: Vec<Arc<dyn Source>>) {
        self.locations
            .push(format!("{} ({})", program.name, path.display()));
        self.sources.extend(sources);
    }
}

/// Opens the histories of coding agents that [`histories`] finds as one library. The library does not contain the
/// ledger: see [`open_with_ledger`].
///
/// # Errors
/// [`Usage`], as [`histories`].
pub(crate) fn open(config: &Config, requested: &[SourceName]) -> anyhow::Result<Library> {
    Ok(histories(config, requested)?.library())
}

/// An open library that includes the ledger, if it was requested.
pub(crate) struct OpenLibrary {
    pub(crate) library: Library,
    /// The found histories of other programs, which are the library's first sources.
    pub(crate) found: FoundHistories,
    /// The open ledger, which is the library's last source.
    pub(crate) opened: Option<OpenStore>,
}

impl OpenLibrary {
    /// The searcher over all sources, with the given indexes of other programs' histories. Uses the ledger's index if
    /// the ledger was opened with it. Must be called within the Tokio runtime.
    pub(crate) fn searcher(&self, config: &Config, indexes: Option<&Arc<Indexes>>) -> Searcher {
        let opened = self.opened.as_ref();
        let by_index = opened.and_then(|opened| Some((opened, opened.engine.index_feed.index()?)));
        let searcher = match by_index.filter(|_| config.search.index.enabled) {
            Some((opened, index)) => {
                let (engine, runtime) = (opened.engine.clone(), Handle::current());
                let clock = Arc::new(SystemClock);
                let feed = LedgerFeed::new(engine.clone(), index.clone(), clock);
                let ledger = LedgerSearch::new(engine, Arc::new(feed), operator(config), runtime);
                Searcher::new(self.library.with_first_sources(self.found.sources.len()))
                    .with_ledger(ledger)
            }
            None => Searcher::new(self.library.clone()),
        };
        searcher.with_indexes(indexes.cloned())
    }

    /// Closes the library and the ledger.
    pub(crate) async fn close(self) {
        drop(self.library);
        if let Some(opened) = self.opened {
            opened.close().await;
        }
    }
}

/// As [`open()`], but the library's last source is the ledger, as its operator sees it, if the ledger was requested.
/// `index` says whether the ledger's search index is opened; without it, searches scan the ledger.
///
/// # Errors
/// [`Usage`], as [`histories`]. A ledger that was requested by name and cannot be opened.
pub(crate) async fn open_with_ledger(
    config: &Config,
    requested: &[SourceName],
    index: Index,
) -> anyhow::Result<OpenLibrary> {
    let mut found = histories(config, requested)?;
    let opened = found.open_ledger(config, index).await?;
    let mut sources = found.sources.clone();
    if let Some(opened) = &opened {
        let ledger = LedgerSource::new(opened.engine.clone(), operator(config), Handle::current());
        sources.push(Arc::new(ledger.keeping(Arc::default())));
        found.locations.push(format!("ledger ({})", config.store));
    }
    Ok(OpenLibrary {
        library: Library::new(sources, CACHE_BYTES).with_max_listing_age(MAX_LISTING_AGE),
        found,
        opened,
    })
}
