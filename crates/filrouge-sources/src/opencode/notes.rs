//! What is noted of a storage for other processes, as bytes: what kind of notes they are, a digest, whose they are, and then
//! what is noted.

use std::hash::Hasher;

use crate::{Changes, Header};

/// Which kind of notes, and which version of them.
pub(super) type Head = [u8; 8];

/// Bytes of a digest.
const DIGEST: usize = 8;
/// The length of a text that is not there.
const NONE: u32 = u32::MAX;
/// What a header has.
const HEADER_TEXTS: usize = 6;
const HEADER_NUMBERS: usize = 8;

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Notes that are being written.
pub(super) struct Out(Vec<u8>);

impl Out {
    /// Notes of one generation of the storage at `place`.
    pub(super) fn new(head: Head, place: &str, generation: &str) -> Self {
        let mut out = Self(head.to_vec());
        out.0.extend([0; DIGEST]);
        out.text(place);
        out.text(generation);
        out
    }

    /// The notes as a whole.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let (head, rest) = self.0.split_at_mut(size_of::<Head>() + DIGEST);
        if let Some(place) = head.last_chunk_mut() {
            *place = digest(rest).to_le_bytes();
        }
        self.0
    }

    pub(super) fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn length(&mut self, length: usize) {
        let length = u32::try_from(length).unwrap_or(NONE);
        self.0.extend(length.to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.extend(text.as_bytes());
    }

    pub(super) fn maybe(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.0.extend(NONE.to_le_bytes()),
        }
    }

    /// A header without its id, its project and what it was forked from.
    pub(super) fn header(&mut self, header: &Header) {
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

/// What is left to be read of notes; `None` at the end.
pub(super) struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    /// What [`Out`] wrote of that generation of the storage at `place`; `None` for anything else.
    pub(super) fn of(bytes: &'a [u8], head: Head, place: &str, generation: &str) -> Option<Self> {
        let (sum, rest) = bytes.strip_prefix(&head)?.split_first_chunk()?;
        if u64::from_le_bytes(*sum) != digest(rest) {
            return None;
        }
        let mut rest = Self(rest);
        let is_own = rest.text()? == place && rest.text()? == generation;
        is_own.then_some(rest)
    }

    /// What is left from a place on, of notes that [`In::of`] took.
    pub(super) const fn from(rest: &'a [u8]) -> Self {
        Self(rest)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that are left.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Passes over so many bytes.
    pub(super) fn pass(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn signed(&mut self) -> Option<i64> {
        self.number().map(u64::cast_signed)
    }

    pub(super) fn length(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    pub(super) fn maybe(&mut self) -> Option<Option<&'a str>> {
        let length = self.length()?;
        if length == NONE {
            return Some(None);
        }
        let (text, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().map(Some)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        self.maybe()?
    }

    /// What [`Out::header`] wrote, of a session in a project's folder.
    pub(super) fn header(
        &mut self,
        folder: &str,
        id: &str,
        generation: &'static str,
    ) -> Option<Header> {
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

    /// Passes over what [`Out::header`] wrote.
    pub(super) fn pass_header(&mut self) -> Option<()> {
        for _ in 0..HEADER_TEXTS {
            let length = self.length()?;
            if length != NONE {
                self.pass(usize::try_from(length).ok()?)?;
            }
        }
        self.pass(HEADER_NUMBERS * 8)
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
