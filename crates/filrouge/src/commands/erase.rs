//! `filrouge erase --session ID | --identity ID | --all-of-tenant`: a receipt for each session.
//!
//! A session is erased in one transaction. After an interruption, the command can be repeated. With `--identity` or
//! `--all-of-tenant` it then erases the remaining sessions. With `--session` it prints the first receipt again if the
//! session is already erased.

use std::io::{self, Write};

use filrouge_engine::ErasureReceipt;
use filrouge_engine::scopes::DurablePolicy;
use filrouge_types::{IdentityId, SessionId, TenantId};
use serde_json::json;

use super::redact::stores_text;
use crate::cli::Erase;
use crate::config::Config;
use crate::exit::parse;
use crate::open::{IfMissing, Index, open, operator, refuse_unverified};
use crate::output::{ask_confirmation, json_for_stdout, print_stderr, printable};
use crate::team::{remove_snapshot_files, snapshot_file_error};

/// The notice for an erasure of several sessions while some sessions may be only in the hot store.
const NOT_ERASED_NOTICE: &str = "sessions without an identity that are in the hot store are not erased: erase them by their id, \
                          or wait until they expire";

/// The sessions to erase.
enum ErasureTarget {
    Session(SessionId),
    Identity(IdentityId),
    Tenant(TenantId),
}

pub(super) async fn run(config: &Config, args: &Erase) -> anyhow::Result<()> {
    let target = match (&args.target.session, &args.target.identity) {
        (Some(id), _) => ErasureTarget::Session(parse(id)?),
        (None, Some(id)) => ErasureTarget::Identity(parse(id)?),
        (None, None) => ErasureTarget::Tenant(config.tenant.clone()),
    };
    refuse_unverified(config)?;
    let sessions = match &target {
        ErasureTarget::Session(id) => format!("session {id}"),
        ErasureTarget::Identity(id) => format!("all sessions of identity {id}"),
        ErasureTarget::Tenant(id) => format!("ALL sessions of tenant {id}"),
    };
    let question = format!("Erase {sessions} for good?");
    let no_terminal = "erasing cannot be undone, and no terminal can ask for confirmation";
    if !args.yes && !ask_confirmation(&question, &["yes"], no_terminal)? {
        anyhow::bail!("nothing was erased");
    }
    let opened = open(config, IfMissing::Fail, Index::IfExists).await?;
    let caller = operator(config);
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
