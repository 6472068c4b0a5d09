//! Code shared by the rules of writes: the commit group of a write, and functions that write rows.

mod checks;

use filrouge_types::{Channel, ErrorCode, Failure, SessionId, Timestamp, TurnId};

use crate::command::{NewSession, Scope, WrittenRange};
use crate::digest::{Digest, DigestRow};
use crate::keyring::{Entropy, Keyring, MAC_BYTES};
use crate::lane::Lane;
use crate::read::{NewBatch, VerifiedSession, VerifiedSnapshot};
use crate::record::{Batch, MacCheck, RecordPlacement};
use crate::rows::{Change, HeadRow, LogEntry, LogRow, PK_MAX, SessionPk, SessionRow, TurnRow, Tx};
use crate::verify::{HeadCheck, KnownHeads, Suspects};

use super::refusal;
pub(super) use checks::{check_count, check_finals, check_not_empty, check_tail, check_unique_ids};

/// The maximum number of items of one turn (DESIGN §8).
pub const TURN_ITEMS_MAX: u64 = 10_000;

/// The inputs of the rules besides the transaction.
pub struct RuleContext<'a> {
    /// The keys.
    pub keyring: &'a Keyring,
    /// The source of salts for items that the rules add.
    pub entropy: &'a dyn Entropy,
    /// The time of the commit.
    pub now: Timestamp,
    /// The time by which leases end ([`filrouge_types::Clock::lease_now`]).
    pub lease_now: Timestamp,
    /// The name of this server ([`crate::Ledger::writer`]).
    pub server: &'a (dyn Fn() -> String + Sync),
    /// Sessions that are known to fail verification.
    pub suspects: &'a Suspects,
    /// The newest known state of all heads and notes. Every row that is read is compared with it; with `None`, nothing
    /// is compared.
    pub known_heads: Option<&'a KnownHeads>,
}

/// A write in progress.
pub(super) struct ActiveWrite<'a, T> {
    pub(super) tx: &'a mut T,
    /// The commit that the write is part of.
    pub(super) group: &'a mut CommitGroup,
    pub(super) ctx: &'a RuleContext<'a>,
    /// The caller's tenant and viewer.
    pub(super) scope: &'a Scope,
}

impl<T: Tx> ActiveWrite<'_, T> {
    /// Adds an entry for this write to the commit's log row. `first_seq` and `count` describe the added items. `mac` is
    /// the new MAC of the session's head; for a note, `mac` is the note's and `pk` is 0.
    pub(super) fn add_log_entry(
        &mut self,
        pk: SessionPk,
        (first_seq, count): (u64, u64),
        mac: &[u8; MAC_BYTES],
        change: Change,
    ) {
        // The log stores the first half of the MAC.
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

    /// Reads a turn and its session. A session that the writer may not see looks absent.
    pub(super) fn turn(
        &self,
        session: &SessionId,
        id: &TurnId,
    ) -> Result<(VerifiedSession, TurnRow), Failure> {
        let snapshot = self.snapshot();
        let session = snapshot.get(self.scope, session)?;
        let row = snapshot
            .find_turn(&session, self.scope, id)?
            .ok_or_else(|| snapshot.absent_turn_failure(&session, id))?;
        Ok((session, row))
    }

    /// A verified view of the store that includes the writes of this commit so far.
    pub(super) fn snapshot(&self) -> VerifiedSnapshot<'_, T> {
        VerifiedSnapshot {
            view: self.tx,
            keyring: self.ctx.keyring,
            check: MacCheck::Keyed,
            suspects: self.ctx.suspects,
            heads: HeadCheck {
                known: self.ctx.known_heads,
                uncommitted: &self.group.entries,
                applied: None,
            },
        }
    }
}

/// The writes of one commit, all in one lane.
pub struct CommitGroup {
    lane: Lane,
    /// The newest commit of the lane; `None` before the first one.
    previous: Option<LogRow>,
    /// The digest of all heads and notes of the lane, which each write of the group updates.
    pub(crate) digest: Digest,
    /// The effects of the group's writes, in their order.
    pub(crate) entries: Vec<LogEntry>,
}

impl CommitGroup {
    /// Begins a group after the newest commit of a lane.
    ///
    /// # Errors
    /// `key_missing` if the keyring lacks the store's first key; a failure of the store if it does not answer.
    pub fn begin<T: Tx + ?Sized>(tx: &T, lane: Lane, keyring: &Keyring) -> Result<Self, Failure> {
        let previous = tx.newest_log(lane)?;
        let digest = match &previous {
            Some(row) => row.digest.unmasked_for_write(keyring)?,
            None => Digest::default(),
        };
        Ok(Self {
            lane,
            previous,
            digest,
            entries: Vec::new(),
        })
    }

    /// Writes the commit's log row and returns it; `None` if no write of the group has changed anything.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn finish<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        ctx: &RuleContext<'_>,
    ) -> Result<Option<LogRow>, Failure> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        let row = LogRow::after(
            self.previous.as_ref(),
            self.lane,
            ctx.now,
            &self.entries,
            self.digest.masked(ctx.keyring, ctx.entropy)?,
            ctx.keyring,
        );
        tx.insert_log(&row)?;
        Ok(Some(row))
    }
}

/// Inserts a session; the caller writes its head.
pub(super) fn insert_session<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    new: &NewSession,
) -> Result<VerifiedSession, Failure> {
    let now = w.ctx.now;
    let times = new.times.map(|times| times.map(|at| at.min(now)));
    let [created_at, updated_at] = times.unwrap_or([now; 2]);
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
        created_at,
        token: w
            .scope
            .token
            .filter(|_| w.scope.viewer.identity().is_none()),
        erased: None,
    };
    let pk = w.tx.insert_session(&row)?;
    if pk > PK_MAX {
        return Err(ErrorCode::Internal.failure("the store has run out of session numbers"));
    }
    let head = HeadRow::empty(row.fingerprint(), updated_at);
    let scope = crate::chain::LinkScope::new(&row.tenant_id, &row.session_id);
    Ok(VerifiedSession {
        pk,
        link_when_read: head.link,
        row,
        head,
        scope,
    })
}

/// Signs and writes the head of a new or extended session, and records the change for the commit log. `seqs` is the
/// first seq and the number of the added items; (0, 0) for none. `is_created` states whether the session is new.
pub(super) fn put_head<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: VerifiedSession,
    seqs: (u64, u64),
    is_created: bool,
) -> Result<VerifiedSession, Failure> {
    let change = if is_created {
        Change::created(&session.row, w.ctx.keyring)
    } else {
        Change::Items
    };
    put_changed_head(w, session, seqs, change)
}

/// Signs and writes a session's head, updates the digest, and records the change for the commit log.
pub(super) fn put_changed_head<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    mut session: VerifiedSession,
    (first_seq, count): (u64, u64),
    change: Change,
) -> Result<VerifiedSession, Failure> {
    let (keyring, row) = (w.ctx.keyring, DigestRow::Head(session.pk));
    if !matches!(change, Change::Created(..)) {
        w.group.digest = w.group.digest.minus(keyring, row, &session.head.mac);
    }
    session.head = session.head.sealed(keyring, session.pk);
    w.group.digest = w.group.digest.plus(keyring, row, &session.head.mac);
    w.tx.put_head(session.pk, &session.head)?;
    let mac = session.head.mac;
    w.add_log_entry(session.pk, (first_seq, count), &mac, change);
    Ok(session)
}

/// Writes a batch after the newest item; returns its first and last seq. `turn_id` is `None` for items outside of
/// turns. The caller writes the head.
pub(super) fn append_batch<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
    turn_id: Option<TurnId>,
    batch: &Batch,
) -> Result<(u64, u64), Failure> {
    let placement = RecordPlacement {
        scope: &session.scope,
        turn_id,
        created_at: w.ctx.now,
        keyring: w.ctx.keyring,
    };
    let first_seq = session.head.last_seq + 1;
    let (mut seq, mut link) = (first_seq, session.head.link);
    for record in &batch.records {
        let (row, last_link) = placement.place(record, seq, link);
        w.tx.insert_record(session.pk, &row)?;
        seq += row.count;
        link = last_link;
    }
    for (item, seq) in batch.items().zip(first_seq..) {
        if item.channel == Channel::Summary {
            session.head.add_summary(seq);
        }
        if let Some(id) = &item.item_id {
            w.tx.insert_item_key(session.pk, id, seq)?;
        }
    }
    for agent in batch.agents() {
        w.tx.insert_agent(session.pk, agent, w.ctx.keyring)?;
    }
    session.head.last_seq = seq - 1;
    session.head.link = link;
    Ok((first_seq, seq - 1))
}

/// Writes batches into an existing turn, one after another; returns the updated session and turn, and the range of the
/// added items.
pub(super) fn append_to_turn<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    mut session: VerifiedSession,
    mut row: TurnRow,
    batches: &[&Batch],
) -> Result<(VerifiedSession, TurnRow, Option<WrittenRange>), Failure> {
    let count: u64 = batches.iter().map(|batch| batch.count()).sum();
    check_tail(w, &session, count)?;
    let first = session.head.last_seq + 1;
    for batch in batches {
        let (first, _) = append_batch(w, &mut session, Some(row.turn_id), batch)?;
        count_items_in_turn(&mut row, batch, first, w.ctx);
    }
    let row = row.sealed(w.ctx.keyring, session.pk);
    w.tx.update_turn(session.pk, &row)?;
    let session = put_head(w, session, (first, count), false)?;
    let items = batches.iter().flat_map(|batch| batch.items());
    let written = WrittenRange::new(&session, first, count, items.map(|item| item.role));
    Ok((session, row, written))
}

/// Describes a batch that this transaction has written at `first_seq`, so that the response needs no read of it.
pub(super) fn new_batch<'a>(
    ctx: &RuleContext<'_>,
    batch: &'a Batch,
    turn_id: TurnId,
    first_seq: u64,
) -> NewBatch<'a> {
    NewBatch {
        batch,
        turn_id,
        first_seq,
        created_at: ctx.now,
    }
}

/// Counts the items of a batch in the turn's row, in memory only. The first item has the seq `first`. Once the row has
/// a late seq, the items are late.
pub(super) fn count_items_in_turn(
    turn: &mut TurnRow,
    batch: &Batch,
    first: u64,
    ctx: &RuleContext<'_>,
) {
    for (item, seq) in batch.items().zip(first..) {
        match turn.late_seq {
            0 => turn.last_seq = seq,
            _ => turn.late_seq = seq,
        }
        turn.items += 1;
        if let Some(slot) = final_slot(item.role, &item.channel, item.variant) {
            turn.finals[slot] = seq;
        }
    }
    turn.last_write_at = ctx.now;
}

/// The index of an answer in its turn's `finals`, which has one slot for each variant. `None` if the item is not an
/// answer: answers are the assistant's items on the channel `final`.
pub(crate) fn final_slot(
    role: filrouge_types::Role,
    channel: &filrouge_types::Channel,
    variant: filrouge_types::Variant,
) -> Option<usize> {
    let is_final =
        role == filrouge_types::Role::Assistant && *channel == filrouge_types::Channel::Final;
    is_final.then(|| variant.slot())
}

/// The refusal of a write to a turn that is not open.
pub(super) fn turn_closed(turn: &TurnRow) -> Failure {
    refusal::turn_closed(&turn.turn_id, turn.status, turn.redacted_by != 0)
}
