//! Rows as CSV (RFC 4180).

use filrouge_types::{Failure, JsonText, Members, RawJson, controls_terminal};

use super::row::AuditRow;
use crate::shared::to_json;

/// A spreadsheet reads a cell that begins with one of these characters as a formula; the last four are full-width
/// forms. The apostrophe is in the list so that removing one leading apostrophe restores every cell.
const FORMULA_STARTS: [char; 11] = ['=', '+', '-', '@', '\t', '\n', '\'', '＝', '＋', '－', '＠'];

impl AuditRow {
    /// The CSV header, with its line end.
    pub fn csv_header() -> String {
        format!("{}\r\n", Self::COLUMNS.join(","))
    }

    /// The row as a line of CSV, with its line end. An absent member gives an empty cell. A cell that a spreadsheet
    /// would read as a formula gets a leading apostrophe, and so does one that begins with an apostrophe. Line ends in a
    /// cell are line feeds. Characters that control terminals become U+FFFD.
    ///
    /// # Errors
    /// `internal` when it cannot be serialized.
    pub fn csv_line(&self) -> Result<String, Failure> {
        let mut line = String::new();
        let json = to_json(self)?;
        // The columns are the members of the row's JSON object, in the same order.
        let members = Members::parse(&json).map_or_else(Vec::new, |members| members.0);
        for (index, (name, value)) in members.into_iter().enumerate() {
            if index > 0 {
                line.push(',');
            }
            push_cell(&mut line, &cell_text(name, value));
        }
        line.push_str("\r\n");
        Ok(line)
    }
}

/// The text of a cell. The members `args` and `result` stay JSON, as recorded; any other string is decoded.
fn cell_text(name: &str, value: &str) -> String {
    let decode = || JsonText::from_raw(RawJson::from_checked(value));
    match name {
        _ if value == "null" => String::new(),
        r#""args""# | r#""result""# => value.to_owned(),
        _ => decode().map_or_else(|_| value.to_owned(), |text| text.to_plain()),
    }
}

fn push_cell(line: &mut String, text: &str) {
    let text = text
        .replace("\r\n", "\n")
        .replace(controls_terminal, "\u{fffd}");
    let apostrophe = if text.starts_with(FORMULA_STARTS) {
        "'"
    } else {
        ""
    };
    // Some spreadsheets split cells without quotation marks at semicolons and tabs, too.
    if text.contains([',', ';', '\t', '"', '\n']) {
        line.push('"');
        line.push_str(apostrophe);
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(apostrophe);
        line.push_str(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"no\"", "\"say \"\"no\"\"\""),
            ("a\nb", "\"a\nb\""),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@x", "'@x"),
            ("\tx", "\"'\tx\""),
            ("a;=1", "\"a;=1\""),
            ("a\t=1", "\"a\t=1\""),
            ("\rx", "\u{fffd}x"),
            ("\r\nx", "\"'\nx\""),
            ("\nx", "\"'\nx\""),
            ("＝1", "'＝1"),
            ("'x", "''x"),
            (
                "=HYPERLINK(\"x\",\"y\")",
                "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\"",
            ),
            ("1-2", "1-2"),
            ("\u{1b}[2J\u{9b}x\u{7f}", "\u{fffd}[2J\u{fffd}x\u{fffd}"),
            ("\0=1", "\u{fffd}=1"),
            ("a\u{202e}b\u{2028}c", "a\u{fffd}b\u{fffd}c"),
        ] {
            let mut line = String::new();
            push_cell(&mut line, text);
            assert_eq!(line, expected);
        }
    }
}
