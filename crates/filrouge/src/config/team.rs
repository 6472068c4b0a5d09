//! The section `[team]`: teams at a terminal (DESIGN §11).

use std::path::PathBuf;

use super::layers::{DISPLAY_PATH, Layers, NONE, ValueType, home_folder};
use crate::exit::Result;

/// Where the sessions of teams are stored as snapshot files, in addition to the ledger.
#[derive(Debug, Clone)]
pub(crate) struct TeamConfig {
    /// The folder of snapshot files; `None` if no snapshot files are written.
    pub(crate) snapshots_dir: Option<PathBuf>,
    /// The file whose first line is the passphrase that encrypts snapshot files.
    pub(crate) passphrase_file: Option<PathBuf>,
}

fn parse_file(text: &str) -> Result<Option<PathBuf>, String> {
    Ok(Some(PathBuf::from(text)).filter(|_| text != NONE))
}

fn parse_folder(text: &str) -> Result<Option<PathBuf>, String> {
    match parse_file(text)? {
        Some(path) if !path.is_absolute() => Err(format!("{text:?} is no absolute path")),
        path => Ok(path),
    }
}

/// The default folder, which other programs that read snapshot files also use.
fn default_folder() -> Result<Option<PathBuf>> {
    Ok(home_folder().map(|home| home.join(".agent-chatter/sessions")))
}

fn format_path(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(|| NONE.to_owned(), DISPLAY_PATH)
}

impl TeamConfig {
    pub(super) fn read(layers: &mut Layers<'_>) -> Result<Self> {
        let text = |name| (name, ValueType::Text);
        Ok(Self {
            snapshots_dir: layers.read(
                text("team.snapshots_dir"),
                default_folder,
                parse_folder,
                format_path,
            )?,
            passphrase_file: layers.read(
                text("team.passphrase_file"),
                || Ok(None),
                parse_file,
                format_path,
            )?,
        })
    }
}
