//! `filrouge sessions show ID`

use std::io::{self, Write};

use filrouge_types::{Item, Session, SessionId};
use serde::Serialize;

use super::doctor_session::CallState;
use super::named_session::in_ledger;
use crate::config::Config;
use crate::exit::parse;
use crate::open::{IfMissing, with};
use crate::output::{first_line, printable, show};

/// The number of items per page.
const PAGE_ITEMS: usize = 500;

pub(super) async fn run(config: &Config, id: &str) -> anyhow::Result<()> {
    let id: SessionId = parse(id)?;
    let read = with(config, IfMissing::Fail, async |opened, caller| {
        let engine = &opened.engine;
        let id = in_ledger(engine, caller, id).await?;
        let session = engine.sessions.get(caller, &id).await?;
        let call = CallState::read(engine, caller, &id).await?;
        let (mut items, mut after) = (Vec::new(), 0);
        loop {
            let (page, next) = engine.turns.items(caller, &id, after, PAGE_ITEMS).await?;
            after = page.last().map_or(after, |i| i.seq);
            items.extend(page);
            if next.is_none() {
                return Ok((session, call, items));
            }
        }
    });
    let (session, call, items) = read.await?;
    let output = SessionOutput {
        session: &session,
        call: &call,
        items: &items,
    };
    show(config.json, &output, |out| {
        let title = first_line(session.title.as_deref().unwrap_or(""), 400);
        writeln!(out, "{}  {title}", session.session_id)?;
        if let Some(parent) = &session.parent_session_id {
            writeln!(out, "parent {parent}")?;
        }
        let (turns, items, status) = (session.turn_count, session.last_seq, session.status);
        writeln!(out, "{turns} turns, {items} items, {status}")?;
        write_call(out, &session, &call)?;
        let mut turn = None;
        for item in output.items {
            if item.turn_id != turn {
                turn = item.turn_id;
                writeln!(out)?;
            }
            writeln!(out, "{}", item_line(item))?;
        }
        Ok(())
    })
}

#[derive(Serialize)]
struct SessionOutput<'a> {
    session: &'a Session,
    #[serde(flatten)]
    call: &'a CallState,
    items: &'a [Item],
}

/// Writes the state of a live call (DESIGN §6). Writes nothing for a session that is not a live call.
fn write_call(out: &mut impl Write, session: &Session, call: &CallState) -> io::Result<()> {
    if let Some(state) = &session.state {
        writeln!(out, "state {state}")?;
    }
    if call.checkpoints_unreadable > 0 {
        let count = call.checkpoints_unreadable;
        writeln!(out, "{count} newer checkpoints cannot be read")?;
    }
    if let Some(checkpoint) = call.checkpoint_text() {
        writeln!(out, "checkpoint at seq {checkpoint}")?;
    }
    let lease = call.lease_text();
    lease.map_or(Ok(()), |lease| writeln!(out, "held {lease}"))
}

/// An item on one line.
pub(super) fn item_line(item: &Item) -> String {
    let summary = match item.redacted {
        true => "(redacted)".to_owned(),
        false => first_line(&item.body.display_text(), 100),
    };
    let line = format!(
        "{:>5}  {:<9} {:<12} {summary}",
        item.seq,
        item.body.role.as_str(),
        item.body.channel.as_str()
    );
    printable(line.trim_end())
}
