//! `filrouge export ID --format json`

use std::io::{self, Write};
use std::process::ExitCode;

use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_types::SessionId;

use crate::cli::ExportFormat;
use crate::config::Config;
use crate::exit::Usage;
use crate::open::{Need, open, operator};
use crate::output::stdout;

/// Rows read at once.
const PAGE: usize = 500;

/// One document, written as it is read: session, turns, items.
pub(super) async fn run(
    config: &Config,
    id: &str,
    format: ExportFormat,
) -> anyhow::Result<ExitCode> {
    let ExportFormat::Json = format;
    let id: SessionId = id
        .parse()
        .map_err(|e: filrouge_types::IdError| Usage::new(e.to_string()))?;
    let opened = open(config, Need::Existing).await?;
    let scope = operator(config);
    let session = opened.ledger.session(&scope, &id).await?;
    let mut out = stdout();
    write!(
        out,
        "{{\"format\":\"filrouge-session\",\"version\":1,\n\"session\":"
    )?;
    serde_json::to_writer(&mut out, &session).map_err(io::Error::from)?;
    write!(out, ",\n\"turns\":[")?;
    let (mut cursor, mut separator) = (None, "\n");
    loop {
        let query = TurnQuery {
            status: None,
            order: TurnOrder::Oldest,
            cursor,
            limit: PAGE,
        };
        let (turns, next) = opened.ledger.turns(&scope, &id, query).await?;
        for turn in turns {
            write!(out, "{separator}")?;
            serde_json::to_writer(&mut out, &turn).map_err(io::Error::from)?;
            separator = ",\n";
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    write!(out, "],\n\"items\":[")?;
    let (mut after, mut separator) = (0, "\n");
    loop {
        let (items, next) = opened.ledger.items(&scope, &id, after, PAGE).await?;
        after = items.last().map_or(after, |i| i.seq);
        for item in items {
            write!(out, "{separator}")?;
            serde_json::to_writer(&mut out, &item).map_err(io::Error::from)?;
            separator = ",\n";
        }
        if next.is_none() {
            break;
        }
    }
    writeln!(out, "]}}")?;
    out.flush()?;
    drop(out);
    opened.close().await;
    Ok(ExitCode::SUCCESS)
}
