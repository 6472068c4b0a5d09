//! Settings of the section `[search]` about indexes (DESIGN §10)

use std::path::PathBuf;

use super::{Layers, Setting, xdg};
use crate::exit::Usage;

/// Indexes of what is searched.
#[derive(Debug, Clone)]
pub(crate) struct IndexConfig {
    /// Whether they are used and kept in step.
    pub(crate) on: Setting<bool>,
    /// The folder of those of foreign histories.
    pub(crate) dir: Setting<PathBuf>,
}

fn truth(text: &str) -> Result<bool, String> {
    text.parse()
        .map_err(|_| format!("search.index: {text:?} is neither true nor false"))
}

fn folder(text: &str) -> Result<PathBuf, String> {
    match PathBuf::from(text) {
        path if path.is_absolute() => Ok(path),
        _ => Err(format!("search.index_dir: {text:?} is no absolute path")),
    }
}

impl IndexConfig {
    pub(super) fn read(
        layers: &Layers<'_>,
        on: Option<bool>,
        dir: Option<String>,
    ) -> Result<Self, Usage> {
        let on = on.map(|on| on.to_string());
        let own = || Ok(xdg("XDG_CACHE_HOME", ".cache")?.join("index"));
        Ok(Self {
            on: layers.pick(None, "FILROUGE_SEARCH_INDEX", on, || Ok(true), truth)?,
            dir: layers.pick(None, "FILROUGE_SEARCH_INDEX_DIR", dir, own, folder)?,
        })
    }

    /// Names, values and origins, as `config show` tells them.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String, String)> {
        let (on, dir) = (&self.on, &self.dir);
        vec![
            ("search.index", on.value.to_string(), on.origin.to_string()),
            (
                "search.index_dir",
                dir.value.display().to_string(),
                dir.origin.to_string(),
            ),
        ]
    }
}
