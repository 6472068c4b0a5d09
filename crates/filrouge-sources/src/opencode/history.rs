//! OpenCode's history at a place, whatever storages come and go there (DESIGN §10).
//!
//! OpenCode makes a database where files were, a database for another channel, new tables in an open one. A listing
//! looks which storages there are. One that was there once is asked until the end, so that its loss is reported.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::lying::{self, Stored};
use super::storage::{NAME, SessionText, Storage};
use super::written::Written;
use super::{neutral, session};
use crate::files::canonical;
use crate::locked::locked;
use crate::turns_of;
use crate::{
    Conversation, Fingerprint, Header, Listing, LoadedSession, ReadError, Skipped, Source,
    SourceError,
};

/// Opens OpenCode's history at `path`: its data folder (with databases, `storage`, `project` in it), the `storage`
/// folder, the `project` folder, one project's folder of the older tree, or one `opencode*.db` file; whatever its
/// storages become (DESIGN §10). A file has to be a history; a database among other storages is named when it is none.
///
/// Only looks at what is there. A symbolic link is followed for `path` itself and for what is in it, for nothing below.
///
/// # Errors
/// [`SourceError`]: nothing there, nothing recognised, or not readable.
pub fn open(path: &Path) -> Result<Vec<Arc<dyn Source>>, SourceError> {
    let meta = fs::metadata(path).map_err(|e| SourceError::of_io(path, &e))?;
    let (places, _) = lying::at(path)?;
    let is_history = match places.as_slice() {
        [Stored::Database(file)] if !meta.is_dir() => lying::is_history(file)?,
        places => !places.is_empty(),
    };
    match is_history {
        true => Ok(watch(path)),
        false => Err(SourceError::unrecognised(NAME, path)),
    }
}

/// OpenCode's history at `path`, as [`open`] takes it, whatever is there now or later: empty as long as nothing is.
#[must_use]
pub fn watch(path: &Path) -> Vec<Arc<dyn Source>> {
    vec![Arc::new(OpenCode {
        path: path.to_owned(),
        at: canonical(path),
        storages: Mutex::default(),
    })]
}

struct OpenCode {
    path: PathBuf,
    /// [`Source::path`].
    at: PathBuf,
    /// All that were seen; the newest first.
    storages: Mutex<BTreeMap<Stored, Arc<dyn Storage>>>,
}

/// A session and the storage that it is in.
type Found = (Arc<dyn Storage>, SessionText, Header);

impl OpenCode {
    /// Scans the place, and reports what is no storage there.
    fn look(&self, into: &mut Listing) -> Result<Vec<Arc<dyn Storage>>, SourceError> {
        let (places, mut odd) = lying::at(&self.path)?;
        into.skipped.append(&mut odd);
        let mut storages = locked(&self.storages);
        for place in places {
            if storages.contains_key(&place) {
                continue;
            }
            match place.open() {
                Ok(storage) => {
                    storages.insert(place, storage);
                }
                // It has gone since the folder was listed.
                Err(SourceError::NotFound { .. }) => {}
                Err(why) => into.unavailable.push(why.to_string()),
            }
        }
        Ok(storages.values().cloned().collect())
    }

    fn storages(&self) -> Result<Vec<Arc<dyn Storage>>, SourceError> {
        let known: Vec<_> = locked(&self.storages).values().cloned().collect();
        match known.is_empty() {
            true => self.look(&mut Listing::default()),
            false => Ok(known),
        }
    }

    /// A session in the first storage that has it, as the listing takes it.
    fn find(&self, id: &str) -> Result<Found, ReadError> {
        let mut refused = ReadError::Gone;
        for storage in self.storages()? {
            let read = storage.session(id).and_then(|text| {
                let header = session::header(&text)?;
                Ok((text, header))
            });
            match read {
                Ok((text, header)) => return Ok((storage, text, header)),
                Err(ReadError::Gone) => {}
                Err(why) => refused = why,
            }
        }
        Err(refused)
    }
}

impl Source for OpenCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.at)
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        let (mut all, mut seen) = (Listing::default(), HashMap::new());
        let (mut listed, mut last) = (0, None);
        for storage in self.look(&mut all)? {
            match storage.list() {
                Ok(listing) => {
                    listed += 1;
                    all.add(&listing, &mut seen);
                }
                Err(why) => {
                    all.unavailable.push(why.to_string());
                    last = Some(why);
                }
            }
        }
        match last {
            Some(why) if listed == 0 => Err(why),
            _ => Ok(Arc::new(all.in_order())),
        }
    }

    fn fingerprint(&self, header: &Header) -> Option<Fingerprint> {
        header.fingerprint.or_else(|| {
            let storages = self.storages().ok()?;
            storages
                .iter()
                .find_map(|storage| storage.fingerprint(header))
        })
    }

    fn read(&self, id: &str) -> Result<Conversation, ReadError> {
        let (storage, text, header) = self.find(id)?;
        Ok(neutral::conversation(&*storage, &text, &header)?.0)
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        let (storage, text, mut header) = self.find(id)?;
        let mut metadata = session::metadata(&header, &text)?;
        let mut skipped = Vec::new();
        storage.beside(&text, &mut metadata, &mut skipped);
        let (conversation, texts) = neutral::conversation(&*storage, &text, &header)?;
        let mut agents = conversation.messages.iter();
        let first = agents.find_map(|message| message.agent.clone());
        header.agent = first.or(header.agent);
        let written = Written::of((&*storage, &text), &texts, &conversation.skipped);
        let mut loaded = turns_of::load((header, metadata), &conversation, &written);
        loaded.skipped.append(&mut skipped);
        loaded.skipped.sort();
        Ok(loaded)
    }

    fn strays(&self) -> Result<Vec<Skipped>, SourceError> {
        let mut skipped = Vec::new();
        for storage in self.storages()? {
            storage.strays(&mut skipped)?;
        }
        Ok(skipped)
    }
}
