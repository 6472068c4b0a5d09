//! The messages of one session in a file storage, with all their parts; and their states.

use std::collections::HashSet;
use std::path::Path;

use super::generation::{MessageText, PartText};
use super::tree::Layout;
use super::tree_state::{Marks, State};
use crate::files::Folder;
use crate::{SkipReason, Skipped};

/// Fewer messages than this are read by one thread.
const MESSAGES_PER_THREAD: usize = 16;

/// The ids of messages, with the states of the files that each was read from.
pub(super) type States = Vec<(String, State)>;

/// Messages as they were read.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) messages: Vec<MessageText>,
    /// Of all that were asked for, also of those that cannot be read.
    pub(super) states: States,
    skipped: Vec<Skipped>,
}

/// Messages as they were looked at.
#[derive(Default)]
pub(super) struct Looked {
    pub(super) states: States,
    parts: Vec<String>,
}

impl Looked {
    /// Whether two messages have a part of one id.
    pub(super) fn repeats(&self) -> bool {
        let mut seen = HashSet::with_capacity(self.parts.len());
        !self.parts.iter().all(|part| seen.insert(part))
    }
}

/// The open folders of one session.
pub(super) struct Reader {
    messages: Folder,
    /// `None` when there is no folder for any part.
    parts: Option<Folder>,
}

impl Reader {
    /// The folders of a session and the ids of its messages, sorted; `None` where it has no folder of messages.
    pub(super) fn open<L: Layout>(
        layout: &L,
        (folder, id): (&str, &str),
        skipped: &mut Vec<Skipped>,
    ) -> Option<(Self, Vec<String>)> {
        let messages = open(layout, &layout.message_dir(folder, id), skipped)?;
        let ids = messages.ids(skipped);
        let parts = match ids.is_empty() {
            true => None,
            false => open(layout, &layout.part_root(folder, id), skipped),
        };
        Some((Self { messages, parts }, ids))
    }

    /// Reads these messages, on two threads where there are many.
    pub(super) fn read(&self, mut ids: Vec<String>, skipped: &mut Vec<Skipped>) -> Piece {
        if ids.len() < 2 * MESSAGES_PER_THREAD {
            let mut read = self.read_here(ids);
            skipped.append(&mut read.skipped);
            return read;
        }
        let rest = ids.split_off(ids.len() / 2);
        std::thread::scope(|scope| {
            let rest = scope.spawn(|| self.read_here(rest));
            let mut all = self.read_here(ids);
            let mut rest = joined(rest);
            all.messages.append(&mut rest.messages);
            all.states.append(&mut rest.states);
            skipped.append(&mut all.skipped);
            skipped.append(&mut rest.skipped);
            all
        })
    }

    fn read_here(&self, ids: Vec<String>) -> Piece {
        let mut bytes = Vec::with_capacity(64 << 10);
        let mut skipped = Vec::new();
        let mut read = Piece {
            messages: Vec::with_capacity(ids.len()),
            states: Vec::with_capacity(ids.len()),
            skipped: Vec::new(),
        };
        for id in ids {
            let mut marks = Marks::default();
            let own = text(&self.messages, &id, &mut bytes, &mut marks).map(Box::from);
            match own {
                Ok(text) => read.messages.push(MessageText {
                    id: id.as_str().into(),
                    text,
                    seq: None,
                    copied: false,
                    parts: self.parts_of(&id, (&mut bytes, &mut marks), &mut skipped),
                }),
                Err(why) => {
                    skipped.push(why);
                    let parts = self.parts_state(&id, &mut marks);
                    skipped.extend(self.without_message(&id, parts.len()));
                }
            }
            read.states.push((id, marks.state()));
        }
        read.skipped = skipped;
        read
    }

    /// The states that [`Self::read`] would see, on two threads where there are many.
    pub(super) fn look_by_two(&self, mut ids: Vec<String>) -> Looked {
        if ids.len() < 2 * MESSAGES_PER_THREAD {
            return self.look(ids);
        }
        let rest = ids.split_off(ids.len() / 2);
        std::thread::scope(|scope| {
            let rest = scope.spawn(|| self.look(rest));
            let mut all = self.look(ids);
            let mut rest = joined(rest);
            all.states.append(&mut rest.states);
            all.parts.append(&mut rest.parts);
            all
        })
    }

    /// The states that [`Self::read`] would see.
    pub(super) fn look(&self, ids: Vec<String>) -> Looked {
        let mut looked = Looked {
            states: Vec::with_capacity(ids.len()),
            parts: Vec::new(),
        };
        for id in ids {
            let mut marks = Marks::default();
            if let Some(stat) = self.messages.stat(&id) {
                marks.add(&stat);
            }
            looked.parts.append(&mut self.parts_state(&id, &mut marks));
            looked.states.push((id, marks.state()));
        }
        looked
    }

    fn parts_of(
        &self,
        message: &str,
        (bytes, marks): (&mut Vec<u8>, &mut Marks),
        skipped: &mut Vec<Skipped>,
    ) -> Vec<PartText> {
        let below = self.parts.as_ref().map(|parts| parts.below(message));
        let dir = match below.unwrap_or(Ok(None)) {
            Ok(Some(dir)) => dir,
            Ok(None) => return Vec::new(),
            Err(why) => {
                skipped.push(why);
                return Vec::new();
            }
        };
        if let Some(stat) = dir.own_stat() {
            marks.add(&stat);
        }
        let ids = dir.ids(skipped);
        let mut parts = Vec::with_capacity(ids.len());
        for id in ids {
            match text(&dir, &id, bytes, marks) {
                Ok(text) => parts.push(PartText {
                    text: text.into(),
                    id: id.into(),
                }),
                Err(why) => skipped.push(why),
            }
        }
        parts
    }

    /// Names the parts that go with a message that cannot be read.
    fn without_message(&self, message: &str, parts: usize) -> Option<Skipped> {
        let dir = self.parts.as_ref()?.path.join(message);
        let detail = format!("{parts} files, and their message cannot be read");
        (parts > 0).then(|| Skipped::new(&dir, SkipReason::OrphanParts, detail))
    }

    /// Adds what [`Self::parts_of`] adds; gives the ids of the parts.
    fn parts_state(&self, message: &str, marks: &mut Marks) -> Vec<String> {
        let below = self.parts.as_ref().map(|parts| parts.below(message));
        let Some(Ok(Some(dir))) = below else {
            return Vec::new();
        };
        if let Some(stat) = dir.own_stat() {
            marks.add(&stat);
        }
        let ids = dir.ids(&mut Vec::new());
        for part in &ids {
            if let Some(stat) = dir.stat(part) {
                marks.add(&stat);
            }
        }
        ids
    }
}

fn open<L: Layout>(layout: &L, below: &Path, skipped: &mut Vec<Skipped>) -> Option<Folder> {
    layout.files().folder(below).unwrap_or_else(|why| {
        skipped.push(why);
        None
    })
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The text of the file `<id>.json`, in `bytes`; `marks` takes the state that it was read in.
fn text<'b>(
    dir: &Folder,
    id: &str,
    bytes: &'b mut Vec<u8>,
    marks: &mut Marks,
) -> Result<&'b str, Skipped> {
    match dir.read(id, bytes) {
        Ok(stat) => marks.add(&stat),
        Err(why) => {
            if let Some(stat) = dir.stat(id) {
                marks.add(&stat);
            }
            return Err(why);
        }
    }
    std::str::from_utf8(bytes).map_err(|e| {
        let detail = format!("not UTF-8 at byte {}", e.valid_up_to());
        Skipped::new(&dir.file(id), SkipReason::NotUtf8, detail)
    })
}

/// The states of a session's messages as [`Reader::read`] would see them.
pub(super) fn states<L: Layout>(layout: &L, folder: &str, id: &str) -> States {
    let opened = Reader::open(layout, (folder, id), &mut Vec::new());
    opened.map_or_else(Vec::new, |(reader, ids)| reader.look(ids).states)
}
