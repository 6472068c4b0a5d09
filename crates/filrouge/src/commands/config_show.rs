//! `filrouge config show`

use std::io::Write;
use std::process::ExitCode;

use serde_json::json;

use crate::config::Config;
use crate::exit::told;
use crate::output::{document, say, stdout};

pub(super) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    if let Err(e) = config.served() {
        say(format_args!("`serve` refuses this: {}", told(&e).0));
    }
    let rows = config.rows.iter();
    let webhooks = config.webhooks.iter();
    let shown = webhooks.map(|webhook| webhook.shown(&config.tenant));
    if config.json {
        let settings: serde_json::Map<_, _> = rows
            .map(|row| {
                (
                    row.name.clone(),
                    json!({ "value": row.value, "origin": row.origin }),
                )
            })
            .collect();
        let webhooks: Vec<_> = shown.collect();
        document(&json!({ "file": config.file, "settings": settings, "webhooks": webhooks }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout();
    let mut lines: Vec<_> = rows
        .map(|row| (row.name.clone(), format!("{}  ({})", row.value, row.origin)))
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
