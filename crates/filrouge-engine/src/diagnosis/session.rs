//! Examines a session: verifies it, and reads its turns, drafts and items.

use std::collections::BTreeMap;

use filrouge_store::command::Scope;
use filrouge_store::read::{LedgerSnapshot, VerifiedSession};
use filrouge_store::record::MacCheck;
use filrouge_store::rows::TurnRow;
use filrouge_store::verify::Verdict;
use filrouge_types::{Failure, RequestId, Result, SessionId, Timestamp, TurnStatus};

use super::drafts;
use super::items::ItemScan;
use super::report::{
    Diagnosis, FailedTurn, PendingTurn, TURNS_MAX, Unreadable, Verification, age_ms,
};
use crate::stats::TurnsByStatus;

/// The number of turn rows that one query reads.
const ROWS_PER_READ: usize = 64;

/// Examines a session.
pub(super) fn examine(
    snapshot: &LedgerSnapshot<'_>,
    scope: &Scope,
    id: &SessionId,
    now: Timestamp,
    items: usize,
) -> Result<Diagnosis> {
    let mut diagnosis = Diagnosis::empty(now, verify(snapshot, (scope, id))?);
    let Some(session) = diagnosis.readable("session", snapshot.get(scope, id))? else {
        return Ok(diagnosis);
    };
    diagnosis.session = Some(session.row.clone().with_head(&session.head));
    let turns = ExaminedTurns::read(snapshot, &session, &mut diagnosis)?;
    let pending = turns.pending.iter().rev();
    diagnosis.pending = pending
        .map(|row| PendingTurn {
            turn_id: row.turn_id,
            request_id: request_id_of(snapshot, &session, row),
            ordinal: row.ordinal,
            status: row.status,
            since: row.last_write_at,
            silent_ms: age_ms(now, row.last_write_at),
            first_seq: row.first_seq,
            last_seq: row.last_seq,
            items: row.items,
            waits_for_human: false,
            recorder: None,
            interrupted_in_ms: None,
        })
        .collect();
    let failed = turns.failed.iter().rev();
    diagnosis.failed = failed
        .map(|row| FailedTurn {
            turn_id: row.turn_id,
            request_id: request_id_of(snapshot, &session, row),
            ordinal: row.ordinal,
            since: row.last_write_at,
            first_seq: row.first_seq,
            last_seq: row.last_seq,
        })
        .collect();
    let updates = snapshot.drafts(scope, id, &BTreeMap::new());
    let updates = diagnosis.readable("drafts", updates)?;
    for update in updates.into_iter().flatten() {
        drafts::add_draft(&mut diagnosis, update);
    }
    ItemScan::new(&turns, session.head.last_seq, items).run(snapshot, &session, &mut diagnosis)?;
    Ok(diagnosis)
}

fn verify(snapshot: &LedgerSnapshot<'_>, target: (&Scope, &SessionId)) -> Result<Verification> {
    let report = snapshot.verify(Some(target))?;
    let status = match report.verdict() {
        // Links alone do not prove who wrote the items.
        Verdict::Intact if snapshot.check == MacCheck::Unverified => Verdict::CannotTell,
        verdict => verdict,
    };
    Ok(Verification {
        status,
        turns: report.turns,
        items: report.items,
        findings: report.findings,
    })
}

/// The examined turns in three lists, each with the newest turn first. A turn can be in two lists.
#[derive(Default)]
pub(super) struct ExaminedTurns {
    newest: Vec<TurnRow>,
    pending: Vec<TurnRow>,
    failed: Vec<TurnRow>,
}

impl ExaminedTurns {
    fn read(
        snapshot: &LedgerSnapshot<'_>,
        session: &VerifiedSession,
        diagnosis: &mut Diagnosis,
    ) -> Result<Self> {
        let mut turns = Self::default();
        let (mut cursor, mut ordinal) = (None, u64::MAX);
        loop {
            let rows = snapshot.turn_rows_descending(session, cursor, ROWS_PER_READ);
            let rows = diagnosis.readable("turns", rows)?.unwrap_or_default();
            let Some(last) = rows.last() else {
                return Ok(turns);
            };
            cursor = Some(last.place());
            for row in rows {
                // The newest version of a turn comes first; the versions that it replaced follow with the same ordinal.
                if row.ordinal < ordinal {
                    ordinal = row.ordinal;
                    turns.add(row, &mut diagnosis.turns);
                }
            }
        }
    }

    fn add(&mut self, row: TurnRow, counts: &mut TurnsByStatus) {
        *counts.count_of(row.status) += 1;
        let push = |list: &mut Vec<TurnRow>| {
            if list.len() < TURNS_MAX {
                list.push(row.clone());
            }
        };
        match row.status {
            TurnStatus::Open | TurnStatus::Interrupted => push(&mut self.pending),
            TurnStatus::Failed => push(&mut self.failed),
            TurnStatus::Finalized | TurnStatus::Cancelled => {}
        }
        push(&mut self.newest);
    }

    /// All examined turns; a turn that is in two lists occurs twice.
    pub(super) fn iter(&self) -> impl Iterator<Item = &TurnRow> {
        [&self.newest, &self.pending, &self.failed]
            .into_iter()
            .flatten()
    }
}

/// The turn's key; `None` when its first item is unreadable, which the scan of the items reports.
fn request_id_of(
    snapshot: &LedgerSnapshot<'_>,
    session: &VerifiedSession,
    row: &TurnRow,
) -> Option<RequestId> {
    Some(snapshot.start_of(session, row).ok()?.request_id)
}

/// Reports an unreadable item. Consecutive unreadable items with the same failure share one entry.
pub(super) fn report_unreadable_item(diagnosis: &mut Diagnosis, seq: u64, failure: &Failure) {
    if let Some(last) = diagnosis.unreadable.last_mut()
        && last.what == "items"
        && last.code == failure.code.as_str()
        && last.last_seq == Some(seq - 1)
    {
        last.last_seq = Some(seq);
        return;
    }
    diagnosis.unreadable.push(Unreadable {
        what: "items",
        first_seq: Some(seq),
        last_seq: Some(seq),
        code: failure.code.as_str(),
        detail: failure.detail.clone(),
    });
}
