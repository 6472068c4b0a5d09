//! The URL of the ledger's store.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use filrouge_postgres::{Options, default_lanes};
use filrouge_store::{Keyring, Lanes, OsEntropy};
use filrouge_types::Failure;

use super::layers::{Layers, ValueType, parse_within};
use crate::exit::Usage;

/// The store of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    Sqlite(PathBuf),
    Postgres(HiddenUrl),
    Memory,
}

/// A URL that may contain a password. It is shown without the password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HiddenUrl {
    full: String,
    masked: String,
}

impl HiddenUrl {
    pub(crate) fn new(full: &str, redacted: fn(&str) -> String) -> Self {
        Self {
            full: full.to_owned(),
            masked: redacted(full),
        }
    }

    /// The unmasked URL, for connecting.
    pub(crate) fn unmasked(&self) -> &str {
        &self.full
    }

    /// The options that open a ledger in PostgreSQL. A URL without a password gets the password in
    /// `FILROUGE_STORE_PASSWORD`, or else in `PGPASSWORD`.
    ///
    /// # Errors
    /// `invalid` when the URL is malformed.
    pub(crate) fn options(&self, keyring: Arc<Keyring>) -> Result<Options, Failure> {
        let options = Options::new(&self.full, keyring, Arc::new(OsEntropy))?;
        Ok(match password() {
            Some(password) => options.with_password(&password),
            None => options,
        })
    }

    /// As [`Self::options`], for reading what no key protects.
    ///
    /// # Errors
    /// As [`Self::options`].
    pub(crate) fn options_without_keyring(&self) -> Result<Options, Failure> {
        self.options(Arc::new(Keyring::single([0; 32])))
    }
}

impl fmt::Display for HiddenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked)
    }
}

impl fmt::Debug for HiddenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked)
    }
}

/// Parses a PostgreSQL URL. Checks only its scheme; [`HiddenUrl::options`] checks the rest.
pub(super) fn parse_postgres_url(text: &str) -> Result<HiddenUrl, String> {
    let schemes = ["postgres://", "postgresql://"];
    if schemes.iter().any(|scheme| text.starts_with(scheme)) {
        return Ok(HiddenUrl::new(text, filrouge_postgres::redacted));
    }
    Err("not a URL of the form postgres://user@host:5432/database".to_owned())
}

/// Reads the number of lanes of a new PostgreSQL store.
pub(super) fn read_lanes(layers: &mut Layers<'_>) -> Result<Lanes, Usage> {
    let read = |text: &str| {
        let count = parse_within(&(1..=u64::from(Lanes::MAX)), text)?;
        let lanes = u16::try_from(count).ok().and_then(Lanes::new);
        lanes.ok_or_else(|| format!("{text:?} is no number of lanes"))
    };
    let setting = ("lanes", ValueType::Number);
    layers.read(setting, || Ok(default_lanes()), read, Lanes::to_string)
}

/// Reads whether a new PostgreSQL store is distributed.
pub(super) fn read_distribute(layers: &mut Layers<'_>) -> Result<bool, Usage> {
    let read = |text: &str| match text {
        "off" => Ok(false),
        "citus" => Ok(true),
        _ => Err(format!("{text:?} is neither off nor citus")),
    };
    let display = |distribute: &bool| if *distribute { "citus" } else { "off" }.to_owned();
    let setting = ("distribute", ValueType::Text);
    layers.read(setting, || Ok(false), read, display)
}

fn password() -> Option<String> {
    let variables = ["FILROUGE_STORE_PASSWORD", "PGPASSWORD"];
    let mut values = variables.iter().filter_map(|name| env::var(name).ok());
    values.find(|password| !password.is_empty())
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
            Self::Memory => f.write_str("memory:"),
        }
    }
}

impl std::str::FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("postgres" | "postgresql", _)) => parse_postgres_url(text)
                .map(Self::Postgres)
                .map_err(|e| format!("{e}; see docs/postgresql.md")),
            // Only the text before the first colon is quoted, because even a malformed URL may contain a password.
            _ => {
                let kind = text.split_once(':').map_or(text, |(kind, _)| kind);
                Err(format!(
                    "{kind:?} is no kind of store; known: sqlite:PATH, postgres://user@host/database, memory:"
                ))
            }
        }
    }
}
