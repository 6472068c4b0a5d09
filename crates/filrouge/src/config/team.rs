//! The section `[team]`: teams at a terminal (DESIGN §11)

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Layers, Setting};
use crate::exit::Usage;

/// The section `[team]` in the file; unknown members are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TeamFile {
    snapshots_dir: Option<String>,
    passphrase_file: Option<String>,
}

/// How sessions of teams are kept beside the ledger.
#[derive(Debug, Clone)]
pub(crate) struct TeamConfig {
    /// Where snapshot files lie; `None`: none are written.
    pub(crate) snapshots_dir: Setting<Option<PathBuf>>,
    /// Its first line encrypts them.
    pub(crate) passphrase_file: Setting<Option<PathBuf>>,
}

/// How no path is written.
const NOTHING: &str = "none";

fn folder(text: &str) -> Result<Option<PathBuf>, String> {
    match Path::new(text) {
        _ if text == NOTHING => Ok(None),
        path if path.is_absolute() => Ok(Some(path.to_owned())),
        _ => Err(format!("team.snapshots_dir: {text:?} is no absolute path")),
    }
}

fn file(text: &str) -> Result<Option<PathBuf>, String> {
    Ok(Some(PathBuf::from(text)).filter(|_| text != NOTHING))
}

/// Beside those of other programs that read such files.
fn own() -> Result<Option<PathBuf>, Usage> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute());
    Ok(home.map(|home| home.join(".agent-chatter/sessions")))
}

fn shown(path: &Option<PathBuf>) -> String {
    match path {
        Some(path) => path.display().to_string(),
        None => NOTHING.to_owned(),
    }
}

impl TeamConfig {
    pub(super) fn read(layers: &Layers<'_>, section: TeamFile) -> Result<Self, Usage> {
        Ok(Self {
            snapshots_dir: layers.pick(
                None,
                "FILROUGE_TEAM_SNAPSHOTS_DIR",
                section.snapshots_dir,
                own,
                folder,
            )?,
            passphrase_file: layers.pick(
                None,
                "FILROUGE_TEAM_PASSPHRASE_FILE",
                section.passphrase_file,
                || Ok(None),
                file,
            )?,
        })
    }

    /// Names, values and origins, as `config show` tells them.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String, String)> {
        let (dir, passphrase) = (&self.snapshots_dir, &self.passphrase_file);
        vec![
            (
                "team.snapshots_dir",
                shown(&dir.value),
                dir.origin.to_string(),
            ),
            (
                "team.passphrase_file",
                shown(&passphrase.value),
                passphrase.origin.to_string(),
            ),
        ]
    }
}
