//! Writes data to stdout and messages to stderr.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufWriter, IsTerminal, StdoutLock, Write};
use std::ops::Range;

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table};
use filrouge_store::verify::Finding;
use filrouge_types::{Timestamp, controls_terminal};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::termios::tcgetwinsize;
use serde::Serialize;

use crate::exit::Usage;

/// A buffered stdout.
pub(crate) type Stdout = BufWriter<StdoutLock<'static>>;

/// Opens a buffered stdout.
pub(crate) fn stdout() -> Stdout {
    BufWriter::new(io::stdout().lock())
}

/// Writes text to stdout.
pub(crate) fn print(text: impl FnOnce(&mut Stdout) -> io::Result<()>) -> Result<()> {
    let mut out = stdout();
    text(&mut out)?;
    out.flush()?;
    Ok(())
}

/// Prints a result: with `json` as a JSON document, else in the form that `text` writes, made printable.
pub(crate) fn show(
    json: bool,
    result: &impl Serialize,
    text: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> Result<()> {
    if json {
        return print_json(result);
    }
    let mut bytes = Vec::new();
    text(&mut bytes)?;
    let text = printable(&String::from_utf8_lossy(&bytes));
    print(|out| out.write_all(text.as_bytes()))
}

/// Builds a table without lines between its cells, as wide as the terminal if stdout is one. The columns in the range
/// `numeric_columns` are aligned to the right.
pub(crate) fn table<R>(
    header: impl IntoIterator<Item = impl Into<Cell>>,
    numeric_columns: Range<usize>,
    rows: impl IntoIterator<Item = R>,
) -> Table
where
    R: IntoIterator<Item: Into<Cell>>,
{
    let mut table = Table::new();
    let header: Vec<Cell> = header.into_iter().map(Into::into).collect();
    table.load_style(NOTHING).set_header(header);
    let numeric_columns = table
        .column_iter_mut()
        .skip(numeric_columns.start)
        .take(numeric_columns.len());
    for column in numeric_columns {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in rows {
        table.add_row(row.into_iter().map(Into::into).collect::<Vec<Cell>>());
    }
    if let Some(width) = terminal_width() {
        fit(&mut table, width);
    }
    table
}

/// The number of columns of the terminal that is stdout; `None` if stdout is something else.
fn terminal_width() -> Option<u16> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = tcgetwinsize(&stdout).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// Wraps the cells of a table so that its lines have at most `width` columns. The first column, which often has ids to
/// copy, is wrapped only if it takes more than half of them.
fn fit(table: &mut Table, width: u16) {
    table
        .set_width(width)
        .set_content_arrangement(ContentArrangement::Dynamic);
    let first_width = table.column_max_content_widths().first().copied();
    if first_width.is_some_and(|first| first <= width / 2)
        && let Some(first) = table.column_mut(0)
    {
        first.set_constraint(ColumnConstraint::ContentWidth);
    }
}

/// Asks `question` at the terminal. Returns whether the user's answer is one of `yes`.
///
/// # Errors
/// [`Usage`] with the text `no_terminal` when stdin is not a terminal.
pub(crate) fn ask_confirmation(question: &str, yes: &[&str], no_terminal: &str) -> Result<bool> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(Usage::new(no_terminal).with_hint("give --yes").into());
    }
    let (answers, out) = (&mut stdin.lock(), &mut io::stderr());
    Ok(read_confirmation(question, yes, answers, out)?)
}

fn read_confirmation(
    question: &str,
    yes: &[&str],
    answers: &mut dyn BufRead,
    out: &mut dyn Write,
) -> io::Result<bool> {
    write!(out, "{question} [yes/no] ")?;
    out.flush()?;
    let mut answer = String::new();
    answers.read_line(&mut answer)?;
    Ok(yes.contains(&answer.trim()))
}

/// Prints one JSON document and a line feed.
pub(crate) fn print_json<T: Serialize>(value: &T) -> Result<()> {
    let json = serde_json::to_string_pretty(value)?;
    print(|out| writeln!(out, "{}", json_for_stdout(&json)))
}

/// JSON in the form in which stdout gets it: unchanged, but on a terminal with escapes for the characters that act on
/// one.
pub(crate) fn json_for_stdout(json: &str) -> Cow<'_, str> {
    match io::stdout().is_terminal() {
        true => Cow::Owned(printable_json(json)),
        false => Cow::Borrowed(json),
    }
}

/// Text in the form in which stdout gets it: unchanged, but on a terminal made printable.
pub(crate) fn text_for_stdout(text: &str) -> Cow<'_, str> {
    match io::stdout().is_terminal() {
        true => Cow::Owned(printable(text)),
        false => Cow::Borrowed(text),
    }
}

/// Escapes the characters of JSON that [`printable`] replaces. The values stay equal: outside strings, JSON has none of
/// these characters but the carriage return, which is white space there and does not occur inside them.
fn printable_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\r' => out.push(' '),
            c if controls_terminal(c) => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// A progress bar on stderr, shown only on a terminal.
pub(crate) fn progress_bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Prints a message for the user on stderr, made printable.
pub(crate) fn print_stderr(text: impl std::fmt::Display) {
    // A failed write to stderr cannot be reported.
    let _ = writeln!(io::stderr().lock(), "{}", printable(&text.to_string()));
}

/// Reports the damaged sessions that a result lacks.
pub(crate) fn print_findings(findings: &[Finding]) {
    print_findings_except(findings, |_| false);
}

/// Reports the damaged sessions of a result. `has` says whether the result has a session, in part.
pub(crate) fn print_findings_except(findings: &[Finding], has: impl Fn(&str) -> bool) {
    for finding in findings {
        let session = finding.session_id.as_deref().unwrap_or_default();
        let left_out = if has(session) { "" } else { " and left out" };
        print_stderr(format_args!(
            "session {session:?} is damaged{left_out}: {}",
            finding.what
        ));
    }
}

/// Replaces the characters that act on a terminal by U+FFFD: a recorded text must not control it, break lines or change
/// their direction.
pub(crate) fn printable(text: &str) -> String {
    text.replace(controls_terminal, "\u{fffd}")
}

/// A moment in UTC, to the second, such as `2026-11-21 09:30:00`.
pub(crate) fn utc_time(at: Timestamp) -> String {
    let text = at.to_string();
    text.split('.').next().unwrap_or("").replace('T', " ")
}

/// The first line of a text, made printable and cut to `max` characters.
pub(crate) fn first_line(text: &str, max: usize) -> String {
    let line = printable(text.lines().next().unwrap_or(""));
    if line.chars().count() <= max {
        line
    } else {
        line.chars().take(max - 1).chain(['…']).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable("a\u{1b}[2Jb\tc\n"), "a\u{fffd}[2Jb\tc\n");
        assert_eq!(
            printable("\u{9b}2J\u{85}x\r"),
            "\u{fffd}2J\u{fffd}x\u{fffd}"
        );
        for c in [
            '\u{2028}', '\u{2029}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}',
        ] {
            assert_eq!(printable(&format!("a{c}b")), "a\u{fffd}b", "{c:?}");
            assert_eq!(first_line(&format!("a{c}b\nx"), 9), "a\u{fffd}b", "{c:?}");
        }
        // The marks of right-to-left text, and characters that join others, are kept.
        assert_eq!(
            printable("\u{200f}שלום 👩\u{200d}🚒"),
            "\u{200f}שלום 👩\u{200d}🚒"
        );
        assert_eq!(first_line("abcdef\nx", 4), "abc…");
        assert_eq!(first_line("abcd\nx", 4), "abcd");
    }

    #[test]
    fn tables_fit_the_terminal() {
        let id = "ses_44e90f601ffeHj8PvwdQsVnTrd";
        let title =
            "a title of many words, which is far too long for the line of a narrow terminal";
        for width in [60, 72, 200] {
            let rows = [[id, "opencode (sqlite)", title], ["s", "codex", "short"]];
            let mut table = table(["SESSION", "SOURCE", "TITLE"], 0..0, rows);
            fit(&mut table, width);
            let text = table.to_string();
            for line in text.lines() {
                assert!(
                    line.chars().count() <= usize::from(width),
                    "{width}: {text}"
                );
            }
            assert!(text.contains(id), "{width}: {text}");
            let words = text.split_whitespace();
            let shown = words.filter(|word| title.contains(word)).count();
            assert!(shown >= title.split(' ').count(), "{width}: {text}");
        }
    }

    #[test]
    fn escapes_keep_the_value_of_json() {
        let json = "{\"a\\u001b\u{9b}\" :\t[\r\n\"\u{7f}\u{202e}é\u{2028}\"\r]}";
        let shown = printable_json(json);
        assert_eq!(
            shown,
            "{\"a\\u001b\\u009b\" :\t[ \n\"\\u007f\\u202eé\\u2028\" ]}"
        );
        let parse = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert_eq!(parse(&shown), parse(json));
    }

    #[test]
    fn only_a_complete_yes_confirms() {
        for (answer, long, short) in [
            ("yes\n", true, true),
            (" yes \r\n", true, true),
            ("yes", true, true),
            ("y\r\n", false, true),
            ("no\n", false, false),
            ("YES\n", false, false),
            ("\nyes\n", false, false),
            ("", false, false),
        ] {
            for (yes, confirms) in [(&["yes"][..], long), (&["yes", "y"], short)] {
                let mut out = Vec::new();
                let confirmed =
                    read_confirmation("Erase it?", yes, &mut answer.as_bytes(), &mut out);
                assert_eq!(confirmed.unwrap(), confirms, "{answer:?}");
                assert_eq!(out, b"Erase it? [yes/no] ");
            }
        }
    }
}
