//! `filrouge erase --session ID | --identity ID | --all-of-tenant`: a receipt for each session.
//!
//! A session is erased in one transaction. Whoever is interrupted between two runs the command again: what was
//! erased is not met any more, and a single session gives its first receipt again.

use std::io::{self, Write};

use filrouge_engine::ErasureReceipt;
use filrouge_engine::scopes::DurablePolicy;
use filrouge_types::{IdentityId, SessionId, TenantId};
use serde_json::json;

use super::redact::hot_told;
use crate::cli::Erase;
use crate::config::Config;
use crate::exit::{Usage, parsed};
use crate::open::{Index, Need, open_indexed, operator, refuse_unverified};
use crate::output::{confirmed, say};
use crate::team::{but_files, forget};

/// What a list of sessions lacks when not all of them are durable.
const NOT_LISTED: &str = "sessions without an identity that are in the hot store are not listed: erase them by their id, \
                          or wait for their time to live";

/// What is to be erased.
enum What {
    Session(SessionId),
    Identity(IdentityId),
    Tenant(TenantId),
}

pub(super) async fn run(config: &Config, asked: &Erase) -> anyhow::Result<()> {
    let what = what(config, asked)?;
    refuse_unverified(config)?;
    let question = format!("Erase {} for good?", what.named());
    let unasked = "erasing cannot be undone, and nobody can be asked";
    if !asked.yes && !confirmed(&question, &["yes"], unasked)? {
        anyhow::bail!("nothing was erased");
    }
    let opened = open_indexed(config, Need::Existing, Index::IfThere).await?;
    let caller = operator(config);
    let is_partial =
        !matches!(what, What::Session(_)) && config.hot.durable == DurablePolicy::Authenticated;
    if is_partial {
        say(NOT_LISTED);
    }
    let mut receipts = Receipts {
        json: config.json,
        not_listed: is_partial.then_some(NOT_LISTED),
        failed: None,
        sessions: Vec::new(),
    };
    let mut tell = |receipt: &ErasureReceipt| {
        receipts.tell(receipt);
        Ok(())
    };
    let erasure = &opened.engine.erasure;
    let erased = match what {
        What::Session(id) => {
            let receipt = erasure.erase(&caller, id).await;
            receipt.and_then(|receipt| tell(&receipt).map(|()| 1))
        }
        What::Identity(id) => erasure.erase_all(&caller, Some(id), &mut tell).await,
        What::Tenant(_) => erasure.erase_all(&caller, None, &mut tell).await,
    };
    opened.close().await;
    let sessions = std::mem::take(&mut receipts.sessions);
    let forgotten = forget(config, &sessions);
    let erased = erased?;
    forgotten.map_err(|error| but_files("erased from the ledger", error))?;
    if let Some(error) = receipts.failed {
        return Err(error.into());
    }
    if erased == 0 {
        say("there was nothing to erase");
    }
    Ok(())
}

fn what(config: &Config, asked: &Erase) -> Result<What, Usage> {
    Ok(match (&asked.target.session, &asked.target.identity) {
        (Some(id), _) => What::Session(parsed(id)?),
        (None, Some(id)) => What::Identity(parsed(id)?),
        (None, None) => What::Tenant(config.tenant.clone()),
    })
}

impl What {
    fn named(&self) -> String {
        match self {
            Self::Session(id) => format!("session {id}"),
            Self::Identity(id) => format!("all sessions of identity {id}"),
            Self::Tenant(id) => format!("ALL sessions of tenant {id}"),
        }
    }
}

/// Writes receipts as they come, so that whoever is interrupted has those of what was erased.
struct Receipts {
    json: bool,
    /// What the sessions that are erased are without.
    not_listed: Option<&'static str>,
    /// Why receipts cannot be written; erasing goes on, for half an erasure helps nobody.
    failed: Option<io::Error>,
    /// What was erased.
    sessions: Vec<SessionId>,
}

impl Receipts {
    fn tell(&mut self, receipt: &ErasureReceipt) {
        self.sessions.push(receipt.session_id.clone());
        let line = if self.json {
            let mut told = json!(receipt);
            if let Some(not_listed) = self.not_listed {
                told["not_listed"] = not_listed.into();
            }
            told.to_string()
        } else {
            format!(
                "erased: session {}, {} turns, {} items, {}{}",
                receipt.session_id,
                receipt.turns,
                receipt.items,
                receipt.erased_at,
                hot(receipt)
            )
        };
        let mut out = io::stdout().lock();
        let written = writeln!(out, "{line}").and_then(|()| out.flush());
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }
}

/// What the hot store says, if there is one.
fn hot(receipt: &ErasureReceipt) -> String {
    let hot = receipt.stores.iter().find(|store| store.store == "hot");
    hot.map_or_else(String::new, |hot| hot_told(hot.status))
}
