//! The section `[search]`: indexes, and the embedder for search by meaning (DESIGN §10).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filrouge_search::embed::{Embedder, Http, HttpSettings, Key};

use super::layers::{
    DISPLAY_PATH, Layers, ValueType, format_or_none, non_empty, parse_within, xdg_folder,
};
use super::opensearch::OpenSearchConfig;
use super::secret::SecretSource;
use crate::exit::{Result, Usage};

filrouge_types::words!(
    /// The kind of the embedder, which computes vectors.
    pub(crate) enum EmbedderKind: "embedder" {
        /// No embedder: search matches words only.
        None => "none",
        /// The model that `filrouge models install` installs.
        MiniLm => "minilm",
        /// A service that is called over HTTP.
        Http => "http",
    }
);

/// The search indexes.
#[derive(Debug, Clone)]
pub(crate) struct IndexConfig {
    /// Whether indexes are used and kept up to date.
    pub(crate) enabled: bool,
    /// The folder of the indexes of other programs' histories.
    pub(crate) dir: PathBuf,
}

/// The section `[search]`.
#[derive(Debug, Clone)]
pub(crate) struct SearchConfig {
    pub(crate) index: IndexConfig,
    pub(crate) opensearch: OpenSearchConfig,
    pub(crate) kind: EmbedderKind,
    /// The folder of the model's files.
    pub(crate) folder: PathBuf,
    url: Option<String>,
    model: Option<String>,
    dimensions: Option<u64>,
    key_file: Option<String>,
    key_env: Option<String>,
    timeout: Duration,
}

/// The maximum timeout in milliseconds; no model needs more time for a batch of texts.
const TIMEOUT_MAX: u64 = 300_000;
/// The maximum number of dimensions; no model has more.
const DIMENSIONS_MAX: u64 = 8_192;

/// Parses the URL of a service. A URL that could contain a credential is refused, because settings are shown.
pub(super) fn parse_url(text: &str) -> Result<String, String> {
    if text.contains(['@', '?', '#']) {
        return Err(
            "the address of a service, without a name, a password or anything after its path"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

fn parse_absolute(text: &str) -> Result<PathBuf, String> {
    match PathBuf::from(text) {
        path if path.is_absolute() => Ok(path),
        _ => Err(format!("{text:?} is no absolute path")),
    }
}

impl SearchConfig {
    pub(super) fn read(layers: &mut Layers<'_>) -> Result<Self> {
        let default_dir = || Ok(xdg_folder("XDG_CACHE_HOME", ".cache")?.join("index"));
        let default_folder =
            || Ok(xdg_folder("XDG_DATA_HOME", ".local/share")?.join("models/minilm"));
        let default_timeout = Duration::from_secs(30);
        Ok(Self {
            index: IndexConfig {
                enabled: layers.boolean("search.index", true)?,
                dir: layers.read(
                    ("search.index_dir", ValueType::Text),
                    default_dir,
                    parse_absolute,
                    DISPLAY_PATH,
                )?,
            },
            opensearch: OpenSearchConfig::read(layers)?,
            kind: layers.text("search.embedder.kind", || Ok(EmbedderKind::None))?,
            folder: layers.read(
                ("search.embedder.folder", ValueType::FilePath),
                default_folder,
                |text| Ok(text.into()),
                DISPLAY_PATH,
            )?,
            url: layers.optional("search.embedder.url", parse_url)?,
            model: layers.optional("search.embedder.model", non_empty)?,
            dimensions: layers.read(
                ("search.embedder.dimensions", ValueType::Number),
                || Ok(None),
                |text| parse_within(&(1..=DIMENSIONS_MAX), text).map(Some),
                format_or_none,
            )?,
            key_file: layers.read(
                ("search.embedder.key_file", ValueType::FilePath),
                || Ok(None),
                |text| non_empty(text).map(Some),
                format_or_none,
            )?,
            key_env: layers.optional("search.embedder.key_env", non_empty)?,
            timeout: layers.millis(
                "search.embedder.timeout_ms",
                1..=TIMEOUT_MAX,
                default_timeout,
            )?,
        })
    }

    /// Opens the configured embedder; `None` if none is configured. Reads the model's files, or the key of the service,
    /// and sends no request yet. Must be called within the Tokio runtime, which later sends the embedder's requests.
    ///
    /// # Errors
    /// [`Usage`] for missing settings; the cause for a file or a key that cannot be read.
    pub(crate) fn embedder(&self) -> anyhow::Result<Option<Arc<dyn Embedder>>> {
        match self.kind {
            EmbedderKind::None => Ok(None),
            EmbedderKind::MiniLm => minilm(&self.folder).map(Some),
            EmbedderKind::Http => Ok(Some(Arc::new(self.http_embedder()?))),
        }
    }

    fn http_embedder(&self) -> anyhow::Result<Http> {
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
            key: self.service_key()?,
            timeout: self.timeout,
        };
        let to_usage = |e| Usage::new(format!("search.embedder: {e}"));
        Ok(Http::new(settings, tokio::runtime::Handle::current()).map_err(to_usage)?)
    }

    fn service_key(&self) -> Result<Option<Key>> {
        let source = match (&self.key_file, &self.key_env) {
            (None, None) => return Ok(None),
            (Some(path), None) => SecretSource::File(path.into()),
            (None, Some(name)) => SecretSource::Environment(name.clone()),
            (Some(_), Some(_)) => {
                let detail = "search.embedder: set only one of key_file and key_env";
                return Err(Usage::new(detail));
            }
        };
        let to_usage = |e: String| Usage::new(format!("search.embedder: the key: {e}"));
        let key = source.read().map_err(to_usage)?;
        let key = Key::new(&key).map_err(|e| to_usage(format!("{source}: {e}")))?;
        Ok(Some(key))
    }
}

#[cfg(feature = "minilm")]
fn minilm(folder: &Path) -> anyhow::Result<Arc<dyn Embedder>> {
    Ok(Arc::new(filrouge_search::embed::MiniLm::open(folder)?))
}

#[cfg(not(feature = "minilm"))]
fn minilm(_: &Path) -> anyhow::Result<Arc<dyn Embedder>> {
    let detail = "search.embedder: this filrouge was built without the feature minilm";
    Err(Usage::new(detail)
        .with_hint("cargo install --path crates/filrouge --features minilm")
        .into())
}
