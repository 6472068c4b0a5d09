//! What is wrong with the database's structure.

use std::collections::BTreeSet;

use filrouge_types::Failure;
use tokio_postgres::Row;

use super::{Rows, column};
use crate::session::Sql;

/// What made the guards.
const JOURNAL: &str = include_str!("../migrations/0001_journal.sql");

/// A statement of [`JOURNAL`] that makes a guard, its words parted by single blanks as PostgreSQL tells it.
fn triggers() -> impl Iterator<Item = &'static str> {
    JOURNAL
        .lines()
        .filter(|line| line.starts_with("CREATE TRIGGER"))
        .map(|line| line.trim_end_matches(';'))
}

/// The guards' functions, each with its body.
fn functions() -> impl Iterator<Item = (&'static str, &'static str)> {
    let parts = JOURNAL.split("CREATE FUNCTION filrouge.").skip(1);
    parts.filter_map(|part| {
        let (name, rest) = part.split_once("()")?;
        Some((name, rest.split("$$").nth(1)?))
    })
}

/// Indexes that are not valid, and guards that are missing, were changed or were switched off.
pub(super) fn faults(rows: &Rows<'_>) -> Result<Vec<String>, Failure> {
    static INDEXES: Sql = Sql::new(
        "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE c.relnamespace = 'filrouge'::regnamespace AND NOT (i.indisvalid AND i.indisready)
         ORDER BY 1",
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
    for row in &rows.many(&INDEXES, &[])? {
        faults.push(format!("index {} is not valid", column::<String>(row, 0)?));
    }
    let found: BTreeSet<String> = each(rows, &TRIGGERS, |row| column(row, 0))?;
    for guard in triggers().filter(|guard| !found.contains(*guard)) {
        faults.push(format!(
            "a guard is missing, was changed or switched off: {guard}"
        ));
    }
    let found: BTreeSet<(String, String)> = each(rows, &FUNCTIONS, |row| {
        Ok((column(row, 0)?, column(row, 1)?))
    })?;
    for (name, body) in functions() {
        if !found.contains(&(name.to_owned(), body.to_owned())) {
            faults.push(format!(
                "the guards' function {name} is missing or was changed"
            ));
        }
    }
    Ok(faults)
}

fn each<T: Ord>(
    rows: &Rows<'_>,
    sql: &'static Sql,
    read: impl Fn(&Row) -> Result<T, Failure>,
) -> Result<BTreeSet<T>, Failure> {
    rows.many(sql, &[])?.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guards_are_read_out_of_the_migration() {
        // A trigger on several lines would be overlooked.
        assert_eq!(
            triggers().count(),
            JOURNAL.matches("CREATE TRIGGER").count()
        );
        assert!(triggers().all(|t| t.contains(" EXECUTE FUNCTION filrouge.")));
        let names: Vec<_> = functions().map(|(name, _)| name).collect();
        assert_eq!(names.len(), JOURNAL.matches("CREATE FUNCTION").count());
        for trigger in triggers() {
            let called = trigger.split("FUNCTION filrouge.").nth(1).unwrap();
            assert!(names.contains(&called.trim_end_matches("()")), "{trigger}");
        }
    }
}
