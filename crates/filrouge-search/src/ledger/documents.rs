//! Builds the update of an index from the units of a session that were read. A unit is a part of a session whose
//! documents the index replaces together: a turn, an item outside any turn, or the title.

use std::borrow::Cow;
use std::collections::BTreeSet;

use filrouge_engine::SessionAtCommit;
use filrouge_sources::ledger::{header, units};
use filrouge_sources::{Header, Message};
use filrouge_store::text_index::{Coverage, NewDocument, SessionEntry, SessionUpdate};
use filrouge_types::TenantId;

use super::shard::shard_of;
use crate::search_document::SearchDocument;

/// The number of the unit that contains a session's title.
pub const TITLE_UNIT: u64 = u64::MAX >> 1;

/// A flag in the second number of a session's stamp: the session's units cannot be read separately, or messages in
/// different units may have the same id.
pub(super) const ENTANGLED: u64 = 1;
/// The same number if the session could not be read.
pub(super) const UNREADABLE: u64 = 4;

/// Whether the complete session must be read after every change.
pub(super) const fn is_entangled(update: &SessionUpdate) -> bool {
    update.entry.stamp[1] & ENTANGLED != 0
}

/// The approximate number of bytes that an update adds to an index.
pub(super) fn approximate_bytes(update: &SessionUpdate) -> usize {
    let document_bytes = |d: &NewDocument| d.body.len() + d.folded.len() + 64;
    update.documents.iter().map(document_bytes).sum::<usize>() + 256
}

/// Builds the update for the units of a session that were read. With `whole`, the complete session was read, and the
/// update replaces all its documents; otherwise it replaces the title and the documents of the units that were read.
pub(super) fn build_update(
    tenant: &TenantId,
    at_commit: &SessionAtCommit,
    whole: bool,
) -> SessionUpdate {
    let session = &at_commit.conversation.session;
    let header = header(session);
    let units = units(&at_commit.conversation);
    let mut documents: Vec<NewDocument> = title_document(&header).into_iter().collect();
    for (unit, messages) in &units.units {
        documents.extend(
            messages
                .iter()
                .map(|message| message_document(*unit, message)),
        );
    }
    // Turns without items, and turns that were replaced, are included as units, so that their old documents are
    // removed.
    let turns = at_commit.conversation.turns.iter();
    let read_units: BTreeSet<u64> = units
        .units
        .iter()
        .map(|(unit, _)| *unit)
        .chain(turns.map(|(turn, _)| turn.ordinal))
        .collect();
    let coverage = match whole {
        true => Coverage::All,
        false => Coverage::Units(read_units.into_iter().chain([TITLE_UNIT]).collect()),
    };
    let flags = u64::from(units.interdependent || units.has_foreign_ids) * ENTANGLED;
    SessionUpdate {
        shard: shard_of(tenant, at_commit.owner),
        entry: SessionEntry {
            key: session.session_id.as_str().into(),
            stamp: [at_commit.commit_no, flags],
            updated: header.updated,
            project: header.project_id,
        },
        coverage,
        documents,
    }
}

fn title_document(header: &Header) -> Option<NewDocument> {
    let title = SearchDocument::from_title(header)?;
    Some(without_body(title.to_index_document("", TITLE_UNIT)))
}

/// Builds the document of a message.
fn message_document(unit: u64, message: &Message) -> NewDocument {
    let doc = SearchDocument::from_message(message);
    without_body(doc.to_index_document(&document_key(message), unit))
}

/// The key of a message's document in the index.
pub(super) fn document_key(message: &Message) -> Cow<'_, str> {
    match &*message.id {
        // Another program may have written a message with an empty id, but the empty key is the title's.
        "" => format!("~{}", message.seq.unwrap_or_default()).into(),
        id => id.into(),
    }
}

/// A document without its body: searches read the texts from the ledger's records.
fn without_body(document: NewDocument) -> NewDocument {
    NewDocument {
        body: Vec::new(),
        ..document
    }
}
