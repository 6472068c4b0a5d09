//! Reads compactions: a record of the boundary, which in most cases a record of the summary follows.

use super::convert::RecordState;
use crate::Role;
use crate::jsonl::RecordInfo;
use crate::object::Object;

/// A compaction boundary whose summary record has not been read yet.
pub(super) struct PendingCompaction {
    pub(super) record: RecordInfo,
    pub(super) automatic: bool,
}

impl RecordState {
    /// Adds the summary of a compaction as a message, and the boundary that was read before it, if any.
    pub(super) fn add_summary(
        &mut self,
        json: &Object<'_>,
        record: &RecordInfo,
        blocks: &[Object<'_>],
    ) {
        let boundary = self.compaction.take();
        let created = boundary.as_ref().map_or(record.at, |b| b.record.at);
        let automatic = boundary.map(|b| b.automatic);
        let texts: Vec<_> = blocks.iter().filter_map(|b| b.text("text")).collect();
        let summary = Some(texts.join("\n").into());
        let index = self.add_message(json, record, Role::User);
        self.builder.messages[index].summary = true;
        self.builder
            .add_compaction(index, record, created, automatic, summary);
    }

    /// Adds the pending boundary, if there is one, without a summary.
    pub(super) fn add_boundary_without_summary(&mut self) {
        let Some(PendingCompaction { record, automatic }) = self.compaction.take() else {
            return;
        };
        let index = self.builder.add_message(&record, Role::System, None);
        self.builder
            .add_compaction(index, &record, record.at, Some(automatic), None);
    }
}
