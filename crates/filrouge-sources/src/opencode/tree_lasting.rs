//! Marks of sessions in a file storage that outlive a process.
//!
//! The first number stands for the states of all files. The second one for those of the record and the folder of
//! messages alone, and, in its lowest bit, for whether the session was at work as the mark was given. A quick look
//! compares the second number: two files are looked at instead of hundreds. Of the sessions at work it looks at all files,
//! since those are written in place. What it overlooks, a file written in place in a session that was left alone, a
//! close look finds.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use super::tree::{FileTree, Layout, lock};
use super::tree_listing::Place;
use super::tree_messages::{self, States};
use super::tree_stamp::{Full, is_quiet};
use super::tree_state::{FileMark, Marks, State, of_all};
use crate::by_two::by_two;
use crate::files::Folder;
use crate::{Look, ReadError, Since, Stamp};

/// Fewer sessions than this are looked at by one thread.
const SESSIONS_PER_THREAD: usize = 48;
/// Fewer sessions than this whose files are all looked at are looked at by one thread.
const WHOLE_PER_THREAD: usize = 2;
/// So many sessions at work a quick look looks at wholly, those last written to. More are not worked on at once: they were
/// copied.
pub(super) const AT_WORK_MAX: usize = 16;

/// What a listing has looked at is not looked at again within this time.
const JUST: Duration = Duration::from_secs(1);

/// The folders of one project.
pub(super) struct Shelf {
    sessions: Option<Folder>,
    messages: Option<Folder>,
}

impl Shelf {
    /// The state of a session's record and its folder of messages; `None` when it is not there.
    pub(super) fn outer(&self, id: &str) -> Option<State> {
        let session = self.sessions.as_ref()?.stat(id)?;
        let messages = self.messages.as_ref().and_then(|root| root.stat_of(id));
        let messages = messages.map(|stat| FileMark::of(&stat));
        Some(outer_of(&FileMark::of(&session), messages.as_ref()))
    }
}

/// The state of a record and a folder of messages.
pub(super) fn outer_of(session: &FileMark, messages: Option<&FileMark>) -> State {
    let mut marks = Marks::default();
    marks.add_mark(session);
    if let Some(messages) = messages {
        marks.add_mark(messages);
    }
    marks.state()
}

/// The second number of a mark.
const fn short(outer: &State, at_work: bool, now: i64) -> u64 {
    outer.lasting(now).1 & !1 | at_work as u64
}

const fn is_at_work(mark: Stamp) -> bool {
    mark.1 & 1 == 1
}

/// The mark of a session whose messages are in these states, by their ids.
pub(super) fn mark_of<'a>(
    outer: &State,
    messages: impl Iterator<Item = (&'a str, State)>,
    now: i64,
) -> Stamp {
    let mut newest = outer.newest;
    let numbers = messages.map(|(id, state)| {
        newest = newest.max(state.newest);
        (id, state.number(now))
    });
    let messages = of_all(numbers);
    let mut all = Marks::default();
    all.put(&(outer.lasting(now).0, messages));
    Stamp(all.finish().0, short(outer, !is_quiet(newest, now), now))
}

/// A session that is where it was.
struct Found<'a> {
    /// Its place among those asked for.
    at: usize,
    id: &'a str,
    mark: Stamp,
    folder: Box<str>,
    outer: State,
}

impl<L: Layout> FileTree<L> {
    pub(super) fn shelf(&self, folder: &str) -> Shelf {
        let open = |path| self.folder(path).ok().flatten();
        Shelf {
            sessions: open(&self.layout.session_dir(folder)),
            messages: open(&self.layout.message_root(folder)),
        }
    }

    /// The project folder of a session, and its outer state.
    pub(super) fn placed(&self, id: &str) -> Result<(Box<str>, State), ReadError> {
        let folder = self.folder_of(id)?;
        let outer = self.shelf(&folder).outer(id).ok_or_else(|| {
            self.forget_place(id);
            ReadError::Gone
        })?;
        Ok((folder, outer))
    }

    /// [`crate::Source::lasting`].
    pub(super) fn lasting_mark(&self, id: &str) -> Result<Stamp, ReadError> {
        let now = self.stamps.now();
        let (folder, outer) = self.placed(id)?;
        Ok(self.whole_mark(&folder, id, &outer, now))
    }

    /// Looks at all files of a session.
    fn whole_mark(&self, folder: &str, id: &str, outer: &State, now: i64) -> Stamp {
        let states: States = tree_messages::states(&self.layout, folder, id);
        self.stamps.learn(id, Full::of(&states));
        mark_of(outer, states.iter().map(|(id, state)| (&**id, *state)), now)
    }

    /// [`crate::Source::since`].
    pub(super) fn marks_since(&self, known: &[(&str, Stamp)], look: Look) -> Vec<Since> {
        let now = self.stamps.now();
        let mut all = vec![Since::Changed; known.len()];
        let mut found = self.found(known, now);
        for one in &found {
            if let Some(slot) = all.get_mut(one.at) {
                *slot = Since::Same;
            }
        }
        if look == Look::Quick {
            found.retain(|one| is_at_work(one.mark));
            found.sort_by_key(|one| Reverse(one.outer.newest));
            found.truncate(AT_WORK_MAX);
        }
        let whole = |one: &Found<'_>| {
            let whole = self.whole_mark(&one.folder, one.id, &one.outer, now);
            match whole.0 == one.mark.0 {
                true if whole.1 == one.mark.1 || is_at_work(whole) => Since::Same,
                true => Since::SameAs(whole),
                false => Since::Changed,
            }
        };
        let looked = by_two(&found, WHOLE_PER_THREAD, whole);
        for (one, since) in found.iter().zip(looked) {
            if let Some(slot) = all.get_mut(one.at) {
                *slot = since;
            }
        }
        all
    }

    /// The sessions whose record and folder of messages are as they were.
    fn found<'a>(&self, known: &[(&'a str, Stamp)], now: i64) -> Vec<Found<'a>> {
        let just_looked = lock(&self.looked).take();
        let just_looked = just_looked.is_some_and(|at| at.elapsed() < JUST);
        let places = lock(&self.places).clone();
        let looked = |place: &Place| place.outer.filter(|_| just_looked);
        let mut shelves = HashMap::new();
        let own = known.iter().filter_map(|(id, _)| places.get(*id));
        for place in own.filter(|place| looked(place).is_none()) {
            let folder = &*place.folder;
            if !shelves.contains_key(folder) {
                shelves.insert(folder, self.shelf(folder));
            }
        }
        // What was not listed is asked for by itself.
        let place = |id: &str| match places.get(id) {
            Some(place) => {
                let outer = || shelves.get(&*place.folder)?.outer(id);
                Some((place.folder.clone(), looked(place).or_else(outer)?))
            }
            None => self.placed(id).ok(),
        };
        let one = |(id, mark): &(&'a str, Stamp)| {
            let (folder, outer) = place(id)?;
            let same = short(&outer, is_at_work(*mark), now) == mark.1;
            same.then_some((*id, *mark, folder, outer))
        };
        let looked = by_two(known, SESSIONS_PER_THREAD, one);
        let found = looked.into_iter().enumerate().filter_map(|(at, one)| {
            let (id, mark, folder, outer) = one?;
            Some(Found {
                at,
                id,
                mark,
                folder,
                outer,
            })
        });
        found.collect()
    }
}
