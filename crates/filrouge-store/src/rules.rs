//! The rules of a turn's life (DESIGN §4), the same for every backend. A write is first checked whole —
//! owner, replay, expected seq, turn state — and only then put, so that a refused write leaves nothing.

use std::collections::BTreeSet;

use filrouge_types::{ErrorCode, Failure, Timestamp, TurnId};

use crate::chain::Digest;
use crate::command::{Command, NewSession, Outcome, Scope, Write};
use crate::keyring::{Entropy, Keyring};
use crate::read::{Fresh, Loaded, Sight, in_session, session_conflict};
use crate::record::{Batch, Check, Placement};
use crate::rows::{Change, HeadRow, LogEntry, LogRow, PK_MAX, SEQ_MAX, SessionRow, TurnRow, Tx};
use crate::verify::Suspects;

mod adopt;
mod append;
mod checkpoint;
mod close;
mod draft;
mod erase;
mod event;
mod interrupt;
mod lease;
mod link;
mod note;
mod redact;
pub mod refusal;
mod session;
mod start;
pub mod tenure;

pub(crate) use redact::redaction_begins;

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

impl Context<'_> {
    fn sight<'s, T: Tx>(&'s self, tx: &'s T) -> Sight<'s, T> {
        Sight {
            view: tx,
            keyring: self.keyring,
            check: Check::Keyed,
            suspects: self.suspects,
        }
    }
}

/// The writes that share one commit, and with it one flush.
pub struct Group {
    previous: Option<LogRow>,
    digest: Digest,
    entries: Vec<LogEntry>,
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

/// Does one write. On a failure the caller rolls back whatever was put before it came up.
///
/// # Errors
/// The refusals of DESIGN §4 by their codes, `integrity_error`, or the store's own failures.
pub fn apply<T: Tx>(
    tx: &mut T,
    group: &mut Group,
    ctx: &Context<'_>,
    command: &Command,
) -> Result<Outcome, Failure> {
    let scope = &command.scope;
    let outcome = match &command.write {
        Write::CreateSession(new) => session::create(tx, group, ctx, scope, new),
        Write::Start(start) => start::apply(tx, group, ctx, scope, start),
        Write::Append(append) => append::apply(tx, group, ctx, scope, append),
        Write::Close(close) => close::apply(tx, group, ctx, scope, close),
        Write::Interrupt(interrupt) => interrupt::apply(tx, group, ctx, scope, interrupt),
        Write::Redact(redact) => redact::apply(tx, group, ctx, scope, redact),
        Write::Adopt(adopt) => adopt::apply(tx, group, ctx, scope, adopt),
        Write::Patch(patch) => session::patch(tx, group, ctx, scope, patch),
        Write::CloseSession(close) => session::close(tx, group, ctx, scope, close),
        Write::Link(link) => link::apply(tx, group, ctx, scope, link),
        Write::Erase(erase) => erase::apply(tx, group, ctx, scope, erase),
        Write::RecordEvent(event) => event::apply(tx, group, ctx, scope, event),
        Write::PutDraft(draft) => draft::put(tx, group, ctx, scope, draft),
        Write::Lease(take) => lease::take(tx, group, ctx, scope, take),
        Write::PutCheckpoint(put) => checkpoint::put(tx, group, ctx, scope, put),
        Write::PutNote(note) => note::apply(tx, group, ctx, note),
    };
    match command.write.session_id() {
        Some(id) => in_session(id, outcome),
        None => outcome,
    }
}

/// Adds a session whose head is not yet put.
fn insert_session<T: Tx>(
    tx: &mut T,
    ctx: &Context<'_>,
    scope: &Scope,
    new: &NewSession,
) -> Result<Loaded, Failure> {
    let row = SessionRow {
        tenant_id: scope.tenant.clone(),
        session_id: new.session_id.clone(),
        identity_id: scope.viewer.identity().cloned(),
        parent_session_id: new.parent_session_id.clone(),
        project_id: new.project_id.clone(),
        team_id: new.team_id.clone(),
        title: new.title.clone(),
        status: filrouge_types::SessionStatus::Active,
        state: None,
        metadata: new.metadata.clone(),
        created_at: ctx.now,
        token: scope.token.filter(|_| scope.viewer.identity().is_none()),
        erased: None,
    };
    let pk = tx.insert_session(&row)?;
    if pk > PK_MAX {
        return Err(Failure::new(
            ErrorCode::Internal,
            "the store has run out of session numbers",
        ));
    }
    let head = HeadRow::empty(row.fingerprint(), ctx.now);
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
fn put_head<T: Tx>(
    tx: &mut T,
    group: &mut Group,
    ctx: &Context<'_>,
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
    put_changed(tx, group, ctx, session, seqs, change)
}

/// Signs and writes the head, and notes the change for the commit log.
fn put_changed<T: Tx>(
    tx: &mut T,
    group: &mut Group,
    ctx: &Context<'_>,
    mut session: Loaded,
    (first_seq, count): (u64, u64),
    change: Change,
) -> Result<Loaded, Failure> {
    if !matches!(change, Change::Created(..)) {
        group.digest = group.digest.minus(&session.head.mac);
    }
    session.head = session.head.sealed(ctx.keyring, session.pk);
    group.digest = group.digest.plus(&session.head.mac);
    tx.put_head(session.pk, &session.head)?;
    let mut half = [0; 8];
    half.copy_from_slice(&session.head.mac[..8]);
    group.entries.push(LogEntry {
        pk: session.pk,
        first_seq,
        count,
        head: half,
        change,
    });
    Ok(session)
}

/// Before anything is put behind the newest item, it must be there.
fn check_tail<T: Tx>(tx: &T, session: &Loaded, adding: u64) -> Result<(), Failure> {
    let newest = tx.newest_seq(session.pk)?;
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
fn put_batch<T: Tx>(
    tx: &mut T,
    ctx: &Context<'_>,
    session: &mut Loaded,
    turn_id: Option<TurnId>,
    batch: &Batch,
) -> Result<(u64, u64), Failure> {
    let placement = Placement {
        scope: &session.scope,
        turn_id,
        created_at: ctx.now,
        keyring: ctx.keyring,
    };
    let first_seq = session.head.last_seq + 1;
    let (mut seq, mut link) = (first_seq, session.head.link);
    for record in &batch.records {
        let (row, last) = placement.place(record, seq, link);
        tx.insert_record(session.pk, &row)?;
        for (item, seq) in record.items.iter().zip(seq..) {
            if let Some(id) = &item.item_id {
                tx.insert_item_key(session.pk, id, seq)?;
            }
        }
        seq += row.count;
        link = last;
    }
    for agent in batch.agents() {
        tx.note_agent(session.pk, agent)?;
    }
    session.head.last_seq = seq - 1;
    session.head.link = link;
    Ok((first_seq, seq - 1))
}

/// What was put at `first_seq`, for answering without reading it back.
fn fresh<'a>(ctx: &Context<'_>, batch: &'a Batch, turn_id: TurnId, first_seq: u64) -> Fresh<'a> {
    Fresh {
        batch,
        turn_id,
        first_seq,
        created_at: ctx.now,
    }
}

/// Takes note in the turn's row of the items put at `first..`.
fn note_items(turn: &mut TurnRow, batch: &Batch, first: u64, ctx: &Context<'_>) {
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
    is_final.then(|| usize::from(variant.code()))
}

/// At most one final item of each variant (DESIGN §4.3).
fn check_finals(batch: &Batch, mut taken: [bool; 2]) -> Result<(), Failure> {
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
fn check_unique_ids(batch: &Batch) -> Result<(), Failure> {
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
fn check_some(batch: &Batch) -> Result<(), Failure> {
    if batch.records.is_empty() {
        return Err(Failure::new(ErrorCode::Invalid, "the batch holds no item"));
    }
    Ok(())
}

fn check_count(before: u64, batch: &Batch) -> Result<(), Failure> {
    if before + batch.count() > TURN_ITEMS_MAX {
        return Err(Failure::new(
            ErrorCode::LimitExceeded,
            format!("a turn has at most {TURN_ITEMS_MAX} items"),
        ));
    }
    Ok(())
}

/// A write to a turn that takes none.
fn turn_closed(turn: &TurnRow) -> Failure {
    refusal::turn_closed(&turn.turn_id, turn.status, turn.redacted_by != 0)
}
