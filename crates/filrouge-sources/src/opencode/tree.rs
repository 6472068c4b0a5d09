//! What the two file storages of OpenCode have in common: a [`Layout`] tells where things lie, [`FileTree`] reads them.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use filrouge_types::Clock;

use super::generation::{Generation, Listed, MessageText, Project, ReadSince, Record, SessionText};
use super::tree_known::Known;
use super::tree_listing::Places;
use super::tree_messages::{Piece, Reader};
use super::tree_notes::{self, Key, Notes};
use super::tree_stamp::{Full, Stamps};
use super::tree_state::{FileMark, Marks};
use super::{tree_messages, tree_scan};
use crate::files::{Files, Folder, canonical};
use crate::object::{Refusal, Writer};
use crate::{Look, Overlooks, ReadError, Scan, Since, SkipReason, Skipped, SourceError, Stamp};

/// Fewer files than this are sooner read again by each process than noted again and again.
const NEWS_MIN: usize = 8;

/// Where one generation keeps things; paths are below the root. All names given to it come from its own listings.
pub(super) trait Layout: Send + Sync {
    /// [`Generation::name`].
    fn name(&self) -> &'static str;

    /// Its files.
    fn files(&self) -> &Files;

    /// The keys of the projects.
    fn folders(&self, skipped: &mut Vec<Skipped>) -> Vec<String>;

    /// The folder of a project's session files.
    fn session_dir(&self, folder: &str) -> PathBuf;

    /// The folder that has a folder of message files for each session of a project.
    fn message_root(&self, folder: &str) -> PathBuf;

    /// All folders that [`Layout::message_root`] gives, also where no project is known.
    fn message_roots(&self, folders: &[&str]) -> Vec<PathBuf> {
        folders
            .iter()
            .map(|folder| self.message_root(folder))
            .collect()
    }

    /// The folder of a session's message files.
    fn message_dir(&self, folder: &str, session: &str) -> PathBuf {
        self.message_root(folder).join(session)
    }

    /// The folder that has a folder of part files for each message.
    fn part_root(&self, folder: &str, session: &str) -> PathBuf;

    /// The project of a folder; empty where nothing is kept about it.
    fn project(&self, folder: &str) -> Result<Project, Skipped>;

    /// The state of what [`Layout::project`] reads.
    fn project_mark(&self, folder: &str) -> Option<FileMark>;

    /// [`Generation::beside`].
    fn beside(&self, session: &str, metadata: &mut Writer, skipped: &mut Vec<Skipped>);

    /// [`Generation::strays`].
    fn strays(&self, skipped: &mut Vec<Skipped>);
}

/// A file storage.
pub(super) struct FileTree<L> {
    pub(super) layout: L,
    /// The session files as they were read last, by project and id.
    pub(super) known: Mutex<HashMap<Key, Box<Known>>>,
    /// Where each session is that was listed last.
    pub(super) places: Mutex<Arc<Places>>,
    /// When the last listing looked at the states in [`Self::places`]. It is gone with the next one, and with whoever goes
    /// by it.
    pub(super) looked: Mutex<Option<Instant>>,
    /// What another process has noted of session files, until the first listing.
    pub(super) noted: Mutex<Notes>,
    /// Whether there are notes of session files that have gone.
    pub(super) notes_gone: AtomicBool,
    pub(super) stamps: Stamps,
}

impl<L: Layout> FileTree<L> {
    pub(super) fn new(layout: L, clock: Arc<dyn Clock>) -> Self {
        Self {
            layout,
            known: Mutex::default(),
            places: Mutex::default(),
            looked: Mutex::default(),
            noted: Mutex::default(),
            notes_gone: AtomicBool::new(false),
            stamps: Stamps::new(clock),
        }
    }

    /// Where it lies, as notes tell it.
    fn shown(&self) -> String {
        canonical(&self.layout.files().root)
            .to_string_lossy()
            .into_owned()
    }

    pub(super) fn folder(&self, path: &Path) -> Result<Option<Folder>, Skipped> {
        self.layout.files().folder(path)
    }

    /// An error for the root being gone.
    pub(super) fn check_root(&self) -> Result<(), SourceError> {
        let files = self.layout.files();
        files.root().map(drop).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => SourceError::NotFound {
                program: "opencode",
                path: files.root.clone(),
            },
            _ => SourceError::Unreadable {
                path: files.root.clone(),
                reason: e.to_string(),
            },
        })
    }

    /// A session is not where it was.
    pub(super) fn forget_place(&self, id: &str) {
        Arc::make_mut(&mut lock(&self.places)).remove(id);
    }

    /// The project folder of a session, which may be new.
    pub(super) fn folder_of(&self, id: &str) -> Result<Box<str>, ReadError> {
        let known = |tree: &Self| lock(&tree.places).get(id).map(|place| place.folder.clone());
        if let Some(folder) = known(self) {
            return Ok(folder);
        }
        self.listed(None, &mut Vec::new()).map_err(unavailable)?;
        known(self).ok_or(ReadError::Gone)
    }
}

impl<L: Layout> Generation for FileTree<L> {
    fn name(&self) -> &'static str {
        self.layout.name()
    }

    fn news(
        &self,
        known: Option<Stamp>,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Option<Listed>, SourceError> {
        self.listed(known, skipped)
    }

    fn recall(&self, notes: &[u8]) {
        let noted = Notes::read(notes, &self.shown(), self.layout.name());
        *lock(&self.noted) = noted;
    }

    fn notes(&self) -> Option<Vec<u8>> {
        let mut known = lock(&self.known);
        let news = known.values().filter(|known| known.is_news()).count();
        if news <= NEWS_MIN && !self.notes_gone.swap(false, Ordering::Relaxed) {
            return None;
        }
        let noted: Vec<_> = known
            .iter_mut()
            .filter_map(|(key, known)| {
                let noted = known.noted()?;
                known.note();
                Some((key, noted))
            })
            .collect();
        let all = noted.iter().map(|(key, noted)| (*key, noted));
        Some(tree_notes::write(&self.shown(), self.layout.name(), all))
    }

    fn session(&self, id: &str) -> Result<SessionText, ReadError> {
        let folder = self.folder_of(id)?;
        if let Some(session) = self.read_session(&folder, id)? {
            return Ok(session);
        }
        // It may have been moved to another project.
        self.forget_place(id);
        let folder = self.folder_of(id)?;
        self.read_session(&folder, id)?.ok_or(ReadError::Gone)
    }

    fn messages(
        &self,
        session: &SessionText,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<MessageText>, ReadError> {
        let place = (&*session.folder, &*session.id);
        let read = match Reader::open(&self.layout, place, skipped) {
            Some((reader, ids)) => reader.read(ids, skipped),
            None => Piece::default(),
        };
        self.stamps.learn(&session.id, Full::of(&read.states));
        Ok(read.messages)
    }

    fn place(&self, session: &SessionText, message: &str, part: Option<&str>) -> PathBuf {
        let root = &self.layout.files().root;
        let (folder, id) = (&session.folder, &session.id);
        match part {
            None => {
                let dir = self.layout.message_dir(folder, id);
                root.join(dir).join(format!("{message}.json"))
            }
            Some(part) => {
                let dir = self.layout.part_root(folder, id).join(message);
                root.join(dir).join(format!("{part}.json"))
            }
        }
    }

    fn beside(&self, session: &SessionText, metadata: &mut Writer, skipped: &mut Vec<Skipped>) {
        self.layout.beside(&session.id, metadata, skipped);
    }

    fn stamp(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        let folder = self.folder_of(id)?;
        let mut marks = Marks::default();
        let dir = self.folder(&self.layout.session_dir(&folder))?;
        let own = dir.and_then(|dir| dir.stat(id)).ok_or_else(|| {
            self.forget_place(id);
            ReadError::Gone
        })?;
        marks.add(&own);
        let root = self
            .folder(&self.layout.message_root(&folder))
            .ok()
            .flatten();
        if let Some(messages) = root.and_then(|root| root.stat_of(id)) {
            marks.add(&messages);
        }
        let full = || Full::of(&tree_messages::states(&self.layout, &folder, id));
        Ok(Some(self.stamps.stamp(id, marks, full)))
    }

    fn lasting(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        self.lasting_mark(id).map(Some)
    }

    fn since(&self, known: &[(&str, Stamp)], look: Look) -> Result<Vec<Since>, SourceError> {
        self.check_root()?;
        Ok(self.marks_since(known, look))
    }

    fn overlooks(&self) -> Overlooks {
        Overlooks::BySession
    }

    fn read_since(
        &self,
        id: &str,
        known: &HashMap<&str, u64>,
    ) -> Result<Option<ReadSince>, ReadError> {
        self.messages_since(id, known).map(Some)
    }

    fn scan(
        &self,
        scan: &Scan<'_>,
        each: &(dyn Fn(&Record<'_>) + Sync),
    ) -> Result<(), SourceError> {
        self.check_root()?;
        tree_scan::scan(&self.layout, scan, each);
        Ok(())
    }

    fn strays(&self, skipped: &mut Vec<Skipped>) -> Result<(), SourceError> {
        self.check_root()?;
        self.layout.strays(skipped);
        Ok(())
    }
}

/// A poisoned lock holds a cache, which is right whatever happened to its last user.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

pub(super) fn unavailable(why: SourceError) -> ReadError {
    ReadError::Unavailable(why.to_string())
}

/// A refusal of a file's content as a report.
pub(super) fn skip(path: &Path, (reason, detail): Refusal) -> Skipped {
    Skipped::new(path, reason, detail)
}

/// Names the folders in `dir` whose owner is not among `known`, and gives all folders. What is odd
/// about a known owner's folder is told when that session is read.
pub(super) fn orphans<Id: Borrow<str> + Eq + Hash>(
    files: &Files,
    dir: &Path,
    known: &HashSet<Id>,
    reason: SkipReason,
    skipped: &mut Vec<Skipped>,
) -> Vec<String> {
    let mut odd = Vec::new();
    let folders = files.folders(dir, &mut odd);
    let owner = |s: &Skipped| {
        let name = s.path.file_name().and_then(|n| n.to_str());
        name.map(str::to_owned)
    };
    odd.retain(|s| owner(s).is_none_or(|name| !known.contains(&*name)));
    for folder in folders
        .iter()
        .filter(|folder| !known.contains(folder.as_str()))
    {
        let count = files.ids(&dir.join(folder), &mut Vec::new()).len();
        let detail = format!("{count} files, and none for what they belong to");
        let path = files.root.join(dir).join(folder);
        odd.push(Skipped::new(&path, reason, detail));
    }
    odd.sort();
    skipped.append(&mut odd);
    folders
}
