//! `filrouge config show`

use std::io::Write;
use std::process::ExitCode;

use filrouge_store::command::ConcurrentTurns;
use serde_json::json;

use crate::config::{Config, Setting};
use crate::output::{document, stdout};

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
    let mut rows = vec![
        row("store", &config.store, config.store.value.to_string()),
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
            "concurrent_turns",
            &config.concurrent_turns,
            turns.to_owned(),
        ),
    ];
    rows.extend(config.access.rows());
    rows.extend(config.limits.rows());
    let webhooks = config.webhooks.iter();
    let shown = webhooks.map(|webhook| webhook.shown(&config.tenant.value));
    if config.json {
        let settings: serde_json::Map<_, _> = rows
            .iter()
            .map(|(name, value, origin)| {
                (
                    (*name).to_owned(),
                    json!({ "value": value, "origin": origin }),
                )
            })
            .collect();
        let webhooks: Vec<_> = shown.collect();
        document(&json!({ "file": config.file, "settings": settings, "webhooks": webhooks }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout();
    for (name, value, origin) in rows {
        writeln!(out, "{name:<17} {value}  ({origin})")?;
    }
    for webhook in shown {
        let name = format!("webhooks.{}", webhook.name);
        writeln!(out, "{name:<17} {webhook}")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
