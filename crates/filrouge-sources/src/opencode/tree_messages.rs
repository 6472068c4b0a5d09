//! The messages of one session in a file storage, with all their parts; and their state.

use std::path::Path;

use super::generation::{MessageText, PartText, SessionText};
use super::tree::{Layout, Marks};
use super::tree_stamp::Full;
use crate::files::Folder;
use crate::{SkipReason, Skipped};

/// Fewer messages than this are read by one thread.
const MESSAGES_PER_THREAD: usize = 16;

/// [`super::generation::Generation::messages`], and the state of the files that were read.
pub(super) fn read<L: Layout>(
    layout: &L,
    session: &SessionText,
    skipped: &mut Vec<Skipped>,
) -> (Vec<MessageText>, Full) {
    let (folder, id) = (&session.folder, &session.id);
    let Some(dir) = open(layout, &layout.message_dir(folder, id), skipped) else {
        return (Vec::new(), full(&[], 0));
    };
    let ids = dir.ids(skipped);
    let parts = match ids.is_empty() {
        true => None,
        false => open(layout, &layout.part_root(folder, id), skipped),
    };
    let reader = Reader {
        messages: &dir,
        parts: parts.as_ref(),
    };
    if ids.len() < 2 * MESSAGES_PER_THREAD {
        let read = reader.read(&ids, skipped);
        return (read.messages, full(&read.states, read.newest));
    }
    let (one, other) = ids.split_at(ids.len() / 2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut skipped = Vec::new();
            (reader.read(other, &mut skipped), skipped)
        });
        let mut all = reader.read(one, skipped);
        let (mut rest, mut left_out) = other.join().unwrap_or_default();
        all.messages.append(&mut rest.messages);
        all.states.append(&mut rest.states);
        skipped.append(&mut left_out);
        let newest = all.newest.max(rest.newest);
        (all.messages, full(&all.states, newest))
    })
}

fn open<L: Layout>(layout: &L, below: &Path, skipped: &mut Vec<Skipped>) -> Option<Folder> {
    layout.files().folder(below).unwrap_or_else(|why| {
        skipped.push(why);
        None
    })
}

/// Some messages of a session, and the states of their files, one number for each id that was listed.
#[derive(Default)]
struct Piece {
    messages: Vec<MessageText>,
    states: Vec<u64>,
    /// When the newest of them was changed.
    newest: i64,
}

/// The open folders of one session.
struct Reader<'a> {
    messages: &'a Folder,
    /// `None` when there is no folder for any part.
    parts: Option<&'a Folder>,
}

impl Reader<'_> {
    fn read(&self, ids: &[String], skipped: &mut Vec<Skipped>) -> Piece {
        let mut bytes = Vec::with_capacity(64 << 10);
        let mut read = Piece {
            messages: Vec::with_capacity(ids.len()),
            states: Vec::with_capacity(ids.len()),
            newest: 0,
        };
        for id in ids {
            let mut marks = Marks::default();
            let own = text(self.messages, id, &mut bytes, &mut marks).map(Box::from);
            match own {
                Ok(text) => read.messages.push(MessageText {
                    id: id.as_str().into(),
                    text,
                    seq: None,
                    copied: false,
                    parts: self.parts_of(id, (&mut bytes, &mut marks), skipped),
                }),
                Err(why) => {
                    skipped.push(why);
                    let parts = self.parts_state(id, &mut marks);
                    skipped.extend(self.without_message(id, parts));
                }
            }
            read.newest = read.newest.max(marks.newest());
            read.states.push(marks.finish().0);
        }
        read
    }

    fn parts_of(
        &self,
        message: &str,
        (bytes, marks): (&mut Vec<u8>, &mut Marks),
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
        let dir = self.parts?.path.join(message);
        let detail = format!("{parts} files, and their message cannot be read");
        (parts > 0).then(|| Skipped::new(&dir, SkipReason::OrphanParts, detail))
    }

    /// Adds what [`Self::parts_of`] adds; gives how many parts there are.
    fn parts_state(&self, message: &str, marks: &mut Marks) -> usize {
        let Some(Ok(Some(dir))) = self.parts.map(|parts| parts.below(message)) else {
            return 0;
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
        ids.len()
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

/// The state that [`read`] would see.
pub(super) fn state<L: Layout>(layout: &L, folder: &str, id: &str) -> Full {
    let files = layout.files();
    let Ok(Some(dir)) = files.folder(&layout.message_dir(folder, id)) else {
        return full(&[], 0);
    };
    let parts = files.folder(&layout.part_root(folder, id)).ok().flatten();
    let reader = Reader {
        messages: &dir,
        parts: parts.as_ref(),
    };
    let mut newest = 0;
    let state = |message: &String| {
        let mut marks = Marks::default();
        if let Some(stat) = dir.stat(message) {
            marks.add(&stat);
        }
        reader.parts_state(message, &mut marks);
        newest = newest.max(marks.newest());
        marks.finish().0
    };
    let states: Vec<u64> = dir.ids(&mut Vec::new()).iter().map(state).collect();
    full(&states, newest)
}

fn full(states: &[u64], newest: i64) -> Full {
    let mut marks = Marks::default();
    marks.put(&states);
    Full {
        mark: marks.finish().0,
        newest,
    }
}
