//! The section `[search]`: indexes, and what makes vectors of texts for search by meaning (DESIGN §10).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filrouge_search::embed::{Embedder, Http, HttpSettings, Key};

use super::layers::{Form, Layers, filled, shown_or_none, within, xdg};
use super::secret::SecretSource;
use crate::exit::Usage;

filrouge_types::words!(
    /// What makes vectors.
    pub(crate) enum EmbedderKind: "embedder" {
        /// Nothing: search is by words alone.
        None => "none",
        /// The model that `filrouge models install` installs.
        MiniLm => "minilm",
        /// A service.
        Http => "http",
    }
);

/// Indexes of what is searched.
#[derive(Debug, Clone)]
pub(crate) struct IndexConfig {
    /// Whether they are used and kept in step.
    pub(crate) on: bool,
    /// The folder of those of foreign histories.
    pub(crate) dir: PathBuf,
}

/// The section `[search]`.
#[derive(Debug, Clone)]
pub(crate) struct SearchConfig {
    pub(crate) index: IndexConfig,
    pub(crate) kind: EmbedderKind,
    /// Where the model's files are.
    pub(crate) folder: PathBuf,
    url: Option<String>,
    model: Option<String>,
    dimensions: Option<u64>,
    key_file: Option<String>,
    key_env: Option<String>,
    timeout: Duration,
}

/// Longer than any model takes for a batch.
const TIMEOUT_MOST: u64 = 300_000;
/// More than any model has.
const DIMENSIONS_MOST: u64 = 8_192;

/// What is shown: nothing that could hold a key.
fn address(text: &str) -> Result<String, String> {
    if text.contains(['@', '?', '#']) {
        return Err(
            "the address of a service, without a name, a password or anything behind its path"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

fn absolute(text: &str) -> Result<PathBuf, String> {
    match PathBuf::from(text) {
        path if path.is_absolute() => Ok(path),
        _ => Err(format!("{text:?} is no absolute path")),
    }
}

impl IndexConfig {
    fn read(layers: &mut Layers<'_>) -> Result<Self, Usage> {
        let own = || Ok(xdg("XDG_CACHE_HOME", ".cache")?.join("index"));
        let shown = |path: &PathBuf| path.display().to_string();
        Ok(Self {
            on: layers.truth("search.index", true)?,
            dir: layers.read(("search.index_dir", Form::Text), own, absolute, shown)?,
        })
    }
}

impl SearchConfig {
    pub(super) fn read(layers: &mut Layers<'_>) -> Result<Self, Usage> {
        let own = || Ok(xdg("XDG_DATA_HOME", ".local/share")?.join("models/minilm"));
        let usual = Duration::from_secs(30);
        Ok(Self {
            index: IndexConfig::read(layers)?,
            kind: layers.text("search.embedder.kind", || Ok(EmbedderKind::None))?,
            folder: layers.read(
                ("search.embedder.folder", Form::Beside),
                own,
                |text| Ok(text.into()),
                |path: &PathBuf| path.display().to_string(),
            )?,
            url: layers.optional("search.embedder.url", address)?,
            model: layers.optional("search.embedder.model", filled)?,
            dimensions: layers.read(
                ("search.embedder.dimensions", Form::Number),
                || Ok(None),
                |text| within(&(1..=DIMENSIONS_MOST), text).map(Some),
                |number| shown_or_none(number.as_ref()),
            )?,
            key_file: layers.read(
                ("search.embedder.key_file", Form::Beside),
                || Ok(None),
                |text| filled(text).map(Some),
                |path| shown_or_none(path.as_ref()),
            )?,
            key_env: layers.optional("search.embedder.key_env", filled)?,
            timeout: layers.millis("search.embedder.timeout_ms", 1..=TIMEOUT_MOST, usual)?,
        })
    }

    /// The embedder that is set; `None` for none. Reads the model's files, or the key; asks no service yet. Must be
    /// called on the runtime, which its calls wait for.
    ///
    /// # Errors
    /// [`Usage`] for what is missing in the settings; else what cannot be read, and why.
    pub(crate) fn embedder(&self) -> anyhow::Result<Option<Arc<dyn Embedder>>> {
        match self.kind {
            EmbedderKind::None => Ok(None),
            EmbedderKind::MiniLm => minilm(&self.folder).map(Some),
            EmbedderKind::Http => Ok(Some(Arc::new(self.service()?))),
        }
    }

    fn service(&self) -> anyhow::Result<Http> {
        let (Some(url), Some(model), Some(dimensions)) =
            (self.url.clone(), self.model.clone(), self.dimensions)
        else {
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
            timeout: self.timeout,
        };
        let wrong = |e| Usage::new(format!("search.embedder: {e}"));
        Ok(Http::new(settings, tokio::runtime::Handle::current()).map_err(wrong)?)
    }

    fn key(&self) -> Result<Option<Key>, Usage> {
        let place = match (&self.key_file, &self.key_env) {
            (None, None) => return Ok(None),
            (Some(path), None) => SecretSource::File(path.into()),
            (None, Some(name)) => SecretSource::Environment(name.clone()),
            (Some(_), Some(_)) => {
                let what = "search.embedder: it takes one of key_file and key_env";
                return Err(Usage::new(what));
            }
        };
        let wrong = |e: String| Usage::new(format!("search.embedder: the key: {e}"));
        let key = place.read().map_err(wrong)?;
        let key = Key::new(&key).map_err(|e| wrong(format!("{place}: {e}")))?;
        Ok(Some(key))
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
