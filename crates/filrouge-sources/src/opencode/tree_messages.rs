//! The messages of one session in a file storage, with all their parts; and the states of their files.

use std::path::Path;

use super::generation::{MessageText, PartText};
use super::layout::Layout;
use super::tree_state::Marks;
use crate::by_two::by_two;
use crate::files::Folder;
use crate::{SkipReason, Skipped};

/// Fewer messages than this are read by one thread.
const MESSAGES_PER_THREAD: usize = 16;

/// The open folders of one session.
pub(super) struct Reader {
    messages: Folder,
    /// `None` when there is no folder for any part.
    parts: Option<Folder>,
}

impl Reader {
    /// The folders of a session and the ids of its messages, sorted; `None` where it has no folder of messages.
    pub(super) fn open(
        layout: &Layout,
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
    pub(super) fn read(&self, ids: &[String], skipped: &mut Vec<Skipped>) -> Vec<MessageText> {
        let read = by_two(ids, MESSAGES_PER_THREAD, |id| {
            let mut left_out = Vec::new();
            (self.message(id, &mut left_out), left_out)
        });
        let mut messages = Vec::with_capacity(ids.len());
        for (message, mut left_out) in read {
            messages.extend(message);
            skipped.append(&mut left_out);
        }
        messages
    }

    fn message(&self, id: &str, skipped: &mut Vec<Skipped>) -> Option<MessageText> {
        match self.messages.text(id) {
            Ok(text) => Some(MessageText {
                id: id.into(),
                text: text.into(),
                seq: None,
                copied: false,
                parts: self.parts_of(id, skipped),
            }),
            Err(why) => {
                skipped.push(why);
                skipped.extend(self.without_message(id));
                None
            }
        }
    }

    fn parts_of(&self, message: &str, skipped: &mut Vec<Skipped>) -> Vec<PartText> {
        let below = self.parts.as_ref().map(|parts| parts.below(message));
        let dir = match below.unwrap_or(Ok(None)) {
            Ok(Some(dir)) => dir,
            Ok(None) => return Vec::new(),
            Err(why) => {
                skipped.push(why);
                return Vec::new();
            }
        };
        let ids = dir.ids(skipped);
        let mut parts = Vec::with_capacity(ids.len());
        for id in ids {
            match dir.text(&id) {
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
    fn without_message(&self, message: &str) -> Option<Skipped> {
        let dir = self.parts.as_ref()?.below(message).ok()??;
        let parts = dir.ids(&mut Vec::new()).len();
        let detail = format!("{parts} files, and their message cannot be read");
        (parts > 0).then(|| Skipped::new(&dir.path, SkipReason::OrphanParts, detail))
    }

    /// Adds the states of the files and folders of these messages.
    fn add_states(&self, ids: &[String], marks: &mut Marks) {
        for id in ids {
            if let Some(stat) = self.messages.stat(id) {
                marks.add(&stat);
            }
            let below = self.parts.as_ref().map(|parts| parts.below(id));
            let Some(Ok(Some(dir))) = below else {
                continue;
            };
            if let Some(stat) = dir.own_stat() {
                marks.add(&stat);
            }
            for part in dir.ids(&mut Vec::new()) {
                if let Some(stat) = dir.stat(&part) {
                    marks.add(&stat);
                }
            }
        }
    }
}

/// Adds the states of all files and folders that a session's messages and parts are in.
pub(super) fn add_states(layout: &Layout, place: (&str, &str), marks: &mut Marks) {
    let Some((reader, ids)) = Reader::open(layout, place, &mut Vec::new()) else {
        return;
    };
    if let Some(stat) = reader.messages.own_stat() {
        marks.add(&stat);
    }
    reader.add_states(&ids, marks);
}

fn open(layout: &Layout, below: &Path, skipped: &mut Vec<Skipped>) -> Option<Folder> {
    layout.files.folder(below).unwrap_or_else(|why| {
        skipped.push(why);
        None
    })
}
