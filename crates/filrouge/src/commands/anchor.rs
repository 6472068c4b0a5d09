//! `filrouge anchor show|init|accept`

use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;

use filrouge_engine::anchor::Standing;
use filrouge_store::Position;
use filrouge_types::{Clock, SystemClock};
use serde_json::json;

use crate::cli::Anchor as What;
use crate::config::Config;
use crate::exit::{Usage, code};
use crate::open::{Need, Ready, ledger, refuse_unverified};
use crate::output::show;

pub(super) async fn run(config: &Config, what: &What) -> anyhow::Result<ExitCode> {
    if !matches!(what, What::Show) {
        refuse_unverified(config)?;
    }
    let Ready { ledger, anchor, .. } = ledger(config, Need::Existing)?;
    let Some(anchor) = anchor else {
        return Err(Usage::new("a store in memory has no anchor").into());
    };
    let seen = anchor.read().ok().flatten();
    match what {
        What::Show => {}
        What::Init if anchor.path().exists() => {
            return Err(Usage::new(format!(
                "there is an anchor at {} already",
                anchor.path().display()
            ))
            .with_hint("`filrouge anchor accept` replaces it")
            .into());
        }
        What::Init | What::Accept => {
            let action = if matches!(what, What::Init) {
                "anchor_init"
            } else {
                "anchor_accept"
            };
            audit(config, action, ledger.store_id(), seen, ledger.position())?;
            anchor.set(&ledger.position())?;
        }
    }
    let standing = anchor.check(ledger.as_ref()).await?;
    let (holds, text) = match &standing {
        Standing::Broken(what) => (false, what.clone()),
        Standing::Made | Standing::Holds => (true, "the store agrees with its anchor".to_owned()),
    };
    let anchored = anchor.read().ok().flatten().map(|p| p.commit_no);
    let newest = ledger.position().commit_no;
    let shown = json!({
        "path": anchor.path(), "store_id": ledger.store_id(), "anchored_commit": anchored,
        "newest_commit": newest, "holds": holds, "detail": text,
    });
    show(config.json, &shown, |out| {
        let anchored = anchored.unwrap_or(0);
        writeln!(out, "{text}: commit {anchored} anchored, {newest} newest")
    })?;
    ledger.close().await;
    Ok(code(holds))
}

/// Setting an anchor by hand is noted for good: it can hide a rollback.
fn audit(
    config: &Config,
    action: &str,
    store: &str,
    seen: Option<Position>,
    now: Position,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(&config.anchor)?;
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(config.anchor.join("audit.jsonl"))?;
    let line = json!({
        "at": SystemClock.now(), "action": action, "store_id": store,
        "anchored_commit": seen.map(|p| p.commit_no), "newest_commit": now.commit_no,
    });
    writeln!(file, "{line}")?;
    file.sync_all()?;
    Ok(())
}
