//! Adopts a session that was recorded elsewhere, with its chain unchanged (DESIGN §9).

use std::collections::BTreeSet;

use filrouge_types::{Channel, ErrorCode, Failure, TurnId, TurnStatus};

use super::checkpoint;
use super::writing::{ActiveWrite, RuleContext, put_head};
use crate::chain::{GENESIS, Link};
use crate::command::{Adopt, Outcome, WrittenRange};
use crate::read::VerifiedSession;
use crate::read::session_conflict;
use crate::record::{
    ChainedItem, CommitmentProof, Event, RecordFaultKind, RecordRow, StartEvent, adopted,
};
use crate::rows::{HeadRow, ORDINAL_MAX, PK_MAX, SEQ_MAX, TurnRow, Tx, VERSION_MAX};
use crate::verify::RebuiltSession;

pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, adopt: &Adopt) -> Result<Outcome, Failure> {
    let row = &adopt.session;
    if row.tenant_id != w.scope.tenant {
        let what = format!("the session belongs to tenant {:?}", row.tenant_id.as_str());
        return Err(Failure::new(ErrorCode::Invalid, what)
            .with_hint("its chain names the tenant: adopt it with that name as --tenant"));
    }
    if let Some(found) = w.snapshot().find_any(w.scope, &row.session_id)? {
        return replay(w, &found, adopt);
    }
    if !w.scope.sees(row) {
        let what = "the session belongs to another identity";
        return Err(Failure::new(ErrorCode::Forbidden, what)
            .with_hint("let its owner or the operator adopt it"));
    }
    let mut session = VerifiedSession {
        pk: 0,
        row: row.clone(),
        head: HeadRow::empty(row.fingerprint(), adopt.updated_at),
        scope: crate::chain::LinkScope::new(&row.tenant_id, &row.session_id),
        before: GENESIS,
    };
    // Everything is checked before the first write. The chain is checked first, because its failure names the item that
    // was changed.
    let records = records(w.ctx, &mut session, adopt)?;
    let rebuilt = rebuild(w, &session, adopt)?;
    let turns = turns(&mut session, &rebuilt)?;
    session.pk = w.tx.insert_session(row)?;
    if session.pk > PK_MAX {
        return Err(Failure::new(
            ErrorCode::Internal,
            "the store has run out of session numbers",
        ));
    }
    for row in &records {
        w.tx.insert_record(session.pk, row)?;
    }
    put_keys(w, &mut session, adopt)?;
    let agents = adopt.items.iter().map(|i| i.item.body.agent.as_deref());
    for agent in agents.flatten().collect::<BTreeSet<_>>() {
        w.tx.note_agent(session.pk, agent)?;
    }
    for row in turns {
        w.tx.insert_turn(session.pk, &row.sealed(w.ctx.keyring, session.pk))?;
    }
    session.head.lease = adopt.side_rows.lease.clone();
    let redacted = redacted(adopt);
    checkpoint::adopt(w, &mut session, &adopt.side_rows.checkpoints, redacted)?;
    let session = put_head(w, session, (1, adopt.items.len() as u64), true)?;
    let put = WrittenRange::new(&session, 1, adopt.items.len() as u64, []);
    Ok(Outcome::Session {
        session: Box::new(session.row.with_head(&session.head)),
        created: true,
        put,
    })
}

/// The seq of the newest redaction item, even if none of the items that it names is in `adopt`; 0 if there is none.
fn redacted(adopt: &Adopt) -> u64 {
    let is_redaction = |one: &&ChainedItem| one.item.body.channel == Channel::Redaction;
    adopt
        .items
        .iter()
        .rfind(is_redaction)
        .map_or(0, |one| one.item.seq)
}

/// The outcome when a session of this name already exists: a replay if it has all the given items, otherwise a
/// conflict.
fn replay<T: Tx>(
    w: &ActiveWrite<'_, T>,
    found: &VerifiedSession,
    adopt: &Adopt,
) -> Result<Outcome, Failure> {
    if !w.scope.sees(&found.row) {
        return Err(session_conflict());
    }
    let last = adopt.items.len() as u64;
    let given_link = adopt.items.last().map_or(GENESIS, |i| i.link);
    let stored_link: Option<Link> = match last {
        // Two sessions with the same name and no items are distinguished by their creation time.
        0 => (found.row.created_at == adopt.session.created_at).then_some(GENESIS),
        n if n > found.head.last_seq => None,
        n => w.snapshot().link_at(found, n)?,
    };
    if stored_link != Some(given_link) {
        let what = "the existing session of this name is another one, or has fewer items";
        return Err(Failure::new(ErrorCode::SessionConflict, what).with_hint(
            "a bundle is adopted as a unit and never continues a session: adopt it into a store without a session of this name",
        ));
    }
    Ok(Outcome::Session {
        session: Box::new(found.row.clone().with_head(&found.head)),
        created: false,
        put: None,
    })
}

/// Builds the records of the items and advances the session's head past them.
fn records(
    ctx: &RuleContext<'_>,
    session: &mut VerifiedSession,
    adopt: &Adopt,
) -> Result<Vec<RecordRow>, Failure> {
    let (mut rest, mut link, mut next) = (adopt.items.as_slice(), GENESIS, 1);
    if rest.len() as u64 > SEQ_MAX {
        return Err(session.broken(None, "there are too many items"));
    }
    let mut records = Vec::new();
    while !rest.is_empty() {
        let (row, last) = match adopted(rest, link, &session.scope, ctx.keyring)? {
            Ok((row, last)) if row.first_seq == next => (row, last),
            Ok(_) => return Err(session.broken(Some(next), RecordFaultKind::Missing)),
            Err(seq) => return Err(session.broken(Some(seq), RecordFaultKind::Gap)),
        };
        rest = &rest[usize::try_from(row.count).unwrap_or(rest.len())..];
        next = row.last_seq() + 1;
        link = last;
        records.push(row);
    }
    session.head.last_seq = next - 1;
    session.head.link = link;
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
    for one in &adopt.items {
        let seq = one.item.seq;
        let broken = |what: &str| Err(session.broken(Some(seq), what));
        if one.events.iter().any(|e| e.names_from(seq)) {
            return broken("a redaction names later items");
        }
        if let CommitmentProof::Erased { redaction_seq, .. } = one.proof {
            rebuilt.contentless.insert(seq, redaction_seq);
        }
        if one
            .item
            .body
            .item_id
            .as_ref()
            .is_some_and(|id| !ids.insert(id))
        {
            return broken("its item_id occurs twice");
        }
        for (turn, start) in started(one) {
            if start.replaces.is_some_and(|old| !turns.contains(&old)) {
                return broken("it replaces a turn that does not exist");
            }
            if !turns.insert(*turn) || !requests.insert(&start.request_id) {
                return broken("its turn or request occurs twice");
            }
            if w.tx.session_of_turn(turn)?.is_some() {
                let hint = format!("turn {turn} belongs to another session here");
                return Err(session_conflict().with_hint(hint));
            }
        }
        rebuilt.add_item(session, &one.item, &one.events)?;
    }
    match rebuilt.misredacted() {
        Some((seq, what)) => Err(session.broken(Some(seq), what)),
        None => Ok(rebuilt),
    }
}

/// The turns that an item starts.
fn started(one: &ChainedItem) -> impl Iterator<Item = (&TurnId, &StartEvent)> {
    let turn = one.item.turn_id.as_ref();
    one.events.iter().filter_map(move |event| match event {
        Event::Start(start) => turn.map(|turn| (turn, start.as_ref())),
        _ => None,
    })
}

/// The turns' rows, not yet sealed. Counts them in the session's head.
fn turns(session: &mut VerifiedSession, rebuilt: &RebuiltSession) -> Result<Vec<TurnRow>, Failure> {
    let mut places = BTreeSet::new();
    let rows: Vec<TurnRow> = rebuilt.rows().collect();
    for row in &rows {
        if row.ordinal > ORDINAL_MAX || row.record_version > VERSION_MAX {
            return Err(session.broken(Some(row.first_seq), "there are too many turns"));
        }
        if !places.insert(row.place()) {
            let what = "it replaces a turn that another one has replaced";
            return Err(session.broken(Some(row.first_seq), what));
        }
        session.head.turn_rows += 1;
        session.head.open_turns += u64::from(row.status == TurnStatus::Open);
    }
    session.head.turn_count = rebuilt.ordinals;
    Ok(rows)
}

/// Writes the keys by which items and turns are found. If any turn id was derived with another installation's keyring,
/// every turn also gets a request key.
fn put_keys<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
    adopt: &Adopt,
) -> Result<(), Failure> {
    let (tenant, name) = (&session.row.tenant_id, &session.row.session_id);
    session.head.adopted = adopt
        .items
        .iter()
        .flat_map(started)
        .any(|(turn, start)| w.ctx.keyring.turn_id(tenant, name, &start.request_id) != *turn);
    for one in &adopt.items {
        let seq = one.item.seq;
        if let Some(id) = &one.item.body.item_id {
            w.tx.insert_item_key(session.pk, id, seq)?;
        }
        for (_, start) in started(one).filter(|_| session.head.adopted) {
            w.tx.insert_request_key(session.pk, &start.request_id, seq)?;
        }
    }
    Ok(())
}
