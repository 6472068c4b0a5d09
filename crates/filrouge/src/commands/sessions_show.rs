//! `filrouge sessions show ID`

use std::io::{self, Write};
use std::process::ExitCode;

use filrouge_types::{Checkpoint, Item, Lease, Session, SessionId};
use serde::Serialize;

use crate::config::Config;
use crate::exit::Usage;
use crate::open::{Need, Opened, open, operator};
use crate::output::{document, first_line, printable, stdout};

/// Items read at once.
const PAGE: usize = 500;

#[derive(Serialize)]
struct Shown<'a> {
    session: &'a Session,
    lease: &'a Lease,
    /// The newest that can be read.
    checkpoint: Option<&'a Checkpoint>,
    /// How many newer ones cannot.
    checkpoints_unreadable: usize,
    items: Vec<Item>,
}

pub(super) async fn run(config: &Config, id: &str) -> anyhow::Result<ExitCode> {
    let id: SessionId = id
        .parse()
        .map_err(|e: filrouge_types::IdError| Usage::new(e.to_string()))?;
    let opened = open(config, Need::Existing).await?;
    let scope = operator(config);
    let session = opened.ledger.session(&scope, &id).await?;
    let lease = opened.engine.lease(&scope, &id).await?;
    let checkpoints = opened.engine.checkpoints(&scope, &id).await?;
    let unreadable = checkpoints.iter().take_while(|one| one.is_err()).count();
    let checkpoint = checkpoints.iter().find_map(|one| one.as_ref().ok());
    if config.json {
        let items = all_items(config, &opened, &id).await?;
        document(&Shown {
            session: &session,
            lease: &lease,
            checkpoint,
            checkpoints_unreadable: unreadable,
            items,
        })?;
    } else {
        let mut out = stdout();
        writeln!(
            out,
            "{}  {}",
            session.session_id,
            printable(session.title.as_deref().unwrap_or(""))
        )?;
        if let Some(parent) = &session.parent_session_id {
            writeln!(out, "parent {parent}")?;
        }
        writeln!(
            out,
            "{} turns, {} items, {}",
            session.turn_count, session.last_seq, session.status
        )?;
        write_call(&mut out, &session, &lease, (checkpoint, unreadable))?;
        let mut turn = None;
        for item in all_items(config, &opened, &id).await? {
            if item.turn_id != turn {
                turn = item.turn_id;
                writeln!(out)?;
            }
            writeln!(out, "{}", line(&item))?;
        }
        out.flush()?;
    }
    opened.close().await;
    Ok(ExitCode::SUCCESS)
}

/// What is known of a live call (DESIGN §6); nothing for other sessions.
fn write_call(
    out: &mut impl Write,
    session: &Session,
    lease: &Lease,
    (checkpoint, unreadable): (Option<&Checkpoint>, usize),
) -> io::Result<()> {
    if let Some(state) = &session.state {
        writeln!(out, "state {}", printable(state))?;
    }
    if unreadable > 0 {
        writeln!(out, "{unreadable} newer checkpoints cannot be read")?;
    }
    if let Some(checkpoint) = checkpoint {
        let label = checkpoint.label.as_deref();
        let label = label.map_or_else(String::new, |label| format!(", {}", printable(label)));
        writeln!(out, "checkpoint at seq {}{label}", checkpoint.seq)?;
    }
    if let (Some(holder), Some(until)) = (&lease.holder, lease.expires_at) {
        let fence = lease.fence;
        writeln!(
            out,
            "held by {}, fence {fence}, until {until}",
            printable(holder)
        )?;
    }
    Ok(())
}

async fn all_items(config: &Config, opened: &Opened, id: &SessionId) -> anyhow::Result<Vec<Item>> {
    let scope = operator(config);
    let (mut items, mut after) = (Vec::new(), 0);
    loop {
        let (page, next) = opened.ledger.items(&scope, id, after, PAGE).await?;
        after = page.last().map_or(after, |i| i.seq);
        items.extend(page);
        if next.is_none() {
            return Ok(items);
        }
    }
}

/// An item on one line.
pub(super) fn line(item: &Item) -> String {
    let line = format!(
        "{:>5}  {:<9} {:<12} {}",
        item.seq,
        item.body.role.as_str(),
        item.body.channel.as_str(),
        summary(item)
    );
    line.trim_end().to_owned()
}

/// What an item is about.
fn summary(item: &Item) -> String {
    if item.redacted {
        return "(redacted)".to_owned();
    }
    first_line(&item.body.says(), 100)
}
