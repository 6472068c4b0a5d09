//! Which sessions of a database are read as which generation.

use super::session_rows::{SESSION, SESSION_V2, Schema, SessionRow};

/// Which sessions of a database; the newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Those of `session_v2`.
    SessionV2,
    /// Those of `session` whose talk is in `session_message` alone.
    SessionMessage,
    /// All others of `session`.
    Sqlite,
}

impl Kind {
    /// The newest first.
    pub(super) const ALL: [Self; 3] = [Self::SessionV2, Self::SessionMessage, Self::Sqlite];

    /// The kinds there can be.
    pub(super) fn all_in(schema: &Schema) -> Vec<Self> {
        let mut kinds = Vec::new();
        if schema.has(SESSION_V2) {
            kinds.push(Self::SessionV2);
        }
        if schema.has(SESSION) && schema.has("session_message") {
            kinds.push(Self::SessionMessage);
        }
        if schema.has(SESSION) && (schema.has("message") || kinds.is_empty()) {
            kinds.push(Self::Sqlite);
        }
        kinds
    }

    /// What a row of a table is. One without a message is of the older kind where there is a table for those.
    pub(super) fn of(table: &str, row: &SessionRow, schema: &Schema) -> Self {
        let newer = row.in_session_message || !schema.has("message");
        match table {
            SESSION_V2 => Self::SessionV2,
            _ if !row.in_message && newer && schema.has("session_message") => Self::SessionMessage,
            _ => Self::Sqlite,
        }
    }

    /// The generation's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::SessionV2 => "session_v2",
            Self::SessionMessage => "session_message",
            Self::Sqlite => "sqlite",
        }
    }

    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::SessionV2 => SESSION_V2,
            Self::SessionMessage | Self::Sqlite => SESSION,
        }
    }
}
