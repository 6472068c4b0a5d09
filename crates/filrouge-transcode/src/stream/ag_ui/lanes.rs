//! Texts, calls and reasoning that chunks have begun. They are kept by lane, which is a run (the main one or a
//! subagent's), because a chunk without an id continues the open content of its lane.

use super::texts::Kind;

/// A text, call or reasoning that a chunk has begun.
pub(super) struct Chunk {
    pub(super) kind: Kind,
    /// The id of the subagent's run that it belongs to; `None` for the main run.
    pub(super) lane: Option<String>,
    pub(super) id: String,
}

/// The texts, calls and reasoning that chunks have begun and nothing has ended.
#[derive(Default)]
pub(super) struct Lanes {
    pub(super) open: Vec<Chunk>,
}

impl Lanes {
    /// The id that a chunk without an id continues: the open one of its kind in its lane. In the main run, if nothing
    /// of its kind is open there, the open one of its kind in any lane, if it is the only one.
    pub(super) fn open_id(&self, kind: Kind, lane: Option<&str>) -> Option<&str> {
        let mut of_kind = self.open.iter().filter(|c| c.kind == kind);
        let in_lane = of_kind.clone().find(|c| c.lane.as_deref() == lane);
        let chunk = match (in_lane, lane) {
            (Some(in_lane), _) => in_lane,
            (None, Some(_)) => return None,
            (None, None) => of_kind.next().filter(|_| of_kind.next().is_none())?,
        };
        Some(&chunk.id)
    }

    /// Whether a chunk has begun the text or call with this id.
    pub(super) fn has(&self, kind: Kind, id: &str) -> bool {
        self.open.iter().any(|c| c.kind == kind && c.id == id)
    }

    /// Removes and returns everything open in a lane.
    pub(super) fn close_lane(&mut self, lane: Option<&str>) -> Vec<Chunk> {
        let in_lane = |c: &mut Chunk| c.lane.as_deref() == lane;
        self.open.extract_if(.., in_lane).collect()
    }
}
