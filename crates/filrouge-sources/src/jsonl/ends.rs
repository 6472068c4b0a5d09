//! Reads only the beginning and the end of a file. They contain everything that a list of sessions shows; the part
//! between them can be large and is not read.

use std::fs::File;
use std::io;

use super::LogFile;
use super::lines::{Line, Lines};
use crate::{SkipReason, Skipped};

/// The number of bytes read at the end of a file.
const END_BYTES: u64 = 64 << 10;
/// The maximum number of bytes read at the beginning of a file.
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// A title that is derived from a prompt is truncated to this many characters.
const TITLE_CHARS: usize = 120;

/// Collects facts from both ends of a file. Calls `add_line` with the lines at the beginning until `is_enough` returns
/// true or [`HEAD_BYTES_MAX`] bytes are read, then with the lines in the last [`END_BYTES`] bytes; no line is passed
/// twice.
///
/// `count` returns the number of records in the result. If it is 0, the file is reported as malformed.
pub(crate) fn read_both_ends<T: Default>(
    file: &LogFile,
    add_line: impl Fn(&mut T, &str),
    is_enough: impl Fn(&T) -> bool,
    count: fn(&T) -> usize,
) -> Result<T, Skipped> {
    let skip = |reason, detail: &str| Skipped::new(&file.path, reason, detail);
    let unreadable = |e: io::Error| skip(SkipReason::Unreadable, &e.to_string());
    if file.state.size == 0 {
        return Err(skip(SkipReason::Empty, "0 bytes"));
    }
    let mut result = T::default();
    let add = |result: &mut T, line: &Line<'_>| {
        if let Ok(text) = std::str::from_utf8(line.bytes) {
            add_line(result, text.trim());
        }
    };
    let mut lines = Lines::new(File::open(&file.path).map_err(unreadable)?);
    while lines.at < HEAD_BYTES_MAX && !is_enough(&result) {
        match lines.next().map_err(unreadable)? {
            Some(line) => add(&mut result, &line),
            None => break,
        }
    }
    let end_start = file.state.size.saturating_sub(END_BYTES);
    lines.skip_to(end_start).map_err(unreadable)?;
    while let Some(line) = lines.next().map_err(unreadable)? {
        add(&mut result, &line);
    }
    match count(&result) {
        0 => Err(skip(
            SkipReason::Malformed,
            "holds no record that can be read",
        )),
        _ => Ok(result),
    }
}

/// A prompt as a title: its first nonempty line, truncated.
pub(crate) fn title_of(text: &str) -> Option<Box<str>> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(match line.char_indices().nth(TITLE_CHARS) {
        Some((cut, _)) => format!("{}…", line.get(..cut).unwrap_or_default()).into(),
        None => line.into(),
    })
}
