//! What one process has read of a file storage to list it, for others: thousands of small files need not be read again.
//!
//! A header is taken only while its session's file, its folder of messages and the first messages, which tell its agent,
//! are in the very states they were read in; each of these had settled, so that whatever is written leaves another one.

use std::collections::HashMap;
use std::sync::Arc;

use super::notes::{Head, In, Out};
use super::tree_state::FileMark;
use crate::Header;
use crate::files::Folder;

/// The head of this version's notes.
const HEAD: Head = *b"listed01";

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
                .all(|(message, mark)| is(&format!("{id}/{message}.json"), mark))
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

/// What [`write`] noted of the storage at `place`; nothing for anything else.
pub(super) fn read(bytes: &[u8], place: &str, generation: &'static str) -> HashMap<Key, Noted> {
    let all = In::of(bytes, HEAD, place, generation).and_then(|mut rest| {
        let mut all = HashMap::new();
        while !rest.is_empty() {
            let (key, noted) = session(&mut rest, generation)?;
            all.insert(key, noted);
        }
        Some(all)
    });
    all.unwrap_or_default()
}

fn mark(rest: &mut In<'_>) -> Option<FileMark> {
    let mut numbers = [0; 6];
    for number in &mut numbers {
        *number = rest.number()?;
    }
    Some(FileMark::of_numbers(numbers))
}

fn session(rest: &mut In<'_>, generation: &'static str) -> Option<(Key, Noted)> {
    let (folder, id) = (rest.text()?, rest.text()?);
    let own = mark(rest)?;
    let mut beside = Beside {
        folder: mark(rest)?,
        messages: Vec::new(),
    };
    for _ in 0..rest.length()? {
        beside.messages.push((rest.text()?.into(), mark(rest)?));
    }
    let header = rest.header(folder, id, generation)?;
    let noted = Noted {
        mark: own,
        beside,
        header: Arc::new(header),
    };
    Some(((folder.to_owned(), id.to_owned()), noted))
}
