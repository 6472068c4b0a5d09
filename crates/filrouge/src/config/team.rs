//! The section `[team]`: teams at a terminal (DESIGN §11).

use std::path::PathBuf;

use super::layers::{Form, Layers, NONE, home};
use crate::exit::Usage;

/// Where the sessions of teams are stored as snapshot files, in addition to the ledger.
#[derive(Debug, Clone)]
pub(crate) struct TeamConfig {
    /// The folder of snapshot files; `None` if no snapshot files are written.
    pub(crate) snapshots_dir: Option<PathBuf>,
    /// The file whose first line is the passphrase that encrypts snapshot files.
    pub(crate) passphrase_file: Option<PathBuf>,
}

fn file(text: &str) -> Result<Option<PathBuf>, String> {
    Ok(Some(PathBuf::from(text)).filter(|_| text != NONE))
}

fn folder(text: &str) -> Result<Option<PathBuf>, String> {
    match file(text)? {
        Some(path) if !path.is_absolute() => Err(format!("{text:?} is no absolute path")),
        path => Ok(path),
    }
}

/// The default folder. Other programs that read such files use the same folder.
fn default_folder() -> Result<Option<PathBuf>, Usage> {
    Ok(home().map(|home| home.join(".agent-chatter/sessions")))
}

fn shown(path: &Option<PathBuf>) -> String {
    let path = path.as_ref();
    path.map_or_else(|| NONE.to_owned(), |path| path.display().to_string())
}

impl TeamConfig {
    pub(super) fn read(layers: &mut Layers<'_>) -> Result<Self, Usage> {
        let text = |name| (name, Form::Text);
        Ok(Self {
            snapshots_dir: layers.read(
                text("team.snapshots_dir"),
                default_folder,
                folder,
                shown,
            )?,
            passphrase_file: layers.read(text("team.passphrase_file"), || Ok(None), file, shown)?,
        })
    }
}
