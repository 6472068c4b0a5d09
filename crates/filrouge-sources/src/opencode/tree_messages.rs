//! Reads the messages of one session in a file storage with all their parts, or only the states of their files.

use super::layout::Layout;
use super::storage::{MessageText, PartText};
use crate::files::{FileState, Folder, file_state};
use crate::{SkipReason, Skipped};

/// The open folders of one session.
pub(super) struct TreeReader {
    messages: Folder,
    /// The folder with one folder of parts for each message; `None` if it does not exist.
    parts: Option<Folder>,
}

impl TreeReader {
    /// Opens the folders of a session and lists the ids of its messages, sorted; `None` if it has no folder of
    /// messages.
    pub(super) fn open(
        layout: &Layout,
        (folder, id): (&str, &str),
        skipped: &mut Vec<Skipped>,
    ) -> Option<(Self, Vec<String>)> {
        let files = &layout.files;
        let messages = files.open_folder(&layout.message_dir(folder, id), skipped)?;
        let ids = messages.ids(skipped);
        let parts = match ids.is_empty() {
            true => None,
            false => files.open_folder(&layout.part_root(folder, id), skipped),
        };
        Some((Self { messages, parts }, ids))
    }

    /// Reads a message.
    pub(super) fn read_message(&self, id: &str, skipped: &mut Vec<Skipped>) -> Option<MessageText> {
        match self.messages.text(id) {
            Ok(text) => Some(MessageText::new(id, text, self.read_parts(id, skipped))),
            Err(why) => {
                skipped.push(why);
                skipped.extend(self.orphaned_parts_report(id));
                None
            }
        }
    }

    fn read_parts(&self, message: &str, skipped: &mut Vec<Skipped>) -> Vec<PartText> {
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

    /// The report for the parts of a message that itself cannot be read; `None` if there are no parts.
    fn orphaned_parts_report(&self, message: &str) -> Option<Skipped> {
        let dir = self.parts.as_ref()?.below(message).ok()??;
        let parts = dir.ids(&mut Vec::new()).len();
        let detail = format!("{parts} files, and their message cannot be read");
        (parts > 0).then(|| Skipped::new(&dir.path, SkipReason::OrphanParts, detail))
    }

    /// Adds the states of the files and folders of these messages.
    fn add_states(&self, ids: &[String], states: &mut Vec<FileState>) {
        for id in ids {
            states.extend(self.messages.stat(id).as_ref().map(file_state));
            let below = self.parts.as_ref().map(|parts| parts.below(id));
            let Some(Ok(Some(dir))) = below else {
                continue;
            };
            states.extend(dir.stat_folder().as_ref().map(file_state));
            for part in dir.ids(&mut Vec::new()) {
                states.extend(dir.stat(&part).as_ref().map(file_state));
            }
        }
    }
}

/// Adds the states of all files and folders with a session's messages and parts.
pub(super) fn add_states(layout: &Layout, key: (&str, &str), states: &mut Vec<FileState>) {
    let Some((reader, ids)) = TreeReader::open(layout, key, &mut Vec::new()) else {
        return;
    };
    states.extend(reader.messages.stat_folder().as_ref().map(file_state));
    reader.add_states(&ids, states);
}
