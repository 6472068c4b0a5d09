//! Secrets of the settings, and where they are stored.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

/// A text that is never shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct Hidden(pub(super) String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// The place where a secret is stored. The secret is read only when it is needed.
#[derive(Debug, Clone)]
pub(super) enum SecretSource {
    Inline(Hidden),
    File(PathBuf),
    Environment(String),
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("in the configuration"),
            Self::File(path) => path.display().fmt(f),
            Self::Environment(name) => f.write_str(name),
        }
    }
}

impl SecretSource {
    /// Reads the secret.
    ///
    /// # Errors
    /// Names the file or variable that cannot be read, with the cause.
    pub(super) fn read(&self) -> Result<String, String> {
        match self {
            Self::Inline(Hidden(text)) => Ok(text.clone()),
            Self::File(path) => {
                std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
            }
            Self::Environment(name) => {
                std::env::var(name).map_err(|_| format!("{name} is not set, or not UTF-8"))
            }
        }
    }
}
