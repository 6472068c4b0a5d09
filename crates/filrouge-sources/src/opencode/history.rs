//! OpenCode's history at a path, including storages that appear or disappear there (DESIGN §10).
//!
//! While filrouge runs, OpenCode can create a database next to existing files, a database for another release channel,
//! or new tables in an open database. So each listing searches for new storages. A storage that was found once is
//! queried from then on, so that its disappearance is reported.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use filrouge_types::lock;

use super::originals::OriginalRecords;
use super::storage::{NAME, SessionText, Storage};
use super::storages::{self, StoragePath};
use super::{neutral, session};
use crate::files::canonical;
use crate::object::Writer;
use crate::turns_of;
use crate::{
    Conversation, Fingerprint, Header, Listing, LoadedSession, ReadError, Skipped, Source,
    SourceError,
};

/// Opens OpenCode's history at `path`: its data folder (with databases, `storage`, `project` in it), the `storage`
/// folder, the `project` folder, one project's folder of the older tree, or one `opencode*.db` file (DESIGN §10). The
/// storages there may change later. A file must be a history; in a folder, a database that is not a history is only
/// reported.
///
/// Writes nothing. Follows symbolic links at `path` itself and directly inside it, but no others.
///
/// # Errors
/// [`SourceError`]: nothing exists at `path`, what exists is not a history, or it is not readable.
pub fn open(path: &Path) -> Result<Vec<Arc<dyn Source>>, SourceError> {
    let meta = fs::metadata(path).map_err(|e| SourceError::from_io(path, &e))?;
    let (paths, _) = storages::find_storages(path)?;
    let is_history = match paths.as_slice() {
        [StoragePath::Database(file)] if !meta.is_dir() => storages::is_history(file)?,
        paths => !paths.is_empty(),
    };
    match is_history {
        true => Ok(watch(path)),
        false => Err(SourceError::unrecognized(NAME, path)),
    }
}

/// OpenCode's history at `path`, which may be any path that [`open`] accepts, now or later: empty until a history
/// exists there.
pub fn watch(path: &Path) -> Vec<Arc<dyn Source>> {
    vec![Arc::new(OpenCode {
        path: path.to_owned(),
        canonical_path: canonical(path),
        storages: Mutex::default(),
    })]
}

struct OpenCode {
    path: PathBuf,
    /// [`Source::path`].
    canonical_path: PathBuf,
    /// All storages that were found so far; the newest kind first.
    storages: Mutex<BTreeMap<StoragePath, Arc<dyn Storage>>>,
}

/// A session and its storage.
type FoundSession = (Arc<dyn Storage>, SessionText, Header);

impl OpenCode {
    /// Scans the path for storages, and reports entries that look like one but are not.
    fn scan(&self, listing: &mut Listing) -> Result<Vec<Arc<dyn Storage>>, SourceError> {
        let (paths, mut not_storages) = storages::find_storages(&self.path)?;
        listing.skipped.append(&mut not_storages);
        let mut storages = lock(&self.storages);
        for path in paths {
            if storages.contains_key(&path) {
                continue;
            }
            match path.open() {
                Ok(storage) => {
                    storages.insert(path, storage);
                }
                // The storage was removed after the folder was listed.
                Err(SourceError::NotFound { .. }) => {}
                Err(why) => listing.unavailable.push(why.to_string()),
            }
        }
        Ok(storages.values().cloned().collect())
    }

    /// The storages that were found so far; scans the path if there are none.
    fn storages(&self) -> Result<Vec<Arc<dyn Storage>>, SourceError> {
        let storages: Vec<_> = lock(&self.storages).values().cloned().collect();
        match storages.is_empty() {
            true => self.scan(&mut Listing::default()),
            false => Ok(storages),
        }
    }

    /// Finds a session in the first storage that has a usable record of it, else in the first with a damaged one. The
    /// listing takes the session from the same storage.
    fn find(&self, id: &str) -> Result<FoundSession, ReadError> {
        let (mut refused, mut damaged) = (ReadError::Gone, None);
        for storage in self.storages()? {
            let read = storage.session(id).and_then(|text| {
                let header = session::header(&text)?;
                Ok((text, header))
            });
            match read {
                Ok((text, header)) if header.damaged => {
                    damaged.get_or_insert((storage, text, header));
                }
                Ok((text, header)) => return Ok((storage, text, header)),
                Err(ReadError::Gone) => {}
                Err(why) => refused = why,
            }
        }
        damaged.ok_or(refused)
    }
}

/// The metadata of a session, and the records of it that were left out.
fn metadata((storage, text, header): &FoundSession) -> Result<(Writer, Vec<Skipped>), ReadError> {
    let (mut metadata, mut skipped) = (session::metadata(header, text)?, Vec::new());
    storage.add_extras(text, &mut metadata, &mut skipped);
    Ok((metadata, skipped))
}

impl Source for OpenCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.canonical_path)
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        let (mut all, mut generations) = (Listing::default(), HashMap::new());
        let (mut listed, mut last_error, mut damaged) = (0, None, Vec::new());
        for storage in self.scan(&mut all)? {
            match storage.list() {
                Ok(listing) => {
                    listed += 1;
                    all.add_older(&listing, &mut generations);
                    let headers = listing.headers.iter();
                    damaged.extend(headers.filter(|header| header.damaged).cloned());
                }
                Err(why) => {
                    all.unavailable.push(why.to_string());
                    last_error = Some(why);
                }
            }
        }
        for header in damaged {
            if let Entry::Vacant(vacant) = generations.entry(header.id.clone()) {
                vacant.insert(header.generation);
                all.headers.push(header);
            }
        }
        match last_error {
            Some(why) if listed == 0 => Err(why),
            _ => Ok(Arc::new(all.sorted())),
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

    fn metadata(&self, id: &str) -> Result<(String, Vec<Skipped>), ReadError> {
        let (metadata, skipped) = metadata(&self.find(id)?)?;
        Ok((metadata.finish(), skipped))
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        let found = self.find(id)?;
        let (metadata, mut skipped) = metadata(&found)?;
        let (storage, text, mut header) = found;
        let (conversation, texts) = neutral::conversation(&*storage, &text, &header)?;
        let mut agents = conversation.messages.iter();
        let first = agents.find_map(|message| message.agent.clone());
        header.agent = first.or(header.agent);
        let originals = OriginalRecords::new((&*storage, &text), &texts, &conversation.skipped);
        let mut loaded = turns_of::load_session((header, metadata), &conversation, &originals);
        loaded.skipped.append(&mut skipped);
        loaded.skipped.sort();
        Ok(loaded)
    }

    fn orphans(&self) -> Result<Vec<Skipped>, SourceError> {
        let mut skipped = Vec::new();
        for storage in self.storages()? {
            storage.add_orphans(&mut skipped)?;
        }
        Ok(skipped)
    }
}
