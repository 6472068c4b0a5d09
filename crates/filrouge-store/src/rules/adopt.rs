//! Taking in a session that was recorded elsewhere, with its chain as it is (DESIGN §9).

use std::collections::BTreeSet;

use filrouge_types::{Channel, ErrorCode, Failure, TurnId, TurnStatus};

use super::checkpoint;
use super::writing::{Context, Writing, put_head};
use crate::chain::{GENESIS, Link};
use crate::command::{Adopt, Outcome, Put};
use crate::read::Loaded;
use crate::read::session_conflict;
use crate::record::{ChainedItem, Event, FaultKind, Proof, RecordRow, StartEvent, adopted};
use crate::rows::{HeadRow, ORDINAL_MAX, PK_MAX, SEQ_MAX, TurnRow, Tx, VERSION_MAX};
use crate::verify::Rebuilt;

pub(super) fn apply<T: Tx>(w: &mut Writing<'_, T>, adopt: &Adopt) -> Result<Outcome, Failure> {
    let row = &adopt.session;
    if row.tenant_id != w.scope.tenant {
        let what = format!("the session belongs to tenant {:?}", row.tenant_id.as_str());
        return Err(Failure::new(ErrorCode::Invalid, what)
            .with_hint("its chain names the tenant: take it in under --tenant with that name"));
    }
    if let Some(found) = w.sight().find_any(w.scope, &row.session_id)? {
        return known(w, &found, adopt);
    }
    if !w.scope.sees(row) {
        let what = "the session belongs to somebody else";
        return Err(Failure::new(ErrorCode::Forbidden, what)
            .with_hint("let its owner or the operator take it in"));
    }
    let mut session = Loaded {
        pk: 0,
        row: row.clone(),
        head: HeadRow::empty(row.fingerprint(), adopt.updated_at),
        scope: crate::chain::LinkScope::new(&row.tenant_id, &row.session_id),
        before: GENESIS,
    };
    // All is checked before anything is put; the chain first, for it names the item that was changed.
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
    session.head.lease = adopt.beside.lease.clone();
    let redacted = redacted(adopt);
    checkpoint::adopt(w, &mut session, &adopt.beside.checkpoints, redacted)?;
    let session = put_head(w, session, (1, adopt.items.len() as u64), true)?;
    let put = Put::new(&session, 1, adopt.items.len() as u64, []);
    Ok(Outcome::Session {
        session: Box::new(session.row.with_head(&session.head)),
        created: true,
        put,
    })
}

/// The seq of the newest redaction, also of what was not brought; 0 for none.
fn redacted(adopt: &Adopt) -> u64 {
    let of = |one: &&ChainedItem| one.item.body.channel == Channel::Redaction;
    adopt.items.iter().rfind(of).map_or(0, |one| one.item.seq)
}

/// A session that is here already and has all that is brought is left as it is.
fn known<T: Tx>(w: &Writing<'_, T>, found: &Loaded, adopt: &Adopt) -> Result<Outcome, Failure> {
    if !w.scope.sees(&found.row) {
        return Err(session_conflict());
    }
    let last = adopt.items.len() as u64;
    let brought = adopt.items.last().map_or(GENESIS, |i| i.link);
    let here: Option<Link> = match last {
        // Without an item, what tells two sessions of one name apart is when they were made.
        0 => (found.row.created_at == adopt.session.created_at).then_some(GENESIS),
        n if n > found.head.last_seq => None,
        n => w.sight().link_at(found, n)?,
    };
    if here != Some(brought) {
        let what = "the session of this name that is here is another one, or has not come as far";
        return Err(Failure::new(ErrorCode::SessionConflict, what).with_hint(
            "a bundle is taken in whole and never continues a session: take it in where there is none of this name",
        ));
    }
    Ok(Outcome::Session {
        session: Box::new(found.row.clone().with_head(&found.head)),
        created: false,
        put: None,
    })
}

/// The records of the items; the session's head stands behind them then.
fn records(
    ctx: &Context<'_>,
    session: &mut Loaded,
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
            Ok(_) => return Err(session.broken(Some(next), FaultKind::Missing)),
            Err(seq) => return Err(session.broken(Some(seq), FaultKind::Gap)),
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

/// The turns as the items tell of them.
fn rebuild<T: Tx>(w: &Writing<'_, T>, session: &Loaded, adopt: &Adopt) -> Result<Rebuilt, Failure> {
    let mut rebuilt = Rebuilt::default();
    let (mut ids, mut turns, mut requests) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for one in &adopt.items {
        let seq = one.item.seq;
        let broken = |what: &str| Err(session.broken(Some(seq), what));
        if one.events.iter().any(|e| e.names_from(seq)) {
            return broken("a redaction names what comes after it");
        }
        if let Proof::Erased { redaction_seq, .. } = one.proof {
            rebuilt.contentless.insert(seq, redaction_seq);
        }
        if one
            .item
            .body
            .item_id
            .as_ref()
            .is_some_and(|id| !ids.insert(id))
        {
            return broken("its item_id stands twice");
        }
        for (turn, start) in started(one) {
            if start.replaces.is_some_and(|old| !turns.contains(&old)) {
                return broken("it replaces a turn that is not there");
            }
            if !turns.insert(*turn) || !requests.insert(&start.request_id) {
                return broken("its turn or request stands twice");
            }
            if w.tx.session_of_turn(turn)?.is_some() {
                let hint = format!("turn {turn} belongs to another session here");
                return Err(session_conflict().with_hint(hint));
            }
        }
        rebuilt.take(session, &one.item, &one.events)?;
    }
    match rebuilt.misredacted() {
        Some((seq, what)) => Err(session.broken(Some(seq), what)),
        None => Ok(rebuilt),
    }
}

/// The turn that an item starts.
fn started(one: &ChainedItem) -> impl Iterator<Item = (&TurnId, &StartEvent)> {
    let turn = one.item.turn_id.as_ref();
    one.events.iter().filter_map(move |event| match event {
        Event::Start(start) => turn.map(|turn| (turn, start.as_ref())),
        _ => None,
    })
}

/// The turns' rows, not yet sealed; the session's head counts them then.
fn turns(session: &mut Loaded, rebuilt: &Rebuilt) -> Result<Vec<TurnRow>, Failure> {
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

/// What items and turns are found by. Turns whose ids were derived by another installation's key are found by keys
/// of their own.
fn put_keys<T: Tx>(
    w: &mut Writing<'_, T>,
    session: &mut Loaded,
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
