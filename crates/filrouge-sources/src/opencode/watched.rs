//! A place whose storages come and go while it is watched (DESIGN §10).
//!
//! OpenCode makes a database where files were, a database for another channel, new tables in an open one. There is one
//! source for each generation there can be; each asks what of it lies at the place now.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use filrouge_types::Clock;

use super::database::{self, Database};
use super::merged::{Merged, Told};
use super::open::{Lying, Tree};
use super::stored::Kind;
use super::tree::lock;
use super::tree_state::Marks;
use super::{Generation, OpenCode};
use crate::files::canonical;
use crate::later::LOOK_AGAIN;
use crate::recent::Recent;
use crate::{
    Conversation, Listing, LoadedSession, Look, Overlooks, ReadError, ReadMessages, Scan, Since,
    SkipReason, Skipped, Source, SourceError, Stamp,
};

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
pub(super) fn all(path: &Path, clock: Arc<dyn Clock>) -> Vec<Arc<dyn Source>> {
    let place = Arc::new(Place {
        at: canonical(path),
        path: path.to_owned(),
        clock,
        seen: Mutex::default(),
    });
    let source = |generation| {
        Arc::new(Watched {
            generation,
            place: place.clone(),
            merged: Mutex::default(),
            recent: Recent::default(),
        }) as Arc<dyn Source>
    };
    GENERATIONS.map(source).into()
}

/// A place that is looked at again and again.
struct Place {
    path: PathBuf,
    /// [`Source::place`].
    at: PathBuf,
    clock: Arc<dyn Clock>,
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

    /// Whether it is to be told when it cannot be read: a database that fails does so for each kind of session.
    fn is_missed(&self) -> bool {
        let within = self.within.as_ref();
        within.is_none_or(|(kind, database)| database.may_hold(*kind))
    }
}

impl Place {
    /// The storages of a generation, and what is none.
    fn storages(&self, generation: &str) -> Result<(Vec<Storage>, Vec<Skipped>), SourceError> {
        let mut seen = lock(&self.seen);
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
            match database::all_of(&file, self.clock.clone()) {
                Ok((database, stored)) => {
                    seen.storages.extend(stored.into_iter().map(|stored| {
                        let within = Some((stored.kind, database.clone()));
                        Storage::new(Box::new(stored), &file, within)
                    }));
                    seen.databases.insert(file);
                }
                // It has gone since the folder was listed.
                Err(SourceError::NotFound { .. }) => {}
                Err(why) => seen.odd.push(told(&why)),
            }
        }
        for tree in lying.trees {
            if seen.trees.insert(tree.clone()) {
                let at = tree.at();
                let generation = tree.generation(self.clock.clone());
                seen.storages.push(Storage::new(generation, &at, None));
            }
        }
        Ok(())
    }
}

/// A storage beside others that cannot be read.
fn told(why: &SourceError) -> Skipped {
    let (SourceError::NotFound { path, .. }
    | SourceError::Unrecognised { path, .. }
    | SourceError::Unreadable { path, .. }) = why;
    Skipped::new(path, SkipReason::Unreadable, why.to_string())
}

/// One generation of all that lies at a place.
struct Watched {
    generation: &'static str,
    place: Arc<Place>,
    /// The last listing, and what it was made of.
    merged: Mutex<Option<(Vec<Told>, Arc<Merged>)>>,
    recent: Recent,
}

impl Watched {
    /// What lies there now, with its sessions.
    fn now(&self) -> Result<(Vec<Storage>, Arc<Merged>), SourceError> {
        let (storages, odd) = self.place.storages(self.generation)?;
        let mut told_all = Vec::with_capacity(storages.len() + odd.len());
        let (mut last, mut any) = (None, !odd.is_empty());
        for storage in &storages {
            match storage.source.list() {
                Ok(listing) => {
                    any |= !listing.headers.is_empty() || !listing.skipped.is_empty();
                    told_all.push(Told::Listing(listing));
                }
                Err(why) if storage.is_missed() => {
                    told_all.push(Told::Not(told(&why)));
                    last = Some(why);
                }
                Err(_) => told_all.push(Told::Listing(Arc::default())),
            }
        }
        told_all.extend(odd.into_iter().map(Told::Not));
        if let Some(why) = last.filter(|_| !any) {
            return Err(why);
        }
        let mut merged = lock(&self.merged);
        if let Some((before, merged)) = merged.as_ref()
            && *before == told_all
        {
            return Ok((storages, merged.clone()));
        }
        let new = Arc::new(Merged::of(&told_all));
        *merged = Some((told_all, new.clone()));
        Ok((storages, new))
    }

    /// The storage that has a session.
    fn of(&self, id: &str) -> Result<Arc<OpenCode>, ReadError> {
        let unavailable = |why: SourceError| ReadError::Unavailable(why.to_string());
        let (mut storages, _) = self.place.storages(self.generation).map_err(unavailable)?;
        // The only one knows best.
        if storages.len() > 1 {
            let (now, merged) = self.now().map_err(unavailable)?;
            let owners = merged.owners.as_ref();
            let owner = owners.and_then(|owners| owners.get(id));
            let owner = owner.ok_or(ReadError::Gone)?;
            storages = now.into_iter().skip(*owner).take(1).collect();
        }
        let first = storages.into_iter().next();
        first.map(|one| one.source).ok_or(ReadError::Gone)
    }
}

impl Source for Watched {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn generation(&self) -> &'static str {
        self.generation
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        let now = || Ok(self.now()?.1.listing.clone());
        self.recent.list(now)
    }

    fn list_within(&self, max_age: Duration) -> Result<(Instant, Arc<Listing>), SourceError> {
        let now = || Ok(self.now()?.1.listing.clone());
        self.recent.within(max_age, now)
    }

    fn recall(&self, notes: &[u8]) {
        // What cannot be looked at is told by who lists it.
        if let Ok((storages, _)) = self.place.storages(self.generation) {
            storages.iter().for_each(|one| one.source.recall(notes));
        }
    }

    fn notes(&self) -> Option<Vec<u8>> {
        let (storages, _) = self.place.storages(self.generation).ok()?;
        match storages.as_slice() {
            [one] => one.source.notes(),
            _ => None,
        }
    }

    fn stamp(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        self.of(id)?.stamp(id)
    }

    fn place(&self) -> Option<&Path> {
        Some(&self.place.at)
    }

    fn lasting(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        self.of(id)?.lasting(id)
    }

    fn since(&self, known: &[(&str, Stamp)], look: Look) -> Result<Vec<Since>, SourceError> {
        let (storages, _) = self.place.storages(self.generation)?;
        if let [one] = storages.as_slice() {
            return one.source.since(known, look);
        }
        let (storages, merged) = self.now()?;
        let mut all = vec![Since::Changed; known.len()];
        for (number, storage) in storages.iter().enumerate() {
            let own = |(_, (id, _)): &(usize, &(&str, Stamp))| merged.is_in(id, number);
            let (places, own): (Vec<_>, Vec<_>) = known.iter().enumerate().filter(own).unzip();
            let own: Vec<_> = own.into_iter().copied().collect();
            if own.is_empty() {
                continue;
            }
            for (place, since) in places.into_iter().zip(storage.source.since(&own, look)?) {
                if let Some(slot) = all.get_mut(place) {
                    *slot = since;
                }
            }
        }
        Ok(all)
    }

    fn overlooks(&self) -> Overlooks {
        let storages = self.place.storages(self.generation);
        let all = storages.into_iter().flat_map(|(all, _)| all);
        let most = all.map(|one| one.source.overlooks()).max();
        most.unwrap_or(Overlooks::Nothing)
    }

    fn whole(&self) -> Option<Stamp> {
        let (storages, _) = self.place.storages(self.generation).ok()?;
        let mut marks = Marks::default();
        for storage in &storages {
            marks.put(&storage.source.place());
            let Stamp(one, other) = storage.source.whole()?;
            marks.put(&(one, other));
        }
        (!storages.is_empty()).then(|| marks.finish())
    }

    fn conversation(&self, id: &str) -> Result<Conversation, ReadError> {
        self.of(id)?.conversation(id)
    }

    fn read_since(&self, id: &str, known: &HashMap<&str, u64>) -> Result<ReadMessages, ReadError> {
        self.of(id)?.read_since(id, known)
    }

    fn scan(&self, scan: &Scan<'_>) -> Result<(), SourceError> {
        let (storages, merged) = self.now()?;
        let mut outcome = Ok(());
        for (number, storage) in storages.iter().enumerate() {
            let own = |id: &str| merged.is_in(id, number);
            let mine = Scan {
                wanted: &|id| own(id) && (scan.wanted)(id),
                ..*scan
            };
            match storage.source.scan(&mine) {
                Err(why) if storage.is_missed() => outcome = Err(why),
                _ => {}
            }
        }
        outcome
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        self.of(id)?.load(id)
    }

    fn strays(&self) -> Result<Vec<Skipped>, SourceError> {
        let (storages, _) = self.place.storages(self.generation)?;
        let mut all = Vec::new();
        for storage in storages {
            match storage.source.strays() {
                Ok(mut strays) => all.append(&mut strays),
                Err(why) if storage.is_missed() => all.push(told(&why)),
                Err(_) => {}
            }
        }
        Ok(all)
    }
}
