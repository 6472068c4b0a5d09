//! The kinds of targets.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filrouge_types::Failure;

use crate::http::{Credentials, Endpoint};
use crate::opensearch::{OpenSearch, OpenSearchSettings};
use crate::tables::{Tables, TablesSettings};
use crate::target::{Target, TargetError};
use crate::vectors::Vectors;
use crate::weaviate::{Weaviate, WeaviateSettings};

/// How a target is reached, as a projection's settings say.
#[derive(Clone)]
pub struct TargetSettings {
    /// The address.
    pub url: String,
    /// The user, if the target asks for one.
    pub user: Option<String>,
    /// The user's password, or without a user a key.
    pub secret: Option<String>,
    /// What the names of the projection's indexes or collections begin with; for tables in PostgreSQL the schema.
    pub prefix: String,
    /// How long one call may take.
    pub timeout: Duration,
    /// What computes vectors; `None` stores none.
    pub vectors: Option<Arc<dyn Vectors>>,
    /// What only the kind `tables` has.
    pub tables: TablesSettings,
}

/// A kind of targets.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// The kind's name in the settings.
    pub name: &'static str,
    /// The version of the rows that it makes. A projection with rows of another version is rebuilt.
    pub version: u32,
    /// The settings that some kinds do not have, and this one has.
    pub settings: &'static [&'static str],
    /// Prepares a target, which may be away. Fails with a text if the settings are wrong.
    pub open: fn(&TargetSettings) -> Result<Arc<dyn Target>, String>,
}

/// All kinds.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "opensearch",
        version: 2,
        settings: &["user", "vectors"],
        open: opensearch,
    },
    Kind {
        name: "weaviate",
        version: 3,
        settings: &["user", "vectors"],
        open: weaviate,
    },
    Kind {
        name: "tables",
        version: 2,
        settings: &["tenant_ids", "reporting_role"],
        open: tables,
    },
];

impl TargetSettings {
    /// The address and the credentials of a target that speaks HTTP. Without a user, the secret is a key.
    fn endpoint(&self, key: fn(String) -> Credentials) -> Endpoint {
        let secret = self.secret.clone();
        let credentials = match self.user.clone() {
            Some(user) => Credentials::Password {
                user,
                password: secret.unwrap_or_default(),
            },
            None => secret.map_or(Credentials::Anonymous, key),
        };
        Endpoint {
            url: self.url.clone(),
            credentials,
            timeout: self.timeout,
        }
    }
}

fn opensearch(settings: &TargetSettings) -> Result<Arc<dyn Target>, String> {
    opened(OpenSearch::new(OpenSearchSettings {
        endpoint: settings.endpoint(Credentials::ApiKey),
        prefix: settings.prefix.clone(),
        vectors: settings.vectors.clone(),
    }))
}

fn weaviate(settings: &TargetSettings) -> Result<Arc<dyn Target>, String> {
    // Names of collections begin with an upper-case letter.
    let mut letters = settings.prefix.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let prefix = first.into_iter().chain(letters).collect();
    opened(Weaviate::new(WeaviateSettings {
        endpoint: settings.endpoint(Credentials::Bearer),
        prefix,
        vectors: settings.vectors.clone(),
    }))
}

fn tables(settings: &TargetSettings) -> Result<Arc<dyn Target>, String> {
    let own = settings.tables.clone();
    let tables = match settings.url.split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => {
            if settings.secret.is_some() || own.reporting_role.is_some() {
                return Err("a SQLite file has neither a secret nor a reporting_role".to_owned());
            }
            Tables::sqlite(Path::new(path), own)
        }
        Some(("postgres" | "postgresql", _)) => {
            let password = settings.secret.as_deref();
            Tables::postgres(&settings.url, password, &settings.prefix, own)
        }
        // Nothing of it is quoted, because even a malformed URL may contain a password.
        _ => {
            let message = "the url is neither sqlite:PATH nor postgres://user@host/database";
            return Err(message.to_owned());
        }
    };
    match tables {
        Ok(tables) => Ok(Arc::new(tables)),
        Err(Failure { detail, hint, .. }) => Err(match hint {
            Some(hint) => format!("{detail}; {hint}"),
            None => detail,
        }),
    }
}

fn opened<T: Target + 'static>(target: Result<T, TargetError>) -> Result<Arc<dyn Target>, String> {
    match target {
        Ok(target) => Ok(Arc::new(target)),
        Err(error) => Err(error.to_string()),
    }
}

impl Kind {
    /// The kind with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// The beginning of [`crate::Projection::structure`].
    #[must_use]
    pub fn structure(&self) -> String {
        format!("{}/{}", self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(kind: &str, url: &str, secret: Option<&str>) -> Result<Arc<dyn Target>, String> {
        let kind = Kind::named(kind).unwrap();
        (kind.open)(&TargetSettings {
            url: url.to_owned(),
            user: None,
            secret: secret.map(str::to_owned),
            prefix: "filrouge_copy".to_owned(),
            timeout: Duration::from_secs(1),
            vectors: None,
            tables: TablesSettings::default(),
        })
    }

    #[test]
    fn opening_contacts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tables.db");
        let file = format!("sqlite:{}", path.display());
        for (kind, url) in [
            ("opensearch", "http://127.0.0.1:1"),
            ("weaviate", "https://127.0.0.1:1"),
            ("tables", "postgres://u@127.0.0.1:1/d"),
            ("tables", file.as_str()),
        ] {
            assert!(open(kind, url, None).is_ok(), "{kind} {url}");
        }
        assert!(!path.exists());
    }

    #[test]
    fn urls_of_other_forms_are_refused_without_being_shown() {
        for (kind, url) in [
            ("opensearch", "ftp://host/swordfish"),
            ("weaviate", "http://u:swordfish@host"),
            ("tables", "mysql://u:swordfish@host/d"),
            ("tables", "sqlite:"),
            ("tables", "postgres://u:swordfish@host/d?sslmode=maybe"),
        ] {
            let refused = open(kind, url, None).err().unwrap();
            assert!(!refused.contains("swordfish"), "{refused}");
        }
        assert!(open("tables", "sqlite:a.db", Some("secret")).is_err());
    }
}
