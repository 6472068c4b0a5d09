//! Rows of the audit, read back from JSON lines and from CSV.

use serde_json::{Value, json};

/// Parses rows from JSON lines.
pub(crate) fn lines(text: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// Parses CSV into records, as RFC 4180 specifies.
pub(crate) fn records(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let (mut row, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quoted, c) {
            (true, '"') if chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            (true, '"') => quoted = false,
            (true, c) => cell.push(c),
            (false, '"') => {
                assert!(cell.is_empty(), "a quote in the middle of an unquoted cell");
                quoted = true;
            }
            (false, ',') => row.push(std::mem::take(&mut cell)),
            (false, '\r') => {
                assert_eq!(chars.next(), Some('\n'));
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            (false, c) => cell.push(c),
        }
    }
    assert!(
        !quoted && row.is_empty() && cell.is_empty(),
        "the last line is not terminated"
    );
    rows
}

/// Converts the content of a CSV cell to the value that the same row has in JSON.
fn read_cell(column: &str, text: &str) -> Value {
    let json_columns = [
        "seq",
        "args",
        "ok",
        "latency_ms",
        "result",
        "error",
        "usage",
        "redacted",
        "detail",
    ];
    match text {
        "" => Value::Null,
        _ if json_columns.contains(&column) => serde_json::from_str(text).unwrap(),
        _ => json!(text),
    }
}

/// Whether a character is replaced in cells, because it can control a terminal.
pub(crate) fn controls_terminal(c: char) -> bool {
    let separates_or_turns = matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    separates_or_turns || (c.is_control() && c != '\t' && c != '\n')
}

/// Checks that a CSV table has these rows, cell by cell.
pub(crate) fn assert_same_table(text: &str, rows: &[Value]) {
    let records = records(text);
    let (head, body) = records.split_first().unwrap();
    assert_eq!(body.len(), rows.len());
    for (cells, row) in body.iter().zip(rows) {
        assert_eq!(row.as_object().unwrap().len(), head.len());
        for (column, cell) in head.iter().zip(cells) {
            // A spreadsheet would run such a cell as a formula; an added apostrophe prevents this.
            assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']));
            assert!(!cell.contains(controls_terminal), "{cell:?}");
            let cell = cell.strip_prefix('\'').unwrap_or(cell);
            // CSV does not distinguish an empty text from an absent one.
            let expected = Some(&row[column]).filter(|v| **v != "");
            let expected = match expected.unwrap_or(&Value::Null) {
                Value::String(text) => {
                    json!(
                        text.replace("\r\n", "\n")
                            .replace(controls_terminal, "\u{fffd}")
                    )
                }
                other => other.clone(),
            };
            assert_eq!(read_cell(column, cell), expected, "{column} {row}");
        }
    }
}
