//! The histories that are asked for, opened

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
use crate::config::{Config, home, path_in};
use crate::exit::{Usage, told};
use crate::open::{self, Index, Need, Opened, operator};

/// Bytes of conversations that one process keeps in memory.
const CACHE_BYTES: usize = 48 << 20;
/// How old a listing of another program's history may be that a question is answered by.
const FRESH: Duration = Duration::from_secs(1);

/// The histories of coding agents that were found, and what else was asked for.
#[derive(Default)]
pub(crate) struct Found {
    /// In the order in which they are asked.
    pub(crate) sources: Vec<Arc<dyn Source>>,
    /// Whether the ledger is asked for, by its name or with everything.
    pub(crate) ledger: Option<Asked>,
    /// Where is looked, to tell.
    pub(crate) places: Vec<String>,
    /// What is there and cannot be read, to tell.
    pub(crate) notes: Vec<String>,
}

/// How something was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// By its name: it has to be there.
    Named,
    /// With everything that is there.
    IfThere,
}

/// Finds the histories that `asked` names; without a name those of the settings, else all that are there. Nothing is
/// read yet.
///
/// # Errors
/// [`Usage`] for a history that is named and not there, or cannot be opened.
pub(crate) fn histories(config: &Config, asked: &[SourceName]) -> Result<Found, Usage> {
    let mut found = Found::default();
    let named = match &config.sources {
        _ if !asked.is_empty() => asked,
        Some(names) => names,
        None => {
            found.ledger = Some(Asked::IfThere);
            for program in PROGRAMS {
                found.add_if_there(program);
            }
            return Ok(found);
        }
    };
    for name in named {
        match name {
            SourceName::Ledger => found.ledger = Some(Asked::Named),
            SourceName::Of(program, path) => found.add(program, path.as_deref())?,
        }
    }
    Ok(found)
}

/// Where this process runs.
struct Here;

impl Surroundings for Here {
    fn path_in(&self, variable: &str) -> Option<PathBuf> {
        path_in(variable)
    }

    fn home(&self) -> Option<PathBuf> {
        home()
    }
}

impl Found {
    fn add(&mut self, program: &'static Program, path: Option<&Path>) -> Result<(), Usage> {
        // What is the program's own place is told by its variables, unless a path says what is meant.
        let places = match path {
            Some(path) => vec![path.to_owned()],
            None => (program.places)(&Here),
        };
        if places.is_empty() {
            let what = format!("{}: HOME is not set", program.name);
            return Err(Usage::new(what).with_hint("name a path, or set HOME"));
        }
        let (mut missing, mut later, all) = (None, Vec::new(), places.len());
        for path in places {
            match (program.open)(&path) {
                Ok(sources) => self.push(program, &path, sources),
                Err(e) => {
                    missing = Some(e);
                    later.push(path);
                }
            }
        }
        match missing {
            Some(e) if later.len() == all => {
                Err(Usage::new(e.to_string()).with_hint(program.hint_for(&e)))
            }
            // One of two places is there; the other may come.
            _ => {
                let later = later.iter().flat_map(|path| (program.watch)(path));
                self.sources.extend(later);
                Ok(())
            }
        }
    }

    /// A program that was never used here is left out without a word, and read once it is used.
    fn add_if_there(&mut self, program: &'static Program) {
        for path in (program.places)(&Here) {
            let sources = (program.watch)(&path);
            match path.exists() {
                true => self.push(program, &path, sources),
                false => self.sources.extend(sources),
            }
        }
    }

    /// Opens the ledger, if it is asked for; one that was not named only if it is there.
    ///
    /// # Errors
    /// A ledger that is named and cannot be opened.
    pub(crate) async fn open_ledger(
        &mut self,
        config: &Config,
        index: Index,
    ) -> anyhow::Result<Option<Opened>> {
        Ok(match self.ledger {
            Some(Asked::Named) => Some(open::open_indexed(config, Need::Existing, index).await?),
            Some(Asked::IfThere) => ledger_if_there(config, index, &mut self.notes).await,
            None => None,
        })
    }

    fn push(&mut self, program: &Program, path: &Path, sources: Vec<Arc<dyn Source>>) {
        self.places
            .push(format!("{} ({})", program.name, path.display()));
        self.sources.extend(sources);
    }
}

/// The histories of coding agents as one library; without a name those of the settings, else all that are there. The
/// ledger is not in it: see [`everything`].
///
/// # Errors
/// [`Usage`], as [`histories`].
pub(crate) fn open(config: &Config, asked: &[SourceName]) -> anyhow::Result<Library> {
    let sources = histories(config, asked)?.sources;
    Ok(Library::new(sources, CACHE_BYTES).believing_for(FRESH))
}

/// A library with the ledger in it, if it was asked for.
pub(crate) struct Everything {
    pub(crate) library: Library,
    /// What was found; the histories of other programs are the library's first sources.
    pub(crate) found: Found,
    /// The open ledger; the library's own is behind it.
    pub(crate) opened: Option<Opened>,
}

impl Everything {
    /// Asks the library; its answers block, so that they are waited for beside the runtime's own threads.
    ///
    /// # Errors
    /// When the question panicked, which is told on stderr.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Library) -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        let library = self.library.clone();
        Ok(tokio::task::spawn_blocking(move || question(&library)).await?)
    }

    /// Who searches all of it: the ledger by its index, if it was opened with one. Called on the runtime.
    pub(crate) fn searcher(&self, config: &Config, indexes: Option<&Arc<Indexes>>) -> Searcher {
        let opened = self.opened.as_ref();
        let by_index = opened.and_then(|opened| Some((opened, opened.engine.index_feed.index()?)));
        let searcher = match by_index.filter(|_| config.search.index.on) {
            Some((opened, index)) => {
                let (engine, runtime) = (opened.engine.clone(), Handle::current());
                let clock = Arc::new(SystemClock);
                let feed = LedgerFeed::new(engine.clone(), index.clone(), clock);
                let ledger = LedgerSearch::new(engine, Arc::new(feed), operator(config), runtime);
                Searcher::new(self.library.first(self.found.sources.len())).with_ledger(ledger)
            }
            None => Searcher::new(self.library.clone()),
        };
        match indexes {
            Some(indexes) => searcher.with_indexes(indexes.clone()),
            None => searcher,
        }
    }

    /// Finishes with the ledger.
    pub(crate) async fn close(self) {
        drop(self.library);
        if let Some(opened) = self.opened {
            opened.close().await;
        }
    }
}

/// As [`open()`], with the ledger's own sessions behind the others, as its operator sees them; with its index for who
/// searches.
///
/// # Errors
/// [`Usage`], as [`histories`]; a ledger that is named and cannot be opened.
pub(crate) async fn everything(
    config: &Config,
    asked: &[SourceName],
    index: Index,
) -> anyhow::Result<Everything> {
    let mut found = histories(config, asked)?;
    let opened = found.open_ledger(config, index).await?;
    let mut sources = found.sources.clone();
    if let Some(opened) = &opened {
        let runtime = tokio::runtime::Handle::current();
        let ledger = LedgerSource::new(opened.engine.clone(), operator(config), runtime);
        sources.push(Arc::new(ledger));
        found.places.push(format!("ledger ({})", config.store));
    }
    Ok(Everything {
        library: Library::new(sources, CACHE_BYTES).believing_for(FRESH),
        found,
        opened,
    })
}

async fn ledger_if_there(config: &Config, index: Index, notes: &mut Vec<String>) -> Option<Opened> {
    let opened = match open::store_exists(config) {
        Ok(false) => return None,
        Ok(true) => open::open_indexed(config, Need::Existing, index).await,
        Err(e) => Err(e),
    };
    opened
        .map_err(|e| notes.push(format!("ledger: {}", told(&e).0)))
        .ok()
}
