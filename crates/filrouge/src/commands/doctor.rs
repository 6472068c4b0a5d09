//! `filrouge doctor`

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use filrouge_engine::anchor::{AnchorKeeper, AnchorState};
use filrouge_engine::diagnosis::format_count;
use filrouge_engine::keyfile;
use filrouge_http::access::{AccessSettings, Authority};
use filrouge_store::Ledger;
use filrouge_types::SystemClock;
use serde::Serialize;
use serde_json::json;

use super::doctor_hot::HotReport;
use super::doctor_search;
use super::doctor_spool;
use super::doctor_webhooks::{WebhookReport, webhook_reports};
use super::project_status;
use crate::config::{Config, StoreUrl};
use crate::exit::{ExitCode, code, detail_and_hint};
use crate::open::{IfMissing, Index, OpenStore, open};
use crate::output::show;

#[derive(Serialize)]
struct Check {
    name: Cow<'static, str>,
    ok: bool,
    detail: String,
    hint: Option<String>,
}

fn check(
    name: impl Into<Cow<'static, str>>,
    ok: bool,
    detail: impl Into<String>,
    hint: Option<String>,
) -> Check {
    Check {
        name: name.into(),
        ok,
        detail: detail.into(),
        hint,
    }
}

fn passed(name: &'static str, detail: impl Into<String>) -> Check {
    check(name, true, detail, None)
}

fn failed(name: &'static str, error: &anyhow::Error) -> Check {
    let (detail, hint) = detail_and_hint(error);
    check(name, false, detail, hint)
}

/// Checks that the keyring can be read, and that only the owner of its file has access to the file.
fn check_keyring(path: &Path) -> Check {
    use std::os::unix::fs::PermissionsExt;
    let name = "keyring";
    match keyfile::load(path) {
        Err(e) => failed(name, &e.into()),
        Ok(ring) => match std::fs::metadata(path).map(|m| m.permissions().mode() & 0o077) {
            Ok(0) => passed(
                name,
                format!(
                    "key {} is used for new writes; the ring has {}",
                    ring.active(),
                    format_count(ring.secrets().len() as u64, "key")
                ),
            ),
            _ => check(
                name,
                false,
                format!("{} can be read by others", path.display()),
                Some(format!("chmod 600 {}", path.display())),
            ),
        },
    }
}

/// Checks that a server can start with the keys of the token issuer. Adds no check if no issuer is configured.
async fn check_issuer(opened: &OpenStore, access: Option<AccessSettings>, checks: &mut Vec<Check>) {
    let name = "issuer";
    let Some(access) = access.filter(|access| access.jwt.is_some()) else {
        return;
    };
    match Authority::start(opened.engine.clone(), Arc::new(SystemClock), access).await {
        Ok(_) => checks.push(passed(name, "its keys can verify tokens")),
        Err(e) => checks.push(failed(name, &anyhow::Error::new(e).context("[jwt]"))),
    }
}

/// Checks the hot store, and its copies of the `sessions` newest sessions. Returns the details for the JSON report;
/// `None` if there are none.
async fn check_hot(
    config: &Config,
    opened: &OpenStore,
    sessions: usize,
    checks: &mut Vec<Check>,
) -> Option<HotReport> {
    let hot = match HotReport::check(config, &opened.engine, sessions).await {
        Ok(hot) => hot?,
        Err(e) => {
            checks.push(failed("copies", &e.into()));
            return None;
        }
    };
    checks.push(check("hot", hot.is_well(), hot.detail(), hot.hint()));
    checks.extend(hot.copies.as_ref().map(|copies| {
        check(
            "copies",
            copies.are_correct(),
            copies.detail(),
            copies.hint(),
        )
    }));
    Some(hot)
}

/// Reports whether searches of the ledger use the index.
async fn check_search(config: &Config, checks: &mut Vec<Check>) {
    let name = "search";
    match doctor_search::check(config).await {
        Ok(search) => checks.extend(
            search.map(|(detail, hint)| check(name, true, detail, hint.map(str::to_owned))),
        ),
        Err(e) => checks.push(failed(name, &e)),
    }
}

/// Checks the store. Returns details of the hot store and of the webhooks for the JSON report.
async fn check_store(
    config: &Config,
    access: Option<AccessSettings>,
    sessions: usize,
    checks: &mut Vec<Check>,
) -> (Option<HotReport>, Vec<WebhookReport>) {
    let opened = match open(config, IfMissing::Fail, Index::Unused).await {
        Ok(opened) => opened,
        Err(e) => {
            checks.push(failed("store", &e));
            return (None, Vec::new());
        }
    };
    let version = opened.ledger.backend().version.unwrap_or_default();
    checks.push(passed(
        "store",
        format!(
            "{}{}{version}, commit {}",
            config.store,
            if version.is_empty() { "" } else { ", " },
            opened.ledger.position().commit_count()
        ),
    ));
    match &opened.anchor_state {
        Some(AnchorState::Broken(reason)) => {
            let hint = "restore the newest copy, or accept the loss with `filrouge anchor accept`";
            checks.push(check("anchor", false, reason, Some(hint.to_owned())));
        }
        Some(AnchorState::Created | AnchorState::Holds) => {
            match opened.keeper.as_ref().and_then(AnchorKeeper::failure) {
                Some(failure) => checks.push(check("anchor", false, failure, None)),
                None => checks.push(passed("anchor", "the store agrees with it")),
            }
        }
        None => {}
    }
    match head_differences(opened.ledger.as_ref()).await {
        None => checks.push(passed("heads", "every session is in its newest state")),
        Some(differences) => {
            let hint = "`filrouge verify` lists every fault".to_owned();
            checks.push(check("heads", false, differences, Some(hint)));
        }
    }
    check_search(config, checks).await;
    let hot = check_hot(config, &opened, sessions, checks).await;
    check_issuer(&opened, access, checks).await;
    let webhooks = webhook_reports(config, opened.ledger.as_ref()).await;
    let webhooks = webhooks.unwrap_or_else(|e| {
        checks.push(failed("webhooks", &e));
        Vec::new()
    });
    match project_status::statuses(config, &opened.engine).await {
        Ok(statuses) => checks.extend(statuses.iter().map(|status| {
            let hint = "`filrouge project status` shows more".to_owned();
            let is_well = project_status::is_well(status);
            let detail = project_status::detail(status);
            let name = format!("projection {}", status.name);
            check(name, is_well, detail, (!is_well).then_some(hint))
        })),
        Err(e) => checks.push(failed("projections", &e)),
    }
    opened.close().await;
    checks.extend(webhooks.iter().map(|webhook| {
        check(
            format!("webhook {}", webhook.status.name),
            webhook.is_well(),
            webhook.detail(),
            webhook.hint(),
        )
    }));
    (hot, webhooks)
}

/// Compares the heads of all sessions, and the notes, with the commit log. Returns the differences, or the reason why
/// they cannot be compared; `None` if nothing is wrong.
async fn head_differences(ledger: &dyn Ledger) -> Option<String> {
    if let Some(difference) = ledger.health().integrity {
        return Some(difference);
    }
    match ledger.query(|snapshot| snapshot.compare_heads()).await {
        Ok(suspects) => (!suspects.is_empty()).then(|| suspects.to_string()),
        Err(failure) => Some(failure.to_string()),
    }
}

/// Counts queued writes and dead letters; works while the ledger does not answer.
fn check_spool(config: &Config) -> Check {
    let name = "spool";
    if !config.spool.directory.exists() {
        return passed(name, "nothing has waited for the store yet");
    }
    match doctor_spool::counts(config) {
        Ok((queued, 0)) => passed(name, format!("{queued} writes wait for the store")),
        Ok((queued, dead)) => check(
            name,
            false,
            format!("{dead} dead letters; {queued} writes wait for the store"),
            Some("`filrouge doctor spool` names them".to_owned()),
        ),
        Err(e) => failed(name, &e),
    }
}

/// Runs all checks and prints their results. In the hot store, only the copies of the `sessions` newest sessions are
/// compared with the ledger. Exit code 1 if a check fails.
pub(super) async fn run(config: &Config, sessions: usize) -> anyhow::Result<ExitCode> {
    let configuration_file = config
        .file
        .as_ref()
        .map_or_else(|| "no file".to_owned(), |f| f.display().to_string());
    let name = "configuration";
    let (mut checks, access) = match config.server_settings() {
        Ok((access, _)) => (vec![passed(name, configuration_file)], Some(access)),
        Err(e) => (vec![failed(name, &e)], None),
    };
    if config.store != StoreUrl::Memory {
        checks.push(check_keyring(&config.keyring));
    }
    let (hot, webhooks) = check_store(config, access, sessions, &mut checks).await;
    if config.store != StoreUrl::Memory {
        checks.push(check_spool(config));
    }
    let ok = checks.iter().all(|c| c.ok);
    let output = json!({ "ok": ok, "checks": checks, "hot": hot, "webhooks": webhooks });
    show(config.json, &output, |out| {
        for check in &checks {
            let status = if check.ok { "ok" } else { "FAILED" };
            writeln!(out, "{status:<7} {:<14} {}", check.name, check.detail)?;
            if let Some(hint) = &check.hint {
                writeln!(out, "{:<22} hint: {hint}", "")?;
            }
        }
        Ok(())
    })?;
    Ok(code(ok))
}
