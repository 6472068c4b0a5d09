//! Compactions: a boundary, and the summary behind it.

use super::talk::Lines;
use crate::jsonl::{Place, Talk};
use crate::object::Object;
use crate::{Boundary, PartKind, Role};

/// A boundary whose summary has not come yet.
pub(super) struct Compaction {
    pub(super) id: Box<str>,
    pub(super) at: i64,
    pub(super) automatic: bool,
}

impl Lines {
    /// The summary that stands for what a compaction has dropped.
    pub(super) fn summary(
        &mut self,
        talk: &mut Talk,
        one: &Object<'_>,
        place: &Place,
        blocks: &[Object<'_>],
    ) {
        let boundary = self.compaction.take();
        let automatic = boundary.as_ref().map(|b| b.automatic);
        let texts: Vec<_> = blocks.iter().filter_map(|b| b.text("text")).collect();
        let index = self.message(talk, one, place, Role::User);
        if let Some(message) = talk.messages.get_mut(index) {
            message.summary = true;
        }
        let kind = PartKind::Compaction {
            automatic: automatic.unwrap_or(false),
            summary: Some(texts.join("\n").into()),
        };
        talk.part(index, place.part(0), place.at, kind);
        let boundary = Boundary {
            at: index,
            created: boundary.map_or(place.at, |b| b.at),
            automatic,
            summary_id: Some(place.id.clone()),
        };
        talk.boundary(index, boundary);
    }

    /// A boundary no summary has followed.
    pub(super) fn bare_boundary(&mut self, talk: &mut Talk) {
        let Some(one) = self.compaction.take() else {
            return;
        };
        let index = talk.add(one.id.clone(), Role::System, one.at);
        let kind = PartKind::Compaction {
            automatic: one.automatic,
            summary: None,
        };
        talk.part(index, one.id, one.at, kind);
        let boundary = Boundary {
            at: index,
            created: one.at,
            automatic: Some(one.automatic),
            summary_id: None,
        };
        talk.boundary(index, boundary);
    }
}
