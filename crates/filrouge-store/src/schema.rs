//! A store's schema, described without opening the store: `filrouge migrate` (DESIGN §12).

use filrouge_types::{ErrorCode, Failure};
use serde::Serialize;

/// The schema of a store, compared with the migrations of this program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// The version of the store; 0 for an empty store.
    pub version: u64,
    /// The version that this program writes.
    pub known: u64,
    /// All migrations of this program, in order.
    pub steps: Vec<Migration>,
}

/// One migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Migration {
    /// The version of the store after this migration.
    pub number: u64,
    /// Its name, a single word.
    pub name: &'static str,
    /// Its statements.
    #[serde(skip)]
    pub sql: &'static str,
    /// Whether the store has run it.
    pub applied: bool,
}

impl Schema {
    /// The state of a store of `version`: which of `migrations` (name and statements, from version 1 on) it has run.
    #[must_use]
    pub fn of(version: u64, migrations: &[(&'static str, &'static str)]) -> Self {
        let steps = (1..)
            .zip(migrations)
            .map(|(number, (name, sql))| Migration {
                number,
                name,
                sql,
                applied: number <= version,
            });
        Self {
            version,
            known: migrations.len() as u64,
            steps: steps.collect(),
        }
    }

    /// The migrations that the store has not run yet.
    pub fn pending(&self) -> impl Iterator<Item = &Migration> {
        self.steps.iter().filter(|step| !step.applied)
    }
}

/// The refusal of a store of format 1, which this program neither reads nor converts.
#[must_use]
pub fn format_1() -> Failure {
    Failure::new(
        ErrorCode::Invalid,
        "the store has format 1, this filrouge reads format 2",
    )
    .with_hint("choose another place for a new store; no version converts format 1, which was not released")
}
