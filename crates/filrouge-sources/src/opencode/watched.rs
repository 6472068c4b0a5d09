//! A place whose storages come and go while it is watched (DESIGN §10).
//!
//! OpenCode makes a database where files were, a database for another channel, new tables in an open one. There is one
//! source for each generation there can be; each asks what of it lies at the place now.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::database::Database;
use super::generation::Generation;
use super::kind::Kind;
use super::lying::{Lying, Tree, all_of};
use super::storage::OpenCode;
use crate::files::canonical;
use crate::locked::locked;
use crate::{
    Conversation, Listing, LoadedSession, ReadError, SkipReason, Skipped, Source, SourceError,
};

/// A place is checked again after this time at the earliest; new data is to be seen within a second.
const LOOK_AGAIN: Duration = Duration::from_millis(400);

/// The generations there can be, the newest first.
const GENERATIONS: [&str; 5] = [
    "session_v2",
    "session_message",
    "sqlite",
    "storage",
    "project",
];

/// The generation that speaks for what is no database.
const DATABASES: &str = "sqlite";

/// One source for each generation.
pub(super) fn all(path: &Path) -> Vec<Arc<dyn Source>> {
    let place = Arc::new(Place {
        at: canonical(path),
        path: path.to_owned(),
        seen: Mutex::default(),
    });
    let source = |generation| {
        Arc::new(Watched {
            generation,
            place: place.clone(),
        }) as Arc<dyn Source>
    };
    GENERATIONS.map(source).into()
}

/// A place that is looked at again and again.
struct Place {
    path: PathBuf,
    /// [`Source::path`].
    at: PathBuf,
    seen: Mutex<Seen>,
}

/// What was found at a place so far.
#[derive(Default)]
struct Seen {
    looked: Option<Instant>,
    databases: HashSet<PathBuf>,
    trees: HashSet<Tree>,
    storages: Vec<Storage>,
    odd: Vec<Skipped>,
}

/// One generation of one storage.
#[derive(Clone)]
struct Storage {
    source: Arc<OpenCode>,
    /// The database it is in.
    within: Option<(Kind, Arc<Database>)>,
}

impl Storage {
    fn new(
        generation: Box<dyn Generation>,
        at: &Path,
        within: Option<(Kind, Arc<Database>)>,
    ) -> Self {
        Self {
            source: Arc::new(OpenCode::new(generation, at)),
            within,
        }
    }

    /// Whether it is reported when it cannot be read: a database that fails does so for each kind of session.
    fn is_missed(&self) -> bool {
        let within = self.within.as_ref();
        within.is_none_or(|(kind, database)| database.may_hold(*kind))
    }
}

impl Place {
    /// The storages of a generation, and what is none.
    fn storages(&self, generation: &str) -> Result<(Vec<Storage>, Vec<Skipped>), SourceError> {
        let mut seen = locked(&self.seen);
        if seen.looked.is_none_or(|at| at.elapsed() >= LOOK_AGAIN) {
            match self.look(&mut seen) {
                Ok(()) => seen.looked = Some(Instant::now()),
                // One tells for all.
                Err(why) if generation == DATABASES => return Err(why),
                Err(_) => {}
            }
        }
        let mine = |one: &&Storage| one.source.generation() == generation;
        let storages = seen.storages.iter().filter(mine).cloned().collect();
        let odd = match generation == DATABASES {
            true => seen.odd.clone(),
            false => Vec::new(),
        };
        Ok((storages, odd))
    }

    fn look(&self, seen: &mut Seen) -> Result<(), SourceError> {
        let lying = Lying::at(&self.path)?;
        seen.odd = lying.odd;
        for file in lying.databases {
            if seen.databases.contains(&file) {
                continue;
            }
            match all_of(&file) {
                Ok((database, stored)) => {
                    seen.storages.extend(stored.into_iter().map(|stored| {
                        let within = Some((stored.kind, database.clone()));
                        Storage::new(Box::new(stored), &file, within)
                    }));
                    seen.databases.insert(file);
                }
                // It has gone since the folder was listed.
                Err(SourceError::NotFound { .. }) => {}
                Err(why) => seen.odd.push(unreadable(&why)),
            }
        }
        for tree in lying.trees {
            if seen.trees.insert(tree.clone()) {
                let at = tree.at();
                let generation = tree.generation();
                seen.storages.push(Storage::new(generation, &at, None));
            }
        }
        Ok(())
    }
}

/// A storage beside others that cannot be read.
fn unreadable(why: &SourceError) -> Skipped {
    let (SourceError::NotFound { path, .. }
    | SourceError::Unrecognised { path, .. }
    | SourceError::Unreadable { path, .. }) = why;
    Skipped::new(path, SkipReason::Unreadable, why.to_string())
}

/// One generation of all that lies at a place.
struct Watched {
    generation: &'static str,
    place: Arc<Place>,
}

impl Watched {
    /// What the first storage that has a session says of it. Of two channels' databases that is the first by name, as in
    /// the listing.
    fn first<T>(&self, ask: impl Fn(&OpenCode) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let (storages, _) = self.place.storages(self.generation)?;
        let mut refused = ReadError::Gone;
        for storage in storages {
            match ask(&storage.source) {
                Err(ReadError::Gone) => {}
                Err(ReadError::Unavailable(_)) if !storage.is_missed() => {}
                Err(why) => refused = why,
                found => return found,
            }
        }
        Err(refused)
    }
}

impl Source for Watched {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn generation(&self) -> &'static str {
        self.generation
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.place.at)
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        let (storages, odd) = self.place.storages(self.generation)?;
        let (mut listings, mut skipped, mut last) = (Vec::new(), odd, None);
        let mut any = !skipped.is_empty();
        for storage in &storages {
            match storage.source.list() {
                Ok(listing) => {
                    any |= !listing.headers.is_empty() || !listing.skipped.is_empty();
                    listings.push(listing);
                }
                Err(why) if storage.is_missed() => {
                    skipped.push(unreadable(&why));
                    last = Some(why);
                }
                Err(_) => {}
            }
        }
        if let Some(why) = last.filter(|_| !any) {
            return Err(why);
        }
        if let [one] = listings.as_slice()
            && skipped.is_empty()
        {
            return Ok(one.clone());
        }
        Ok(Arc::new(merged(&listings, skipped)))
    }

    fn read(&self, id: &str) -> Result<Conversation, ReadError> {
        self.first(|storage| storage.read(id))
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        self.first(|storage| storage.load(id))
    }

    fn strays(&self) -> Result<Vec<Skipped>, SourceError> {
        let (storages, _) = self.place.storages(self.generation)?;
        let mut all = Vec::new();
        for storage in storages {
            match storage.source.strays() {
                Ok(mut strays) => all.append(&mut strays),
                Err(why) if storage.is_missed() => all.push(unreadable(&why)),
                Err(_) => {}
            }
        }
        Ok(all)
    }
}

/// The sessions of several storages, each id once.
fn merged(listings: &[Arc<Listing>], skipped: Vec<Skipped>) -> Listing {
    let mut all = Listing {
        skipped,
        ..Listing::default()
    };
    let mut seen = HashSet::new();
    for listing in listings {
        all.skipped.extend_from_slice(&listing.skipped);
        all.truncated |= listing.truncated;
        let new = listing.headers.iter().filter(|one| seen.insert(&*one.id));
        all.headers.extend(new.cloned());
    }
    all.in_order()
}
