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
/// Callers then write no snapshot files, rather than unencrypted ones.
pub(super) fn seal(config: &Config) -> Result<Option<Arc<dyn Seal>>, Usage> {
    let given = std::env::var(VARIABLE).ok().filter(|one| !one.is_empty());
    let passphrase = match (given, &config.team.passphrase_file) {
        (Some(given), _) => given,
        (None, None) => return Ok(None),
        (None, Some(path)) => {
            let wrong = |why: &dyn std::fmt::Display| {
                Usage::new(format!("team.passphrase_file: {}: {why}", path.display()))
            };
            let text = std::fs::read_to_string(path).map_err(|e| wrong(&e))?;
            let line = text.lines().next().unwrap_or("");
            if line.is_empty() {
                return Err(wrong(&"its first line is empty"));
            }
            line.to_owned()
        }
    };
    sealed_by(passphrase)
}

#[cfg(feature = "age")]
#[expect(clippy::unnecessary_wraps, reason = "it can fail without the feature")]
fn sealed_by(passphrase: String) -> Result<Option<Arc<dyn Seal>>, Usage> {
    let seal = filrouge_team::snapshot::AgeSeal::by_passphrase(passphrase);
    Ok(Some(Arc::new(seal)))
}

#[cfg(not(feature = "age"))]
fn sealed_by(_: String) -> Result<Option<Arc<dyn Seal>>, Usage> {
    let what = "this filrouge was built without the feature age: it cannot encrypt snapshot files";
    Err(Usage::new(what).with_hint(format!(
        "build it with --features age, or unset {VARIABLE} and team.passphrase_file"
    )))
}
