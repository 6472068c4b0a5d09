//! `filrouge config show`

use std::io::Write;

use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::exit::detail_and_hint;
use crate::output::{print_stderr, show};

pub(super) fn run(config: &Config) -> anyhow::Result<()> {
    if let Err(e) = config.server_settings() {
        print_stderr(format_args!(
            "`serve` refuses this: {}",
            detail_and_hint(&e).0
        ));
    }
    let mut lines: Vec<_> = (config.rows.iter())
        .map(|row| (row.name.clone(), format!("{}  ({})", row.value, row.origin)))
        .collect();
    let settings: Map<String, Value> = (config.rows.iter())
        .map(|row| {
            let value = json!({ "value": row.value, "origin": row.origin });
            (row.name.clone(), value)
        })
        .collect();
    let mut webhooks = Vec::new();
    for webhook in &config.webhooks {
        let (document, line) = webhook.describe();
        webhooks.push(document);
        lines.push((format!("webhooks.{}", webhook.feed.name), line));
    }
    let mut projections = Vec::new();
    for projection in &config.projections {
        let (document, line) = projection.describe();
        projections.push(document);
        lines.push((format!("projections.{}", projection.name), line));
    }
    let output = json!({
        "file": config.file, "settings": settings, "webhooks": webhooks, "projections": projections,
    });
    show(config.json, &output, |out| {
        let longest = lines.iter().map(|(name, _)| name.chars().count()).max();
        let longest = longest.unwrap_or(0);
        (lines.iter()).try_for_each(|(name, text)| writeln!(out, "{name:<longest$} {text}"))
    })
}
