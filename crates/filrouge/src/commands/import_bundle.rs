//! `filrouge import bundle FILE`

use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::verify_bundle::{read_bundle, warn_if_untrusted_signer};
use crate::config::Config;
use crate::exit::{Usage, parse_option};
use crate::open::{IfMissing, with};
use crate::output::show;

pub(super) async fn run(config: &Config, path: &Path, key: Option<&str>) -> anyhow::Result<()> {
    let key = parse_option("--public-key", key)?;
    let bundle = read_bundle(path).map_err(|e| Usage::new(format!("{}: {e}", path.display())))?;
    let imported = with(config, IfMissing::Create, async |opened, caller| {
        Ok(opened.engine.bundles.import(caller, &bundle, key).await?)
    });
    let imported = imported.await?;
    let session = &imported.session;
    let (turns, items) = (session.turn_count, session.last_seq);
    let output = json!({
        "session_id": session.session_id, "created": imported.created, "turns": turns, "items": items,
        "signed_by": imported.signed_by,
    });
    show(config.json, &output, |out| {
        let outcome = match imported.created {
            true => "imported",
            false => "known already",
        };
        let id = &session.session_id;
        writeln!(out, "{outcome}: session {id}, {turns} turns, {items} items")?;
        warn_if_untrusted_signer(&imported.signed_by);
        writeln!(out, "signed by {}", imported.signed_by.public_key)
    })
}
