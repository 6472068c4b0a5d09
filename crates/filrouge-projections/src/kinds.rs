//! The kinds of targets.

use std::sync::Arc;
use std::time::Duration;

use crate::target::Target;

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
pub const KINDS: &[Kind] = &[];

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
