//! Writes data to stdout and messages to stderr.

use std::io::{self, BufRead, BufWriter, IsTerminal, StdoutLock, Write};
use std::ops::Range;

use comfy_table::{Cell, CellAlignment, Table, presets::NOTHING};
use filrouge_types::Timestamp;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::exit::Usage;

/// A buffered stdout.
pub(crate) type Stdout = BufWriter<StdoutLock<'static>>;

/// Opens a buffered stdout.
pub(crate) fn stdout() -> Stdout {
    BufWriter::new(io::stdout().lock())
}

/// Writes text to stdout.
pub(crate) fn print(text: impl FnOnce(&mut Stdout) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = stdout();
    text(&mut out)?;
    out.flush()?;
    Ok(())
}

/// Prints a result: with `json` as a JSON document, else in the form that `text` writes.
pub(crate) fn show(
    json: bool,
    result: &impl Serialize,
    text: impl FnOnce(&mut Stdout) -> io::Result<()>,
) -> anyhow::Result<()> {
    match json {
        true => print_json(result),
        false => print(text),
    }
}

/// Builds a table without lines between its cells. The columns in the range `numeric_columns` are aligned to the right.
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
    table
}

/// Asks `question` at the terminal. Returns whether the user's answer is one of `yes`.
///
/// # Errors
/// [`Usage`] with the text `no_terminal` when stdin is not a terminal.
pub(crate) fn ask_confirmation(
    question: &str,
    yes: &[&str],
    no_terminal: &str,
) -> anyhow::Result<bool> {
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
pub(crate) fn print_json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    print(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        writeln!(out)
    })
}

/// A progress bar on stderr, shown only on a terminal.
pub(crate) fn progress_bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Prints a message for the user on stderr.
pub(crate) fn print_stderr(text: impl std::fmt::Display) {
    // A failed write to stderr cannot be reported.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Replaces control characters other than line feeds and tabs by U+FFFD: a recorded text must not control the terminal,
/// break lines or change their direction.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c| if controls_terminal(c) { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// Whether [`printable`] replaces a character: a control character, a line or paragraph separator other than a line
/// feed, or a change of direction (Unicode Standard Annex 9).
fn controls_terminal(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
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
