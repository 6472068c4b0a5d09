//! `filrouge config show`

use std::io::Write;
use std::process::ExitCode;

use filrouge_store::command::ConcurrentTurns;
use serde_json::json;

use crate::config::{Config, Setting, sources};
use crate::exit::told;
use crate::output::{document, say, stdout};

pub(super) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    fn row<T>(
        name: &'static str,
        setting: &Setting<T>,
        text: String,
    ) -> (&'static str, String, String) {
        (name, text, setting.origin.to_string())
    }
    let turns = match config.concurrent_turns.value {
        ConcurrentTurns::Allow => "allow",
        ConcurrentTurns::Reject => "reject",
    };
    if let Err(e) = config.served() {
        say(format_args!("`serve` refuses this: {}", told(&e).0));
    }
    let store_direct = config.store_direct.value.as_ref();
    let store_direct = store_direct.map_or_else(|| "none".to_owned(), ToString::to_string);
    let mut rows = vec![
        row("store", &config.store, config.store.value.to_string()),
        row("store_direct", &config.store_direct, store_direct),
        row("listen", &config.listen, config.listen.value.to_string()),
        row("tenant", &config.tenant, config.tenant.value.to_string()),
        row(
            "keyring",
            &config.keyring,
            config.keyring.value.display().to_string(),
        ),
        row(
            "anchor",
            &config.anchor,
            config.anchor.value.display().to_string(),
        ),
        row(
            "turn_timeout_s",
            &config.turn_timeout,
            config.turn_timeout.value.as_secs().to_string(),
        ),
        row(
            "stream_timeout_s",
            &config.stream_timeout,
            config.stream_timeout.value.as_secs().to_string(),
        ),
        row(
            "concurrent_turns",
            &config.concurrent_turns,
            turns.to_owned(),
        ),
        row(
            "secrets.credentials",
            &config.credentials,
            config.credentials.value.to_string(),
        ),
        row("sources", &config.sources, sources::shown(&config.sources)),
    ];
    rows.extend(config.calls.rows());
    rows.extend(config.spool.rows());
    rows.extend(config.hot.rows());
    rows.extend(config.access.rows());
    rows.extend(config.limits.rows());
    rows.extend(config.mcp.rows());
    rows.extend(config.search.index.rows());
    rows.extend(config.search.rows());
    rows.extend(config.team.rows());
    let mut rows: Vec<_> = rows
        .into_iter()
        .map(|(name, value, origin)| (name.to_owned(), value, origin))
        .collect();
    rows.extend(config.hot.tenant_rows());
    let webhooks = config.webhooks.iter();
    let shown = webhooks.map(|webhook| webhook.shown(&config.tenant.value));
    if config.json {
        let settings: serde_json::Map<_, _> = rows
            .iter()
            .map(|(name, value, origin)| {
                (name.clone(), json!({ "value": value, "origin": origin }))
            })
            .collect();
        let webhooks: Vec<_> = shown.collect();
        document(&json!({ "file": config.file, "settings": settings, "webhooks": webhooks }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout();
    let mut lines: Vec<_> = rows
        .into_iter()
        .map(|(name, value, origin)| (name, format!("{value}  ({origin})")))
        .collect();
    lines.extend(shown.map(|webhook| (format!("webhooks.{}", webhook.name), webhook.to_string())));
    let longest = lines.iter().map(|(name, _)| name.chars().count()).max();
    let longest = longest.unwrap_or(0);
    for (name, text) in lines {
        writeln!(out, "{name:<longest$} {text}")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
