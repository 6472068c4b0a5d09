//! `filrouge import bundle FILE`

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::verify_bundle::{public_key, read, warn_of_signer};
use crate::config::Config;
use crate::exit::Usage;
use crate::open::{Need, open, operator};
use crate::output::{document, printable, stdout};

pub(super) async fn run(
    config: &Config,
    path: &Path,
    key: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let key = public_key(key)?;
    let bundle = read(path).map_err(|e| Usage::new(format!("{}: {e}", path.display())))?;
    let opened = open(config, Need::Any).await?;
    let imported = opened
        .engine
        .bundles
        .import(&operator(config), &bundle, key)
        .await;
    opened.close().await;
    let imported = imported?;
    let session = &imported.session;
    if config.json {
        document(
            &json!({ "session_id": session.session_id, "created": imported.created,
            "turns": session.turn_count, "items": session.last_seq, "signed_by": imported.signed_by }),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout();
    let done = if imported.created {
        "imported"
    } else {
        "known already"
    };
    let id = printable(session.session_id.as_str());
    let (turns, items) = (session.turn_count, session.last_seq);
    writeln!(out, "{done}: session {id}, {turns} turns, {items} items")?;
    writeln!(out, "signed by {}", imported.signed_by.public_key)?;
    warn_of_signer(&imported.signed_by);
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
