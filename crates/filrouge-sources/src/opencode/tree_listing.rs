//! The sessions of a file storage, read once and looked at again by their files' states.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::generation::{Listed, Project, SessionText};
use super::session;
use super::tree::{FileTree, Layout, lock, orphans};
use super::tree_first::{First, first};
use super::tree_known::Known;
use super::tree_notes::{Beside, Key, Notes};
use super::tree_state::{FileMark, Marks, State};
use crate::by_two::by_two;
use crate::files::Folder;
use crate::{Header, ReadError, SkipReason, Skipped, SourceError, Stamp};

/// Fewer files than this are read by one thread.
const FILES_PER_THREAD: usize = 24;
/// Fewer files than this are looked at by one thread.
const LOOKED_PER_THREAD: usize = 128;

/// A session file that was seen.
struct Seen {
    /// Its index among the project folders.
    project: usize,
    id: String,
    mark: FileMark,
}

/// The folder of a project's sessions.
struct Shelf {
    project: String,
    sessions: Option<Folder>,
}

/// What lies in the session folders at one moment.
#[derive(Default)]
struct Walk {
    shelves: Vec<Shelf>,
    seen: Vec<Seen>,
    marks: Marks,
}

impl<L: Layout> FileTree<L> {
    /// Everything in the session folders.
    fn walk(&self, skipped: &mut Vec<Skipped>) -> Result<Walk, SourceError> {
        self.check_root()?;
        let mut walk = Walk::default();
        let marks = &mut walk.marks;
        let mut ids = Vec::new();
        for (project, name) in self.layout.folders(skipped).into_iter().enumerate() {
            marks.put(&name);
            marks.put(&self.layout.project_mark(&name));
            let dir = self.folder(&self.layout.session_dir(&name));
            let sessions = dir.unwrap_or_else(|why| {
                skipped.push(why);
                None
            });
            if let Some(dir) = &sessions {
                if let Some(stat) = dir.own_stat() {
                    marks.add(&stat);
                }
                ids.extend(dir.ids(skipped).into_iter().map(|id| (project, id)));
            }
            walk.shelves.push(Shelf {
                project: name,
                sessions,
            });
        }
        let looked = by_two(&ids, LOOKED_PER_THREAD, |(project, id)| {
            let sessions = walk.shelves.get(*project)?.sessions.as_ref()?;
            sessions.stat(id).map(|stat| FileMark::of(&stat))
        });
        for ((project, id), mark) in ids.into_iter().zip(looked) {
            // One that has gone since the folder was listed is not there.
            if let Some(mark) = mark {
                marks.put(&id);
                marks.put(&mark);
                walk.seen.push(Seen { project, id, mark });
            }
        }
        for root in self.message_roots(&walk.shelves) {
            // A folder of messages that has come or gone.
            let dir = self.folder(&root).ok().flatten();
            walk.marks
                .put(&dir.and_then(|dir| dir.own_stat()).map(|s| FileMark::of(&s)));
        }
        Ok(walk)
    }

    fn message_roots(&self, shelves: &[Shelf]) -> Vec<PathBuf> {
        let folders: Vec<&str> = shelves.iter().map(|shelf| &*shelf.project).collect();
        self.layout.message_roots(&folders)
    }

    /// Names the folders of messages whose session has no file, not even one that cannot be read.
    fn name_orphans(&self, walk: &Walk, skipped: &mut Vec<Skipped>) {
        let ids: HashSet<&str> = walk.seen.iter().map(|seen| &*seen.id).collect();
        for root in self.message_roots(&walk.shelves) {
            let reason = SkipReason::OrphanMessages;
            orphans(self.layout.files(), &root, &ids, reason, skipped);
        }
    }

    /// The mark of a walk, and of the folders in which a first message may have come.
    fn mark(
        &self,
        mut marks: Marks,
        now: impl Fn(&Key, Option<FileMark>) -> Option<FileMark>,
    ) -> Stamp {
        let known = lock(&self.known);
        let waits = |known: &Known| known.waits;
        let mut waiting: Vec<_> = known
            .iter()
            .filter_map(|(key, known)| Some((key, waits(known)?)))
            .collect();
        waiting.sort_unstable_by_key(|(key, _)| *key);
        for (key, before) in waiting {
            marks.put(&now(key, before));
        }
        marks.finish()
    }

    /// The state of a session's folder of messages.
    fn messages_mark(&self, (folder, id): &Key) -> Option<FileMark> {
        let root = self.folder(&self.layout.message_root(folder)).ok()??;
        root.stat_of(id).map(|stat| FileMark::of(&stat))
    }

    /// [`super::generation::Generation::news`].
    pub(super) fn listed(
        &self,
        last: Option<Stamp>,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Option<Listed>, SourceError> {
        let (began, asked) = (self.stamps.now(), Instant::now());
        *lock(&self.looked) = None;
        let walk = self.walk(skipped)?;
        let now = self.mark(walk.marks.clone(), |key, _| self.messages_mark(key));
        if last == Some(now) {
            return Ok(None);
        }
        self.name_orphans(&walk, skipped);
        let told = |shelf: &Shelf| self.told(&shelf.project, skipped);
        let projects: Vec<Project> = walk.shelves.iter().map(told).collect();
        let mut known = std::mem::take(&mut *lock(&self.known));
        let mut kept = HashMap::with_capacity(walk.seen.len());
        let mut fresh = Vec::new();
        for seen in walk.seen {
            let Some(shelf) = walk.shelves.get(seen.project) else {
                continue;
            };
            let key = (shelf.project.clone(), seen.id);
            match known.remove(&key) {
                Some(mut old) if old.mark == seen.mark && old.waits.is_none() => {
                    old.outer = None;
                    kept.insert(key, old);
                }
                _ => fresh.push(Fresh {
                    key,
                    mark: seen.mark,
                    project: seen.project,
                }),
            }
        }
        let noted = std::mem::take(&mut *lock(&self.noted));
        let (read, fresh) = self.read_many(fresh, &walk.shelves, &noted, began);
        let there = fresh.iter().filter(|fresh| noted.has(&fresh.key)).count();
        if there < noted.len() || known.values().any(|known| known.is_noted()) {
            self.notes_gone.store(true, Ordering::Relaxed);
        }
        for (fresh, read) in fresh.into_iter().zip(read) {
            match read {
                Ok(known) => drop(kept.insert(fresh.key, known)),
                Err(why) => skipped.push(why),
            }
        }
        let by_folder: HashMap<&str, &Project> = walk
            .shelves
            .iter()
            .map(|shelf| &*shelf.project)
            .zip(&projects)
            .collect();
        for ((folder, _), known) in &mut kept {
            if let Some(project) = by_folder.get(&**folder) {
                known.belong(project);
            }
        }
        let (headers, places) = self.once_each(&kept, skipped);
        *lock(&self.known) = kept;
        let mark = self.mark(walk.marks, |_, before| before);
        self.stamps.retain(|id| places.contains_key(id));
        *lock(&self.places) = Arc::new(places);
        *lock(&self.looked) = Some(asked);
        Ok(Some(Listed { mark, headers }))
    }

    /// A project file that cannot be used costs no session.
    fn told(&self, folder: &str, skipped: &mut Vec<Skipped>) -> Project {
        self.layout.project(folder).unwrap_or_else(|why| {
            skipped.push(why);
            Project::default()
        })
    }

    /// Reads session files on two threads where there are many.
    fn read_many(
        &self,
        fresh: Vec<Fresh>,
        shelves: &[Shelf],
        noted: &Notes,
        now: i64,
    ) -> (Vec<Read<Box<Known>>>, Vec<Fresh>) {
        // One folder for all projects, or one each.
        let messages: Vec<_> = shelves
            .iter()
            .map(|shelf| self.folder(&self.layout.message_root(&shelf.project)))
            .map(|root| root.ok().flatten())
            .collect();
        let one = |fresh: &Fresh| {
            let at = fresh.project;
            let sessions = shelves.get(at).and_then(|shelf| shelf.sessions.as_ref());
            let messages = messages.get(at).and_then(Option::as_ref);
            let known = match noted.of(&fresh.key) {
                Some(noted) if noted.holds(fresh.mark, messages, &fresh.key.1) => {
                    Known::recalled(noted)
                }
                _ => self.known_of(fresh, sessions, messages, now)?,
            };
            Ok(Box::new(known))
        };
        (by_two(&fresh, FILES_PER_THREAD, one), fresh)
    }

    fn known_of(
        &self,
        fresh: &Fresh,
        sessions: Option<&Folder>,
        messages: Option<&Folder>,
        now: i64,
    ) -> Read<Known> {
        let (folder, id) = &fresh.key;
        let before = || Some(FileMark::of(&messages?.stat_of(id)?));
        let before = before();
        let (session, first) = match sessions {
            Some(sessions) => self.read_in(sessions, messages, folder, id)?,
            None => self.read(folder, id)?,
        };
        let beside = before.map(|folder| Beside {
            folder,
            messages: first,
        });
        let beside = beside.filter(|beside| {
            session.agent.is_some() && fresh.mark.settles() <= now && beside.is_settled(now)
        });
        Ok(Known {
            mark: fresh.mark,
            waits: session.agent.is_none().then_some(before),
            header: session::header(self.layout.name(), &session).map(Arc::new),
            root: session.project.worktree.clone(),
            session: Some(session),
            beside,
            is_news: true,
            outer: None,
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
            && let Some(session) = &known.session
        {
            return Ok(Some(session.clone()));
        }
        let (mut session, _) = self.read(folder, id)?;
        if let Ok(project) = self.layout.project(folder) {
            session.project.name = project.name;
            session.project.worktree = project.worktree.or(session.project.worktree);
        }
        Ok(Some(session))
    }

    fn read(&self, folder: &str, id: &str) -> Read<(SessionText, FirstRead)> {
        let below = self.layout.session_dir(folder);
        let gone = || {
            let place = self.layout.files().root.join(&below);
            let place = place.join(format!("{id}.json"));
            Skipped::new(&place, SkipReason::Unreadable, "it has gone")
        };
        let sessions = self.folder(&below)?.ok_or_else(gone)?;
        let messages = self.folder(&self.layout.message_root(folder));
        self.read_in(&sessions, messages.ok().flatten().as_ref(), folder, id)
    }

    fn read_in(
        &self,
        sessions: &Folder,
        messages: Option<&Folder>,
        folder: &str,
        id: &str,
    ) -> Read<(SessionText, FirstRead)> {
        let text = sessions.text(id)?;
        let first = messages.map_or_else(First::default, |messages| first(messages, id));
        let session = SessionText {
            id: id.into(),
            folder: folder.into(),
            place: sessions.file(id),
            text: Arc::from(text),
            project: Project {
                name: None,
                worktree: first.root,
            },
            agent: first.agent,
            directory: first.cwd,
            fork_of: None,
        };
        Ok((session, first.read))
    }

    /// The headers, one of each id: the last changed; of two alike, the first by folder. Where they are.
    fn once_each(
        &self,
        known: &HashMap<Key, Box<Known>>,
        skipped: &mut Vec<Skipped>,
    ) -> (Vec<Arc<Header>>, Places) {
        let mut all: Vec<(&Key, &Known)> = known.iter().map(|(key, one)| (key, &**one)).collect();
        all.sort_unstable_by(|((a, one), _), ((b, other), _)| (one, a).cmp(&(other, b)));
        let path = |(folder, id): &Key| {
            let below = self.layout.session_dir(folder).join(format!("{id}.json"));
            self.layout.files().root.join(below)
        };
        let (mut headers, mut places) = (Vec::with_capacity(all.len()), Places::new());
        for same in all.chunk_by(|((_, one), _), ((_, other), _)| one == other) {
            let updated = |known: &Known| known.header.as_ref().map(|header| header.updated).ok();
            let newest = same.iter().map(|(_, known)| updated(known)).max().flatten();
            let winner = same.iter().find(|(_, known)| updated(known) == newest);
            let Some((winner, known)) = winner else {
                continue;
            };
            let place = Place {
                folder: winner.0.as_str().into(),
                outer: known.outer,
            };
            places.insert(winner.1.as_str().into(), place);
            for (key, known) in same {
                match &known.header {
                    Ok(header) if key == winner => headers.push(header.clone()),
                    Ok(_) => {
                        let detail = format!("read from {}", path(winner).display());
                        let reason = SkipReason::DuplicateId;
                        skipped.push(Skipped::new(&path(key), reason, detail));
                    }
                    Err(why) => skipped.push(why.clone()),
                }
            }
        }
        (headers, places)
    }
}

/// Sessions by their ids.
pub(super) type Places = HashMap<Box<str>, Place>;

/// Where a session is.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Its project's folder.
    pub(super) folder: Box<str>,
    /// [`Known::outer`].
    pub(super) outer: Option<State>,
}

type Read<T> = Result<T, Skipped>;
type FirstRead = Vec<(Box<str>, FileMark)>;

/// A session file that is to be read.
struct Fresh {
    /// Its project and id.
    key: Key,
    mark: FileMark,
    project: usize,
}
