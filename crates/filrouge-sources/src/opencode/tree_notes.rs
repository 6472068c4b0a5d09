//! What one process has read of a file storage to list it, for others: thousands of small files need not be read again.
//!
//! A header is taken only while its session's file, its folder of messages and the first messages, which tell its agent,
//! are in the very states they were read in; each of these had settled, so that whatever is written leaves another one.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::notes::{Head, In, Out};
use super::tree_state::FileMark;
use crate::Header;
use crate::files::Folder;

/// The head of this version's notes.
const HEAD: Head = *b"listed01";
/// Bytes of a file's state.
const MARK: usize = 6 * 8;

/// A session's file: its project's folder and its id.
pub(super) type Key = (String, String);

/// What tells a session's header beside its own file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Beside {
    /// The folder of messages.
    pub(super) folder: FileMark,
    /// The first messages.
    pub(super) messages: Vec<(Box<str>, FileMark)>,
}

impl Beside {
    /// Whether nobody can have written since without a trace.
    pub(super) fn is_settled(&self, now: i64) -> bool {
        let messages = self.messages.iter().map(|(_, mark)| mark);
        let mut all = messages.chain([&self.folder]);
        all.all(|mark| mark.settles() <= now)
    }

    /// Whether all is as it was; `root` has the folder of messages.
    fn holds(&self, root: &Folder, id: &str) -> bool {
        let is = |name: &str, mark: &FileMark| {
            root.stat_of(name)
                .is_some_and(|stat| FileMark::of(&stat) == *mark)
        };
        is(id, &self.folder)
            && self
                .messages
                .iter()
                .all(|(message, mark)| is(&[id, "/", &**message, ".json"].concat(), mark))
    }
}

/// What is noted of a session.
#[derive(Debug, Clone)]
pub(super) struct Noted {
    pub(super) mark: FileMark,
    pub(super) beside: Beside,
    /// Without what its project's file tells.
    pub(super) header: Arc<Header>,
}

impl Noted {
    /// Whether the session, whose file is in the state `mark`, is as it was noted.
    pub(super) fn holds(&self, mark: FileMark, messages: Option<&Folder>, id: &str) -> bool {
        self.mark == mark && messages.is_some_and(|root| self.beside.holds(root, id))
    }
}

/// Notes of the storage at `place`.
pub(super) fn write<'a>(
    place: &str,
    generation: &str,
    all: impl Iterator<Item = (&'a Key, &'a Noted)>,
) -> Vec<u8> {
    let mut out = Out::new(HEAD, place, generation);
    for ((folder, id), noted) in all {
        out.text(folder);
        out.text(id);
        put(&mut out, &noted.mark);
        put(&mut out, &noted.beside.folder);
        out.length(noted.beside.messages.len());
        for (message, mark) in &noted.beside.messages {
            out.text(message);
            put(&mut out, mark);
        }
        out.header(&noted.header);
    }
    out.finish()
}

fn put(out: &mut Out, mark: &FileMark) {
    mark.numbers().into_iter().for_each(|n| out.number(n));
}

/// What was noted of a storage. What is noted of a session is read when it is asked for, by whichever thread asks.
#[derive(Default)]
pub(super) struct Notes {
    bytes: Box<[u8]>,
    generation: &'static str,
    /// Where the session of a number begins.
    places: HashMap<u64, usize>,
}

impl Notes {
    /// What [`write`] noted of the storage at `place`; nothing for anything else.
    pub(super) fn read(bytes: &[u8], place: &str, generation: &'static str) -> Self {
        let places = In::of(bytes, HEAD, place, generation).and_then(|mut rest| {
            let mut places = HashMap::new();
            while !rest.is_empty() {
                let at = bytes.len() - rest.len();
                places.insert(pass(&mut rest)?, at);
            }
            Some(places)
        });
        places.map_or_else(Self::default, |places| Self {
            bytes: bytes.into(),
            generation,
            places,
        })
    }

    /// Of how many sessions there is something.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is something of a session.
    pub(super) fn has(&self, (folder, id): &Key) -> bool {
        self.places.contains_key(&number(folder, id))
    }

    /// What is noted of a session.
    pub(super) fn of(&self, (folder, id): &Key) -> Option<Noted> {
        let at = self.places.get(&number(folder, id))?;
        let mut rest = In::from(self.bytes.get(*at..)?);
        // Another one may have the same number.
        let is_own = rest.text()? == folder && rest.text()? == id;
        is_own.then(|| session(&mut rest, (folder, id), self.generation))?
    }
}

/// The number that a session goes by.
fn number(folder: &str, id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (folder, id).hash(&mut hasher);
    hasher.finish()
}

/// Passes over what is noted of a session; its number.
fn pass(rest: &mut In<'_>) -> Option<u64> {
    let number = number(rest.text()?, rest.text()?);
    rest.pass(2 * MARK)?;
    for _ in 0..rest.length()? {
        rest.text()?;
        rest.pass(MARK)?;
    }
    rest.pass_header()?;
    Some(number)
}

fn mark(rest: &mut In<'_>) -> Option<FileMark> {
    let mut numbers = [0; 6];
    for number in &mut numbers {
        *number = rest.number()?;
    }
    Some(FileMark::of_numbers(numbers))
}

/// What is noted behind the key of a session.
fn session(
    rest: &mut In<'_>,
    (folder, id): (&str, &str),
    generation: &'static str,
) -> Option<Noted> {
    let own = mark(rest)?;
    let mut beside = Beside {
        folder: mark(rest)?,
        messages: Vec::new(),
    };
    for _ in 0..rest.length()? {
        beside.messages.push((rest.text()?.into(), mark(rest)?));
    }
    let header = rest.header(folder, id, generation)?;
    Some(Noted {
        mark: own,
        beside,
        header: Arc::new(header),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Changes;

    fn noted(at: u64) -> (Key, Noted) {
        let key = (format!("p{}", at % 3), format!("s{at}"));
        let text = |n: u64| (at >> n & 1 == 1).then(|| format!("text {at} {n}").into());
        let mark = |n| FileMark::of_numbers([at, n, 1, 2, 3, 4]);
        let messages = (0..at % 3).map(|n| (format!("m{n}").into(), mark(n)));
        let header = Header {
            id: key.1.as_str().into(),
            source: "opencode",
            generation: "storage",
            project_id: Some(key.0.as_str().into()),
            project_name: None,
            fork_of: None,
            parent_id: text(0),
            worktree: text(1),
            directory: text(2),
            title: text(3),
            agent: text(4),
            version: text(5),
            created: 5,
            updated: 6,
            archived: at.is_multiple_of(2).then_some(7),
            changes: at.is_multiple_of(3).then(Changes::default),
        };
        let noted = Noted {
            mark: mark(8),
            beside: Beside {
                folder: mark(9),
                messages: messages.collect(),
            },
            header: Arc::new(header),
        };
        (key, noted)
    }

    #[test]
    fn what_was_noted_of_each_is_read_when_it_is_asked_for() {
        let all: Vec<(Key, Noted)> = (0..64).map(noted).collect();
        let bytes = write(
            "/at",
            "storage",
            all.iter().map(|(key, noted)| (key, noted)),
        );
        let notes = Notes::read(&bytes, "/at", "storage");
        assert_eq!(notes.len(), all.len());
        for (key, noted) in &all {
            assert!(notes.has(key));
            let back = notes.of(key).unwrap();
            assert_eq!((back.mark, &back.beside), (noted.mark, &noted.beside));
            assert_eq!(back.header, noted.header);
        }
        let other = ("p0".to_owned(), "s1".to_owned());
        assert!(!notes.has(&other) && notes.of(&other).is_none());
        assert_eq!(Notes::read(&bytes, "/other", "storage").len(), 0);
        assert_eq!(Notes::read(&bytes, "/at", "project").len(), 0);
    }

    #[test]
    fn another_session_of_the_same_number_is_not_taken_for_it() {
        let (key, own) = noted(1);
        let bytes = write("/at", "storage", [(&key, &own)].into_iter());
        let mut notes = Notes::read(&bytes, "/at", "storage");
        let other = ("p1".to_owned(), "s2".to_owned());
        let at = notes.places[&number(&key.0, &key.1)];
        notes.places.insert(number(&other.0, &other.1), at);
        assert!(notes.of(&key).is_some() && notes.of(&other).is_none());
    }
}
