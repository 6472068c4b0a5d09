//! Reports as CSV (RFC 4180).

use filrouge_types::Members;

use super::KpiReport;

/// The members of a row that have no column: the counts by kind.
const IN_JSON_ONLY: [&str; 2] = ["kinds", "events_of_other_kinds"];

impl KpiReport {
    /// The report as CSV: a header line, then one line per row with the row's JSON members except the kinds; absent
    /// values are empty. Cells need no quotes, because none contains user text.
    pub fn csv(&self) -> String {
        let mut text = String::new();
        for row in &self.data {
            // Counts, rates and times always serialize.
            let json = serde_json::to_string(row).unwrap_or_default();
            let members = Members::parse(&json).unwrap_or_default();
            let columns = members
                .iter()
                .filter(|(name, _)| !IN_JSON_ONLY.contains(&&**name));
            let (names, cells): (Vec<_>, Vec<_>) = columns
                .map(|(name, value)| (name, cell_text(value)))
                .unzip();
            if text.is_empty() {
                text = names.join(",") + "\r\n";
            }
            text += &(cells.join(",") + "\r\n");
        }
        text
    }
}

fn cell_text(value: &str) -> &str {
    match value {
        "null" => "",
        text => text.trim_matches('"').trim_end_matches(".0"),
    }
}
