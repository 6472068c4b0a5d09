//! Both ends of a file: what a list shows stands there, and the middle can be large.

use std::fs::File;
use std::io;

use super::LogFile;
use super::lines::{Line, Lines};
use crate::{SkipReason, Skipped};

/// How much of the last end is read, and of the first one at most while what is looked for was not found.
const END_BYTES: u64 = 64 << 10;
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// A title made of a prompt is cut after so many characters.
const TITLE_CHARS: usize = 120;

/// What both ends of a file of records contain. Gives `take` the lines of the first end up to where `found` has what it is
/// for, then those of the last end.
pub(crate) fn records<T: Default>(
    file: &LogFile,
    take: impl Fn(&mut T, &str),
    is_enough: impl Fn(&T) -> bool,
    count: fn(&T) -> usize,
) -> Result<T, Skipped> {
    let skip = |reason, detail: &str| Skipped::new(&file.path, reason, detail);
    let unreadable = |e: io::Error| skip(SkipReason::Unreadable, &e.to_string());
    if file.state.size == 0 {
        return Err(skip(SkipReason::Empty, "0 bytes"));
    }
    let mut found = T::default();
    let give = |found: &mut T, line: &Line<'_>| {
        if let Ok(text) = std::str::from_utf8(line.bytes) {
            take(found, text.trim());
        }
    };
    let mut lines = Lines::new(File::open(&file.path).map_err(unreadable)?);
    while lines.at < HEAD_BYTES_MAX && !is_enough(&found) {
        match lines.next().map_err(unreadable)? {
            Some(line) => give(&mut found, &line),
            None => break,
        }
    }
    let last = file.state.size.saturating_sub(END_BYTES);
    lines.skip_to(last).map_err(unreadable)?;
    while let Some(line) = lines.next().map_err(unreadable)? {
        give(&mut found, &line);
    }
    match count(&found) {
        0 => Err(skip(
            SkipReason::Malformed,
            "holds no record that can be read",
        )),
        _ => Ok(found),
    }
}

/// A prompt as a title: its first line with words.
pub(crate) fn title_of(text: &str) -> Option<Box<str>> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(match line.char_indices().nth(TITLE_CHARS) {
        Some((cut, _)) => format!("{}…", line.get(..cut).unwrap_or_default()).into(),
        None => line.into(),
    })
}
