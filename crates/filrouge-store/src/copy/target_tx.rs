//! One transaction of the target of a copy.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use filrouge_types::{Result, Timestamp};

use crate::digest::DigestRow;
use crate::keyring::{Keyring, MAC_BYTES, OsEntropy};
use crate::lane::Lane;
use crate::rows::{Change, HeadRow, LogEntry, NoteRow, SessionPk, SessionRow, Tx};
use crate::rules::{CommitGroup, RuleContext};
use crate::verify::Suspects;

/// A session of the copy, as its commit log names it.
pub(super) struct CopiedSession {
    /// Its number in the target.
    pub(super) pk: SessionPk,
    /// The MAC of its head in the target.
    pub(super) mac: [u8; MAC_BYTES],
    /// The change that created it.
    pub(super) created: Change,
    /// The number of its items.
    pub(super) items: u64,
    /// The number of its events.
    pub(super) events: u64,
    pub(super) is_erased: bool,
}

/// A transaction of the target.
pub(super) struct TargetTx<'t> {
    pub(super) tx: &'t mut dyn Tx,
    /// The keys of the target.
    pub(super) keyring: &'t Keyring,
    /// The number, in the target, of the session that is being written.
    pub(super) pk: SessionPk,
    /// The complete sessions, to which the transaction adds those that it completes.
    pub(super) sessions: &'t mut Vec<CopiedSession>,
    /// The commits of the transaction.
    pub(super) groups: BTreeMap<Lane, CommitGroup>,
}

impl TargetTx<'_> {
    /// Begins to write a session. `existing` is its number if an earlier run has written it in another state, or in
    /// part: then the session keeps the number, and the earlier rows are deleted.
    pub(super) fn begin_session(
        &mut self,
        row: &SessionRow,
        existing: Option<SessionPk>,
    ) -> Result<()> {
        let Some(pk) = existing else {
            self.pk = self.tx.insert_session(row)?;
            return Ok(());
        };
        self.pk = pk;
        self.tx.erase(pk)?;
        self.tx.update_session(pk, row)?;
        // No complete session has this head. So if the run ends before the session is complete, the next one sees it.
        self.tx
            .put_head(pk, &HeadRow::empty([0; 16], row.created_at))
    }

    /// Writes the head of the session that is being written, which completes it.
    pub(super) fn finish_session(&mut self, head: HeadRow, session: CopiedSession) -> Result<()> {
        let head = head.sealed(self.keyring, self.pk);
        self.tx.put_head(self.pk, &head)?;
        self.sessions.push(CopiedSession {
            pk: self.pk,
            mac: head.mac,
            ..session
        });
        Ok(())
    }

    /// Adds a complete session to the commit log.
    pub(super) fn log_session(&mut self, session: CopiedSession) -> Result<()> {
        let mut changes = vec![(session.items.min(1), session.items, session.created)];
        changes.extend((1..=session.events).map(|number| (number, 0, Change::Event)));
        changes.extend(session.is_erased.then_some((0, 0, Change::Erased)));
        self.log(DigestRow::Head(session.pk), &session.mac, changes)
    }

    /// Writes a note, and adds it to the commit log.
    pub(super) fn put_note(&mut self, note: &NoteRow) -> Result<()> {
        self.tx.put_note(note)?;
        let change = Change::Note(note.name.clone());
        self.log(DigestRow::Note(&note.name), &note.mac, vec![(0, 0, change)])
    }

    /// Adds a head or a note to the digest of its lane, and the changes that made it to the lane's commit. Each change
    /// has a first seq and a count.
    fn log(
        &mut self,
        row: DigestRow<'_>,
        mac: &[u8; MAC_BYTES],
        changes: Vec<(u64, u64, Change)>,
    ) -> Result<()> {
        let pk = match row {
            DigestRow::Head(pk) => pk,
            DigestRow::Note(_) => 0,
        };
        // Number 0 is in the first lane, to which notes belong.
        let lane = self.tx.lanes().of_pk(pk);
        let group = match self.groups.entry(lane) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(CommitGroup::begin(&*self.tx, lane, self.keyring)?)
            }
        };
        group.digest = group.digest.plus(self.keyring, row, mac);
        // The log stores the first half of the MAC.
        let head = mac.first_chunk().copied().unwrap_or_default();
        let entries = changes.into_iter();
        group
            .entries
            .extend(entries.map(|(first_seq, count, change)| LogEntry {
                pk,
                first_seq,
                count,
                head,
                change,
            }));
        Ok(())
    }

    /// Writes the commits, one for each lane of which a session or a note was logged.
    pub(super) fn finish(self, now: Timestamp) -> Result<()> {
        let ctx = RuleContext {
            keyring: self.keyring,
            entropy: &OsEntropy,
            now,
            lease_now: now,
            server: &String::new,
            suspects: &Suspects::default(),
            known_heads: None,
        };
        for group in self.groups.into_values() {
            group.finish(&mut *self.tx, &ctx)?;
        }
        Ok(())
    }
}
