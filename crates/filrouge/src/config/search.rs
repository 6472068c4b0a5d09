//! The section `[search.embedder]`: what makes vectors of texts, for search by meaning (DESIGN §10).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filrouge_search::embed::{Embedder, Http, HttpSettings, Key};
use serde::Deserialize;

use super::{IndexConfig, Layers, Setting, xdg};
use crate::exit::Usage;

/// The section in the file; unknown members are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchFile {
    index: Option<bool>,
    index_dir: Option<String>,
    #[serde(default)]
    embedder: EmbedderFile,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbedderFile {
    kind: Option<String>,
    folder: Option<String>,
    url: Option<String>,
    model: Option<String>,
    dimensions: Option<u64>,
    key_file: Option<String>,
    key_env: Option<String>,
    timeout_ms: Option<u64>,
}

/// What makes vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmbedderKind {
    /// Nothing: search is by words alone.
    None,
    /// The model that `filrouge models install` installs.
    MiniLm,
    /// A service.
    Http,
}

impl EmbedderKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::MiniLm => "minilm",
            Self::Http => "http",
        }
    }

    fn read(text: &str) -> Result<Self, String> {
        let mut all = [Self::None, Self::MiniLm, Self::Http].into_iter();
        all.find(|kind| kind.name() == text)
            .ok_or_else(|| format!("{text:?} is no embedder; known: none, minilm, http"))
    }
}

/// All of them, each with where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct SearchConfig {
    pub(crate) index: IndexConfig,
    pub(crate) kind: Setting<EmbedderKind>,
    /// Where the model's files are.
    pub(crate) folder: Setting<PathBuf>,
    url: Setting<Option<String>>,
    model: Setting<Option<String>>,
    dimensions: Setting<Option<u64>>,
    key_file: Setting<Option<PathBuf>>,
    key_env: Setting<Option<String>>,
    timeout_ms: Setting<u64>,
}

/// Longer than any model takes for a batch.
const TIMEOUT_MOST: u64 = 300_000;
/// More than any model has.
const DIMENSIONS_MOST: u64 = 8_192;

fn within(name: &str, most: u64, text: &str) -> Result<u64, String> {
    let number = text.parse().ok();
    let within = number.filter(|number| (1..=most).contains(number));
    within.ok_or_else(|| {
        format!("search.embedder.{name}: {text:?} is no whole number from 1 to {most}")
    })
}

/// What is shown: nothing that could hold a key.
fn address(text: &str) -> Result<Option<String>, String> {
    if text.contains(['@', '?', '#']) {
        return Err(
            "search.embedder.url: the address of a service, without a name, a password or anything behind its path"
                .to_owned(),
        );
    }
    Ok(Some(text.to_owned()))
}

impl SearchConfig {
    /// `folder` is where the file is.
    pub(super) fn read(
        layers: &Layers<'_>,
        file: SearchFile,
        folder: &Path,
    ) -> Result<Self, Usage> {
        let index = IndexConfig::read(layers, file.index, file.index_dir)?;
        let file = file.embedder;
        let text = |number: Option<u64>| number.map(|n| n.to_string());
        let some = |t: &str| Ok(Some(t.to_owned()));
        let beside = |t: String| folder.join(t).to_string_lossy().into_owned();
        Ok(Self {
            index,
            kind: layers.pick(
                None,
                "FILROUGE_EMBEDDER",
                file.kind,
                || Ok(EmbedderKind::None),
                EmbedderKind::read,
            )?,
            folder: layers.pick(
                None,
                "FILROUGE_EMBEDDER_FOLDER",
                file.folder.map(beside),
                || Ok(xdg("XDG_DATA_HOME", ".local/share")?.join("models/minilm")),
                |t| Ok(PathBuf::from(t)),
            )?,
            url: layers.pick(
                None,
                "FILROUGE_EMBEDDER_URL",
                file.url,
                || Ok(None),
                address,
            )?,
            model: layers.pick(
                None,
                "FILROUGE_EMBEDDER_MODEL",
                file.model,
                || Ok(None),
                some,
            )?,
            dimensions: layers.pick(
                None,
                "FILROUGE_EMBEDDER_DIMENSIONS",
                text(file.dimensions),
                || Ok(None),
                |t| within("dimensions", DIMENSIONS_MOST, t).map(Some),
            )?,
            key_file: layers.pick(
                None,
                "FILROUGE_EMBEDDER_KEY_FILE",
                file.key_file.map(beside),
                || Ok(None),
                |t| Ok(Some(PathBuf::from(t))),
            )?,
            key_env: layers.pick(
                None,
                "FILROUGE_EMBEDDER_KEY_ENV",
                file.key_env,
                || Ok(None),
                some,
            )?,
            timeout_ms: layers.pick(
                None,
                "FILROUGE_EMBEDDER_TIMEOUT_MS",
                text(file.timeout_ms),
                || Ok(30_000),
                |t| within("timeout_ms", TIMEOUT_MOST, t),
            )?,
        })
    }

    /// The embedder that is set; `None` for none. Reads the model's files, or the key; asks no service yet. Must be
    /// called on the runtime, which its calls wait for.
    ///
    /// # Errors
    /// [`Usage`] for what is missing in the settings; else what cannot be read, and why.
    pub(crate) fn embedder(&self) -> anyhow::Result<Option<Arc<dyn Embedder>>> {
        match self.kind.value {
            EmbedderKind::None => Ok(None),
            EmbedderKind::MiniLm => minilm(&self.folder.value).map(Some),
            EmbedderKind::Http => Ok(Some(Arc::new(self.service()?))),
        }
    }

    fn service(&self) -> anyhow::Result<Http> {
        let (Some(url), Some(model), Some(dimensions)) = (
            self.url.value.clone(),
            self.model.value.clone(),
            self.dimensions.value,
        ) else {
            return Err(Usage::new(
                "search.embedder: for kind \"http\" it needs url, model and dimensions",
            )
            .into());
        };
        let settings = HttpSettings {
            url,
            model,
            dimensions: usize::try_from(dimensions)?,
            key: self.key()?,
            timeout: Duration::from_millis(self.timeout_ms.value),
        };
        let wrong = |e| Usage::new(format!("search.embedder: {e}"));
        Ok(Http::new(settings, tokio::runtime::Handle::current()).map_err(wrong)?)
    }

    fn key(&self) -> Result<Option<Key>, Usage> {
        let (place, read) = match (&self.key_file.value, &self.key_env.value) {
            (None, None) => return Ok(None),
            (Some(path), None) => {
                let read = std::fs::read_to_string(path).map_err(|e| e.to_string());
                (path.display().to_string(), read)
            }
            (None, Some(name)) => {
                let read = std::env::var(name);
                let read = read.map_err(|_| "it is not set, or not UTF-8".to_owned());
                (name.clone(), read)
            }
            (Some(_), Some(_)) => {
                let what = "search.embedder: it takes one of key_file and key_env";
                return Err(Usage::new(what));
            }
        };
        let wrong = |e: String| Usage::new(format!("search.embedder: the key in {place}: {e}"));
        let key = read.map_err(wrong)?;
        Key::new(&key).map(Some).map_err(|e| wrong(e.to_string()))
    }

    /// Names, values and origins, as `config show` tells them.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String, String)> {
        fn row<T>(
            name: &'static str,
            setting: &Setting<Option<T>>,
            shown: impl Fn(&T) -> String,
        ) -> (&'static str, String, String) {
            let value = setting.value.as_ref();
            let value = value.map_or_else(|| "none".to_owned(), shown);
            (name, value, setting.origin.to_string())
        }
        vec![
            (
                "search.embedder.kind",
                self.kind.value.name().to_owned(),
                self.kind.origin.to_string(),
            ),
            (
                "search.embedder.folder",
                self.folder.value.display().to_string(),
                self.folder.origin.to_string(),
            ),
            row("search.embedder.url", &self.url, String::clone),
            row("search.embedder.model", &self.model, String::clone),
            row(
                "search.embedder.dimensions",
                &self.dimensions,
                u64::to_string,
            ),
            row("search.embedder.key_file", &self.key_file, |path| {
                path.display().to_string()
            }),
            row("search.embedder.key_env", &self.key_env, String::clone),
            (
                "search.embedder.timeout_ms",
                self.timeout_ms.value.to_string(),
                self.timeout_ms.origin.to_string(),
            ),
        ]
    }
}

#[cfg(feature = "minilm")]
fn minilm(folder: &Path) -> anyhow::Result<Arc<dyn Embedder>> {
    Ok(Arc::new(filrouge_search::embed::MiniLm::open(folder)?))
}

#[cfg(not(feature = "minilm"))]
fn minilm(_: &Path) -> anyhow::Result<Arc<dyn Embedder>> {
    let what = "search.embedder: this filrouge was built without the feature minilm";
    Err(Usage::new(what)
        .with_hint("cargo install --path crates/filrouge --features minilm")
        .into())
}
