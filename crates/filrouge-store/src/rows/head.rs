//! The head of a session: the state that changes with every append.

use std::time::Duration;

use filrouge_types::{Checkpoint, LONGEST_LEASE, Lease, Timestamp};

use super::{NamedCheckpoint, SessionPk};
use crate::chain::{GENESIS, Link};
use crate::codec::{ByteReader, Malformed, WriteBytes};
use crate::keyring::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};

/// The format byte of a head with [`HeadRow::adopted`].
const FORMAT_ADOPTED: u8 = 2;
/// The number added to the format byte of a head that stores a lease, checkpoints or a redaction: format 3, or 4 for an
/// adopted session.
const EXTENDED_OFFSET: u8 = 2;
/// The number added to the format byte of a head that also stores summaries: format 5, or 6 for an adopted session.
const SUMMARIES_OFFSET: u8 = 4;
/// The number added to the format byte of a head of formats 3 to 6 that also names its checkpoints: formats 7 to 10.
const NAMED_OFFSET: u8 = 4;
/// The maximum number of summaries that a head names.
const SUMMARIES_MAX: usize = 8;

/// The newest lease of a session (DESIGN §6). It stays in the head after it is released or has expired, because the
/// next fence must be greater. The default is the state before the first lease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeadLease {
    /// The newest fence that was granted; 0 before the first.
    pub fence: u64,
    /// The holder; empty after the release.
    pub holder: Box<str>,
    /// The server through which the holder made its newest write, as [`crate::Ledger::writer`] names it.
    pub server: Box<str>,
    /// The time at which the lease expires.
    pub expires_at: Timestamp,
    /// The time to live that the holder requested. Every write under the fence extends the lease to it.
    pub ttl: Duration,
    /// The time at which the fence was granted. Every earlier write was made under another fence, or without one.
    pub since: Timestamp,
}

impl HeadLease {
    /// Whether the session has a holder now. A lease that ends later than any lease granted now was granted while a
    /// clock was wrong, and counts as ended.
    pub fn is_live(&self, now: Timestamp) -> bool {
        let latest_end = now.after(LONGEST_LEASE);
        !self.holder.is_empty() && now < self.expires_at && self.expires_at <= latest_end
    }

    /// The lease as callers see it at the time `now`.
    pub fn to_lease(&self, now: Timestamp) -> Lease {
        let is_live = self.is_live(now);
        Lease {
            fence: self.fence,
            holder: is_live.then(|| self.holder.clone()),
            expires_at: is_live.then_some(self.expires_at),
        }
    }
}

/// The checkpoints of a session, as its head stores them. They differ from the stored rows if a checkpoint was deleted,
/// changed, or put back after its deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeadCheckpoints {
    /// The number of checkpoints.
    pub count: u64,
    /// The seq of the newest checkpoint; 0 when there is none.
    pub newest: u64,
    /// The seq of the newest redaction; 0 for none. Checkpoints at older seqs are refused.
    pub redacted: u64,
    /// All checkpoints, by ascending seqs. Empty in a head of formats 3 to 6, which names none.
    pub named: Vec<NamedCheckpoint>,
}

impl HeadCheckpoints {
    /// Names these checkpoints, by ascending seqs, and no others.
    pub fn set(&mut self, named: Vec<NamedCheckpoint>) {
        self.count = named.len() as u64;
        self.newest = named.last().map_or(0, |newest| newest.seq);
        self.named = named;
    }

    /// Whether all checkpoints are named. A head of formats 3 to 6 has only their number and the newest seq.
    pub fn are_named(&self) -> bool {
        self.named.len() as u64 == self.count
    }

    /// Whether stored checkpoints at exactly these ascending seqs can be those of the head.
    pub fn matches(&self, seqs: &[u64]) -> bool {
        let newest = seqs.last().copied().unwrap_or(0);
        let named = self.named.iter().map(|named| named.seq);
        (self.count, self.newest) == (seqs.len() as u64, newest)
            && (!self.are_named() || named.eq(seqs.iter().copied()))
    }

    /// Whether a stored checkpoint can be one of the head's.
    pub fn includes(&self, checkpoint: &Checkpoint) -> bool {
        if self.are_named() {
            return self.named.contains(&NamedCheckpoint::of(checkpoint));
        }
        checkpoint.seq <= self.newest
    }
}

/// The state of a session that changes with every append.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeadRow {
    /// The newest seq.
    pub last_seq: u64,
    /// The newest ordinal.
    pub turn_count: u64,
    /// The number of turn rows, including replacements.
    pub turn_rows: u64,
    /// The number of open turns.
    pub open_turns: u64,
    /// The link of the newest item.
    pub link: Link,
    /// Whether turn ids of the session were derived with another installation's keyring, because the session was
    /// adopted.
    pub adopted: bool,
    /// The time at which a turn last began or ended, or the session itself was last changed.
    pub updated_at: Timestamp,
    /// [`super::SessionRow::fingerprint`] of the session's row.
    pub session: [u8; 16],
    /// The newest lease.
    pub lease: HeadLease,
    /// The checkpoints.
    pub checkpoints: HeadCheckpoints,
    /// The seqs of the newest summaries, at most eight, ascending.
    pub summaries: Vec<u64>,
    pub(super) key_id: KeyId,
    /// The MAC over all fields above and the session's number.
    pub mac: [u8; MAC_BYTES],
}

impl HeadRow {
    /// The unsealed head of a session without items.
    pub fn empty(session: [u8; 16], now: Timestamp) -> Self {
        Self {
            link: GENESIS,
            updated_at: now,
            session,
            ..Self::default()
        }
    }

    /// Adds a summary, which is newer than those that the head names.
    pub fn add_summary(&mut self, seq: u64) {
        if self.summaries.len() == SUMMARIES_MAX {
            self.summaries.remove(0);
        }
        self.summaries.push(seq);
    }

    /// Whether the head names the newest of a session's summaries, whose ascending seqs these are.
    pub(crate) fn names_newest_of(&self, summaries: &[u64]) -> bool {
        let newest = summaries.len().saturating_sub(SUMMARIES_MAX);
        summaries[newest..] == self.summaries
    }

    /// The format byte.
    fn format(&self, is_extended: bool) -> u8 {
        let mut format = if self.adopted {
            FORMAT_ADOPTED
        } else {
            crate::codec::FORMAT
        };
        if !self.summaries.is_empty() {
            format += SUMMARIES_OFFSET;
        } else if is_extended {
            format += EXTENDED_OFFSET;
        }
        if !self.checkpoints.named.is_empty() {
            format += NAMED_OFFSET;
        }
        format
    }

    fn body(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        let has_summaries = !self.summaries.is_empty();
        let is_extended =
            has_summaries || self.lease.fence > 0 || self.checkpoints != HeadCheckpoints::default();
        out.byte(self.format(is_extended));
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out.number(self.last_seq);
        out.number(self.turn_count);
        out.number(self.turn_rows);
        out.number(self.open_turns);
        out.extend_from_slice(&self.link);
        out.time(self.updated_at);
        out.extend_from_slice(&self.session);
        if is_extended {
            out.number(self.lease.fence);
            out.text(&self.lease.holder);
            out.text(&self.lease.server);
            out.time(self.lease.expires_at);
            // No lease is longer than a day.
            out.number(u64::try_from(self.lease.ttl.as_micros()).unwrap_or(u64::MAX));
            out.time(self.lease.since);
            out.number(self.checkpoints.count);
            out.number(self.checkpoints.newest);
            out.number(self.checkpoints.redacted);
            let mut previous = 0_u64;
            for NamedCheckpoint { seq, tag } in &self.checkpoints.named {
                out.number(*seq - previous);
                out.extend_from_slice(tag);
                previous = *seq;
            }
        }
        if has_summaries {
            out.number(self.summaries.len() as u64);
            self.summaries.iter().for_each(|seq| out.number(*seq));
        }
        out
    }

    /// Decodes stored bytes; `None` when they are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        ByteReader::read_all(bytes, |r| {
            let format = r.byte()?;
            if format == 0 || format > FORMAT_ADOPTED + SUMMARIES_OFFSET + NAMED_OFFSET {
                return Err(Malformed);
            }
            let adopted = format.is_multiple_of(FORMAT_ADOPTED);
            let names_checkpoints = format > FORMAT_ADOPTED + SUMMARIES_OFFSET;
            let base = format - if names_checkpoints { NAMED_OFFSET } else { 0 };
            let (is_extended, has_summaries) = (base > EXTENDED_OFFSET, base > SUMMARIES_OFFSET);
            let key_id = KeyId::from_be_bytes(r.array()?);
            let mut row = Self {
                last_seq: r.number()?,
                turn_count: r.number()?,
                turn_rows: r.number()?,
                open_turns: r.number()?,
                link: r.array()?,
                adopted,
                updated_at: r.time()?,
                session: r.array()?,
                key_id,
                ..Self::default()
            };
            if is_extended {
                row.lease = HeadLease {
                    fence: r.number()?,
                    holder: r.text()?.into(),
                    server: r.text()?.into(),
                    expires_at: r.time()?,
                    ttl: Duration::from_micros(r.number()?),
                    since: r.time()?,
                };
                row.checkpoints = HeadCheckpoints {
                    count: r.number()?,
                    newest: r.number()?,
                    redacted: r.number()?,
                    named: Vec::new(),
                };
            }
            if names_checkpoints {
                row.checkpoints.named = named_checkpoints(r, row.checkpoints.count)?;
            }
            if has_summaries {
                let count = r.number()?;
                if count > SUMMARIES_MAX as u64 {
                    return Err(Malformed);
                }
                for _ in 0..count {
                    row.summaries.push(r.number()?);
                }
            }
            row.mac = r.array()?;
            Ok(row)
        })
    }
}

/// Reads the named checkpoints of a head, at least one.
fn named_checkpoints(
    r: &mut ByteReader<'_>,
    count: u64,
) -> Result<Vec<NamedCheckpoint>, Malformed> {
    let (mut named, mut seq) = (Vec::new(), 0_u64);
    for _ in 0..count {
        seq = seq.checked_add(r.number()?).ok_or(Malformed)?;
        let tag = r.array()?;
        named.push(NamedCheckpoint { seq, tag });
    }
    if named.is_empty() {
        return Err(Malformed);
    }
    Ok(named)
}

sealed_row!(HeadRow, Head, pub fn sealed, |self|);
