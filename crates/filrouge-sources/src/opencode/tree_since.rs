//! What of a session in a file storage is another than an index knows it: one new message is read, not hundreds.

use std::collections::HashMap;
use std::time::Duration;

use super::generation::{Generation, ReadSince};
use super::tree::{FileTree, Layout};
use super::tree_lasting::mark_of;
use super::tree_messages::{Piece, Reader, States};
use super::tree_state::State;
use crate::ReadError;

impl<L: Layout> FileTree<L> {
    /// [`Generation::read_since`].
    pub(super) fn messages_since(
        &self,
        id: &str,
        known: &HashMap<&str, u64>,
    ) -> Result<ReadSince, ReadError> {
        let began = self.stamps.now();
        let (read, settles) = self.read_now(id, known, began)?;
        if State::wait(settles, began).is_none() {
            return Ok(read);
        }
        // Something was written just now: a moment later it can be told from what may still be written. That moment may
        // have gone by while it was read.
        if let Some(wait) = State::wait(settles, self.stamps.now()) {
            std::thread::sleep(Duration::from_millis(wait));
        }
        let now = self.stamps.now();
        self.read_now(id, known, now).map(|(read, _)| read)
    }

    /// What is another, and when all files are settled. All states are of the moment `now` or a later one, and of before
    /// what they stand for was read.
    fn read_now(
        &self,
        id: &str,
        known: &HashMap<&str, u64>,
        now: i64,
    ) -> Result<(ReadSince, i64), ReadError> {
        let (folder, outer) = self.placed(id)?;
        let session = match self.session(id) {
            Ok(session) => Some(session),
            Err(ReadError::Skipped(_)) => None,
            Err(why) => return Err(why),
        };
        let mut skipped = Vec::new();
        let (kept, read) = match Reader::open(&self.layout, (&folder, id), &mut skipped) {
            Some((reader, ids)) => {
                let (kept, others) = reader.sort_out(ids, known, now);
                (kept, reader.read(others, &mut skipped))
            }
            None => (States::new(), Piece::default()),
        };
        let states = kept.iter().chain(&read.states);
        let settles = states.clone().map(|(_, state)| state.settles).max();
        let mark = mark_of(&outer, states.map(|(id, state)| (&**id, *state)), now);
        let states = read.states.iter();
        let read = ReadSince {
            mark,
            session,
            messages: read.messages,
            states: states
                .map(|(id, state)| (id.as_str().into(), state.number(now)))
                .collect(),
            same: kept.into_iter().map(|(id, _)| id.into()).collect(),
            skipped,
        };
        Ok((read, settles.unwrap_or(0).max(outer.settles)))
    }
}

impl Reader {
    /// The messages that are as they are known, and the ids of the others.
    fn sort_out(
        &self,
        ids: Vec<String>,
        known: &HashMap<&str, u64>,
        now: i64,
    ) -> (States, Vec<String>) {
        if known.is_empty() {
            return (States::new(), ids);
        }
        let looked = self.look_by_two(ids);
        // A part that is in two messages is read of one of them: that is decided over all.
        let repeats = looked.repeats();
        let is_known = |(id, state): &(String, State)| {
            !repeats && known.get(&**id) == Some(&state.number(now))
        };
        let (kept, others): (States, States) = looked.states.into_iter().partition(is_known);
        (kept, others.into_iter().map(|(id, _)| id).collect())
    }
}
