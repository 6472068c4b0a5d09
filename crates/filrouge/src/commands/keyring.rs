//! `filrouge keyring list|rotate`

use std::collections::BTreeMap;
use std::io::Write;

use filrouge_engine::bundle::PublicKey;
use filrouge_engine::keyfile;
use filrouge_store::OsEntropy;
use serde_json::json;

use crate::cli::Keyring;
use crate::config::Config;
use crate::output::{print_stderr, show};

pub(super) fn run(config: &Config, command: &Keyring) -> anyhow::Result<()> {
    let path = &config.keyring;
    let ring = match command {
        Keyring::List => keyfile::load(path)?,
        Keyring::Rotate => keyfile::rotate(path, &OsEntropy)?,
    };
    let ids: Vec<_> = ring.secrets().keys().collect();
    let public_key = |id| {
        PublicKey::from_keyring(&ring, id)
            .map(|key| key.to_string())
            .unwrap_or_default()
    };
    let public_keys: BTreeMap<_, _> = ids.iter().map(|id| (**id, public_key(**id))).collect();
    let output =
        json!({ "path": path, "active": ring.active(), "keys": ids, "public_keys": public_keys });
    show(config.json, &output, |out| {
        for id in &ids {
            let usage = match **id == ring.active() {
                true => "writes and verifies",
                false => "verifies",
            };
            writeln!(
                out,
                "key {id}  {usage}  public key of its bundles: {}",
                public_key(**id)
            )?;
        }
        if matches!(command, Keyring::Rotate) {
            print_stderr(
                "restart every running server: until then it cannot read what others write with the new key",
            );
        }
        Ok(())
    })
}
