//! Rows as CSV (RFC 4180).

use filrouge_types::Failure;

use super::row::AuditRow;

/// What a cell must not begin with, or else a spreadsheet takes it for a formula; in East Asian widths as well. The
/// apostrophe is among them so that taking one away gives back every cell.
const FORMULA: [char; 12] = [
    '=', '+', '-', '@', '\t', '\r', '\n', '\'', '＝', '＋', '－', '＠',
];

impl AuditRow {
    /// The line that names the columns of CSV, with its line end.
    #[must_use]
    pub fn csv_header() -> String {
        format!("{}\r\n", Self::COLUMNS.join(","))
    }

    /// The row as a line of CSV, with its line end. Absent members are empty; a cell that a spreadsheet would take
    /// for a formula begins with an apostrophe, and so does one that begins with an apostrophe.
    ///
    /// # Errors
    /// `internal` when it cannot be written.
    pub fn csv_line(&self) -> Result<String, Failure> {
        let mut line = String::new();
        for (n, text) in self.cells()?.iter().enumerate() {
            if n > 0 {
                line.push(',');
            }
            cell(&mut line, text);
        }
        line.push_str("\r\n");
        Ok(line)
    }
}

fn cell(line: &mut String, text: &str) {
    let apostrophe = if text.starts_with(FORMULA) { "'" } else { "" };
    if text.contains([',', '"', '\r', '\n']) {
        line.push('"');
        line.push_str(apostrophe);
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(apostrophe);
        line.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_no_formulas() {
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
            ("\tx", "'\tx"),
            ("\rx", "\"'\rx\""),
            ("\nx", "\"'\nx\""),
            ("＝1", "'＝1"),
            ("'x", "''x"),
            (
                "=HYPERLINK(\"x\",\"y\")",
                "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\"",
            ),
            ("1-2", "1-2"),
        ] {
            let mut line = String::new();
            cell(&mut line, text);
            assert_eq!(line, expected);
        }
    }
}
