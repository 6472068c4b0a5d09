//! OpenCode's two file storages. A listing reads a session's record again only if the record has changed, or if a
//! message was added or removed. The session's fingerprint, in contrast, covers all its files.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use filrouge_types::{Clock, SystemClock, lock};

use super::layout::{Layout, report_orphan_folders};
use super::session;
use super::storage::{MessageText, Project, SessionText, Storage};
use super::tree_first::read_first;
use super::tree_messages::{TreeReader, add_states};
use crate::files::{FileState, Folder, file_state, is_hot, is_id};
use crate::object::Writer;
use crate::{Fingerprint, Header, Listing, ReadError, SkipReason, Skipped, SourceError};

/// A project folder: its name, the project's record, and the folders with its sessions and messages.
struct ProjectDir {
    name: Box<str>,
    project: Project,
    sessions: Option<Folder>,
    /// The folder that contains one folder of messages for each session.
    messages: Option<Folder>,
}

/// The name of a session's project folder, and the session's id.
type Key = (Box<str>, Box<str>);

/// The result of listing one session: its header, and a report if its record cannot be used.
type ListedSession = (Option<Arc<Header>>, Option<Skipped>);

/// A session's record and header. If the record is damaged, these are substitutes, with a report.
type ReadRecord = (SessionText, Header, Option<Skipped>);

/// The last listing: each session's header, and a fingerprint of the files from which it was read.
type LastListing = HashMap<Key, (Fingerprint, ListedSession)>;

/// A file storage.
pub(super) struct FileTree {
    layout: Layout,
    /// The last listing, which the next one reuses.
    last: Mutex<LastListing>,
}

impl FileTree {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            last: Mutex::default(),
        }
    }

    fn folder(&self, path: &Path) -> Result<Option<Folder>, Skipped> {
        self.layout.files.folder(path)
    }

    /// Returns an error if the root no longer exists or cannot be opened.
    fn check_root(&self) -> Result<(), SourceError> {
        let files = &self.layout.files;
        let opened = files.root().map(drop);
        opened.map_err(|e| SourceError::from_io(&files.root, &e))
    }

    /// The projects, and the ids of their session files, each with the index of its project.
    fn read_projects(&self, skipped: &mut Vec<Skipped>) -> (Vec<ProjectDir>, Vec<(usize, String)>) {
        let (mut projects, mut ids) = (Vec::new(), Vec::new());
        for name in self.layout.folders(skipped) {
            let sessions_dir = self.layout.session_dir(&name);
            let sessions = self.layout.files.open_folder(&sessions_dir, skipped);
            // Problems with this folder are reported with the sessions whose messages are in it.
            let messages = self.folder(&self.layout.message_root(&name));
            // A project file that cannot be used is reported; its sessions are still listed.
            let project = self.layout.project(&name).unwrap_or_else(|why| {
                skipped.push(why);
                Project::default()
            });
            if let Some(dir) = &sessions {
                let session_ids = dir.ids(skipped).into_iter();
                ids.extend(session_ids.map(|id| (projects.len(), id)));
            }
            projects.push(ProjectDir {
                name: name.into(),
                project,
                sessions,
                messages: messages.ok().flatten(),
            });
        }
        (projects, ids)
    }

    /// Reports the folders of messages whose session has no file, not even an unreadable one.
    fn report_orphans(
        &self,
        projects: &[ProjectDir],
        ids: &[(usize, String)],
        skipped: &mut Vec<Skipped>,
    ) {
        let ids: HashSet<&str> = ids.iter().map(|(_, id)| id.as_str()).collect();
        let is_known = |name: &str| ids.contains(name);
        let folders: Vec<&str> = projects.iter().map(|project| &*project.name).collect();
        for root in self.layout.message_roots(&folders) {
            let reason = SkipReason::OrphanMessages;
            report_orphan_folders(&self.layout.files, &root, is_known, reason, skipped);
        }
    }

    /// Lists one session; `None` when it was removed after its folder was listed.
    fn list_session(
        &self,
        project_dir: &ProjectDir,
        id: &str,
        previous: &LastListing,
    ) -> Option<(Fingerprint, ListedSession)> {
        let sessions = project_dir.sessions.as_ref()?;
        let mut files = vec![file_state(&sessions.stat(id)?)];
        let messages = project_dir.messages.as_ref();
        let messages = messages.and_then(|folder| folder.stat_entry(id));
        files.extend(messages.as_ref().map(file_state));
        let fingerprint = compute_fingerprint(files, &project_dir.project);
        let cached = previous.get(&(project_dir.name.clone(), id.into()));
        if let Some(cached) = cached.filter(|(previous, _)| *previous == fingerprint) {
            return Some(cached.clone());
        }
        let listed = match self.read_record(project_dir, sessions, id) {
            Ok((_, header, report)) => (Some(Arc::new(header)), report),
            Err(why) => (None, Some(why)),
        };
        Some((fingerprint, listed))
    }

    /// Reads a session's record in `sessions`, the folder of the project's sessions. A record that cannot be used does
    /// not hide the session's messages, if it has any.
    fn read_record(
        &self,
        project_dir: &ProjectDir,
        sessions: &Folder,
        id: &str,
    ) -> Result<ReadRecord, Skipped> {
        let messages = project_dir.messages.as_ref();
        let first = messages.map(|messages| read_first(messages, id));
        let first = first.unwrap_or_default();
        let created = first.created;
        let mut session = SessionText {
            id: id.into(),
            generation: self.layout.generation(),
            folder: project_dir.name.clone(),
            place: sessions.file(id),
            text: Arc::default(),
            project: Project {
                name: project_dir.project.name.clone(),
                worktree: project_dir.project.worktree.clone().or(first.root),
            },
            agent: first.agent,
            directory: first.cwd,
            fork_of: None,
            damaged: false,
        };
        let why = match sessions.text(id) {
            Ok(text) => {
                session.text = text.into();
                match session::header(&session) {
                    Ok(header) => return Ok((session, header, None)),
                    Err(why) => why,
                }
            }
            Err(why) => why,
        };
        let Some(created) = created else {
            return Err(why);
        };
        let written = messages.and_then(|messages| messages.stat_entry(id));
        let (seconds, _) = written.map_or((0, 0), |folder| file_state(&folder).2);
        let updated = seconds.saturating_mul(1_000).max(created);
        session.text = session::substitute(created, updated).into();
        session.damaged = true;
        let header = session::header(&session)?;
        Ok((session, header, Some(why)))
    }

    /// The current record of one session, from the project in which the listing finds it; `None` when it does not
    /// exist.
    fn find_record(&self, id: &str) -> Result<Option<SessionText>, Skipped> {
        let mut records = Vec::new();
        let mut failure = None;
        for name in self.layout.folders(&mut Vec::new()) {
            let sessions = match self.folder(&self.layout.session_dir(&name)) {
                Ok(Some(sessions)) if sessions.stat(id).is_some() => sessions,
                Ok(_) => continue,
                Err(why) => {
                    failure = Some(why);
                    continue;
                }
            };
            let messages = self.folder(&self.layout.message_root(&name));
            let project_dir = ProjectDir {
                project: self.layout.project(&name).unwrap_or_default(),
                name: name.into(),
                sessions: None,
                messages: messages.ok().flatten(),
            };
            let read = self.read_record(&project_dir, &sessions, id);
            let header = read.as_ref().ok().map(|(_, header, _)| header);
            records.push((header.map(preference), read));
        }
        // `max_by_key` returns the last maximum, which is the first one in the original order.
        let reversed = records.into_iter().rev();
        match reversed.max_by_key(|(preference, _)| *preference) {
            Some((_, read)) => read.map(|(session, ..)| Some(session)),
            None => failure.map_or(Ok(None), Err),
        }
    }

    /// The path of a session's file.
    fn path(&self, folder: &str, id: &str) -> PathBuf {
        let below = self.layout.session_dir(folder).join(format!("{id}.json"));
        self.layout.files.root.join(below)
    }

    /// The headers, one per id: the last changed undamaged one or, of two with the same time, the first by folder.
    fn newest_headers(
        &self,
        listing: &LastListing,
        skipped: &mut Vec<Skipped>,
    ) -> Vec<Arc<Header>> {
        let sessions = listing.iter().map(|(key, (_, session))| (key, session));
        let mut sessions: Vec<(&Key, &ListedSession)> = sessions.collect();
        sessions.sort_unstable_by(|(a, _), (b, _)| (&a.1, &a.0).cmp(&(&b.1, &b.0)));
        let mut headers = Vec::with_capacity(sessions.len());
        for duplicates in sessions.chunk_by(|((_, id_a), _), ((_, id_b), _)| id_a == id_b) {
            let preference = |(header, _): &ListedSession| header.as_deref().map(preference);
            let reversed = duplicates.iter().rev();
            let Some((kept, _)) = reversed.max_by_key(|(_, session)| preference(session)) else {
                continue;
            };
            for (key, (header, report)) in duplicates {
                skipped.extend(report.clone());
                match header {
                    None => {}
                    Some(header) if key == kept => headers.push(header.clone()),
                    Some(_) => {
                        let detail = format!("read from {}", self.path(&kept.0, &kept.1).display());
                        let path = self.path(&key.0, &key.1);
                        skipped.push(Skipped::new(&path, SkipReason::DuplicateId, detail));
                    }
                }
            }
        }
        headers
    }
}

impl Storage for FileTree {
    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        self.check_root()?;
        let mut skipped = Vec::new();
        let (projects, ids) = self.read_projects(&mut skipped);
        self.report_orphans(&projects, &ids, &mut skipped);
        let previous = std::mem::take(&mut *lock(&self.last));
        let mut current = LastListing::with_capacity(ids.len());
        for (project_dir, id) in ids {
            let project_dir = &projects[project_dir];
            if let Some(listed) = self.list_session(project_dir, &id, &previous) {
                current.insert((project_dir.name.clone(), id.into()), listed);
            }
        }
        let headers = self.newest_headers(&current, &mut skipped);
        *lock(&self.last) = current;
        let listing = Listing {
            headers,
            skipped,
            ..Listing::default()
        };
        Ok(Arc::new(listing.sorted()))
    }

    /// The fingerprint of all files from which a session is read.
    fn fingerprint(&self, header: &Header) -> Option<Fingerprint> {
        let folder = header.project_id.as_deref();
        let folder = folder.filter(|_| header.generation == self.layout.generation())?;
        let sessions = self.folder(&self.layout.session_dir(folder)).ok()??;
        let mut files = vec![file_state(&sessions.stat(&header.id)?)];
        add_states(&self.layout, (folder, &header.id), &mut files);
        let project = (&header.project_name, &header.worktree);
        Some(compute_fingerprint(files, project))
    }

    fn session(&self, id: &str) -> Result<SessionText, ReadError> {
        self.check_root()?;
        // Only ids that a listing can contain are searched for.
        let record = match is_id(id) {
            true => self.find_record(id)?,
            false => None,
        };
        record.ok_or(ReadError::Gone)
    }

    fn messages(
        &self,
        session: &SessionText,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<MessageText>, ReadError> {
        let key = (&*session.folder, &*session.id);
        let Some((reader, ids)) = TreeReader::open(&self.layout, key, skipped) else {
            return Ok(Vec::new());
        };
        let read = ids.iter().filter_map(|id| reader.read_message(id, skipped));
        Ok(read.collect())
    }

    fn place(&self, session: &SessionText, message: &str, part: Option<&str>) -> PathBuf {
        let root = &self.layout.files.root;
        let (folder, id) = (&session.folder, &session.id);
        let dir = match part {
            None => self.layout.message_dir(folder, id),
            Some(_) => self.layout.part_root(folder, id).join(message),
        };
        let file = format!("{}.json", part.unwrap_or(message));
        root.join(dir).join(file)
    }

    fn add_extras(&self, session: &SessionText, metadata: &mut Writer, skipped: &mut Vec<Skipped>) {
        self.layout.add_extras(&session.id, metadata, skipped);
    }

    fn add_orphans(&self, skipped: &mut Vec<Skipped>) -> Result<(), SourceError> {
        self.check_root()?;
        self.layout.add_orphans(skipped);
        Ok(())
    }
}

/// The key by which one of several records of a session is preferred.
const fn preference(header: &Header) -> (bool, i64) {
    (!header.damaged, header.updated)
}

/// A fingerprint of files, and of the data `owner` about their session. As long as a further write could leave a file's
/// times unchanged ([`is_hot`]), the fingerprint is different from the one that is computed later, so that no write is
/// missed.
fn compute_fingerprint(files: Vec<FileState>, owner: impl Hash) -> Fingerprint {
    let time = SystemClock.now().as_millis();
    let is_hot = files.iter().any(|file| is_hot(file, time));
    Fingerprint::compute(&(files, owner, is_hot))
}
