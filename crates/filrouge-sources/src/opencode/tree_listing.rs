//! The sessions of a file storage. A record is read again when it has changed, or a message was added or has gone; all files
//! of a session are looked at when its fingerprint is asked for.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use filrouge_types::{Clock, SystemClock};

use super::layout::{Layout, orphans};
use super::session;
use super::storage::{Project, SessionText};
use super::tree_first::first;
use super::tree_messages::add_states;
use crate::files::{FileState, Folder, is_hot, state};
use crate::locked::locked;
use crate::{Fingerprint, Header, Listing, SkipReason, Skipped, SourceError};

/// The folder of a project's sessions.
struct Shelf {
    name: Box<str>,
    project: Project,
    sessions: Option<Folder>,
    /// The folder with a folder of messages for each session.
    messages: Option<Folder>,
}

/// The project's folder and the id of a session.
type Key = (Box<str>, Box<str>);

/// A session as it was listed.
type Listed = Result<Arc<Header>, Skipped>;

/// The sessions as they were listed last, with the states of what their headers are read from.
type Known = HashMap<Key, (Fingerprint, Listed)>;

/// A file storage.
pub(super) struct FileTree {
    pub(super) layout: Layout,
    known: Mutex<Known>,
}

impl FileTree {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            known: Mutex::default(),
        }
    }

    pub(super) fn folder(&self, path: &Path) -> Result<Option<Folder>, Skipped> {
        self.layout.files.folder(path)
    }

    /// An error for the root being gone.
    pub(super) fn check_root(&self) -> Result<(), SourceError> {
        let files = &self.layout.files;
        let opened = files.root().map(drop);
        opened.map_err(|e| SourceError::of_io(&files.root, &e))
    }

    /// [`super::storage::Storage::list`].
    pub(super) fn listing(&self) -> Result<Arc<Listing>, SourceError> {
        self.check_root()?;
        let mut skipped = Vec::new();
        let (shelves, ids) = self.shelves(&mut skipped);
        self.name_orphans(&shelves, &ids, &mut skipped);
        let before = std::mem::take(&mut *locked(&self.known));
        let mut known = Known::with_capacity(ids.len());
        for (shelf, id) in ids {
            let shelf = shelves.get(shelf);
            let listed = shelf.and_then(|shelf| self.listed(shelf, &id, &before));
            if let (Some(shelf), Some(listed)) = (shelf, listed) {
                known.insert((shelf.name.clone(), id.into()), listed);
            }
        }
        let headers = self.once_each(&known, &mut skipped);
        *locked(&self.known) = known;
        let listing = Listing {
            headers,
            skipped,
            ..Listing::default()
        };
        Ok(Arc::new(listing.in_order()))
    }

    /// The projects, and the ids of their session files with the indexes of the projects.
    fn shelves(&self, skipped: &mut Vec<Skipped>) -> (Vec<Shelf>, Vec<(usize, String)>) {
        let (mut shelves, mut ids) = (Vec::new(), Vec::new());
        for name in self.layout.folders(skipped) {
            let mut found = |folder: Result<Option<Folder>, Skipped>| {
                folder.unwrap_or_else(|why| {
                    skipped.push(why);
                    None
                })
            };
            let sessions = found(self.folder(&self.layout.session_dir(&name)));
            // What is odd about it is reported with the sessions that have their messages in it.
            let messages = self.folder(&self.layout.message_root(&name));
            // A project file that cannot be used costs no session.
            let project = self.layout.project(&name).unwrap_or_else(|why| {
                skipped.push(why);
                Project::default()
            });
            if let Some(dir) = &sessions {
                let own = dir.ids(skipped).into_iter();
                ids.extend(own.map(|id| (shelves.len(), id)));
            }
            shelves.push(Shelf {
                name: name.into(),
                project,
                sessions,
                messages: messages.ok().flatten(),
            });
        }
        (shelves, ids)
    }

    /// Names the folders of messages whose session has no file, not even one that cannot be read.
    fn name_orphans(&self, shelves: &[Shelf], ids: &[(usize, String)], skipped: &mut Vec<Skipped>) {
        let ids: HashSet<&str> = ids.iter().map(|(_, id)| id.as_str()).collect();
        let folders: Vec<&str> = shelves.iter().map(|shelf| &*shelf.name).collect();
        for root in self.layout.message_roots(&folders) {
            let reason = SkipReason::OrphanMessages;
            orphans(&self.layout.files, &root, &ids, reason, skipped);
        }
    }

    /// One session; `None` when it has gone since its folder was listed.
    fn listed(&self, shelf: &Shelf, id: &str, before: &Known) -> Option<(Fingerprint, Listed)> {
        let mut files = vec![state(&shelf.sessions.as_ref()?.stat(id)?)];
        let messages = shelf.messages.as_ref().and_then(|all| all.stat_of(id));
        files.extend(messages.as_ref().map(state));
        let head = fingerprint(files, &shelf.project);
        let known = before.get(&(shelf.name.clone(), id.into()));
        if let Some(known) = known.filter(|(before, _)| *before == head) {
            return Some(known.clone());
        }
        let record = self.read_record(shelf, id);
        let header = record.and_then(|session| session::header(&session).map(Arc::new));
        Some((head, header))
    }

    /// The state of all files that a session is read from.
    pub(super) fn state_of(&self, header: &Header) -> Option<Fingerprint> {
        let folder = header.project_id.as_deref();
        let folder = folder.filter(|_| header.generation == self.layout.name())?;
        let sessions = self.folder(&self.layout.session_dir(folder)).ok()??;
        let mut files = vec![state(&sessions.stat(&header.id)?)];
        add_states(&self.layout, (folder, &header.id), &mut files);
        let project = (&header.project_name, &header.worktree);
        Some(fingerprint(files, project))
    }

    fn read_record(&self, shelf: &Shelf, id: &str) -> Result<SessionText, Skipped> {
        let gone = || {
            let place = self.path(&shelf.name, id);
            Skipped::new(&place, SkipReason::Unreadable, "it has gone")
        };
        let sessions = shelf.sessions.as_ref().ok_or_else(gone)?;
        let text = sessions.text(id)?;
        let first = shelf.messages.as_ref().map(|messages| first(messages, id));
        let first = first.unwrap_or_default();
        Ok(SessionText {
            id: id.into(),
            generation: self.layout.name(),
            folder: shelf.name.clone(),
            place: sessions.file(id),
            text: Arc::from(text),
            project: Project {
                name: shelf.project.name.clone(),
                worktree: shelf.project.worktree.clone().or(first.root),
            },
            agent: first.agent,
            directory: first.cwd,
            fork_of: None,
        })
    }

    /// One session's record as it is now, of the project it is listed in; `None` when there is none.
    pub(super) fn record(&self, id: &str) -> Result<Option<SessionText>, Skipped> {
        let mut found: Vec<(Option<i64>, Result<SessionText, Skipped>)> = Vec::new();
        let mut odd = None;
        for name in self.layout.folders(&mut Vec::new()) {
            let sessions = match self.folder(&self.layout.session_dir(&name)) {
                Ok(Some(sessions)) if sessions.stat(id).is_some() => sessions,
                Ok(_) => continue,
                Err(why) => {
                    odd = Some(why);
                    continue;
                }
            };
            let messages = self.folder(&self.layout.message_root(&name));
            let shelf = Shelf {
                project: self.layout.project(&name).unwrap_or_default(),
                name: name.into(),
                sessions: Some(sessions),
                messages: messages.ok().flatten(),
            };
            let read = self.read_record(&shelf, id);
            let header = read.as_ref().ok();
            let header = header.and_then(|read| session::header(read).ok());
            found.push((header.map(|header| header.updated), read));
        }
        let newest = found.iter().map(|(updated, _)| *updated).max().flatten();
        match found.into_iter().find(|(updated, _)| *updated == newest) {
            Some((_, read)) => read.map(Some),
            None => odd.map_or(Ok(None), Err),
        }
    }

    fn path(&self, folder: &str, id: &str) -> PathBuf {
        let below = self.layout.session_dir(folder).join(format!("{id}.json"));
        self.layout.files.root.join(below)
    }

    /// The headers, one of each id: the last changed; of two alike, the first by folder.
    fn once_each(&self, known: &Known, skipped: &mut Vec<Skipped>) -> Vec<Arc<Header>> {
        let mut all: Vec<(&Key, &Listed)> = known.iter().map(|(key, one)| (key, &one.1)).collect();
        all.sort_unstable_by(|((a, one), _), ((b, other), _)| (one, a).cmp(&(other, b)));
        let mut headers = Vec::with_capacity(all.len());
        for same in all.chunk_by(|((_, one), _), ((_, other), _)| one == other) {
            let updated = |listed: &Listed| listed.as_ref().map(|header| header.updated).ok();
            let newest = same.iter().map(|(_, one)| updated(one)).max().flatten();
            let winner = same.iter().find(|(_, one)| updated(one) == newest);
            for (key, one) in same {
                match (one, winner) {
                    (Err(why), _) => skipped.push(why.clone()),
                    (Ok(header), Some((winner, _))) if key == winner => {
                        headers.push(header.clone());
                    }
                    (Ok(_), winner) => {
                        let winner = winner.map(|((folder, id), _)| self.path(folder, id));
                        let winner = winner.unwrap_or_default();
                        let detail = format!("read from {}", winner.display());
                        let path = self.path(&key.0, &key.1);
                        skipped.push(Skipped::new(&path, SkipReason::DuplicateId, detail));
                    }
                }
            }
        }
        headers
    }
}

/// The fingerprint of files and what they belong to. As long as one could be written again without a trace it is another one
/// than afterwards.
fn fingerprint(files: Vec<FileState>, beside: impl Hash) -> Fingerprint {
    let now = SystemClock.now().as_millis();
    let is_hot = files.iter().any(|file| is_hot(file, now));
    Fingerprint::of(&(files, beside, is_hot))
}
