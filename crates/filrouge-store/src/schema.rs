//! Describes a store's schema without opening the store, for `filrouge migrate` (DESIGN §12).

use filrouge_types::{ErrorCode, Failure};
use serde::Serialize;

/// The schema of a store, compared with the migrations of this program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// The version of the store; 0 for an empty store.
    pub version: u64,
    /// The version after all migrations of this program.
    pub known: u64,
    /// All migrations of this program, in order.
    pub steps: Vec<Migration>,
}

/// One migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Migration {
    /// The version of the store after this migration.
    pub number: u64,
    /// The name of the migration, a single word.
    pub name: &'static str,
    /// The SQL statements of the migration.
    #[serde(skip)]
    pub sql: &'static str,
    /// Whether the store has run it.
    pub applied: bool,
}

impl Schema {
    /// The schema of a store with this version. `migrations` contains the name and the statements of each migration;
    /// the first migration leads to version 1.
    pub fn new(version: u64, migrations: &[(&'static str, &'static str)]) -> Self {
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
pub fn format_1() -> Failure {
    ErrorCode::Invalid.failure("the store has format 1, this filrouge reads format 2")
    .with_hint("choose another place for a new store; no version converts format 1, which was not released")
}
