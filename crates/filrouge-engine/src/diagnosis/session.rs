//! Examines a session: verification, turns, drafts, items.

use std::collections::BTreeMap;

use filrouge_store::command::Scope;
use filrouge_store::read::{VerifiedSession, VerifiedSnapshot};
use filrouge_store::record::MacCheck;
use filrouge_store::rows::{TurnRow, View};
use filrouge_store::verify::Verdict;
use filrouge_types::{Failure, RequestId, SessionId, Timestamp, TurnStatus};

use super::drafts;
use super::items::Walk;
use super::report::{
    Diagnosis, FailedTurn, PendingTurn, TURNS_MAX, Unreadable, Verification, age_ms, concerns_data,
};
use crate::stats::TurnsByStatus;

/// The number of turn rows per read.
const ROWS: usize = 64;

/// Examines a session.
pub(super) fn examine<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    scope: &Scope,
    id: &SessionId,
    now: Timestamp,
    items: usize,
) -> Result<Diagnosis, Failure> {
    let mut diagnosis = Diagnosis::empty(now, verification(snapshot, (scope, id))?);
    let session = match snapshot.get(scope, id) {
        Ok(session) => session,
        Err(failure) if concerns_data(&failure) => {
            diagnosis.unreadable("session", &failure);
            return Ok(diagnosis);
        }
        Err(failure) => return Err(failure),
    };
    diagnosis.session = Some(session.row.clone().with_head(&session.head));
    let turns = Turns::read(snapshot, &session, &mut diagnosis)?;
    let pending = turns.pending.iter().rev();
    diagnosis.pending = pending
        .map(|row| pending_turn(snapshot, &session, row, now))
        .collect();
    let failed = turns.failed.iter().rev();
    diagnosis.failed = failed
        .map(|row| failed_turn(snapshot, &session, row))
        .collect();
    match snapshot.drafts(scope, id, &BTreeMap::new()) {
        Ok(all) => all
            .into_iter()
            .for_each(|news| drafts::add(&mut diagnosis, news)),
        Err(failure) if concerns_data(&failure) => diagnosis.unreadable("drafts", &failure),
        Err(failure) => return Err(failure),
    }
    Walk::of(&turns, session.head.last_seq, items).run(snapshot, &session, &mut diagnosis)?;
    Ok(diagnosis)
}

fn verification<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    only: (&Scope, &SessionId),
) -> Result<Verification, Failure> {
    let report = snapshot.verify(Some(only))?;
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
pub(super) struct Turns {
    newest: Vec<TurnRow>,
    pending: Vec<TurnRow>,
    failed: Vec<TurnRow>,
}

impl Turns {
    fn read<V: View + ?Sized>(
        snapshot: &VerifiedSnapshot<'_, V>,
        session: &VerifiedSession,
        diagnosis: &mut Diagnosis,
    ) -> Result<Self, Failure> {
        let mut turns = Self::default();
        let (mut before, mut ordinal) = (None, u64::MAX);
        loop {
            let rows = match snapshot.turn_rows_back(session, before, ROWS) {
                Ok(rows) => rows,
                Err(failure) if concerns_data(&failure) => {
                    diagnosis.unreadable("turns", &failure);
                    return Ok(turns);
                }
                Err(failure) => return Err(failure),
            };
            let Some(last) = rows.last() else {
                return Ok(turns);
            };
            before = Some(last.place());
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
        let keep = |list: &mut Vec<TurnRow>| {
            if list.len() < TURNS_MAX {
                list.push(row.clone());
            }
        };
        match row.status {
            TurnStatus::Open | TurnStatus::Interrupted => keep(&mut self.pending),
            TurnStatus::Failed => keep(&mut self.failed),
            TurnStatus::Finalized | TurnStatus::Cancelled => {}
        }
        keep(&mut self.newest);
    }

    /// All examined turns; a turn that is in two lists occurs twice.
    pub(super) fn all(&self) -> impl Iterator<Item = &TurnRow> {
        [&self.newest, &self.pending, &self.failed]
            .into_iter()
            .flatten()
    }
}

fn pending_turn<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    session: &VerifiedSession,
    row: &TurnRow,
    now: Timestamp,
) -> PendingTurn {
    PendingTurn {
        turn_id: row.turn_id,
        request_id: request_of(snapshot, session, row),
        ordinal: row.ordinal,
        status: row.status,
        since: row.touched_at,
        silent_ms: age_ms(now, row.touched_at),
        first_seq: row.first_seq,
        last_seq: row.last_seq,
        items: row.items,
        waits_for_human: false,
        recorder: None,
        interrupted_in_ms: None,
    }
}

fn failed_turn<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    session: &VerifiedSession,
    row: &TurnRow,
) -> FailedTurn {
    FailedTurn {
        turn_id: row.turn_id,
        request_id: request_of(snapshot, session, row),
        ordinal: row.ordinal,
        since: row.touched_at,
        first_seq: row.first_seq,
        last_seq: row.last_seq,
    }
}

/// The turn's key; `None` when its first item is unreadable, which the walk over the items reports.
fn request_of<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    session: &VerifiedSession,
    row: &TurnRow,
) -> Option<RequestId> {
    let start = snapshot.start_of(session, row).ok()?;
    Some(start.request_id)
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
        first_seq: Some(seq),
        last_seq: Some(seq),
        ..Unreadable::new("items", failure)
    });
}
