//! Adopts a session that was recorded elsewhere, with its chain unchanged (DESIGN §9).

use std::collections::BTreeSet;

use filrouge_types::{Channel, ErrorCode, Failure, TurnId, TurnStatus};

use super::checkpoint;
use super::writing::{ActiveWrite, RuleContext, put_head};
use crate::chain::{GENESIS, Link};
use crate::command::{Adopt, Outcome, WrittenRange};
use crate::read::{VerifiedSession, session_conflict};
use crate::record::{
    ChainedItem, CommitmentProof, Event, RecordFaultKind, RecordRow, StartEvent, adopt_record,
};
use crate::rows::{HeadRow, ORDINAL_MAX, PK_MAX, SEQ_MAX, TurnRow, Tx, VERSION_MAX};
use crate::verify::RebuiltSession;

pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, adopt: &Adopt) -> Result<Outcome, Failure> {
    let row = &adopt.session;
    if row.tenant_id != w.scope.tenant {
        let detail = format!("the session belongs to tenant {:?}", row.tenant_id.as_str());
        return Err(Failure::new(ErrorCode::Invalid, detail)
            .with_hint("its chain names the tenant: adopt it with that name as --tenant"));
    }
    if let Some(existing) = w.snapshot().find_any(w.scope, &row.session_id)? {
        return replay(w, &existing, adopt);
    }
    if !w.scope.can_see(row) {
        let detail = "the session belongs to another identity";
        return Err(Failure::new(ErrorCode::Forbidden, detail)
            .with_hint("let its owner or the operator adopt it"));
    }
    let mut session = VerifiedSession {
        pk: 0,
        row: row.clone(),
        head: HeadRow::empty(row.fingerprint(), adopt.updated_at),
        scope: crate::chain::LinkScope::new(&row.tenant_id, &row.session_id),
        link_when_read: GENESIS,
    };
    // Everything is checked before the first write. The chain is checked first, because its failure names the item that
    // was changed.
    let records = build_records(w.ctx, &mut session, adopt)?;
    let rebuilt = rebuild(w, &session, adopt)?;
    let turns = build_turn_rows(&mut session, &rebuilt)?;
    session.pk = w.tx.insert_session(row)?;
    if session.pk > PK_MAX {
        return Err(ErrorCode::Internal.failure("the store has run out of session numbers"));
    }
    for row in &records {
        w.tx.insert_record(session.pk, row)?;
    }
    insert_keys(w, &mut session, adopt)?;
    let agents = adopt.items.iter().map(|i| i.item.body.agent.as_deref());
    for agent in agents.flatten().collect::<BTreeSet<_>>() {
        w.tx.insert_agent(session.pk, agent, w.ctx.keyring)?;
    }
    for row in turns {
        w.tx.insert_turn(session.pk, &row.sealed(w.ctx.keyring, session.pk))?;
    }
    session.head.lease = adopt.side_rows.lease.clone();
    let redaction_seq = rebuilt.newest_redaction;
    checkpoint::adopt(w, &mut session, &adopt.side_rows.checkpoints, redaction_seq)?;
    let session = put_head(w, session, (1, adopt.items.len() as u64), true)?;
    let written = WrittenRange::new(&session, 1, adopt.items.len() as u64, []);
    Ok(Outcome::Session {
        session: Box::new(session.row.with_head(&session.head)),
        created: true,
        written,
    })
}

/// Handles an adoption of a session that exists. It is a replay if the session has all the given items, otherwise a
/// conflict.
fn replay<T: Tx>(
    w: &ActiveWrite<'_, T>,
    existing: &VerifiedSession,
    adopt: &Adopt,
) -> Result<Outcome, Failure> {
    if !w.scope.can_see(&existing.row) {
        return Err(session_conflict());
    }
    let last = adopt.items.len() as u64;
    let given_link = adopt.items.last().map_or(GENESIS, |i| i.link);
    let stored_link: Option<Link> = match last {
        // Two sessions with the same name and no items are distinguished by their creation time.
        0 => (existing.row.created_at == adopt.session.created_at).then_some(GENESIS),
        n if n > existing.head.last_seq => None,
        n => w.snapshot().link_at(existing, n)?,
    };
    if stored_link != Some(given_link) {
        let detail = "the existing session of this name is another one, or has fewer items";
        return Err(Failure::new(ErrorCode::SessionConflict, detail).with_hint(
            "a bundle is adopted as a unit and never continues a session: adopt it into a store without a session of this name",
        ));
    }
    Ok(Outcome::Session {
        session: Box::new(existing.row.clone().with_head(&existing.head)),
        created: false,
        written: None,
    })
}

/// Builds the records of the items and advances the session's head past them.
fn build_records(
    ctx: &RuleContext<'_>,
    session: &mut VerifiedSession,
    adopt: &Adopt,
) -> Result<Vec<RecordRow>, Failure> {
    let (mut remaining, mut link, mut next_seq) = (adopt.items.as_slice(), GENESIS, 1);
    if remaining.len() as u64 > SEQ_MAX {
        return Err(session.integrity_failure(None, "there are too many items"));
    }
    let mut records = Vec::new();
    while !remaining.is_empty() {
        let (row, last_link) = match adopt_record(remaining, link, &session.scope, ctx.keyring)? {
            Ok((row, last_link)) if row.first_seq == next_seq => (row, last_link),
            Ok(_) => {
                return Err(session.integrity_failure(Some(next_seq), RecordFaultKind::Missing));
            }
            Err(seq) => return Err(session.integrity_failure(Some(seq), RecordFaultKind::Gap)),
        };
        remaining = &remaining[usize::try_from(row.count).unwrap_or(remaining.len())..];
        next_seq = row.last_seq() + 1;
        link = last_link;
        records.push(row);
    }
    session.head.last_seq = next_seq - 1;
    session.head.link = link;
    let items = adopt.items.iter().map(|chained| &chained.item);
    let summaries = items.filter(|item| item.body.channel == Channel::Summary);
    summaries.for_each(|item| session.head.add_summary(item.seq));
    Ok(records)
}

/// Rebuilds the turns from the items, and checks that the items are consistent.
fn rebuild<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    adopt: &Adopt,
) -> Result<RebuiltSession, Failure> {
    let mut rebuilt = RebuiltSession::default();
    let (mut ids, mut turns, mut requests) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for chained in &adopt.items {
        let seq = chained.item.seq;
        let refuse = |detail: &str| Err(session.integrity_failure(Some(seq), detail));
        if chained.events.iter().any(|e| e.redacts_at_or_after(seq)) {
            return refuse("a redaction names later items");
        }
        if let CommitmentProof::Erased { redaction_seq, .. } = chained.proof {
            rebuilt.contentless.insert(seq, redaction_seq);
        }
        if chained
            .item
            .body
            .item_id
            .as_ref()
            .is_some_and(|id| !ids.insert(id))
        {
            return refuse("its item_id occurs twice");
        }
        for (turn, start) in started_turns(chained) {
            if start
                .replaces
                .is_some_and(|replaced| !turns.contains(&replaced))
            {
                return refuse("it replaces a turn that does not exist");
            }
            if !turns.insert(*turn) || !requests.insert(&start.request_id) {
                return refuse("its turn or request occurs twice");
            }
            if w.tx.session_of_turn(turn)?.is_some() {
                let hint = format!("turn {turn} belongs to another session here");
                return Err(session_conflict().with_hint(hint));
            }
        }
        rebuilt.add_item(session, &chained.item, &chained.events)?;
    }
    match rebuilt.first_redaction_error() {
        Some((seq, detail)) => Err(session.integrity_failure(Some(seq), detail)),
        None => Ok(rebuilt),
    }
}

/// The turns that an item starts.
fn started_turns(chained: &ChainedItem) -> impl Iterator<Item = (&TurnId, &StartEvent)> {
    let turn = chained.item.turn_id.as_ref();
    chained.events.iter().filter_map(move |event| match event {
        Event::Start(start) => turn.map(|turn| (turn, start.as_ref())),
        _ => None,
    })
}

/// Builds the turns' rows, without MACs, and counts them in the session's head.
fn build_turn_rows(
    session: &mut VerifiedSession,
    rebuilt: &RebuiltSession,
) -> Result<Vec<TurnRow>, Failure> {
    let mut places = BTreeSet::new();
    let rows: Vec<TurnRow> = rebuilt.rows().collect();
    for row in &rows {
        if row.ordinal > ORDINAL_MAX || row.record_version > VERSION_MAX {
            return Err(session.integrity_failure(Some(row.first_seq), "there are too many turns"));
        }
        if !places.insert(row.place()) {
            let detail = "it replaces a turn that another one has replaced";
            return Err(session.integrity_failure(Some(row.first_seq), detail));
        }
        session.head.turn_rows += 1;
        session.head.open_turns += u64::from(row.status == TurnStatus::Open);
    }
    session.head.turn_count = rebuilt.turn_count;
    Ok(rows)
}

/// Writes the keys by which items are found. If any turn id was derived with another installation's keyring, also
/// writes a request key for every turn.
fn insert_keys<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
    adopt: &Adopt,
) -> Result<(), Failure> {
    let (tenant, name) = (&session.row.tenant_id, &session.row.session_id);
    session.head.adopted = adopt
        .items
        .iter()
        .flat_map(started_turns)
        .any(|(turn, start)| w.ctx.keyring.turn_id(tenant, name, &start.request_id) != *turn);
    for chained in &adopt.items {
        let seq = chained.item.seq;
        if let Some(id) = &chained.item.body.item_id {
            w.tx.insert_item_key(session.pk, id, seq)?;
        }
        for (_, start) in started_turns(chained).filter(|_| session.head.adopted) {
            w.tx.insert_request_key(session.pk, &start.request_id, seq)?;
        }
    }
    Ok(())
}
