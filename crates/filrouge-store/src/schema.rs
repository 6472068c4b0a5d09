//! What is known of a store's schema without opening the store: `filrouge migrate` (DESIGN §12).

use serde::Serialize;

/// The schema of a store, and what this program makes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// The version that the store has; 0 for one that is still empty.
    pub version: u64,
    /// The version that this program writes.
    pub known: u64,
    /// All migrations that this program knows, in their order.
    pub steps: Vec<Step>,
}

/// One migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The version that it leads to.
    pub number: u64,
    /// What it brings, in a word.
    pub name: &'static str,
    /// Its statements.
    #[serde(skip)]
    pub sql: &'static str,
    /// Whether the store has it.
    pub applied: bool,
}

impl Schema {
    /// What a store of `version` has of all `migrations`, each with its name and statements, from version 1 on.
    #[must_use]
    pub fn of(version: u64, migrations: &[(&'static str, &'static str)]) -> Self {
        let steps = (1..).zip(migrations).map(|(number, (name, sql))| Step {
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

    /// What the store has not got yet.
    pub fn pending(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| !step.applied)
    }
}
