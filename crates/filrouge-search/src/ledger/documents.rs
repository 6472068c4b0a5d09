//! What was read of a session as the change of an index.

use std::collections::BTreeSet;

use filrouge_engine::Standing;
use filrouge_sources::ledger::{header, units};
use filrouge_sources::{Header, Message};
use filrouge_store::text_index::{Coverage, NewDocument, SessionEntry, SessionUpdate};
use filrouge_types::TenantId;

use super::shard::shard_of;
use crate::spoken::Spoken;

/// The unit of a session's title.
pub const TITLE_UNIT: u64 = u64::MAX >> 1;

/// Of a stamp's second number: units of the session cannot be read apart, or their messages may have the same ids.
pub(super) const ENTANGLED: u64 = 1;
/// It could not be read.
pub(super) const UNREADABLE: u64 = 4;

/// Whether no part of the session can be read apart from the others.
pub(super) const fn is_entangled(update: &SessionUpdate) -> bool {
    update.entry.stamp[1] & ENTANGLED != 0
}

/// About how many bytes an index takes in.
pub(super) fn weight(update: &SessionUpdate) -> usize {
    let of = |d: &NewDocument| d.body.len() + d.folded.len() + 64;
    update.documents.iter().map(of).sum::<usize>() + 256
}

/// The change that a reading makes: all documents of a whole session, else those of the units read and the title.
pub(super) fn made(tenant: &TenantId, standing: &Standing, whole: bool) -> SessionUpdate {
    let session = &standing.conversation.session;
    let header = header(session);
    let units = units(&standing.conversation);
    let mut documents: Vec<NewDocument> = title(&header).into_iter().collect();
    for (unit, messages) in &units.units {
        documents.extend(messages.iter().map(|message| one(*unit, message)));
    }
    // A turn of which nothing is left, and one that has another version now, are units all the same.
    let turns = standing.conversation.turns.iter();
    let read: BTreeSet<u64> = units
        .units
        .iter()
        .map(|(unit, _)| *unit)
        .chain(turns.map(|(turn, _)| turn.ordinal))
        .collect();
    let coverage = match whole {
        true => Coverage::Whole,
        false => Coverage::Units(read.into_iter().chain([TITLE_UNIT]).collect()),
    };
    let flags = u64::from(units.entangled || units.foreign) * ENTANGLED;
    SessionUpdate {
        shard: shard_of(tenant, standing.owner),
        entry: SessionEntry {
            key: session.session_id.as_str().into(),
            stamp: [standing.commit_no, flags],
            updated: header.updated,
            project: header.project_id,
        },
        coverage,
        documents,
    }
}

fn title(header: &Header) -> Option<NewDocument> {
    Some(Spoken::of_title(header)?.document("", TITLE_UNIT))
}

fn one(unit: u64, message: &Message) -> NewDocument {
    let spoken = Spoken::of(message);
    match &*message.id {
        // Another program may have called a message nothing; a document of that name is the title.
        "" => spoken.document(&format!("~{}", message.seq.unwrap_or_default()), unit),
        id => spoken.document(id, unit),
    }
}
