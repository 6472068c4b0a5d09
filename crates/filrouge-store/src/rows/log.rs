//! The commit log of a lane: one chained row per commit, which names what the commit touched (DESIGN §9, docs/format.md).

use filrouge_types::{SessionId, TenantId, Timestamp};

use super::{SessionPk, SessionRow};
use crate::codec::{ByteReader, Malformed, WriteBytes};
use crate::digest::MaskedDigest;
use crate::keyring::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};
use crate::lane::Lane;

/// The kind of change that a write makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Items were added, or a turn was changed by them.
    Items,
    /// The session with this name was created, with this hash of its owner ([`Keyring::owner`]).
    Created(TenantId, SessionId, [u8; MAC_BYTES]),
    /// The session got an owner, of which this is the hash, and an item that records it.
    Linked([u8; MAC_BYTES]),
    /// The session's listed fields were changed.
    Patched,
    /// The session was erased.
    Erased,
    /// An event was recorded. The entry stores the event's number instead of a first seq.
    Event,
    /// The note with this name was written; it belongs to no session.
    Note(Box<str>),
    /// A draft of the session was written; the head is unchanged. The entry stores the place of the draft's turn instead
    /// of a first seq, and the number of its newest chunk instead of a count.
    Draft,
    /// The session's lease was changed.
    Lease,
    /// A checkpoint was written. The entry stores the checkpoint's seq instead of a first seq.
    Checkpoint,
}

impl Change {
    /// The creation of a session.
    pub(crate) fn created(row: &SessionRow, keyring: &Keyring) -> Self {
        let owner = match row.erased {
            Some(erased) => erased.owner,
            None => keyring.owner(row.identity_id.as_ref(), row.token),
        };
        Self::Created(row.tenant_id.clone(), row.session_id.clone(), owner)
    }
}

/// The effect of one write on one session, or on one note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The session; 0 for a note.
    pub pk: SessionPk,
    /// The first seq added; 0 when no items were added. [`Change::Event`], [`Change::Checkpoint`] and [`Change::Draft`]
    /// store another number here.
    pub first_seq: u64,
    /// The number of items added. [`Change::Draft`] stores another number here.
    pub count: u64,
    /// The first half of the new MAC of the session's head, or of the note.
    pub head: [u8; 8],
    /// The kind of the change.
    pub change: Change,
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    /// Its lane.
    pub lane: Lane,
    /// Its number in the lane: dense, from 1.
    pub commit_no: u64,
    /// The store's time of the commit.
    pub at: Timestamp,
    /// The digest of all heads and notes of the lane after the commit.
    pub digest: MaskedDigest,
    /// The keyed hash of the previous commit's link and this row.
    pub link: [u8; MAC_BYTES],
    key_id: KeyId,
    entries: Vec<u8>,
}

impl LogRow {
    /// The row that follows `previous` in its lane, signed with the active key.
    pub fn after(
        previous: Option<&Self>,
        lane: Lane,
        at: Timestamp,
        entries: &[LogEntry],
        digest: MaskedDigest,
        keyring: &Keyring,
    ) -> Self {
        let mut encoded = Vec::with_capacity(entries.len() * 16);
        for e in entries {
            encoded.number(e.pk);
            encoded.number(e.first_seq);
            encoded.number(e.count);
            encoded.extend_from_slice(&e.head);
            match &e.change {
                Change::Items => encoded.byte(0),
                Change::Created(tenant, session, owner) => {
                    encoded.byte(1);
                    encoded.text(tenant.as_str());
                    encoded.text(session.as_str());
                    encoded.extend_from_slice(owner);
                }
                Change::Patched => encoded.byte(2),
                Change::Erased => encoded.byte(3),
                Change::Event => encoded.byte(4),
                Change::Note(name) => {
                    encoded.byte(5);
                    encoded.text(name);
                }
                Change::Draft => encoded.byte(6),
                Change::Lease => encoded.byte(7),
                Change::Checkpoint => encoded.byte(8),
                Change::Linked(owner) => {
                    encoded.byte(9);
                    encoded.extend_from_slice(owner);
                }
            }
        }
        let mut row = Self {
            lane,
            commit_no: previous.map_or(1, |p| p.commit_no + 1),
            at,
            digest,
            link: [0; MAC_BYTES],
            key_id: keyring.active(),
            entries: encoded,
        };
        row.link = row
            .compute_link(previous.map(|p| &p.link), keyring)
            .unwrap_or_default();
        row
    }

    fn compute_link(
        &self,
        previous: Option<&[u8; MAC_BYTES]>,
        keyring: &Keyring,
    ) -> Option<[u8; MAC_BYTES]> {
        keyring.mac(
            self.key_id,
            Domain::Commit,
            &[
                previous.unwrap_or(&[0; MAC_BYTES]),
                &self.lane.number().to_be_bytes(),
                &self.commit_no.to_be_bytes(),
                &self.at.as_micros().to_be_bytes(),
                &self.digest.to_bytes(),
                &self.entries,
            ],
        )
    }

    /// Whether this row is unchanged and follows directly after `previous`; `None` when the key is missing.
    pub fn follows(&self, previous: Option<&Self>, keyring: &Keyring) -> Option<bool> {
        if self.commit_no != previous.map_or(1, |p| p.commit_no + 1) {
            return Some(false);
        }
        let link = self.compute_link(previous.map(|p| &p.link), keyring)?;
        Some(equal_macs(&link, &self.link))
    }

    /// The effects of the commit's writes; `None` when the bytes are malformed.
    pub fn entries(&self) -> Option<Vec<LogEntry>> {
        let mut r = ByteReader(&self.entries);
        let mut entries = Vec::new();
        while !r.is_empty() {
            entries.push(read_entry(&mut r).ok()?);
        }
        Some(entries)
    }

    /// Whether the commit only extended drafts.
    pub fn has_only_drafts(&self) -> bool {
        // This runs for every commit, so it stops at the first entry of another kind.
        let mut r = ByteReader(&self.entries);
        while read_entry(&mut r).is_ok_and(|e| e.change == Change::Draft) {
            if r.is_empty() {
                return true;
            }
        }
        false
    }

    /// The stored bytes, without the lane and the number, which are the row's key.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.entries.len());
        out.byte(crate::codec::FORMAT);
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out.time(self.at);
        out.extend_from_slice(&self.digest.to_bytes());
        out.extend_from_slice(&self.link);
        out.extend_from_slice(&self.entries);
        out
    }

    /// Decodes stored bytes; `None` when they are malformed.
    pub fn decode(lane: Lane, commit_no: u64, bytes: &[u8]) -> Option<Self> {
        ByteReader::read_all(bytes, |r| {
            r.format()?;
            let key_id = KeyId::from_be_bytes(r.array()?);
            Ok(Self {
                lane,
                commit_no,
                at: r.time()?,
                digest: MaskedDigest::from_bytes(r.array()?),
                link: r.array()?,
                key_id,
                entries: r.rest().to_vec(),
            })
        })
    }
}

fn read_entry(r: &mut ByteReader<'_>) -> Result<LogEntry, Malformed> {
    Ok(LogEntry {
        pk: r.number()?,
        first_seq: r.number()?,
        count: r.number()?,
        head: r.array()?,
        change: match r.byte()? {
            0 => Change::Items,
            1 => Change::Created(
                TenantId::new(r.text()?).map_err(|_| Malformed)?,
                SessionId::new(r.text()?).map_err(|_| Malformed)?,
                r.array()?,
            ),
            2 => Change::Patched,
            3 => Change::Erased,
            4 => Change::Event,
            5 => Change::Note(r.text()?.into()),
            6 => Change::Draft,
            7 => Change::Lease,
            8 => Change::Checkpoint,
            9 => Change::Linked(r.array()?),
            _ => return Err(Malformed),
        },
    })
}
