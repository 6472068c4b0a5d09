//! The sessions of a file storage: all files of each are looked at, and its record is read again when one has changed.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::generation::{Project, SessionText};
use super::layout::{Layout, orphans};
use super::session;
use super::tree_first::first;
use super::tree_messages::add_states;
use super::tree_state::Marks;
use crate::by_two::by_two;
use crate::files::Folder;
use crate::locked::locked;
use crate::{Fingerprint, Header, Listing, SkipReason, Skipped, SourceError};

/// Fewer sessions than this are looked at by one thread.
const SESSIONS_PER_THREAD: usize = 4;

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

/// The sessions as they were listed last, with their fingerprints.
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

    /// [`super::generation::Generation::list`].
    pub(super) fn listing(&self) -> Result<Arc<Listing>, SourceError> {
        self.check_root()?;
        let mut skipped = Vec::new();
        let (shelves, ids) = self.shelves(&mut skipped);
        self.name_orphans(&shelves, &ids, &mut skipped);
        let before = std::mem::take(&mut *locked(&self.known));
        let listed = by_two(&ids, SESSIONS_PER_THREAD, |(shelf, id)| {
            self.listed(shelves.get(*shelf)?, id, &before)
        });
        let mut known = Known::with_capacity(ids.len());
        for ((shelf, id), listed) in ids.into_iter().zip(listed) {
            if let (Some(shelf), Some(listed)) = (shelves.get(shelf), listed) {
                known.insert((shelf.name.clone(), id.into()), listed);
            }
        }
        let headers = self.once_each(&known, &mut skipped);
        *locked(&self.known) = known;
        let listing = Listing {
            headers,
            skipped,
            truncated: false,
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
        let mut marks = Marks::default();
        marks.add(&shelf.sessions.as_ref()?.stat(id)?);
        add_states(&self.layout, (&shelf.name, id), &mut marks);
        let files = marks.finish();
        let fingerprint = Fingerprint::of(&(files, &shelf.project));
        let known = before.get(&(shelf.name.clone(), id.into()));
        if let Some(known) = known.filter(|(before, _)| *before == fingerprint) {
            return Some(known.clone());
        }
        let header = self.read_record(shelf, id).and_then(|session| {
            let header = session::header(self.layout.name(), &session)?;
            Ok(Arc::new(Header {
                fingerprint: Some(fingerprint),
                ..header
            }))
        });
        Some((fingerprint, header))
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
            let header = header.and_then(|read| session::header(self.layout.name(), read).ok());
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
