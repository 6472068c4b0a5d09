//! Compares the database's indexes and guards with those that the migrations create. A guard is a trigger that refuses
//! changes which filrouge does not make.

use std::collections::BTreeSet;

use filrouge_types::Failure;
use tokio_postgres::Row;

use super::{Rows, column};
use crate::migrate::MIGRATIONS;
use crate::session::Sql;

fn migrations() -> impl Iterator<Item = &'static str> {
    MIGRATIONS.iter().map(|(_, sql)| *sql)
}

/// The migrations' statements that create guards, in the form in which PostgreSQL prints them.
fn expected_triggers() -> impl Iterator<Item = &'static str> {
    let lines = migrations().flat_map(str::lines);
    lines
        .filter(|line| line.starts_with("CREATE TRIGGER"))
        .map(|line| line.trim_end_matches(';'))
}

/// The names and bodies of the functions that guards call. They are recognized by their empty parameter lists, which no
/// other function of the migrations has.
fn expected_functions() -> impl Iterator<Item = (&'static str, &'static str)> {
    let parts = migrations().flat_map(|sql| sql.split("CREATE FUNCTION filrouge.").skip(1));
    parts.filter_map(|part| {
        let (name, rest) = part.split_once('(')?;
        let rest = rest.strip_prefix(')')?;
        Some((name, rest.split("$$").nth(1)?))
    })
}

/// The indexes that the migrations create, except those of primary keys.
fn expected_indexes() -> impl Iterator<Item = &'static str> {
    migrations().flat_map(str::lines).filter_map(|line| {
        let name_and_rest = line
            .strip_prefix("CREATE INDEX ")
            .or_else(|| line.strip_prefix("CREATE UNIQUE INDEX "))?;
        name_and_rest.split(' ').next()
    })
}

/// Lists the faults: indexes that are missing or not valid, and guards that are missing, changed or switched off.
pub(super) fn find_faults(rows: &Rows<'_>) -> Result<Vec<String>, Failure> {
    static INDEXES: Sql = Sql::new(
        "SELECT c.relname::text, i.indisvalid AND i.indisready
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE c.relnamespace = 'filrouge'::regnamespace ORDER BY 1",
        &[],
    );
    static TRIGGERS: Sql = Sql::new(
        "SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
         WHERE c.relnamespace = 'filrouge'::regnamespace AND t.tgenabled IN ('O', 'A')",
        &[],
    );
    static FUNCTIONS: Sql = Sql::new(
        "SELECT p.proname::text, p.prosrc FROM pg_proc p
         WHERE p.pronamespace = 'filrouge'::regnamespace AND p.proconfig = ARRAY['search_path=pg_catalog']",
        &[],
    );
    let mut faults = Vec::new();
    let found: BTreeSet<(String, bool)> =
        query_set(rows, &INDEXES, |row| Ok((column(row, 0)?, column(row, 1)?)))?;
    for (name, _) in found.iter().filter(|(_, valid)| !valid) {
        faults.push(format!("index {name} is not valid"));
    }
    let existing: BTreeSet<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    for name in expected_indexes().filter(|name| !existing.contains(name)) {
        faults.push(format!("index {name} is missing"));
    }
    let found: BTreeSet<String> = query_set(rows, &TRIGGERS, |row| column(row, 0))?;
    // A distributed store has no search index.
    let distributed = rows.session.is_distributed();
    let expected = expected_triggers()
        .filter(|trigger| !distributed || !trigger.ends_with("filrouge.search_forget()"));
    for guard in expected.filter(|guard| !found.contains(*guard)) {
        faults.push(format!(
            "a guard is missing, was changed or switched off: {guard}"
        ));
    }
    let found: BTreeSet<(String, String)> = query_set(rows, &FUNCTIONS, |row| {
        Ok((column(row, 0)?, column(row, 1)?))
    })?;
    for (name, body) in expected_functions() {
        if !found.contains(&(name.to_owned(), body.to_owned())) {
            faults.push(format!(
                "the guards' function {name} is missing or was changed"
            ));
        }
    }
    Ok(faults)
}

fn query_set<T: Ord>(
    rows: &Rows<'_>,
    sql: &'static Sql,
    read: impl Fn(&Row) -> Result<T, Failure>,
) -> Result<BTreeSet<T>, Failure> {
    rows.query_all(sql, &[])?.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_guards_of_the_migrations_are_parsed() {
        // A statement that spans several lines would be missed.
        let count_of = |text: &str| {
            migrations()
                .map(|sql| sql.matches(text).count())
                .sum::<usize>()
        };
        assert_eq!(expected_triggers().count(), count_of("CREATE TRIGGER"));
        assert_eq!(
            expected_indexes().count(),
            count_of("CREATE INDEX") + count_of("CREATE UNIQUE INDEX")
        );
        assert!(expected_triggers().all(|t| t.contains(" EXECUTE FUNCTION filrouge.")));
        let names: Vec<_> = expected_functions().map(|(name, _)| name).collect();
        assert_eq!(names.len(), count_of("() RETURNS trigger"));
        for trigger in expected_triggers() {
            let called = trigger.split("FUNCTION filrouge.").nth(1).unwrap();
            assert!(names.contains(&called.trim_end_matches("()")), "{trigger}");
        }
    }
}
