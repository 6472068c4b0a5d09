//! The setting `search.engine` and the section `[search.opensearch]`: what has the ledger's search index (DESIGN §10).

use std::time::Duration;

use filrouge_opensearch::client::{Credentials, Endpoint};
use filrouge_opensearch::text_index::{IndexSettings, is_prefix};

use super::layers::{Layers, ValueType, format_or_none, non_empty};
use super::search::parse_url;
use super::secret::SecretSource;
use crate::exit::{Result, Usage};

filrouge_types::words!(
    /// What has the ledger's search index.
    pub(crate) enum SearchEngine: "search engine" {
        /// filrouge itself: a file next to an SQLite store, tables in a PostgreSQL store.
        Embedded => "embedded",
        /// OpenSearch.
        OpenSearch => "opensearch",
    }
);

/// The search index in OpenSearch.
#[derive(Debug, Clone)]
pub(crate) struct OpenSearchConfig {
    engine: SearchEngine,
    url: Option<String>,
    user: Option<String>,
    password_file: Option<String>,
    password_env: Option<String>,
    prefix: String,
    ca_file: Option<String>,
    timeout: Duration,
}

/// The maximum timeout in milliseconds.
const TIMEOUT_MAX: u64 = 300_000;

fn parse_prefix(text: &str) -> Result<String, String> {
    match is_prefix(text) {
        true => Ok(text.to_owned()),
        false => Err(
            "1 to 100 characters of a-z, 0-9, - and _, of which the first is a letter".to_owned(),
        ),
    }
}

impl OpenSearchConfig {
    pub(super) fn read(layers: &mut Layers<'_>) -> Result<Self> {
        let mut file = |name: &'static str| {
            layers.read(
                (name, ValueType::FilePath),
                || Ok(None),
                |text| non_empty(text).map(Some),
                format_or_none,
            )
        };
        let password_file = file("search.opensearch.password_file")?;
        let ca_file = file("search.opensearch.ca_file")?;
        Ok(Self {
            engine: layers.text("search.engine", || Ok(SearchEngine::Embedded))?,
            url: layers.optional("search.opensearch.url", parse_url)?,
            user: layers.optional("search.opensearch.user", non_empty)?,
            password_file,
            password_env: layers.optional("search.opensearch.password_env", non_empty)?,
            prefix: layers.read(
                ("search.opensearch.prefix", ValueType::Text),
                || Ok("filrouge".to_owned()),
                parse_prefix,
                String::clone,
            )?,
            ca_file,
            timeout: layers.millis(
                "search.opensearch.timeout_ms",
                1..=TIMEOUT_MAX,
                Duration::from_secs(20),
            )?,
        })
    }

    /// Where the index is, for messages; `None` unless OpenSearch has it.
    pub(crate) fn location(&self) -> Option<String> {
        let url = self.url.as_deref().unwrap_or_default();
        let is_used = self.engine == SearchEngine::OpenSearch;
        is_used.then(|| format!("{}/{}-documents", url.trim_end_matches('/'), self.prefix))
    }

    /// The settings of the index; `None` unless OpenSearch has it. Reads the password and the certificates.
    ///
    /// # Errors
    /// [`Usage`] for missing settings, and for files and variables that cannot be read.
    pub(crate) fn index_settings(&self) -> Result<Option<IndexSettings>> {
        if self.engine != SearchEngine::OpenSearch {
            return Ok(None);
        }
        let url = self.url.clone().ok_or_else(|| {
            Usage::new("search.opensearch: for the engine \"opensearch\" it needs url")
        })?;
        let read_authorities = |path: &String| {
            let read = std::fs::read(path);
            read.map_err(|e| Usage::new(format!("search.opensearch.ca_file: {path}: {e}")))
        };
        Ok(Some(IndexSettings {
            endpoint: Endpoint {
                url,
                credentials: self.credentials()?,
                timeout: self.timeout,
            },
            authorities: self.ca_file.as_ref().map(read_authorities).transpose()?,
            prefix: self.prefix.clone(),
        }))
    }

    fn credentials(&self) -> Result<Credentials> {
        let source = match (&self.password_file, &self.password_env) {
            (None, None) => None,
            (Some(path), None) => Some(SecretSource::File(path.into())),
            (None, Some(name)) => Some(SecretSource::Environment(name.clone())),
            (Some(_), Some(_)) => {
                let detail = "search.opensearch: set only one of password_file and password_env";
                return Err(Usage::new(detail));
            }
        };
        match (&self.user, source) {
            (None, None) => Ok(Credentials::Anonymous),
            (Some(user), Some(source)) => {
                let password = source.read();
                let to_usage = |e| Usage::new(format!("search.opensearch: the password: {e}"));
                Ok(Credentials::Password {
                    user: user.clone(),
                    password: password.map_err(to_usage)?.trim().to_owned(),
                })
            }
            _ => Err(Usage::new(
                "search.opensearch: a user needs password_file or password_env, and a password needs user",
            )),
        }
    }
}
