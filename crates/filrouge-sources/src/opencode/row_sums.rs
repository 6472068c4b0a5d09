//! Sums over the rows of each session in a database; session fingerprints are built from them.

use std::collections::HashMap;
use std::ops::ControlFlow;

use filrouge_sqlite::foreign::{Reader, Result};

use super::session_rows::Schema;
use crate::Fingerprint;

/// The tables with messages and parts.
const TABLES: [&str; 3] = ["message", "part", "session_message"];

/// The number of a session's rows, and the sum of the rows' hashes. A hash covers a row's table, id, time of the last
/// change and size. Neither a vacuum (which moves rows) nor a checkpoint of the log changes the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct RowSum {
    rows: u64,
    hashes: u64,
}

/// The sums of all sessions, by session id. The tables are scanned in the order of their rows; a lookup for each
/// session would take twice as long.
pub(super) fn sums_by_session(
    reader: &Reader<'_>,
    schema: &Schema,
) -> Result<HashMap<Box<str>, RowSum>> {
    let mut sums: HashMap<Box<str>, RowSum> = HashMap::new();
    for table in TABLES.into_iter().filter(|table| schema.has(table)) {
        let updated = match schema.has_column(table, "time_updated") {
            true => "time_updated",
            false => "NULL",
        };
        let sql = format!(
            "SELECT session_id, id, {updated}, octet_length(data) FROM {table} NOT INDEXED"
        );
        reader.query(&sql, &[], |row| {
            let Some(id) = row.text(0) else {
                return ControlFlow::Continue(());
            };
            if !sums.contains_key(id) {
                sums.insert(id.into(), RowSum::default());
            }
            if let Some(sum) = sums.get_mut(id) {
                let row = (table, row.text(1), row.integer(2), row.integer(3));
                sum.rows += 1;
                sum.hashes = sum.hashes.wrapping_add(Fingerprint::compute(&row).0);
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(sums)
}
