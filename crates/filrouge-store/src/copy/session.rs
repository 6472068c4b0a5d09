//! Copies all rows of one session. The head is written last: a session with its head is complete.

use std::collections::BTreeSet;

use filrouge_types::{Checkpoint, RequestId, Result, SessionEvent};

use super::run::{ROW_BYTES, Run};
use super::target_tx::CopiedSession;
use crate::keyring::MAC_BYTES;
use crate::read::{ALL_PLACES, VerifiedSession, in_session};
use crate::record::{Event, RecordFaultKind, RecordRow};
use crate::rows::{Change, CheckpointRow, DraftChunk, EventRow, SessionPk, StoredSession, View};

/// The number of rows per read.
const PAGE: usize = 1000;

/// The rows that can change while the head of their session stays the same: its newest event, with its number, and its
/// checkpoints.
type SideRows = (Option<(u64, SessionEvent)>, Vec<Option<Checkpoint>>);

fn side_rows(view: &(dyn View + '_), pk: SessionPk) -> Result<SideRows> {
    let newest = view.newest_event(pk)?;
    let events = view.events(pk, newest.saturating_sub(1), 1)?;
    let event = events.into_iter().next();
    let mut checkpoints = Vec::new();
    for seq in view.checkpoint_seqs(pk)? {
        checkpoints.push(view.checkpoint(pk, seq)?.map(|row| row.checkpoint));
    }
    Ok((event.map(|row| (row.number, row.event)), checkpoints))
}

/// The number, in the target, of a session that an earlier run has written; and the MAC of its head if the session is
/// complete and has not changed since.
type ExistingCopy = (SessionPk, Option<[u8; MAC_BYTES]>);

impl Run<'_, '_> {
    /// Copies a session with this number of events, unless an earlier run has copied it in its current state.
    pub(super) fn copy_session(&mut self, pk: SessionPk, events: u64) -> Result<()> {
        let Some(stored) = self.source.view.session_by_pk(pk)? else {
            return Ok(());
        };
        let session = self.source.verified_session(stored)?;
        let id = session.row.session_id.clone();
        // The number and the MAC are those of the target.
        let copied = CopiedSession {
            pk: 0,
            mac: [0; MAC_BYTES],
            created: Change::created(&session.row, self.keyring),
            items: session.head.last_seq,
            events,
            is_erased: session.row.erased.is_some(),
        };
        match self.existing_copy(&session)? {
            Some((pk, Some(mac))) => {
                self.results.unchanged += 1;
                self.sessions.push(CopiedSession { pk, mac, ..copied });
                Ok(())
            }
            existing => {
                let existing = existing.map(|(pk, _)| pk);
                in_session(&id, self.copy_rows(session, existing, copied))
            }
        }
    }

    /// The copy of a session that an earlier run has written.
    fn existing_copy(&mut self, session: &VerifiedSession) -> Result<Option<ExistingCopy>> {
        if !self.resumed {
            return Ok(None);
        }
        let (source, keyring) = (self.source, self.keyring);
        let mut existing = None;
        self.copy_target.with_view(&mut |view| {
            let (tenant, id) = (&session.row.tenant_id, &session.row.session_id);
            if let Some(StoredSession { pk, head, .. }) = view.session(tenant, id, None)? {
                let expected = session.head.clone().sealed(keyring, pk);
                // The drafts of open turns grow without a change of the head.
                let is_unchanged = session.head.open_turns == 0
                    && head.as_ref() == Some(&expected)
                    && side_rows(source.view, session.pk)? == side_rows(view, pk)?;
                existing = Some((pk, is_unchanged.then_some(expected.mac)));
            }
            Ok(())
        })?;
        Ok(existing)
    }

    fn copy_rows(
        &mut self,
        session: VerifiedSession,
        existing: Option<SessionPk>,
        copied: CopiedSession,
    ) -> Result<()> {
        let row = session.row.clone();
        self.put(row.content_len(), move |t| t.begin_session(&row, existing))?;
        self.copy_turns(&session)?;
        self.copy_records(&session)?;
        self.copy_events(&session)?;
        self.copy_checkpoints(&session)?;
        self.copy_drafts(&session)?;
        let head = session.head;
        self.put(0, move |t| t.finish_session(head, copied))
    }

    fn copy_turns(&mut self, session: &VerifiedSession) -> Result<()> {
        let (mut from, to) = ALL_PLACES;
        loop {
            let rows = self.source.view.turns(session.pk, from, to, false, PAGE)?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            from = last.place() + 1;
            for row in rows {
                self.source.check_turn_mac(session, &row)?;
                self.put(0, move |t| {
                    t.tx.insert_turn(t.pk, &row.sealed(t.keyring, t.pk))
                })?;
            }
        }
    }

    fn copy_records(&mut self, session: &VerifiedSession) -> Result<()> {
        let mut next_seq = 1;
        while next_seq <= session.head.last_seq {
            let rows = self.source.view.records(session.pk, next_seq, PAGE)?;
            let Some(last) = rows.last() else {
                return Err(session.integrity_failure(Some(next_seq), RecordFaultKind::Missing));
            };
            next_seq = last.last_seq() + 1;
            for row in rows {
                self.copy_record(session, row)?;
            }
        }
        Ok(())
    }

    /// Copies a record, and writes the rows that are derived from its items: the keys of the items and, in an adopted
    /// session, of the requests; and the agents.
    fn copy_record(&mut self, session: &VerifiedSession, row: RecordRow) -> Result<()> {
        let decoded = self.source.decode_without_redactions(session, &row)?;
        let (mut items, mut requests) = (Vec::new(), Vec::new());
        let mut agents = BTreeSet::new();
        for (item, events) in decoded.items {
            items.extend(item.body.item_id.map(|id| (id, item.seq)));
            agents.extend(item.body.agent);
            for event in events {
                if let Event::Start(start) = event
                    && session.head.adopted
                    && self.has_request_key(session.pk, &start.request_id)?
                {
                    requests.push((start.request_id, item.seq));
                }
            }
        }
        let derived = items.len() + requests.len() + agents.len();
        let bytes = row.head.len() + row.body.len() + derived * ROW_BYTES;
        self.put(bytes, move |t| {
            t.tx.insert_record(t.pk, &row)?;
            for (id, seq) in &items {
                t.tx.insert_item_key(t.pk, id, *seq)?;
            }
            for (id, seq) in &requests {
                t.tx.insert_request_key(t.pk, id, *seq)?;
            }
            for agent in &agents {
                t.tx.insert_agent(t.pk, agent, t.keyring)?;
            }
            Ok(())
        })
    }

    /// Whether a turn of an adopted session is found by its request's key, and not by its id.
    fn has_request_key(&self, pk: SessionPk, id: &RequestId) -> Result<bool> {
        Ok(self.source.view.request_seq(pk, id)?.is_some())
    }

    fn copy_events(&mut self, session: &VerifiedSession) -> Result<()> {
        let mut after = 0;
        loop {
            let rows = self.source.view.events(session.pk, after, PAGE)?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = last.number;
            for row in rows {
                let (number, bytes) = (row.number, row.content_len());
                let event = self.source.verified_event(session, row)?;
                self.put(bytes, move |t| {
                    let row = EventRow::sealed(number, event, t.keyring, t.pk);
                    t.tx.insert_event(t.pk, &row)
                })?;
            }
        }
    }

    fn copy_checkpoints(&mut self, session: &VerifiedSession) -> Result<()> {
        for seq in self.source.view.checkpoint_seqs(session.pk)? {
            let Some(checkpoint) = self.source.checkpoint_at(session, seq)? else {
                continue;
            };
            self.put(checkpoint.state.as_str().len(), move |t| {
                let row = CheckpointRow::sealed(checkpoint, t.keyring, t.pk);
                t.tx.put_checkpoint(t.pk, &row)
            })?;
        }
        Ok(())
    }

    fn copy_drafts(&mut self, session: &VerifiedSession) -> Result<()> {
        for row in self.source.view.drafts(session.pk)? {
            let draft = self.source.verified_draft(session, row)?;
            // This verifies the chunks, so their deltas are readable.
            self.source.draft_pieces(session, &draft)?;
            let chunks = self.source.view.draft_chunks(session.pk, draft.place, 0)?;
            let bytes = chunks.iter().map(|chunk| chunk.encode().len()).sum();
            self.put(bytes, move |t| {
                let draft = draft.sealed(t.keyring, t.pk);
                for chunk in chunks {
                    let deltas = chunk.deltas().unwrap_or_default();
                    let of_draft = (t.pk, &draft);
                    let chunk = DraftChunk::sealed(chunk.number, &deltas, t.keyring, of_draft);
                    t.tx.insert_draft_chunk(t.pk, draft.place, &chunk)?;
                }
                t.tx.put_draft(t.pk, &draft)
            })?;
        }
        Ok(())
    }
}
