//! The encryption of snapshot files.

use std::sync::Arc;

use filrouge_team::snapshot::Seal;

use crate::config::Config;
use crate::exit::Usage;

/// The environment variable with the passphrase itself.
const VARIABLE: &str = "FILROUGE_TEAM_PASSPHRASE";

/// The encryption of snapshot files; `None` without a passphrase. The passphrase is in `FILROUGE_TEAM_PASSPHRASE`, or
/// else in the configured file.
///
/// # Errors
/// [`Usage`] when the file cannot be read or contains no passphrase, or when this program was built without encryption.
/// Callers then write no snapshot files, because these would be unencrypted.
pub(super) fn seal(config: &Config) -> Result<Option<Arc<dyn Seal>>, Usage> {
    let from_environment = std::env::var(VARIABLE)
        .ok()
        .filter(|passphrase| !passphrase.is_empty());
    let passphrase = match (from_environment, &config.team.passphrase_file) {
        (Some(from_environment), _) => from_environment,
        (None, None) => return Ok(None),
        (None, Some(path)) => {
            let to_usage = |error: &dyn std::fmt::Display| {
                Usage::new(format!("team.passphrase_file: {}: {error}", path.display()))
            };
            let text = std::fs::read_to_string(path).map_err(|e| to_usage(&e))?;
            let line = text.lines().next().unwrap_or("");
            if line.is_empty() {
                return Err(to_usage(&"its first line is empty"));
            }
            line.to_owned()
        }
    };
    passphrase_seal(passphrase)
}

#[cfg(feature = "age")]
#[expect(clippy::unnecessary_wraps, reason = "it can fail without the feature")]
fn passphrase_seal(passphrase: String) -> Result<Option<Arc<dyn Seal>>, Usage> {
    let seal = filrouge_team::snapshot::AgeSeal::with_passphrase(passphrase);
    Ok(Some(Arc::new(seal)))
}

#[cfg(not(feature = "age"))]
fn passphrase_seal(_: String) -> Result<Option<Arc<dyn Seal>>, Usage> {
    let detail =
        "this filrouge was built without the feature age: it cannot encrypt snapshot files";
    Err(Usage::new(detail).with_hint(format!(
        "build it with --features age, or unset {VARIABLE} and team.passphrase_file"
    )))
}
