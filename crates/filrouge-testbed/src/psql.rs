//! Runs SQL statements through `psql`.

use std::io::Write;
use std::process::Stdio;

use crate::binaries::{command, postgres};
use crate::{Address, Row};

/// The text that `psql` prints for NULL; no test uses this text as a value.
const NULL_TEXT: &str = "\u{2400}null\u{2400}";

/// Runs statements, each in its own transaction unless they begin one; returns the rows of all of them, in order.
///
/// # Panics
/// If a statement fails, with the output of `psql`; the later statements do not run.
pub(crate) fn sql(address: &Address, database: &str, statements: &str) -> Vec<Row> {
    let mut child = command(&postgres().join("psql"))
        .args(["-X", "-q", "-t", "--csv", "-v", "ON_ERROR_STOP=1"])
        .args(["-P", &format!("null={NULL_TEXT}"), "-f", "-"])
        .arg(address.url(database))
        .env("PGCLIENTENCODING", "UTF8")
        .env("PGOPTIONS", "--client-min-messages=warning")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql");
    let mut input = child.stdin.take().expect("stdin");
    let out = std::thread::scope(|scope| {
        // The result of the write is ignored: if the connection fails, psql exits without reading its input, and its
        // output explains the failure better than a broken pipe.
        scope.spawn(move || input.write_all(statements.as_bytes()));
        child.wait_with_output().expect("psql")
    });
    assert!(
        out.status.success(),
        "{statements}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    parse_rows(&String::from_utf8(out.stdout).expect("UTF-8"))
}

/// Parses CSV: values with commas, quotes or line ends are quoted, and quotes in them are doubled.
fn parse_rows(csv: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = Row::new();
    let mut value = String::new();
    let mut quoted = false;
    let mut characters = csv.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => value.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(take_value(&mut value)),
            '\n' if !quoted => {
                row.push(take_value(&mut value));
                rows.push(std::mem::take(&mut row));
            }
            c => value.push(c),
        }
    }
    rows
}

fn take_value(value: &mut String) -> Option<String> {
    Some(std::mem::take(value)).filter(|value| value != NULL_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_output_of_psql_is_parsed() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            parse_rows(&format!("1,{NULL_TEXT},\n\"a,\"\"b\"\"\nc\",\"\"\"\"\n")),
            [
                vec![some("1"), None, some("")],
                vec![some("a,\"b\"\nc"), some("\"")]
            ]
        );
        assert!(parse_rows("").is_empty());
    }
}
