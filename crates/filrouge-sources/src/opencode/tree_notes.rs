//! What one process has read of a file storage to list it, for others: thousands of small files need not be read again.
//!
//! A header is taken only while its session's file, its folder of messages and the first messages, which tell its agent,
//! are in the very states they were read in; each of these had settled, so that whatever is written leaves another one.

use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::Arc;

use super::tree_state::FileMark;
use crate::files::Folder;
use crate::{Changes, Header};

/// The head of this version's notes.
const HEAD: [u8; 8] = *b"listed01";
/// Bytes of a digest.
const DIGEST: usize = 8;
/// The length of a text that is not there.
const NONE: u32 = u32::MAX;

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

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Notes of the storage at `place`.
pub(super) fn write<'a>(
    place: &str,
    generation: &str,
    all: impl Iterator<Item = (&'a Key, &'a Noted)>,
) -> Vec<u8> {
    let mut out = Out(HEAD.to_vec());
    out.0.extend([0; DIGEST]);
    out.text(place);
    out.text(generation);
    for ((folder, id), noted) in all {
        out.text(folder);
        out.text(id);
        out.mark(&noted.mark);
        out.mark(&noted.beside.folder);
        out.length(noted.beside.messages.len());
        for (message, mark) in &noted.beside.messages {
            out.text(message);
            out.mark(mark);
        }
        out.header(&noted.header);
    }
    let (head, rest) = out.0.split_at_mut(HEAD.len() + DIGEST);
    if let Some(place) = head.last_chunk_mut() {
        *place = digest(rest).to_le_bytes();
    }
    out.0
}

/// What [`write`] noted of the storage at `place`; nothing for anything else.
pub(super) fn read(bytes: &[u8], place: &str, generation: &'static str) -> HashMap<Key, Noted> {
    let checked = bytes.strip_prefix(&HEAD).and_then(|rest| {
        let (sum, rest) = rest.split_first_chunk()?;
        (u64::from_le_bytes(*sum) == digest(rest)).then_some(In(rest))
    });
    let all = checked.and_then(|mut rest| {
        let is_own = rest.text()? == place && rest.text()? == generation;
        let mut all = HashMap::new();
        while is_own && !rest.0.is_empty() {
            let (key, noted) = rest.session(generation)?;
            all.insert(key, noted);
        }
        Some(all)
    });
    all.unwrap_or_default()
}

struct Out(Vec<u8>);

impl Out {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn length(&mut self, length: usize) {
        let length = u32::try_from(length).unwrap_or(NONE);
        self.0.extend(length.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.extend(text.as_bytes());
    }

    fn maybe(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.0.extend(NONE.to_le_bytes()),
        }
    }

    fn mark(&mut self, mark: &FileMark) {
        mark.numbers().into_iter().for_each(|n| self.number(n));
    }

    fn header(&mut self, header: &Header) {
        for text in [
            &header.parent_id,
            &header.worktree,
            &header.directory,
            &header.title,
            &header.agent,
            &header.version,
        ] {
            self.maybe(text.as_deref());
        }
        self.number(header.created.cast_unsigned());
        self.number(header.updated.cast_unsigned());
        self.number(u64::from(header.archived.is_some()));
        self.number(header.archived.unwrap_or(0).cast_unsigned());
        self.number(u64::from(header.changes.is_some()));
        let changes = header.changes.unwrap_or_default();
        for count in [changes.additions, changes.deletions, changes.files] {
            self.number(count);
        }
    }
}

/// What is left to be read; `None` at the end.
struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn signed(&mut self) -> Option<i64> {
        self.number().map(u64::cast_signed)
    }

    fn length(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    fn maybe(&mut self) -> Option<Option<&'a str>> {
        let length = self.length()?;
        if length == NONE {
            return Some(None);
        }
        let (text, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().map(Some)
    }

    fn text(&mut self) -> Option<&'a str> {
        self.maybe()?
    }

    fn mark(&mut self) -> Option<FileMark> {
        let mut numbers = [0; 6];
        for number in &mut numbers {
            *number = self.number()?;
        }
        Some(FileMark::of_numbers(numbers))
    }

    fn session(&mut self, generation: &'static str) -> Option<(Key, Noted)> {
        let (folder, id) = (self.text()?, self.text()?);
        let mark = self.mark()?;
        let mut beside = Beside {
            folder: self.mark()?,
            messages: Vec::new(),
        };
        for _ in 0..self.length()? {
            beside.messages.push((self.text()?.into(), self.mark()?));
        }
        let header = self.header(folder, id, generation)?;
        let noted = Noted {
            mark,
            beside,
            header: Arc::new(header),
        };
        Some(((folder.to_owned(), id.to_owned()), noted))
    }

    fn header(&mut self, folder: &str, id: &str, generation: &'static str) -> Option<Header> {
        let mut text = || Some(self.maybe()?.map(Box::from));
        Some(Header {
            id: id.into(),
            source: "opencode",
            generation,
            project_id: Some(folder).filter(|key| !key.is_empty()).map(Into::into),
            project_name: None,
            fork_of: None,
            parent_id: text()?,
            worktree: text()?,
            directory: text()?,
            title: text()?,
            agent: text()?,
            version: text()?,
            created: self.signed()?,
            updated: self.signed()?,
            archived: self.counted()?.map(u64::cast_signed),
            changes: match self.number()? {
                0 => self.changes().map(|_| None)?,
                _ => Some(self.changes()?),
            },
        })
    }

    fn counted(&mut self) -> Option<Option<u64>> {
        let is_there = self.number()? != 0;
        self.number().map(|number| is_there.then_some(number))
    }

    fn changes(&mut self) -> Option<Changes> {
        Some(Changes {
            additions: self.number()?,
            deletions: self.number()?,
            files: self.number()?,
        })
    }
}
