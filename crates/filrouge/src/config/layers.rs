//! The layers of settings, and which of them a value comes from.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::exit::Usage;

/// Where a setting's value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    Default,
    File(PathBuf),
    Environment(&'static str),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A value with its origin.
#[derive(Debug, Clone)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// Picks the strongest of the four layers and reads it.
pub(super) struct Layers<'a> {
    pub(super) file: Option<&'a Path>,
}

impl Layers<'_> {
    /// The origin of what is in the file.
    pub(super) fn in_file(&self) -> Origin {
        self.file
            .map_or(Origin::Default, |path| Origin::File(path.to_owned()))
    }

    pub(super) fn pick<T>(
        &self,
        flag: Option<(&'static str, String)>,
        variable: &'static str,
        in_file: Option<String>,
        default: impl FnOnce() -> Result<T, Usage>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Setting<T>, Usage> {
        let from_environment = match env::var(variable) {
            Ok(text) if text.is_empty() => None,
            Ok(text) => Some(text),
            Err(env::VarError::NotPresent) => None,
            Err(env::VarError::NotUnicode(_)) => {
                return Err(Usage::new(format!("{variable} is not UTF-8")));
            }
        };
        let (text, origin) = if let Some((name, text)) = flag {
            (text, Origin::Flag(name))
        } else if let Some(text) = from_environment {
            (text, Origin::Environment(variable))
        } else if let (Some(text), Some(path)) = (in_file, self.file) {
            (text, Origin::File(path.to_owned()))
        } else {
            return Ok(Setting {
                value: default()?,
                origin: Origin::Default,
            });
        };
        let value = read(&text).map_err(|e| Usage::new(format!("{origin}: {e}")))?;
        Ok(Setting { value, origin })
    }
}
