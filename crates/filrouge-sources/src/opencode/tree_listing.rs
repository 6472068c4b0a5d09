//! The sessions of a file storage, read once and looked at again by their files' states.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use rustix::fs::Stat;
use serde::Deserialize;

use super::generation::{Project, SessionText};
use super::order;
use super::session;
use super::tree::{FileMark, FileTree, Layout, Marks, lock};
use crate::{ReadError, SkipReason, Skipped, SourceError};

/// So many messages are looked at for one that names an agent.
const FIRST_MESSAGES: usize = 4;

/// Fewer files than this are read by one thread.
const FILES_PER_THREAD: usize = 24;

/// A session file that was read.
pub(super) struct Known {
    mark: FileMark,
    session: SessionText,
}

/// A session file that was seen.
struct Seen {
    /// Its index among the project folders.
    project: usize,
    id: String,
    stat: Stat,
}

/// What lies in the session folders at one moment.
#[derive(Default)]
struct Walk {
    folders: Vec<String>,
    seen: Vec<Seen>,
}

impl<L: Layout> FileTree<L> {
    /// Everything in the session folders; `marks` takes its state.
    fn walk(&self, marks: &mut Marks, skipped: &mut Vec<Skipped>) -> Result<Walk, SourceError> {
        self.check_root()?;
        let mut walk = Walk {
            folders: self.layout.folders(skipped),
            seen: Vec::new(),
        };
        for (project, name) in walk.folders.iter().enumerate() {
            marks.put(name);
            marks.put(&self.layout.project_mark(name));
            let dir = match self.folder(&self.layout.session_dir(name)) {
                Ok(Some(dir)) => dir,
                Ok(None) => continue,
                Err(why) => {
                    skipped.push(why);
                    continue;
                }
            };
            if let Some(stat) = dir.own_stat() {
                marks.add(&stat);
            }
            for id in dir.ids(skipped) {
                // One that has gone since the folder was listed is not there.
                if let Some(stat) = dir.stat(&id) {
                    marks.put(&id);
                    marks.add(&stat);
                    walk.seen.push(Seen { project, id, stat });
                }
            }
        }
        Ok(walk)
    }

    /// [`super::generation::Generation::mark`]. The first message of a session whose agent is not known may still come.
    pub(super) fn listing_mark(&self) -> Result<crate::Stamp, SourceError> {
        let mut marks = Marks::default();
        self.walk(&mut marks, &mut Vec::new())?;
        let known = lock(&self.known);
        let mut waiting: Vec<_> = known
            .iter()
            .filter(|(_, known)| known.session.agent.is_none())
            .map(|(key, _)| key.clone())
            .collect();
        drop(known);
        waiting.sort();
        for (folder, id) in waiting {
            let dir = self.folder(&self.layout.message_dir(&folder, &id));
            if let Some(stat) = dir.ok().flatten().and_then(|dir| dir.own_stat()) {
                marks.add(&stat);
            }
        }
        Ok(marks.finish())
    }

    /// [`super::generation::Generation::sessions`].
    pub(super) fn listed(
        &self,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<SessionText>, SourceError> {
        let walk = self.walk(&mut Marks::default(), skipped)?;
        let projects: Vec<Project> = walk.folders.iter().map(|f| self.told(f, skipped)).collect();
        let mut known = std::mem::take(&mut *lock(&self.known));
        let mut kept = HashMap::with_capacity(walk.seen.len());
        let mut fresh = Vec::new();
        for seen in walk.seen {
            let key = (walk.folders[seen.project].clone(), seen.id.clone());
            match known.remove(&key) {
                Some(old)
                    if old.mark == FileMark::of(&seen.stat) && old.session.agent.is_some() =>
                {
                    kept.insert(key, old);
                }
                _ => fresh.push((key, FileMark::of(&seen.stat))),
            }
        }
        for (key, mark, read) in self.read_many(fresh) {
            match read {
                Ok(session) => drop(kept.insert(key, Known { mark, session })),
                Err(why) => skipped.push(why),
            }
        }
        let by_folder: HashMap<&str, &Project> = walk
            .folders
            .iter()
            .map(String::as_str)
            .zip(&projects)
            .collect();
        let mut sessions = Vec::with_capacity(kept.len());
        for known in kept.values_mut() {
            if let Some(project) = by_folder.get(&*known.session.folder) {
                known.session.project.name.clone_from(&project.name);
                if project.worktree.is_some() {
                    known.session.project.worktree.clone_from(&project.worktree);
                }
            }
            sessions.push(known.session.clone());
        }
        *lock(&self.known) = kept;
        let sessions = once_each(sessions, skipped);
        let folders = sessions.iter().map(|s| (s.id.clone(), s.folder.clone()));
        *lock(&self.folders) = folders.collect();
        Ok(sessions)
    }

    /// A project file that cannot be used costs no session.
    fn told(&self, folder: &str, skipped: &mut Vec<Skipped>) -> Project {
        self.layout.project(folder).unwrap_or_else(|why| {
            skipped.push(why);
            Project::default()
        })
    }

    /// Reads session files on two threads where there are many.
    fn read_many(&self, fresh: Vec<(Key, FileMark)>) -> Vec<(Key, FileMark, Read)> {
        let read = |part: &[(Key, FileMark)]| {
            let one =
                |(key, mark): &(Key, FileMark)| (key.clone(), *mark, self.read(&key.0, &key.1));
            part.iter().map(one).collect::<Vec<_>>()
        };
        if fresh.len() < 2 * FILES_PER_THREAD {
            return read(&fresh);
        }
        let (one, other) = fresh.split_at(fresh.len() / 2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| read(other));
            let mut all = read(one);
            // A thread that panicked has told so; its half is missing as if unlisted.
            all.extend(other.join().unwrap_or_default());
            all
        })
    }

    /// One session as it is now; `None` when it is not in that folder.
    pub(super) fn read_session(
        &self,
        folder: &str,
        id: &str,
    ) -> Result<Option<SessionText>, ReadError> {
        let dir = self.folder(&self.layout.session_dir(folder))?;
        let Some(stat) = dir.as_ref().and_then(|dir| dir.stat(id)) else {
            return Ok(None);
        };
        let key = (folder.to_owned(), id.to_owned());
        if let Some(known) = lock(&self.known).get(&key)
            && known.mark == FileMark::of(&stat)
        {
            return Ok(Some(known.session.clone()));
        }
        let mut session = self.read(folder, id)?;
        if let Ok(project) = self.layout.project(folder) {
            session.project.name = project.name;
            session.project.worktree = project.worktree.or(session.project.worktree);
        }
        Ok(Some(session))
    }

    fn read(&self, folder: &str, id: &str) -> Read {
        let below = self.layout.session_dir(folder);
        let place = self
            .layout
            .files()
            .root
            .join(&below)
            .join(format!("{id}.json"));
        let gone = || Skipped::new(&place, SkipReason::Unreadable, "it has gone");
        let text = self.folder(&below)?.ok_or_else(gone)?.text(id)?;
        let first = self.first(folder, id);
        Ok(SessionText {
            id: id.into(),
            folder: folder.into(),
            place,
            text: Arc::from(text),
            project: Project {
                name: None,
                worktree: first.root,
            },
            agent: first.agent,
            directory: first.cwd,
            fork_of: None,
        })
    }

    /// What the first messages tell. One that cannot be read is named when the session is read.
    fn first(&self, folder: &str, id: &str) -> First {
        let mut first = First::default();
        let dir = self.layout.message_dir(folder, id);
        let Ok(Some(dir)) = self.folder(&dir) else {
            return first;
        };
        let mut ids = dir.ids(&mut Vec::new());
        order::by_id(&mut ids, String::as_str);
        for id in ids.iter().take(FIRST_MESSAGES) {
            if let Ok(text) = dir.text(id) {
                first.learn(&text);
            }
            if first.agent.is_some() {
                break;
            }
        }
        first
    }
}

type Key = (String, String);
type Read = Result<SessionText, Skipped>;

/// What messages tell of their session.
#[derive(Default)]
struct First {
    agent: Option<Box<str>>,
    cwd: Option<Box<str>>,
    root: Option<Box<str>>,
}

#[derive(Deserialize)]
struct Facts<'a> {
    #[serde(borrow)]
    agent: Option<Cow<'a, str>>,
    mode: Option<Cow<'a, str>>,
    path: Option<Places<'a>>,
}

#[derive(Deserialize)]
struct Places<'a> {
    #[serde(borrow)]
    cwd: Option<Cow<'a, str>>,
    root: Option<Cow<'a, str>>,
}

impl First {
    fn learn(&mut self, text: &str) {
        let Ok(facts) = serde_json::from_str::<Facts<'_>>(text) else {
            return;
        };
        let own = |text: Option<Cow<'_, str>>| text.map(|t| t.into_owned().into());
        self.agent = self.agent.take().or(own(facts.agent.or(facts.mode)));
        if let Some(path) = facts.path {
            self.cwd = self.cwd.take().or(own(path.cwd));
            self.root = self.root.take().or(own(path.root));
        }
    }
}

/// Keeps one session of each id, the last changed; of two alike, the first by folder.
fn once_each(mut sessions: Vec<SessionText>, skipped: &mut Vec<Skipped>) -> Vec<SessionText> {
    sessions.sort_by(|a, b| (&a.id, &a.folder).cmp(&(&b.id, &b.folder)));
    let mut kept: Vec<SessionText> = Vec::with_capacity(sessions.len());
    for session in sessions {
        let Some(other) = kept.last_mut().filter(|other| other.id == session.id) else {
            kept.push(session);
            continue;
        };
        let updated = |s: &SessionText| session::header("", s).map(|header| header.updated);
        let (winner, loser) = match (updated(other), updated(&session)) {
            (_, Err(_)) => (other.clone(), session),
            (Ok(there), Ok(here)) if here <= there => (other.clone(), session),
            _ => (session, other.clone()),
        };
        skipped.push(match session::header("", &loser) {
            Ok(_) => {
                let detail = format!("read from {}", winner.place.display());
                Skipped::new(&loser.place, SkipReason::DuplicateId, detail)
            }
            Err(why) => why,
        });
        *other = winner;
    }
    kept
}
