//! The messages of one session in a file storage, with all their parts; and their state.

use std::path::Path;

use super::generation::{MessageText, PartText, SessionText};
use super::tree::{Layout, Marks};
use crate::files::Folder;
use crate::{SkipReason, Skipped};

/// Fewer messages than this are read by one thread.
const MESSAGES_PER_THREAD: usize = 16;

/// [`super::generation::Generation::messages`].
pub(super) fn read<L: Layout>(
    layout: &L,
    session: &SessionText,
    skipped: &mut Vec<Skipped>,
) -> Vec<MessageText> {
    let (folder, id) = (&session.folder, &session.id);
    let Some(dir) = open(layout, &layout.message_dir(folder, id), skipped) else {
        return Vec::new();
    };
    let ids = dir.ids(skipped);
    if ids.is_empty() {
        return Vec::new();
    }
    let parts = open(layout, &layout.part_root(folder, id), skipped);
    let reader = Reader {
        messages: &dir,
        parts: parts.as_ref(),
    };
    if ids.len() < 2 * MESSAGES_PER_THREAD {
        return reader.read(&ids, skipped);
    }
    let (one, other) = ids.split_at(ids.len() / 2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut skipped = Vec::new();
            (reader.read(other, &mut skipped), skipped)
        });
        let mut all = reader.read(one, skipped);
        let (mut rest, mut left_out) = other.join().unwrap_or_default();
        all.append(&mut rest);
        skipped.append(&mut left_out);
        all
    })
}

fn open<L: Layout>(layout: &L, below: &Path, skipped: &mut Vec<Skipped>) -> Option<Folder> {
    layout.files().folder(below).unwrap_or_else(|why| {
        skipped.push(why);
        None
    })
}

/// The open folders of one session.
struct Reader<'a> {
    messages: &'a Folder,
    /// `None` when there is no folder for any part.
    parts: Option<&'a Folder>,
}

impl Reader<'_> {
    fn read(&self, ids: &[String], skipped: &mut Vec<Skipped>) -> Vec<MessageText> {
        let mut bytes = Vec::with_capacity(64 << 10);
        let mut read = Vec::with_capacity(ids.len());
        for id in ids {
            match text(self.messages, id, &mut bytes) {
                Ok(text) => read.push(MessageText {
                    id: id.as_str().into(),
                    text: text.into(),
                    seq: None,
                    copied: false,
                    parts: self.parts_of(id, &mut bytes, skipped),
                }),
                Err(why) => skipped.push(why),
            }
        }
        read
    }

    fn parts_of(
        &self,
        message: &str,
        bytes: &mut Vec<u8>,
        skipped: &mut Vec<Skipped>,
    ) -> Vec<PartText> {
        let dir = match self.parts.map_or(Ok(None), |parts| parts.below(message)) {
            Ok(Some(dir)) => dir,
            Ok(None) => return Vec::new(),
            Err(why) => {
                skipped.push(why);
                return Vec::new();
            }
        };
        let mut parts = Vec::new();
        for id in dir.ids(skipped) {
            match text(&dir, &id, bytes) {
                Ok(text) => parts.push(PartText {
                    text: text.into(),
                    id: id.into(),
                }),
                Err(why) => skipped.push(why),
            }
        }
        parts
    }
}

/// The text of the file `<id>.json`, in `bytes`.
pub(super) fn text<'b>(dir: &Folder, id: &str, bytes: &'b mut Vec<u8>) -> Result<&'b str, Skipped> {
    dir.read(id, bytes)?;
    std::str::from_utf8(bytes).map_err(|e| {
        let detail = format!("not UTF-8 at byte {}", e.valid_up_to());
        Skipped::new(&dir.file(id), SkipReason::NotUtf8, detail)
    })
}

/// Adds the state of a session's messages and parts. Files are written in place, which changes no folder: while the
/// newest change is not older than `newest`, each file is looked at.
pub(super) fn stamp<L: Layout>(layout: &L, folder: &str, id: &str, newest: i64, marks: &mut Marks) {
    let files = layout.files();
    let Ok(Some(dir)) = files.folder(&layout.message_dir(folder, id)) else {
        return;
    };
    if let Some(stat) = dir.own_stat() {
        marks.add(&stat);
    }
    if marks.newest() < newest {
        return;
    }
    let parts = files.folder(&layout.part_root(folder, id)).ok().flatten();
    for message in dir.ids(&mut Vec::new()) {
        if let Some(stat) = dir.stat(&message) {
            marks.add(&stat);
        }
        let Some(Ok(Some(parts))) = parts.as_ref().map(|parts| parts.below(&message)) else {
            continue;
        };
        if let Some(stat) = parts.own_stat() {
            marks.add(&stat);
        }
        for part in parts.ids(&mut Vec::new()) {
            if let Some(stat) = parts.stat(&part) {
                marks.add(&stat);
            }
        }
    }
}
