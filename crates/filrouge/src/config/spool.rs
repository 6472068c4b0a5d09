//! The section `[spool]`: where live calls go on while the ledger does not answer (DESIGN §6, docs/spool.md).

use std::path::PathBuf;
use std::time::Duration;

use filrouge_engine::spool::SpoolOptions;
use serde::Deserialize;

use super::{Layers, Setting, xdg};
use crate::exit::Usage;

/// The section in the file; unknown members are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpoolFile {
    dir: Option<String>,
    after_ms: Option<u64>,
    bytes: Option<u64>,
    session_entries: Option<u64>,
}

/// All of them, each with where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct SpoolConfig {
    pub(crate) dir: Setting<PathBuf>,
    after_ms: Setting<u64>,
    bytes: Setting<u64>,
    session_entries: Setting<u64>,
}

/// On the phone nobody waits for longer.
const AFTER_MOST: u64 = 60_000;

fn within(name: &str, least: u64, most: u64, text: &str) -> Result<u64, String> {
    let number = text.parse().ok();
    let within = number.filter(|number| (least..=most).contains(number));
    within
        .ok_or_else(|| format!("spool.{name}: {text:?} is no whole number from {least} to {most}"))
}

impl SpoolConfig {
    pub(super) fn read(layers: &Layers<'_>, file: SpoolFile) -> Result<Self, Usage> {
        let usual = SpoolOptions::new("");
        let text = |number: Option<u64>| number.map(|n| n.to_string());
        Ok(Self {
            dir: layers.pick(
                None,
                "FILROUGE_SPOOL_DIR",
                file.dir,
                || Ok(xdg("XDG_STATE_HOME", ".local/state")?.join("spool")),
                |t| Ok(PathBuf::from(t)),
            )?,
            after_ms: layers.pick(
                None,
                "FILROUGE_SPOOL_AFTER_MS",
                text(file.after_ms),
                || Ok(u64::try_from(usual.after.as_millis()).unwrap_or(AFTER_MOST)),
                |t| within("after_ms", 1, AFTER_MOST, t),
            )?,
            bytes: layers.pick(
                None,
                "FILROUGE_SPOOL_BYTES",
                text(file.bytes),
                || Ok(usual.bytes),
                |t| within("bytes", 0, u64::MAX, t),
            )?,
            session_entries: layers.pick(
                None,
                "FILROUGE_SPOOL_SESSION_ENTRIES",
                text(file.session_entries),
                || Ok(usual.session_entries as u64),
                |t| within("session_entries", 1, u64::MAX, t),
            )?,
        })
    }

    /// What the engine is told; `None` when nothing is to be spooled.
    pub(crate) fn options(&self) -> Option<SpoolOptions> {
        (self.bytes.value > 0).then(|| SpoolOptions {
            after: Duration::from_millis(self.after_ms.value),
            bytes: self.bytes.value,
            session_entries: usize::try_from(self.session_entries.value).unwrap_or(usize::MAX),
            ..SpoolOptions::new(&self.dir.value)
        })
    }

    /// Names, values and origins, as `config show` tells them.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String, String)> {
        fn row<T: ToString>(
            name: &'static str,
            setting: &Setting<T>,
        ) -> (&'static str, String, String) {
            (name, setting.value.to_string(), setting.origin.to_string())
        }
        let dir = self.dir.value.display().to_string();
        vec![
            ("spool.dir", dir, self.dir.origin.to_string()),
            row("spool.after_ms", &self.after_ms),
            row("spool.bytes", &self.bytes),
            row("spool.session_entries", &self.session_entries),
        ]
    }
}
