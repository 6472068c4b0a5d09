//! Reads compactions: a record of the boundary, which in most cases a record of the summary follows.

use super::convert::RecordState;
use crate::jsonl::{MessageBuilder, RecordInfo};
use crate::object::Object;
use crate::{Boundary, PartKind, Role};

/// A compaction boundary whose summary record has not been read yet.
pub(super) struct PendingCompaction {
    pub(super) id: Box<str>,
    pub(super) at: i64,
    pub(super) automatic: bool,
}

impl RecordState {
    /// Adds the summary of a compaction as a message, and the boundary that was read before it, if any.
    pub(super) fn add_summary(
        &mut self,
        builder: &mut MessageBuilder,
        json: &Object<'_>,
        record: &RecordInfo,
        blocks: &[Object<'_>],
    ) {
        let boundary = self.compaction.take();
        let automatic = boundary.as_ref().map(|b| b.automatic);
        let texts: Vec<_> = blocks.iter().filter_map(|b| b.text("text")).collect();
        let index = self.add_message(builder, json, record, Role::User);
        if let Some(message) = builder.messages.get_mut(index) {
            message.summary = true;
        }
        let kind = PartKind::Compaction {
            automatic: automatic.unwrap_or(false),
            summary: Some(texts.join("\n").into()),
        };
        builder.add_part(index, record.part_id(0), record.at, kind);
        let boundary = Boundary {
            at: index,
            created: boundary.map_or(record.at, |b| b.at),
            automatic,
            summary_id: Some(record.id.clone()),
        };
        builder.add_boundary(index, boundary);
    }

    /// Adds the pending boundary, if there is one, without a summary.
    pub(super) fn add_boundary_without_summary(&mut self, builder: &mut MessageBuilder) {
        let Some(pending) = self.compaction.take() else {
            return;
        };
        let index = builder.add_message(pending.id.clone(), Role::System, pending.at);
        let kind = PartKind::Compaction {
            automatic: pending.automatic,
            summary: None,
        };
        builder.add_part(index, pending.id, pending.at, kind);
        let boundary = Boundary {
            at: index,
            created: pending.at,
            automatic: Some(pending.automatic),
            summary_id: None,
        };
        builder.add_boundary(index, boundary);
    }
}
