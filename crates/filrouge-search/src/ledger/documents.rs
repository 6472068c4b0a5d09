//! What was read of a session as the change of an index.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use filrouge_engine::Standing;
use filrouge_sources::ledger::{header, units};
use filrouge_sources::{Header, Message};
use filrouge_store::text_index::{
    Gone, IndexUpdate, NewDocument, SessionEntry, SessionUpdate, TITLE,
};
use filrouge_types::TenantId;

use super::shard::shard_of;
use crate::spoken::Spoken;

/// The unit of a session's title.
pub const TITLE_UNIT: u64 = u64::MAX >> 1;

/// Of a stamp's second number: units of the session cannot be read apart.
pub(super) const ENTANGLED: u64 = 1;
/// Ids of other programs are in it.
pub(super) const FOREIGN: u64 = 2;
/// It could not be read.
pub(super) const UNREADABLE: u64 = 4;

/// What has become of a session, as an index is told.
pub(super) struct Made {
    pub(super) update: SessionUpdate,
    /// Whether it holds only if nothing else of the session does: not so for a part of one.
    pub(super) entangled: bool,
    /// Whether ids may be those of messages in other units.
    pub(super) foreign: bool,
    /// The units that were read.
    pub(super) units: BTreeSet<u64>,
}

impl Made {
    /// About how many bytes an index takes in.
    pub(super) fn weight(&self) -> usize {
        let of = |d: &NewDocument| d.body.len() + d.folded.len() + 64;
        self.update.documents.iter().map(of).sum::<usize>() + 256
    }

    pub(super) fn documents(&self) -> u64 {
        self.update.documents.len() as u64
    }

    pub(super) fn update(self) -> IndexUpdate {
        IndexUpdate::Session(self.update)
    }
}

/// The change that a reading makes; of a whole session all its documents are put anew, else those of the units read and the
/// title.
pub(super) fn made(tenant: &TenantId, standing: &Standing, whole: bool, known: u64) -> Made {
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
    let gone = match whole {
        true => Gone::All,
        false => Gone::Units(read.iter().copied().chain([TITLE_UNIT]).collect()),
    };
    let mut flags = u64::from(units.entangled) * ENTANGLED + u64::from(units.foreign) * FOREIGN;
    if !whole {
        flags |= known;
    }
    Made {
        update: SessionUpdate {
            shard: shard_of(tenant, standing.owner),
            entry: SessionEntry {
                key: session.session_id.as_str().into(),
                stamp: [standing.commit_no, flags],
                updated: header.updated,
                project: header.project_id,
            },
            gone,
            documents,
        },
        entangled: units.entangled,
        foreign: flags & FOREIGN != 0,
        units: read,
    }
}

fn title(header: &Header) -> Option<NewDocument> {
    let spoken = Spoken::of_title(header)?;
    Some(document("".into(), TITLE_UNIT, TITLE, &spoken))
}

fn one(unit: u64, message: &Message) -> NewDocument {
    let spoken = Spoken::of(message);
    // Another program may have called a message nothing; a document of that name is the title.
    let key = match &*message.id {
        "" => format!("~{}", message.seq.unwrap_or_default()).into(),
        id => id.into(),
    };
    document(key, unit, spoken.kind(), &spoken)
}

fn document(key: Box<str>, unit: u64, kind: u8, spoken: &Spoken<'_>) -> NewDocument {
    let body = spoken.encode();
    let mut digest = DefaultHasher::new();
    body.hash(&mut digest);
    NewDocument {
        key,
        unit,
        kind,
        created: spoken.created,
        digest: digest.finish(),
        folded: spoken.folded(),
        body,
    }
}
