//! Writing data to stdout, where a reader that has gone away is no failure.

use std::io::{self, BufWriter, StdoutLock, Write};

use filrouge_types::Timestamp;
use serde::Serialize;

/// A buffered stdout.
pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::new(io::stdout().lock())
}

/// One JSON document and a line feed.
pub(crate) fn document<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let mut out = stdout();
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

/// A sentence for whoever runs the command, on stderr.
pub(crate) fn say(text: impl std::fmt::Display) {
    // There is nowhere left to tell of a stderr that is gone.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Text with no control characters but line feeds and tabs: what was said must not steer a terminal, nor break its
/// lines or turn them round.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c| if steers(c) { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// Control characters, other ends of lines and paragraphs, and changes of direction (Unicode Standard Annex 9).
fn steers(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

/// A moment in UTC, to the second.
pub(crate) fn second(at: Timestamp) -> String {
    let text = at.to_string();
    text.split('.').next().unwrap_or("").replace('T', " ")
}

/// The first line of a text, at most `max` characters.
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
    fn terminals_are_not_steered() {
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
        // What writing from right to left needs, and joins characters, stays.
        assert_eq!(
            printable("\u{200f}שלום 👩\u{200d}🚒"),
            "\u{200f}שלום 👩\u{200d}🚒"
        );
        assert_eq!(first_line("abcdef\nx", 4), "abc…");
        assert_eq!(first_line("abcd\nx", 4), "abcd");
    }
}
