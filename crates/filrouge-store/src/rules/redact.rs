//! Redacts items: erases their contents and keeps the proof that they existed (DESIGN §9). A new item records who
//! redacted them, when and why.

use std::collections::BTreeMap;

use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, JsonText, RawJson, Result, Role, Timestamp, TurnId,
    TurnStatus,
};

use super::checkpoint;
use super::session::set_title;
use super::writing::{
    ActiveWrite, RuleContext, TURN_ITEMS_MAX, append_batch, check_tail, put_head,
};

use crate::command::{Outcome, Redact, Redacted, RedactionTarget, Scope, WrittenRange};
use crate::read::{Redactions, VerifiedSession, VerifiedSnapshot, turn_not_found};
use crate::record::{
    Batch, Decoded, Entry, Event, RecordFaultKind, RecordRow, Seqs, erase_contents,
};
use crate::rows::{TurnRow, Tx, View, is_title_of};

/// The number of records per read.
const PAGE: usize = 256;

pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, redact: &Redact) -> Result<Outcome> {
    let snapshot = w.snapshot();
    let mut session = snapshot.get(w.scope, &redact.session_id)?;
    let target = ResolvedTarget::new(&snapshot, w.scope, &session, &redact.target)?;
    let redaction_seq = session.head.last_seq + 1;
    let mut named = NamedItems::default();
    named.scan(&snapshot, w.ctx, &session, &target.seqs, redaction_seq)?;
    if target.is_redacted || (target.turn.is_none() && named.rewritten_records.is_empty()) {
        return replay(&snapshot, &session, &target, &named);
    }
    let turns = named.redacted_turns(&snapshot, w.scope, &session)?;
    let all_redacted = snapshot.all_redacted(&session)?.union(&target.seqs);
    check_tail(w, &session, 1)?;
    if let Some((first, _)) = target.seqs.ranges().next() {
        checkpoint::delete_covering(w, &mut session, first)?;
    }
    session.head.checkpoints.redacted = redaction_seq;
    if named.holds_title {
        set_title(w, &mut session, None)?;
    }
    let batch = redaction_item(w.ctx, redact, &target.seqs, all_redacted)?;
    append_batch(w, &mut session, None, &batch)?;
    for row in &named.rewritten_records {
        w.tx.update_record(session.pk, row)?;
    }
    for mut row in turns {
        row.redacted_by = redaction_seq;
        w.tx.update_turn(session.pk, &row.sealed(w.ctx.keyring, session.pk))?;
    }
    session.head.updated_at = w.ctx.now;
    let session = put_head(w, session, (redaction_seq, 1), false)?;
    let written = WrittenRange::new(&session, redaction_seq, 1, []);
    outcome(
        &w.snapshot(),
        &session,
        &target,
        (redaction_seq, w.ctx.now),
        written,
    )
}

/// The seqs of the items that a redaction would erase; of a redacted turn, those of all its items.
///
/// # Errors
/// Those with which a redaction would refuse the target.
pub fn redaction_seqs<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    scope: &Scope,
    session: &VerifiedSession,
    target: &RedactionTarget,
) -> Result<Seqs> {
    ResolvedTarget::new(snapshot, scope, session, target).map(|target| target.seqs)
}

/// The items that a redaction erases.
struct ResolvedTarget {
    /// The seqs of these items.
    seqs: Seqs,
    /// The turn that the request names; `None` if it names items.
    turn: Option<TurnId>,
    /// Whether every version of this turn is already redacted. Then `seqs` contains the items of all versions, and
    /// nothing is left to erase.
    is_redacted: bool,
}

impl ResolvedTarget {
    fn new<V: View + ?Sized>(
        snapshot: &VerifiedSnapshot<'_, V>,
        scope: &Scope,
        session: &VerifiedSession,
        target: &RedactionTarget,
    ) -> Result<Self> {
        match target {
            RedactionTarget::Turn(id) => Self::from_turn(snapshot, scope, session, id),
            RedactionTarget::Items(seqs) => Self::from_items(session, seqs),
        }
    }

    /// Targets all versions of a turn: the turn itself, those that it replaced and those that replaced it. Versions
    /// that are already redacted are left out, unless all of them are.
    ///
    /// # Errors
    /// `turn_open` if a version is open, and those of reading the turn.
    fn from_turn<V: View + ?Sized>(
        snapshot: &VerifiedSnapshot<'_, V>,
        scope: &Scope,
        session: &VerifiedSession,
        id: &TurnId,
    ) -> Result<Self> {
        let row = snapshot
            .find_turn(session, scope, id)?
            .ok_or_else(|| snapshot.absent_turn_failure(session, id))?;
        let (from, to) = (row.ordinal << 8, (row.ordinal << 8) | 0xff);
        let mut rows = Vec::new();
        for row in snapshot.view.turns(session.pk, from, to, false, 0x100)? {
            let row = snapshot.verified_turn(session, row)?;
            if row.status == TurnStatus::Open {
                let detail = format!("turn {} is open", row.turn_id);
                return Err(Failure::new(ErrorCode::TurnOpen, detail)
                    .with_hint("finalize, fail or cancel it before it is redacted"));
            }
            rows.push(row);
        }
        let is_redacted = rows.iter().all(|r| r.redacted_by != 0);
        let mut seqs = Vec::new();
        for row in rows.iter().filter(|r| is_redacted || r.redacted_by == 0) {
            seqs.extend(item_ranges(snapshot, session, row)?);
        }
        let seqs = Seqs::from_ranges(seqs).unwrap_or_default();
        let turn = Some(*id);
        Ok(Self {
            seqs,
            turn,
            is_redacted,
        })
    }

    /// Targets single items, which must exist.
    fn from_items(session: &VerifiedSession, seqs: &Seqs) -> Result<Self> {
        if seqs.count() == 0 {
            return Err(Failure::new(ErrorCode::Invalid, "no item is named"));
        }
        if seqs.last() > session.head.last_seq {
            let (last, end) = (seqs.last(), session.head.last_seq);
            let detail = format!("there is no item at seq {last}; the newest is at {end}");
            return Err(Failure::new(ErrorCode::Invalid, detail));
        }
        if seqs.count() > TURN_ITEMS_MAX {
            let detail = format!("at most {TURN_ITEMS_MAX} items are redacted at once");
            return Err(Failure::new(ErrorCode::LimitExceeded, detail)
                .with_hint("redact them in several calls"));
        }
        Ok(Self {
            seqs: seqs.clone(),
            turn: None,
            is_redacted: false,
        })
    }
}

/// The seqs of a turn's items, as ranges of first and last seq. Items of other turns may be between the ranges.
fn item_ranges<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    session: &VerifiedSession,
    turn: &TurnRow,
) -> Result<Vec<(u64, u64)>> {
    let (mut next_seq, mut count, mut seqs) = (turn.first_seq, 0, Vec::new());
    while next_seq <= turn.newest_seq() {
        let rows = snapshot.view.records(session.pk, next_seq, PAGE)?;
        if rows.is_empty() {
            return Err(session.integrity_failure(Some(next_seq), RecordFaultKind::Missing));
        }
        for row in &rows {
            // These rows are not verified here, because they only select seqs. `NamedItems::scan` verifies the records.
            if row.first_seq <= turn.newest_seq() && row.turn_id() == Some(turn.turn_id) {
                seqs.push((row.first_seq, row.last_seq()));
                count += row.count;
            }
            next_seq = next_seq.max(row.last_seq().saturating_add(1));
        }
    }
    if count != turn.items {
        let detail = format!("the row of turn {} does not match its items", turn.turn_id);
        return Err(session.integrity_failure(Some(turn.first_seq), detail));
    }
    Ok(seqs)
}

/// The stored state of the items that a redaction names, before the redaction.
#[derive(Default)]
struct NamedItems {
    /// The records that still have contents of named items, rewritten without these contents.
    rewritten_records: Vec<RecordRow>,
    /// The number of items that the redaction names in each turn.
    count_by_turn: BTreeMap<TurnId, u64>,
    /// The seq of the newest earlier redaction that erased one of the named items; 0 if there is none.
    newest_redaction: u64,
    /// Whether the session's title consists of words of a named question.
    holds_title: bool,
}

impl NamedItems {
    /// Reads and verifies all named items. `redaction_seq` is the seq that the redaction's own item gets.
    fn scan<T: Tx>(
        &mut self,
        snapshot: &VerifiedSnapshot<'_, T>,
        ctx: &RuleContext<'_>,
        session: &VerifiedSession,
        seqs: &Seqs,
        redaction_seq: u64,
    ) -> Result<()> {
        let mut redactions = Redactions::default();
        let mut next = 1;
        for (first, last) in seqs.ranges() {
            next = next.max(first);
            while next <= last {
                let rows = snapshot.view.records(session.pk, next, PAGE)?;
                let named_rows: Vec<_> = rows.iter().take_while(|r| r.first_seq <= last).collect();
                if named_rows.is_empty() {
                    return Err(session.integrity_failure(Some(next), RecordFaultKind::Missing));
                }
                for row in named_rows {
                    if row.first_seq > next || row.last_seq() < next {
                        return Err(session.integrity_failure(Some(next), RecordFaultKind::Missing));
                    }
                    let decoded = snapshot.decode_record(session, row, &mut redactions)?;
                    self.count_record(&decoded, seqs)?;
                    self.find_title(session, &decoded, seqs);
                    let rewritten =
                        erase_contents(row, &decoded, seqs, redaction_seq, ctx.keyring)?;
                    self.rewritten_records.extend(rewritten);
                    next = row.last_seq() + 1;
                }
            }
        }
        Ok(())
    }

    /// Finds out whether the session's title consists of words of a named question in this record.
    fn find_title(&mut self, session: &VerifiedSession, decoded: &Decoded, seqs: &Seqs) {
        let Some(title) = &session.row.title else {
            return;
        };
        let mut named = decoded.items.iter().filter(|(i, _)| seqs.contains(i.seq));
        self.holds_title |= named.any(|(item, _)| {
            item.body.channel == Channel::Question && is_title_of(title, &item.body)
        });
    }

    /// Counts a record's named items. Refuses an item outside of turns, such as a redaction or a link.
    fn count_record(&mut self, decoded: &Decoded, seqs: &Seqs) -> Result<()> {
        for (item, _) in decoded.items.iter().filter(|(i, _)| seqs.contains(i.seq)) {
            let Some(turn_id) = item.turn_id else {
                let detail = format!("the item at seq {} is a {}", item.seq, item.body.channel);
                return Err(Failure::new(ErrorCode::Invalid, detail)
                    .with_hint("redactions and links stay: they record what was done"));
            };
            *self.count_by_turn.entry(turn_id).or_default() += 1;
        }
        let pointers = decoded
            .redacted
            .iter()
            .filter(|(seq, _)| seqs.contains(*seq));
        let redaction_seqs = pointers.map(|(_, redaction_seq)| *redaction_seq);
        self.newest_redaction = redaction_seqs.fold(self.newest_redaction, u64::max);
        Ok(())
    }

    /// The turns that the redaction makes redacted turns: they have ended, are not yet redacted, and all their items
    /// are named.
    fn redacted_turns<T: Tx>(
        &self,
        snapshot: &VerifiedSnapshot<'_, T>,
        scope: &Scope,
        session: &VerifiedSession,
    ) -> Result<Vec<TurnRow>> {
        let mut rows = Vec::new();
        for (id, named_count) in &self.count_by_turn {
            let Some(row) = snapshot.find_turn(session, scope, id)? else {
                // The session's oldest turns were trimmed: their rows were deleted, but some of their items may remain
                // among those of later turns.
                if snapshot.view.first_ordinal(session.pk)? > 1 {
                    continue;
                }
                return Err(session.integrity_failure(None, format!("turn {id} is missing")));
            };
            let is_redactable = row.status != TurnStatus::Open && row.redacted_by == 0;
            if is_redactable && row.items == *named_count {
                rows.push(row);
            }
        }
        Ok(rows)
    }
}

/// The beginning of a redaction item's content, up to the seqs. The turn, the person and the reason follow it.
pub(crate) fn redaction_prefix(seqs: &Seqs) -> String {
    let ranges: Vec<String> = seqs.ranges().map(|(a, b)| format!("[{a},{b}]")).collect();
    format!(r#"[{{"type":"redaction","seqs":[{}],"#, ranges.join(","))
}

/// The item that records a redaction of `seqs`. `all_redacted` are these and the seqs that earlier redactions name.
fn redaction_item(
    ctx: &RuleContext<'_>,
    redact: &Redact,
    seqs: &Seqs,
    all_redacted: Seqs,
) -> Result<Batch> {
    let turn = match &redact.target {
        RedactionTarget::Turn(id) => format!(r#""turn_id":"{id}","#),
        RedactionTarget::Items(_) => String::new(),
    };
    let parts = format!(
        r#"{}{turn}"by":{},"reason":{}}}]"#,
        redaction_prefix(seqs),
        JsonText::from_plain(&redact.by).as_token(),
        JsonText::from_plain(&redact.reason).as_token(),
    );
    let parts = RawJson::from_checked(parts);
    let mut events = vec![Event::Redact(seqs.clone())];
    if all_redacted != *seqs {
        events.push(Event::Redacted(all_redacted));
    }
    let entry = Entry {
        item: ItemBody::new(Role::System, Channel::Redaction, parts),
        events,
    };
    Batch::pack(vec![entry], ctx.entropy)
}

/// Handles a redaction that has nothing left to erase: replays the newest redaction that erased one of these items.
fn replay<T: Tx>(
    snapshot: &VerifiedSnapshot<'_, T>,
    session: &VerifiedSession,
    target: &ResolvedTarget,
    named: &NamedItems,
) -> Result<Outcome> {
    let at = snapshot
        .item_at(session, named.newest_redaction)?
        .created_at;
    outcome(
        snapshot,
        session,
        target,
        (named.newest_redaction, at),
        None,
    )
}

/// The outcome of a redaction whose item has this seq and time. `written` is the range that this write added; `None`
/// for a replay.
fn outcome<T: Tx>(
    snapshot: &VerifiedSnapshot<'_, T>,
    session: &VerifiedSession,
    target: &ResolvedTarget,
    (redaction_seq, at): (u64, Timestamp),
    written: Option<WrittenRange>,
) -> Result<Outcome> {
    let replayed = written.is_none();
    let turn = match &target.turn {
        Some(id) => {
            let stored = snapshot.stored_turn(session, id)?;
            let row = stored.ok_or_else(|| turn_not_found(id))?;
            let mut turn = snapshot.project(session, &row)?;
            turn.replayed = replayed;
            Some(Box::new(turn))
        }
        None => None,
    };
    Ok(Outcome::Redacted(Redacted {
        seqs: target.seqs.clone(),
        redaction_seq,
        at,
        replayed,
        turn,
        written,
    }))
}
