//! `filrouge erase ID | --identity ID | --all-of-tenant`: a receipt for each session.
//!
//! A session is erased in one transaction. After an interruption, the command can be repeated. With `--identity` or
//! `--all-of-tenant` it then erases the remaining sessions. With an id it prints the first receipt again if the
//! session is already erased.

use std::io::{self, Write};

use filrouge_engine::scopes::DurablePolicy;
use filrouge_engine::{Caller, Engine, ErasureReceipt};
use filrouge_store::command::SessionFilter;
use filrouge_types::{ErrorCode, IdentityId, Result, Session, SessionId, TenantId};
use serde_json::{Value, json};

use super::redact::stores_text;
use crate::cli::Erase;
use crate::config::Config;
use crate::exit::parse;
use crate::open::{IfMissing, Index, open, operator, refuse_unverified};
use crate::output::{ask_confirmation, first_line, json_for_stdout, print_stderr, printable, show};
use crate::projections::install;
use crate::team::{remove_snapshot_files, snapshot_file_error};

/// The notice for an erasure of several sessions while some sessions may be only in the hot store.
const NOT_ERASED_NOTICE: &str = "sessions without an identity that are in the hot store are not erased: erase them by their id, \
                          or wait until they expire";

/// The maximum number of sessions that are shown before an erasure.
const SHOWN_SESSIONS: usize = 20;
/// The number of sessions per page.
const PAGE_SESSIONS: usize = 500;

/// The sessions to erase.
enum ErasureTarget {
    Session(SessionId),
    Identity(IdentityId),
    Tenant(TenantId),
}

pub(super) async fn run(config: &Config, args: &Erase) -> anyhow::Result<()> {
    let id = args.target.id.as_ref().or(args.target.session.as_ref());
    let target = match (id, &args.target.identity) {
        (Some(id), _) => ErasureTarget::Session(parse(id)?),
        (None, Some(id)) => ErasureTarget::Identity(parse(id)?),
        (None, None) => ErasureTarget::Tenant(config.tenant.clone()),
    };
    refuse_unverified(config)?;
    let opened = open(config, IfMissing::Fail, Index::IfExists).await?;
    if let Err(error) = install(config, &opened.engine) {
        opened.close().await;
        return Err(error);
    }
    let caller = operator(config);
    if !args.consent.yes {
        let is_confirmed = confirm(config, args, (&opened.engine, &caller), &target).await;
        if !matches!(is_confirmed, Ok(true)) {
            opened.close().await;
            return is_confirmed.map(drop);
        }
    }
    let is_partial = !matches!(target, ErasureTarget::Session(_))
        && config.hot.durable == DurablePolicy::Authenticated;
    if is_partial {
        print_stderr(NOT_ERASED_NOTICE);
    }
    let mut receipts = Receipts {
        json: config.json,
        not_listed: is_partial.then_some(NOT_ERASED_NOTICE),
        write_error: None,
        sessions: Vec::new(),
    };
    let mut report = |receipt: &ErasureReceipt| {
        receipts.report(receipt);
        Ok(())
    };
    let erasure = &opened.engine.erasure;
    let count = match target {
        ErasureTarget::Session(id) => {
            let receipt = erasure.erase(&caller, id).await;
            receipt.and_then(|receipt| report(&receipt).map(|()| 1))
        }
        ErasureTarget::Identity(id) => erasure.erase_all(&caller, Some(id), &mut report).await,
        ErasureTarget::Tenant(_) => erasure.erase_all(&caller, None, &mut report).await,
    };
    opened.close().await;
    let sessions = std::mem::take(&mut receipts.sessions);
    let removed = remove_snapshot_files(config, &sessions);
    let count = count?;
    removed.map_err(|error| snapshot_file_error("erased from the ledger", error))?;
    if let Some(error) = receipts.write_error {
        return Err(error.into());
    }
    if count == 0 {
        print_stderr("there was nothing to erase");
    }
    Ok(())
}

/// Shows what would be erased, and asks for confirmation unless this is a dry run. Returns whether to erase it.
async fn confirm(
    config: &Config,
    args: &Erase,
    (engine, caller): (&Engine, &Caller),
    target: &ErasureTarget,
) -> anyhow::Result<bool> {
    let affected = Affected::read(engine, caller, target).await?;
    if args.consent.dry_run {
        show(config.json, &affected.json(), |out| affected.write(out))?;
        return Ok(false);
    }
    affected.write(&mut io::stderr().lock())?;
    let sessions = match target {
        ErasureTarget::Session(id) => format!("session {id}"),
        ErasureTarget::Identity(id) => format!("all sessions of identity {id}"),
        ErasureTarget::Tenant(id) => format!("ALL sessions of tenant {id}"),
    };
    let question = format!("Erase {sessions} for good?");
    let no_terminal = "erasing cannot be undone, and no terminal can ask for confirmation";
    match ask_confirmation(&question, &["yes"], no_terminal)? {
        true => Ok(true),
        false => anyhow::bail!("nothing was erased"),
    }
}

/// The sessions that would be erased.
#[derive(Default)]
struct Affected {
    sessions: u64,
    turns: u64,
    items: u64,
    /// The first of them.
    shown: Vec<Session>,
}

impl Affected {
    async fn read(engine: &Engine, caller: &Caller, target: &ErasureTarget) -> Result<Self> {
        let mut affected = Self::default();
        let identity_id = match target {
            ErasureTarget::Session(id) => {
                match engine.sessions.get(caller, id).await {
                    // Its receipt is printed again.
                    Err(failure) if failure.code == ErrorCode::SessionErased => {}
                    session => affected.add(session?),
                }
                return Ok(affected);
            }
            ErasureTarget::Identity(id) => Some(id.clone()),
            ErasureTarget::Tenant(_) => None,
        };
        let filter = SessionFilter {
            identity_id,
            ..SessionFilter::default()
        };
        let mut cursor = None;
        loop {
            let page = engine
                .sessions
                .list(caller, filter.clone(), cursor, PAGE_SESSIONS);
            let (page, next) = page.await?;
            page.into_iter().for_each(|session| affected.add(session));
            match next {
                Some(next) => cursor = Some(next),
                None => return Ok(affected),
            }
        }
    }

    fn add(&mut self, session: Session) {
        self.sessions += 1;
        self.turns += session.turn_count;
        self.items += session.last_seq;
        if self.shown.len() < SHOWN_SESSIONS {
            self.shown.push(session);
        }
    }

    fn json(&self) -> Value {
        let ids: Vec<_> = self
            .shown
            .iter()
            .map(|session| &session.session_id)
            .collect();
        json!({
            "dry_run": true, "sessions": self.sessions, "turns": self.turns, "items": self.items,
            "first_sessions": ids,
        })
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for session in &self.shown {
            let (turns, items) = (session.turn_count, session.last_seq);
            let title = first_line(session.title.as_deref().unwrap_or(""), 80);
            let line = format!(
                "{}  {turns} turns, {items} items  {title}",
                session.session_id
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        let (sessions, turns, items) = (self.sessions, self.turns, self.items);
        writeln!(out, "{sessions} sessions, {turns} turns, {items} items")
    }
}

/// Writes each receipt as soon as its session is erased, so that no receipt is lost if the command is interrupted.
struct Receipts {
    json: bool,
    /// [`NOT_ERASED_NOTICE`], if the erasure does not reach sessions that are in the hot store only.
    not_listed: Option<&'static str>,
    /// The first error of writing a receipt. The erasure continues nevertheless, because a partial one would be worse.
    write_error: Option<io::Error>,
    /// The erased sessions.
    sessions: Vec<SessionId>,
}

impl Receipts {
    fn report(&mut self, receipt: &ErasureReceipt) {
        self.sessions.push(receipt.session_id.clone());
        let line = if self.json {
            let mut document = json!(receipt);
            if let Some(not_listed) = self.not_listed {
                document["not_listed"] = not_listed.into();
            }
            json_for_stdout(&document.to_string()).into_owned()
        } else {
            printable(&format!(
                "erased: session {}, {} turns, {} items, {}{}",
                receipt.session_id,
                receipt.turns,
                receipt.items,
                receipt.erased_at,
                stores_text(&receipt.stores)
            ))
        };
        let mut out = io::stdout().lock();
        let written = writeln!(out, "{line}").and_then(|()| out.flush());
        if let Err(error) = written {
            self.write_error.get_or_insert(error);
        }
    }
}
