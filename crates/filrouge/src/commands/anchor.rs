//! `filrouge anchor show|init|accept|witness`

use std::fs::OpenOptions;
use std::io::Write;

use anyhow::Context;
use filrouge_engine::anchor::{AnchorState, SeenStore, Statement};
use filrouge_types::{Clock, ErrorCode, Failure, SystemClock};
use serde_json::json;

use crate::cli::Anchor as AnchorCommand;
use crate::config::Config;
use crate::exit::{ExitCode, Usage, code};
use crate::open::{
    IfMissing, OpenLedger, known_store, ledger, ledger_unchecked, refuse_unverified, stored_id,
};
use crate::output::{print, show};

pub(super) async fn run(config: &Config, command: &AnchorCommand) -> anyhow::Result<ExitCode> {
    let is_read_only = matches!(command, AnchorCommand::Show | AnchorCommand::Witness);
    if !is_read_only {
        refuse_unverified(config)?;
    }
    let Some(known) = known_store(config)? else {
        return Err(Usage::new("a store in memory has no anchor").into());
    };
    if matches!(command, AnchorCommand::Witness) {
        return print_statements(ledger(config, IfMissing::Fail)?).await;
    }
    if is_read_only {
        return set_and_show(config, command, ledger(config, IfMissing::Fail)?).await;
    }
    let last_seen = known.read();
    let is_recorded = !matches!(last_seen, Ok(None));
    // An operator can accept the store, or its loss, even if the record of the store last seen here is damaged.
    let seen = last_seen.ok().flatten();
    if matches!(command, AnchorCommand::Accept) && is_recorded && stored_id(config)?.is_none() {
        // The store is gone, and the next server may create a new one at the same URL.
        let store_id = seen.as_ref().map(|seen| seen.store_id.as_str());
        append_audit_line(config, "anchor_accept", store_id, None, 0)?;
        known.remove()?;
        let text = "the loss of the store is accepted; `filrouge serve` creates a new one";
        let output = json!({
            "store_id": store_id, "anchored_commit": null, "newest_commit": 0, "holds": true,
            "detail": text,
        });
        show(config.json, &output, |out| writeln!(out, "{text}"))?;
        warn_if_keys_are_lost(config, seen.as_ref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let exit_code =
        set_and_show(config, command, ledger_unchecked(config, IfMissing::Fail)?).await?;
    // The next command that opens the store records it again.
    known.remove()?;
    warn_if_keys_are_lost(config, seen.as_ref())?;
    Ok(exit_code)
}

/// Prints a statement of the newest commit of each lane that has one, for a witness. Fails if the store contradicts its
/// anchor.
async fn print_statements(open_ledger: OpenLedger) -> anyhow::Result<ExitCode> {
    let OpenLedger { ledger, anchor, .. } = open_ledger;
    if let Some(anchor) = anchor
        && let AnchorState::Broken(reason) = anchor.check(ledger.as_ref()).await?
    {
        let hint = "`filrouge anchor show` compares the store with its anchor";
        return Err(Failure::new(ErrorCode::IntegrityError, reason)
            .with_hint(hint)
            .into());
    }
    for statement in Statement::from_ledger(ledger.as_ref()) {
        let line = serde_json::to_string(&statement)?;
        print(|out| writeln!(out, "{line}"))?;
    }
    ledger.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Sets the anchor to the ledger's newest commits if `command` is `init` or `accept`, and then shows it. Exit code 1 if
/// the store contradicts the anchor.
async fn set_and_show(
    config: &Config,
    command: &AnchorCommand,
    open_ledger: OpenLedger,
) -> anyhow::Result<ExitCode> {
    let OpenLedger { ledger, anchor, .. } = open_ledger;
    let anchor = anchor.context("no anchor was opened for a store that is not in memory")?;
    let previous = anchor.read().ok().flatten();
    match command {
        AnchorCommand::Show | AnchorCommand::Witness => {}
        AnchorCommand::Init if anchor.path().exists() => {
            return Err(Usage::new(format!(
                "there is an anchor at {} already",
                anchor.path().display()
            ))
            .with_hint("`filrouge anchor accept` replaces it")
            .into());
        }
        AnchorCommand::Init | AnchorCommand::Accept => {
            let action = if matches!(command, AnchorCommand::Init) {
                "anchor_init"
            } else {
                "anchor_accept"
            };
            let (anchored, newest) = (previous.map(|p| p.commit_count()), ledger.position());
            let (store, count) = (Some(ledger.store_id()), newest.commit_count());
            append_audit_line(config, action, store, anchored, count)?;
            anchor.set(&newest)?;
        }
    }
    if !anchor.path().exists() {
        // `Anchor::check` creates a missing anchor, which would hide that it was missing.
        let detail = format!("there is no anchor at {}", anchor.path().display());
        let hint = "`filrouge anchor accept` creates one, once you trust the store";
        return Err(Failure::new(ErrorCode::IntegrityError, detail)
            .with_hint(hint)
            .into());
    }
    let state = anchor.check(ledger.as_ref()).await?;
    let (holds, text) = match &state {
        AnchorState::Broken(reason) => (false, reason.clone()),
        AnchorState::Created | AnchorState::Holds => {
            (true, "the store agrees with its anchor".to_owned())
        }
    };
    let anchored = anchor.read().ok().flatten().map(|p| p.commit_count());
    let newest = ledger.position().commit_count();
    let output = json!({
        "path": anchor.path(), "store_id": ledger.store_id(), "anchored_commit": anchored,
        "newest_commit": newest, "holds": holds, "detail": text,
    });
    show(config.json, &output, |out| {
        let anchored = anchored.unwrap_or(0);
        writeln!(out, "{text}: commit {anchored} anchored, {newest} newest")
    })?;
    ledger.close().await;
    Ok(code(holds))
}

/// Warns if the last seen store had API keys and is gone or replaced. A new store has no keys, and a server on a store
/// without keys admits every caller.
fn warn_if_keys_are_lost(config: &Config, seen: Option<&SeenStore>) -> anyhow::Result<()> {
    if seen.is_some_and(|seen| seen.has_keys)
        && stored_id(config)?.as_deref() != seen.map(|s| s.store_id.as_str())
    {
        tracing::warn!(
            "the store that was here had API keys; a store without keys admits every caller: run `filrouge keys create` before you serve"
        );
    }
    Ok(())
}

/// Appends a line to `audit.jsonl` in the anchors' folder: an operator set an anchor, which can hide a rollback.
/// `anchored` is the number of commits up to the previous anchor, and `newest` that of the store.
fn append_audit_line(
    config: &Config,
    action: &str,
    store: Option<&str>,
    anchored: Option<u64>,
    newest: u64,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(&config.anchor)?;
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(config.anchor.join("audit.jsonl"))?;
    let line = json!({
        "at": SystemClock.now(), "action": action, "store_id": store,
        "anchored_commit": anchored, "newest_commit": newest,
    });
    writeln!(file, "{line}")?;
    file.sync_all()?;
    Ok(())
}
