//! What the rules of writes share: the commit that a write is part of, and how rows are put.

use std::collections::BTreeSet;

use filrouge_types::{ErrorCode, Failure, SessionId, Timestamp, TurnId};

use crate::chain::Digest;
use crate::command::{NewSession, Put, Scope};
use crate::keyring::{Entropy, Keyring, MAC_BYTES};
use crate::read::{Fresh, Loaded, Sight};
use crate::record::{Batch, Check, Placement};
use crate::rows::{
    Change, HeadRow, LogEntry, LogRow, PK_MAX, SEQ_MAX, SessionPk, SessionRow, TurnRow, Tx,
};
use crate::verify::Suspects;

use super::refusal;

/// Most items of one turn (DESIGN §8).
pub const TURN_ITEMS_MAX: u64 = 10_000;

/// What the rules are handed in.
pub struct Context<'a> {
    /// The keys.
    pub keyring: &'a Keyring,
    /// For salts of items that the rules add.
    pub entropy: &'a dyn Entropy,
    /// The store's time of the commit.
    pub now: Timestamp,
    /// Sessions known not to be what was written.
    pub suspects: &'a Suspects,
}

/// A write while it is applied.
pub(super) struct Writing<'a, T> {
    pub(super) tx: &'a mut T,
    /// The commit that it is part of.
    pub(super) group: &'a mut Group,
    pub(super) ctx: &'a Context<'a>,
    /// On whose behalf.
    pub(super) scope: &'a Scope,
}

impl<T: Tx> Writing<'_, T> {
    /// Notes in the commit what the write has touched: rows of a session, under the head or note that has this MAC.
    pub(super) fn log(
        &mut self,
        pk: SessionPk,
        (first_seq, count): (u64, u64),
        mac: &[u8; MAC_BYTES],
        change: Change,
    ) {
        let mut head = [0; 8];
        head.copy_from_slice(&mac[..8]);
        self.group.entries.push(LogEntry {
            pk,
            first_seq,
            count,
            head,
            change,
        });
    }

    /// A turn, with its session, as whoever writes sees it.
    pub(super) fn turn(
        &self,
        session: &SessionId,
        id: &TurnId,
    ) -> Result<(Loaded, TurnRow), Failure> {
        let sight = self.sight();
        let session = sight.get(self.scope, session)?;
        let row = sight
            .find_turn(&session, self.scope, id)?
            .ok_or_else(|| sight.no_turn(&session, id))?;
        Ok((session, row))
    }

    pub(super) fn sight(&self) -> Sight<'_, T> {
        Sight {
            view: self.tx,
            keyring: self.ctx.keyring,
            check: Check::Keyed,
            suspects: self.ctx.suspects,
        }
    }
}

/// The writes that share one commit, and with it one flush.
pub struct Group {
    previous: Option<LogRow>,
    pub(super) digest: Digest,
    pub(super) entries: Vec<LogEntry>,
}

impl Group {
    /// Begins behind the newest commit.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn begin<T: Tx>(tx: &T) -> Result<Self, Failure> {
        let previous = tx.newest_log()?;
        let digest = previous.as_ref().map_or_else(Digest::default, |p| p.digest);
        Ok(Self {
            previous,
            digest,
            entries: Vec::new(),
        })
    }

    /// Writes the commit's log row; `None` when nothing was written.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn finish<T: Tx>(self, tx: &mut T, ctx: &Context<'_>) -> Result<Option<LogRow>, Failure> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        let row = LogRow::following(
            self.previous.as_ref(),
            ctx.now,
            &self.entries,
            self.digest,
            ctx.keyring,
        );
        tx.insert_log(&row)?;
        Ok(Some(row))
    }
}

/// Adds a session whose head is not yet put.
pub(super) fn insert_session<T: Tx>(
    w: &mut Writing<'_, T>,
    new: &NewSession,
) -> Result<Loaded, Failure> {
    let row = SessionRow {
        tenant_id: w.scope.tenant.clone(),
        session_id: new.session_id.clone(),
        identity_id: w.scope.viewer.identity().cloned(),
        parent_session_id: new.parent_session_id.clone(),
        project_id: new.project_id.clone(),
        team_id: new.team_id.clone(),
        title: new.title.clone(),
        status: filrouge_types::SessionStatus::Active,
        state: None,
        metadata: new.metadata.clone(),
        created_at: w.ctx.now,
        token: w
            .scope
            .token
            .filter(|_| w.scope.viewer.identity().is_none()),
        erased: None,
    };
    let pk = w.tx.insert_session(&row)?;
    if pk > PK_MAX {
        return Err(Failure::new(
            ErrorCode::Internal,
            "the store has run out of session numbers",
        ));
    }
    let head = HeadRow::empty(row.fingerprint(), w.ctx.now);
    let scope = crate::chain::LinkScope::new(&row.tenant_id, &row.session_id);
    Ok(Loaded {
        pk,
        before: head.link,
        row,
        head,
        scope,
    })
}

/// Signs and writes the head of a session that items were added to, and notes it for the commit log.
pub(super) fn put_head<T: Tx>(
    w: &mut Writing<'_, T>,
    session: Loaded,
    seqs: (u64, u64),
    created: bool,
) -> Result<Loaded, Failure> {
    let change = if created {
        let (tenant, name) = (&session.row.tenant_id, &session.row.session_id);
        Change::Created(tenant.clone(), name.clone())
    } else {
        Change::Items
    };
    put_changed(w, session, seqs, change)
}

/// Signs and writes the head, and notes the change for the commit log.
pub(super) fn put_changed<T: Tx>(
    w: &mut Writing<'_, T>,
    mut session: Loaded,
    (first_seq, count): (u64, u64),
    change: Change,
) -> Result<Loaded, Failure> {
    if !matches!(change, Change::Created(..)) {
        w.group.digest = w.group.digest.minus(&session.head.mac);
    }
    session.head = session.head.sealed(w.ctx.keyring, session.pk);
    w.group.digest = w.group.digest.plus(&session.head.mac);
    w.tx.put_head(session.pk, &session.head)?;
    let mac = session.head.mac;
    w.log(session.pk, (first_seq, count), &mac, change);
    Ok(session)
}

/// Before anything is put behind the newest item, it must be there.
pub(super) fn check_tail<T: Tx>(
    w: &Writing<'_, T>,
    session: &Loaded,
    adding: u64,
) -> Result<(), Failure> {
    let newest = w.tx.newest_seq(session.pk)?;
    if newest != session.head.last_seq {
        let (seq, what) = if newest < session.head.last_seq {
            (newest + 1, "the item is missing")
        } else {
            (session.head.last_seq + 1, "an item was added")
        };
        return Err(session.broken(Some(seq), what));
    }
    if session.head.last_seq + adding > SEQ_MAX {
        return Err(Failure::new(
            ErrorCode::LimitExceeded,
            format!("a session has at most {SEQ_MAX} items"),
        ));
    }
    Ok(())
}

/// Places a batch behind the newest item; gives the first and last seq.
pub(super) fn put_batch<T: Tx>(
    w: &mut Writing<'_, T>,
    session: &mut Loaded,
    turn_id: Option<TurnId>,
    batch: &Batch,
) -> Result<(u64, u64), Failure> {
    let placement = Placement {
        scope: &session.scope,
        turn_id,
        created_at: w.ctx.now,
        keyring: w.ctx.keyring,
    };
    let first_seq = session.head.last_seq + 1;
    let (mut seq, mut link) = (first_seq, session.head.link);
    for record in &batch.records {
        let (row, last) = placement.place(record, seq, link);
        w.tx.insert_record(session.pk, &row)?;
        seq += row.count;
        link = last;
    }
    for (item, seq) in batch.items().zip(first_seq..) {
        if let Some(id) = &item.item_id {
            w.tx.insert_item_key(session.pk, id, seq)?;
        }
    }
    for agent in batch.agents() {
        w.tx.note_agent(session.pk, agent)?;
    }
    session.head.last_seq = seq - 1;
    session.head.link = link;
    Ok((first_seq, seq - 1))
}

/// Puts batches into a turn that is there, behind one another; gives the session and the turn as they stand then, and what
/// was put.
pub(super) fn put_in_turn<T: Tx>(
    w: &mut Writing<'_, T>,
    mut session: Loaded,
    mut row: TurnRow,
    batches: &[&Batch],
) -> Result<(Loaded, TurnRow, Option<Put>), Failure> {
    let count: u64 = batches.iter().map(|batch| batch.count()).sum();
    check_tail(w, &session, count)?;
    let first = session.head.last_seq + 1;
    for batch in batches {
        let (first, _) = put_batch(w, &mut session, Some(row.turn_id), batch)?;
        note_items(&mut row, batch, first, w.ctx);
    }
    let row = row.sealed(w.ctx.keyring, session.pk);
    w.tx.update_turn(session.pk, &row)?;
    let session = put_head(w, session, (first, count), false)?;
    let roles = batches.iter().flat_map(|batch| batch.items());
    let put = Put::new(&session, first, count, roles.map(|item| item.role));
    Ok((session, row, put))
}

/// What was put at `first_seq`, for answering without reading it back.
pub(super) fn fresh<'a>(
    ctx: &Context<'_>,
    batch: &'a Batch,
    turn_id: TurnId,
    first_seq: u64,
) -> Fresh<'a> {
    Fresh {
        batch,
        turn_id,
        first_seq,
        created_at: ctx.now,
    }
}

/// Takes note in the turn's row of the items put at `first..`.
pub(super) fn note_items(turn: &mut TurnRow, batch: &Batch, first: u64, ctx: &Context<'_>) {
    for (item, seq) in batch.items().zip(first..) {
        turn.last_seq = seq;
        turn.items += 1;
        if let Some(slot) = final_slot(item.role, &item.channel, item.variant) {
            turn.finals[slot] = seq;
        }
    }
    turn.touched_at = ctx.now;
}

/// Which of the turn's finals an item is: only what the assistant says is an answer.
pub(crate) fn final_slot(
    role: filrouge_types::Role,
    channel: &filrouge_types::Channel,
    variant: filrouge_types::Variant,
) -> Option<usize> {
    let is_final =
        role == filrouge_types::Role::Assistant && *channel == filrouge_types::Channel::Final;
    is_final.then(|| variant.slot())
}

/// At most one final item of each variant (DESIGN §4.3).
pub(super) fn check_finals(batch: &Batch, mut taken: [bool; 2]) -> Result<(), Failure> {
    for item in batch.items() {
        if let Some(slot) = final_slot(item.role, &item.channel, item.variant) {
            if taken[slot] {
                return Err(Failure::new(
                    ErrorCode::FinalExists,
                    format!(
                        "the turn has a final item of variant {} already",
                        item.variant
                    ),
                )
                .with_hint("use another channel, or replace the turn once it is closed"));
            }
            taken[slot] = true;
        }
    }
    Ok(())
}

/// Item ids are unique in their session; within one batch as well.
pub(super) fn check_unique_ids(batch: &Batch) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    match batch
        .items()
        .filter_map(|i| i.item_id.as_ref())
        .find(|id| !seen.insert(*id))
    {
        Some(id) => Err(Failure::new(
            ErrorCode::Invalid,
            format!("item_id {:?} stands twice in the batch", id.as_str()),
        )),
        None => Ok(()),
    }
}

/// A write without items has nothing to carry a turn's change.
pub(super) fn check_some(batch: &Batch) -> Result<(), Failure> {
    if batch.count() == 0 {
        return Err(Failure::new(ErrorCode::Invalid, "the batch holds no item"));
    }
    Ok(())
}

pub(super) fn check_count(before: u64, batch: &Batch) -> Result<(), Failure> {
    if before + batch.count() > TURN_ITEMS_MAX {
        return Err(Failure::new(
            ErrorCode::LimitExceeded,
            format!("a turn has at most {TURN_ITEMS_MAX} items"),
        ));
    }
    Ok(())
}

/// A write to a turn that takes none.
pub(super) fn turn_closed(turn: &TurnRow) -> Failure {
    refusal::turn_closed(&turn.turn_id, turn.status, turn.redacted_by != 0)
}
