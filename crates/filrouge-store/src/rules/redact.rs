//! Redaction: contents are erased, what was there stays provable (DESIGN §9). One item tells who, when and why.

use std::collections::BTreeMap;

use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, JsonText, RawJson, Role, Timestamp, TurnId, TurnStatus,
};

use super::checkpoint;
use super::writing::{Context, TURN_ITEMS_MAX, Writing, check_tail, put_batch, put_head};

use crate::command::{Outcome, Put, Redact, Redacted, Scope, Target};
use crate::read::{Loaded, Redactions, Sight, turn_not_found};
use crate::record::{Batch, Decoded, Entry, Event, FaultKind, RecordRow, Seqs, erased};
use crate::rows::{TurnRow, Tx};

/// Records read at once.
const PAGE: usize = 256;

pub(super) fn apply<T: Tx>(w: &mut Writing<'_, T>, redact: &Redact) -> Result<Outcome, Failure> {
    let sight = w.sight();
    let mut session = sight.get(w.scope, &redact.session_id)?;
    let asked = match &redact.target {
        Target::Turn(id) => Asked::of_turn(&sight, w.scope, &session, id)?,
        Target::Items(seqs) => Asked::of_items(&session, seqs)?,
    };
    let seq = session.head.last_seq + 1;
    let mut found = Found::default();
    found.look(&sight, w.ctx, &session, &asked.seqs, seq)?;
    if asked.done || (asked.turn.is_none() && found.records.is_empty()) {
        return replay(&sight, &session, &asked, &found);
    }
    let turns = found.redacted_turns(&sight, w.scope, &session)?;
    check_tail(w, &session, 1)?;
    if let Some((first, _)) = asked.seqs.ranges().next() {
        checkpoint::forget_covering(w, &mut session, first)?;
    }
    session.head.checkpoints.redacted = seq;
    let batch = redaction_item(w.ctx, redact, &asked.seqs)?;
    put_batch(w, &mut session, None, &batch)?;
    for row in &found.records {
        w.tx.update_record(session.pk, row)?;
    }
    for mut row in turns {
        row.redacted_by = seq;
        w.tx.update_turn(session.pk, &row.sealed(w.ctx.keyring, session.pk))?;
    }
    session.head.updated_at = w.ctx.now;
    let session = put_head(w, session, (seq, 1), false)?;
    let put = Put::new(&session, seq, 1, []);
    outcome(&w.sight(), &session, &asked, (seq, w.ctx.now), put)
}

/// What is to be redacted.
struct Asked {
    seqs: Seqs,
    /// The turn that is asked for, when one is.
    turn: Option<TurnId>,
    /// Whether all of that turn was redacted before.
    done: bool,
}

impl Asked {
    /// All versions of a turn: what it replaced, what replaces it, and itself.
    fn of_turn<T: Tx>(
        sight: &Sight<'_, T>,
        scope: &Scope,
        session: &Loaded,
        id: &TurnId,
    ) -> Result<Self, Failure> {
        let row = sight
            .find_turn(session, scope, id)?
            .ok_or_else(|| sight.no_turn(session, id))?;
        let (from, to) = (row.ordinal << 8, (row.ordinal << 8) | 0xff);
        let mut rows = Vec::new();
        for row in sight.view.turns(session.pk, from, to, false, 0x100)? {
            let row = sight.verified_turn(session, row)?;
            if row.status == TurnStatus::Open {
                let what = format!("turn {} is open", row.turn_id);
                return Err(Failure::new(ErrorCode::TurnOpen, what)
                    .with_hint("finalize, fail or cancel it before it is redacted"));
            }
            rows.push(row);
        }
        let done = rows.iter().all(|r| r.redacted_by != 0);
        let mut seqs = Vec::new();
        for row in rows.iter().filter(|r| done || r.redacted_by == 0) {
            seqs.extend(seqs_of(sight, session, row)?);
        }
        let seqs = Seqs::of(seqs).unwrap_or_default();
        let turn = Some(*id);
        Ok(Self { seqs, turn, done })
    }

    fn of_items(session: &Loaded, seqs: &Seqs) -> Result<Self, Failure> {
        if seqs.count() == 0 {
            return Err(Failure::new(ErrorCode::Invalid, "no item is named"));
        }
        if seqs.last() > session.head.last_seq {
            let (last, end) = (seqs.last(), session.head.last_seq);
            let what = format!("there is no item at seq {last}; the newest is at {end}");
            return Err(Failure::new(ErrorCode::Invalid, what));
        }
        if seqs.count() > TURN_ITEMS_MAX {
            let what = format!("at most {TURN_ITEMS_MAX} items are redacted at once");
            return Err(Failure::new(ErrorCode::LimitExceeded, what)
                .with_hint("redact them in several calls"));
        }
        Ok(Self {
            seqs: seqs.clone(),
            turn: None,
            done: false,
        })
    }
}

/// The seqs of a turn's items, which others may lie between.
fn seqs_of<T: Tx>(
    sight: &Sight<'_, T>,
    session: &Loaded,
    turn: &TurnRow,
) -> Result<Vec<(u64, u64)>, Failure> {
    let (mut next, mut count, mut seqs) = (turn.first_seq, 0, Vec::new());
    while next <= turn.last_seq {
        let rows = sight.view.records(session.pk, next, PAGE)?;
        if rows.is_empty() {
            return Err(session.broken(Some(next), FaultKind::Missing));
        }
        for row in &rows {
            // The records that are chosen by this are verified before they are written.
            if row.first_seq <= turn.last_seq && row.turn_id() == Some(turn.turn_id) {
                seqs.push((row.first_seq, row.last_seq()));
                count += row.count;
            }
            next = next.max(row.last_seq().saturating_add(1));
        }
    }
    if count != turn.items {
        let what = format!("turn {} is not what its items say", turn.turn_id);
        return Err(session.broken(Some(turn.first_seq), what));
    }
    Ok(seqs)
}

/// What the named items are, and their records as they are to be.
#[derive(Default)]
struct Found {
    records: Vec<RecordRow>,
    /// How many items of each turn are named.
    turns: BTreeMap<TurnId, u64>,
    /// The newest redaction of those that are redacted.
    newest: u64,
}

impl Found {
    fn look<T: Tx>(
        &mut self,
        sight: &Sight<'_, T>,
        ctx: &Context<'_>,
        session: &Loaded,
        seqs: &Seqs,
        redaction_seq: u64,
    ) -> Result<(), Failure> {
        let mut known = Redactions::default();
        let mut next = 1;
        for (first, last) in seqs.ranges() {
            next = next.max(first);
            while next <= last {
                let rows = sight.view.records(session.pk, next, PAGE)?;
                let within: Vec<_> = rows.iter().take_while(|r| r.first_seq <= last).collect();
                if within.is_empty() {
                    return Err(session.broken(Some(next), FaultKind::Missing));
                }
                for row in within {
                    if row.first_seq > next || row.last_seq() < next {
                        return Err(session.broken(Some(next), FaultKind::Missing));
                    }
                    let decoded = sight.decode_with(session, row, &mut known)?;
                    self.take(&decoded, seqs)?;
                    let new = erased(row, &decoded, seqs, redaction_seq, ctx.keyring)?;
                    self.records.extend(new);
                    next = row.last_seq() + 1;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, decoded: &Decoded, seqs: &Seqs) -> Result<(), Failure> {
        for (item, _) in decoded.items.iter().filter(|(i, _)| seqs.contains(i.seq)) {
            let Some(turn_id) = item.turn_id else {
                let what = format!("the item at seq {} is a {}", item.seq, item.body.channel);
                return Err(Failure::new(ErrorCode::Invalid, what)
                    .with_hint("redactions and links stay: they tell what was done"));
            };
            *self.turns.entry(turn_id).or_default() += 1;
        }
        let pointers = decoded.redacted.iter().filter(|(s, _)| seqs.contains(*s));
        self.newest = pointers.map(|(_, by)| *by).fold(self.newest, u64::max);
        Ok(())
    }

    /// The turns that have ended and whose items are all named.
    fn redacted_turns<T: Tx>(
        &self,
        sight: &Sight<'_, T>,
        scope: &Scope,
        session: &Loaded,
    ) -> Result<Vec<TurnRow>, Failure> {
        let mut rows = Vec::new();
        for (id, named) in &self.turns {
            let Some(row) = sight.find_turn(session, scope, id)? else {
                // Of a turn that was let go, items may lie among those of later ones.
                if sight.view.first_ordinal(session.pk)? > 1 {
                    continue;
                }
                return Err(session.broken(None, format!("turn {id} is missing")));
            };
            let ended = row.status != TurnStatus::Open && row.redacted_by == 0;
            if ended && row.items == *named {
                rows.push(row);
            }
        }
        Ok(rows)
    }
}

/// What the content of a redaction begins with, up to who, when and why.
pub(crate) fn redaction_begins(seqs: &Seqs) -> String {
    let ranges: Vec<String> = seqs.ranges().map(|(a, b)| format!("[{a},{b}]")).collect();
    format!(r#"[{{"type":"redaction","seqs":[{}],"#, ranges.join(","))
}

fn redaction_item(ctx: &Context<'_>, redact: &Redact, seqs: &Seqs) -> Result<Batch, Failure> {
    let turn = match &redact.target {
        Target::Turn(id) => format!(r#""turn_id":"{id}","#),
        Target::Items(_) => String::new(),
    };
    let parts = format!(
        r#"{}{turn}"by":{},"reason":{}}}]"#,
        redaction_begins(seqs),
        JsonText::from_plain(&redact.by).as_token(),
        JsonText::from_plain(&redact.reason).as_token(),
    );
    let parts = RawJson::from_checked(parts);
    let entry = Entry {
        item: ItemBody::new(Role::System, Channel::Redaction, parts),
        events: vec![Event::Redact(seqs.clone())],
    };
    Batch::seal(vec![entry], ctx.entropy)
}

/// The earlier redaction again: nothing is left to erase.
fn replay<T: Tx>(
    sight: &Sight<'_, T>,
    session: &Loaded,
    asked: &Asked,
    found: &Found,
) -> Result<Outcome, Failure> {
    let at = sight.item_at(session, found.newest)?.created_at;
    outcome(sight, session, asked, (found.newest, at), None)
}

fn outcome<T: Tx>(
    sight: &Sight<'_, T>,
    session: &Loaded,
    asked: &Asked,
    (redaction_seq, at): (u64, Timestamp),
    put: Option<Put>,
) -> Result<Outcome, Failure> {
    let replayed = put.is_none();
    let turn = match &asked.turn {
        Some(id) => {
            let found = sight.known_turn(session, id)?;
            let row = found.ok_or_else(|| turn_not_found(id))?;
            let mut turn = sight.project(session, &row)?;
            turn.replayed = replayed;
            Some(Box::new(turn))
        }
        None => None,
    };
    Ok(Outcome::Redacted(Redacted {
        seqs: asked.seqs.clone(),
        redaction_seq,
        at,
        replayed,
        turn,
        put,
    }))
}
