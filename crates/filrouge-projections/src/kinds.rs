//! The kinds of targets.

use std::sync::Arc;
use std::time::Duration;

use crate::http::{Credentials, Endpoint};
use crate::opensearch::{OpenSearch, OpenSearchSettings};
use crate::target::{Target, TargetError};
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
    /// What the names of the projection's tables, indexes or collections begin with.
    pub prefix: String,
    /// How long one call may take.
    pub timeout: Duration,
}

/// A kind of targets.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// The kind's name in the settings.
    pub name: &'static str,
    /// The version of the rows that it makes. A projection with rows of another version is rebuilt.
    pub version: u32,
    /// Prepares a target, which may be away. Fails with a text if the settings are wrong.
    pub open: fn(&TargetSettings) -> Result<Arc<dyn Target>, String>,
}

/// All kinds.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "opensearch",
        version: 1,
        open: opensearch,
    },
    Kind {
        name: "weaviate",
        version: 1,
        open: weaviate,
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
        vectors: None,
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
        vectors: None,
    }))
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

    /// [`crate::Projection::structure`].
    #[must_use]
    pub fn structure(&self) -> String {
        format!("{}/{}", self.name, self.version)
    }
}
