//! Marks of sessions in a file storage that outlive a process.
//!
//! The first number stands for the states of all files. The second one for those of the record and the folder of
//! messages alone, and is there when the session was quiet as the mark was given: while that is the same nothing has
//! changed (see [`super::tree_stamp`]), and two files are looked at instead of hundreds.

use std::collections::HashMap;

use super::tree::{FileTree, Layout, Marks, lock};
use super::tree_messages;
use crate::files::Folder;
use crate::{ReadError, Since, Stamp};

/// Fewer sessions than this are looked at by one thread.
const SESSIONS_PER_THREAD: usize = 48;
/// Fewer sessions than this whose files are all looked at are looked at by one thread.
const WHOLE_PER_THREAD: usize = 2;

/// A session's record and its folder of messages.
struct Outer {
    stamp: Stamp,
    newest: i64,
}

/// The folders of one project.
struct Shelf {
    sessions: Option<Folder>,
    messages: Option<Folder>,
}

impl Shelf {
    fn outer(&self, id: &str) -> Option<Outer> {
        let mut marks = Marks::default();
        marks.add(&self.sessions.as_ref()?.stat(id)?);
        let messages = self.messages.as_ref();
        if let Some(stat) = messages.and_then(|messages| messages.stat_of(id)) {
            marks.add(&stat);
        }
        let newest = marks.newest();
        let stamp = marks.finish();
        Some(Outer { stamp, newest })
    }
}

impl<L: Layout> FileTree<L> {
    fn shelf(&self, folder: &str) -> Shelf {
        let open = |path| self.folder(path).ok().flatten();
        Shelf {
            sessions: open(&self.layout.session_dir(folder)),
            messages: open(&self.layout.message_root(folder)),
        }
    }

    /// [`crate::Source::lasting`].
    pub(super) fn lasting_mark(&self, id: &str) -> Result<Stamp, ReadError> {
        let folder = self.folder_of(id)?;
        let outer = self.shelf(&folder).outer(id).ok_or_else(|| {
            lock(&self.folders).remove(id);
            ReadError::Gone
        })?;
        Ok(self.whole_mark(&folder, id, &outer))
    }

    /// Looks at all files of a session.
    fn whole_mark(&self, folder: &str, id: &str, outer: &Outer) -> Stamp {
        let full = tree_messages::state(&self.layout, folder, id);
        let mut all = Marks::default();
        all.put(&(outer.stamp.0, full.mark));
        let quiet = self.stamps.is_quiet(outer.newest.max(full.newest));
        // Never 0, which stands for a session at work.
        let short = if quiet { outer.stamp.1.max(1) } else { 0 };
        Stamp(all.finish().0, short)
    }

    /// [`crate::Source::since`].
    pub(super) fn marks_since(&self, known: &[(&str, Stamp)]) -> Vec<Since> {
        let folders = lock(&self.folders).clone();
        let mut shelves = HashMap::new();
        for folder in known.iter().filter_map(|(id, _)| folders.get(*id)) {
            if !shelves.contains_key(&**folder) {
                shelves.insert(&**folder, self.shelf(folder));
            }
        }
        // What was not listed is asked for by itself.
        let place = |id: &str| match folders.get(id) {
            Some(folder) => Some((folder.clone(), shelves.get(&**folder)?.outer(id)?)),
            None => {
                let folder = self.folder_of(id).ok()?;
                let outer = self.shelf(&folder).outer(id)?;
                Some((folder, outer))
            }
        };
        let short = |(id, mark): &(&str, Stamp)| match place(id) {
            Some((_, outer)) if mark.1 != 0 && mark.1 == outer.stamp.1.max(1) => {
                (Since::Same, None)
            }
            Some(at) => (Since::Changed, Some(at)),
            None => (Since::Changed, None),
        };
        let looked = halves(known, SESSIONS_PER_THREAD, short);
        let mut all: Vec<Since> = looked.iter().map(|(since, _)| *since).collect();
        let rest: Vec<_> = looked
            .into_iter()
            .zip(known)
            .enumerate()
            .filter_map(|(at, ((_, found), (id, mark)))| Some((at, found?, *id, *mark)))
            .collect();
        let whole = |(at, (folder, outer), id, mark): &(usize, (Box<str>, Outer), &str, Stamp)| {
            let now = self.whole_mark(folder, id, outer);
            let since = match now.0 == mark.0 {
                true if now.1 == mark.1 || now.1 == 0 => Since::Same,
                true => Since::SameAs(now),
                false => Since::Changed,
            };
            (*at, since)
        };
        for (at, since) in halves(&rest, WHOLE_PER_THREAD, whole) {
            if let Some(slot) = all.get_mut(at) {
                *slot = since;
            }
        }
        all
    }
}

/// Does something with each, by two threads where there is enough to do.
fn halves<T: Sync, R: Send>(all: &[T], enough: usize, each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if all.len() < 2 * enough {
        return all.iter().map(each).collect();
    }
    let (one, other) = all.split_at(all.len() / 2);
    let each = &each;
    std::thread::scope(|threads| {
        let other = threads.spawn(move || other.iter().map(each).collect::<Vec<_>>());
        let mut done: Vec<R> = one.iter().map(each).collect();
        match other.join() {
            Ok(mut rest) => done.append(&mut rest),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        done
    })
}
