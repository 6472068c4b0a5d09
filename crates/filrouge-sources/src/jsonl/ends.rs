//! Both ends of a file: what a list shows stands there, and the middle can be large.

use std::fs::File;

use super::LogFile;
use super::lines::{head, tail};
use crate::{SkipReason, Skipped};

/// How much of an end is read at first, and at most while what is looked for was not found.
const END_BYTES: usize = 64 << 10;
const HEAD_BYTES_MAX: usize = 1 << 20;

/// A title made of a prompt is cut after so many characters.
const TITLE_CHARS: usize = 120;

/// What both ends of a file of records contain; see [`ends`].
pub(crate) fn records<T: Default>(
    file: &LogFile,
    take: impl Fn(&mut T, &str),
    is_enough: impl Fn(&T) -> bool,
    count: fn(&T) -> usize,
) -> Result<T, Skipped> {
    let skip = |reason, detail| Err(Skipped::new(&file.path, reason, detail));
    if file.state.size == 0 {
        return skip(SkipReason::Empty, "0 bytes");
    }
    let mut found = T::default();
    let take = |found: &mut T, line: &[u8]| {
        if let Ok(text) = std::str::from_utf8(line) {
            take(found, text.trim());
        }
    };
    ends(file, &mut found, take, is_enough)?;
    match count(&found) {
        0 => skip(SkipReason::Malformed, "holds no record that can be read"),
        _ => Ok(found),
    }
}

/// Gives `take` the lines of both ends of a file. Of the first end only those up to where `found` has what it is for;
/// until then more of it is read.
fn ends<T: Default>(
    file: &LogFile,
    found: &mut T,
    take: impl Fn(&mut T, &[u8]),
    is_enough: impl Fn(&T) -> bool,
) -> Result<(), Skipped> {
    let unreadable =
        |e: std::io::Error| Skipped::new(&file.path, SkipReason::Unreadable, e.to_string());
    let mut opened = File::open(&file.path).map_err(unreadable)?;
    let mut bytes = END_BYTES;
    loop {
        let (text, whole) = head(&mut opened, bytes).map_err(unreadable)?;
        *found = T::default();
        lines(found, &text, whole, &take, |found| {
            !whole && is_enough(found)
        });
        if whole {
            return Ok(());
        }
        if is_enough(found) || bytes >= HEAD_BYTES_MAX {
            break;
        }
        bytes *= 4;
    }
    let text = tail(&mut opened, file.state.size, END_BYTES).map_err(unreadable)?;
    lines(found, &text, true, &take, |_| false);
    Ok(())
}

fn lines<T>(
    found: &mut T,
    text: &[u8],
    whole: bool,
    take: impl Fn(&mut T, &[u8]),
    stop: impl Fn(&T) -> bool,
) {
    let mut rest = text;
    while !rest.is_empty() && !stop(found) {
        let end = memchr::memchr(b'\n', rest);
        let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        rest = end.and_then(|end| rest.get(end + 1..)).unwrap_or_default();
        // What is behind the last line feed is whole only at the end of the file.
        if end.is_some() || whole {
            take(found, line);
        }
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
