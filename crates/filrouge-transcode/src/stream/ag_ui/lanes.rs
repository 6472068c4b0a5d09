//! What chunks grow: a chunk without an id goes on with what is open.

use super::texts::Kind;

/// What a chunk has begun.
pub(super) struct Chunk {
    pub(super) kind: Kind,
    /// Whose it is: a subagent's run, or nobody's, which is the run's own.
    pub(super) lane: Option<String>,
    pub(super) id: String,
}

/// What chunks have begun and nothing has ended.
#[derive(Default)]
pub(super) struct Lanes {
    open: Vec<Chunk>,
}

impl Lanes {
    /// What a chunk without an id goes on with: that of its lane, else that of the run itself, else the only one.
    pub(super) fn open(&self, kind: Kind, lane: Option<&str>) -> Option<&str> {
        let mut of_kind = self.open.iter().filter(|c| c.kind == kind);
        let own = self
            .open
            .iter()
            .find(|c| c.kind == kind && c.lane.as_deref() == lane);
        let found = match (own, lane) {
            (Some(own), _) => own,
            (None, Some(_)) => return None,
            (None, None) => of_kind.next().filter(|_| of_kind.next().is_none())?,
        };
        Some(&found.id)
    }

    pub(super) fn begin(&mut self, chunk: Chunk) {
        self.open.push(chunk);
    }

    /// Whether a chunk has begun this.
    pub(super) fn has(&self, kind: Kind, id: &str) -> bool {
        self.open.iter().any(|c| c.kind == kind && c.id == id)
    }

    /// Ends what is open in a lane.
    pub(super) fn close_lane(&mut self, lane: Option<&str>) -> Vec<Chunk> {
        if self.open.is_empty() {
            return Vec::new();
        }
        let (ended, open) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|c| c.lane.as_deref() == lane);
        self.open = open;
        ended
    }

    /// Ends all that is open.
    pub(super) fn close(&mut self) -> Vec<Chunk> {
        std::mem::take(&mut self.open)
    }
}
