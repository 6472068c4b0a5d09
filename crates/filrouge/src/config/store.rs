//! Which ledger.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use filrouge_postgres::Options;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::Failure;

/// Which ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    Sqlite(PathBuf),
    Postgres(PostgresUrl),
    Memory,
}

/// A PostgreSQL URL, which may hold a password: shown without it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PostgresUrl(String);

impl PostgresUrl {
    /// The URL as it was given, for connecting.
    pub(crate) fn as_given(&self) -> &str {
        &self.0
    }

    /// What a ledger there is opened with. A URL without a password gets the one in `FILROUGE_STORE_PASSWORD`, else in
    /// `PGPASSWORD`.
    ///
    /// # Errors
    /// `invalid` when it is no such URL.
    pub(crate) fn options(&self, keyring: Arc<Keyring>) -> Result<Options, Failure> {
        let options = Options::new(&self.0, keyring, Arc::new(OsEntropy))?;
        Ok(match password() {
            Some(password) => options.with_password(&password),
            None => options,
        })
    }
}

fn password() -> Option<String> {
    let variables = ["FILROUGE_STORE_PASSWORD", "PGPASSWORD"];
    let mut set = variables.iter().filter_map(|name| env::var(name).ok());
    set.find(|password| !password.is_empty())
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&filrouge_postgres::redacted(&self.0))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
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

impl std::str::FromStr for PostgresUrl {
    type Err = String;

    /// Takes what begins like such a URL.
    fn from_str(text: &str) -> Result<Self, String> {
        let known = ["postgres://", "postgresql://"];
        if known.iter().any(|scheme| text.starts_with(scheme)) {
            return Ok(Self(text.to_owned()));
        }
        Err("not a URL of the form postgres://user@host:5432/database".to_owned())
    }
}

impl std::str::FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("postgres" | "postgresql", _)) => text
                .parse()
                .map(Self::Postgres)
                .map_err(|e| format!("{e}; see docs/postgresql.md")),
            // What is no store may still hold a password.
            _ => {
                let kind = text.split_once(':').map_or(text, |(kind, _)| kind);
                Err(format!(
                    "{kind:?} is no kind of store; known: sqlite:PATH, postgres://user@host/database, memory:"
                ))
            }
        }
    }
}
