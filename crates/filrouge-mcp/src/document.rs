//! Extracts one page from a document while the document is written.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// A writer that receives an entire document, counts its characters, and keeps those of one page.
pub(crate) struct Window<'a> {
    stopped: &'a AtomicBool,
    /// The page's first character, counted from 0.
    from: usize,
    /// The character after the page.
    to: usize,
    /// The number of characters written so far.
    seen: usize,
    kept: Vec<u8>,
}

impl<'a> Window<'a> {
    /// Creates a window on the page of `chars` characters that begins at character `from`, counted from 0. Writes fail
    /// once `stopped` is set.
    pub(crate) const fn new(from: usize, chars: usize, stopped: &'a AtomicBool) -> Self {
        Self {
            stopped,
            from,
            to: from.saturating_add(chars),
            seen: 0,
            kept: Vec::new(),
        }
    }

    /// The kept characters.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
    }

    /// The number of characters written so far: after the last write, the length of the document.
    pub(crate) const fn total(&self) -> usize {
        self.seen
    }

    /// The position of the character after the page; `None` when the page reaches the end of the document. Valid after
    /// the last write.
    pub(crate) fn next(&self) -> Option<usize> {
        (self.to < self.seen).then_some(self.to)
    }
}

/// Whether a byte is a continuation byte of UTF-8: not the first one of its character.
const fn continues(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

impl Write for Window<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stopped.load(Ordering::Relaxed) {
            // Not `Interrupted`: `write_all` would retry it.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let (mut first, mut end) = (None, bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            // A character may be split over two writes, so continuation bytes belong to the character counted before
            // them, even if an earlier write contained its first byte.
            if !continues(*byte) {
                self.seen += 1;
            }
            let inside = self.seen > self.from && self.seen <= self.to;
            if inside && first.is_none() {
                first = Some(at);
            }
            if !inside && first.is_some() && end == bytes.len() {
                end = at;
            }
        }
        if let Some(kept) = first.and_then(|first| bytes.get(first..end)) {
            self.kept.extend_from_slice(kept);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concatenated_pages_equal_the_document() {
        let never_stopped = AtomicBool::new(false);
        let document = "añ漢字🙂\nb".repeat(7);
        for (chars, chunk) in [(1, 1), (2, 3), (5, 4), (1000, 2), (49, 1000)] {
            let (mut joined, mut from) = (String::new(), 0);
            loop {
                let mut window = Window::new(from, chars, &never_stopped);
                for bytes in document.as_bytes().chunks(chunk) {
                    window.write_all(bytes).unwrap();
                }
                let page = window.text();
                assert!(page.chars().count() <= chars);
                joined.push_str(&page);
                assert_eq!(window.total(), document.chars().count());
                match window.next() {
                    Some(next) => from = next,
                    None => break,
                }
            }
            assert_eq!(joined, document, "{chars} {chunk}");
        }
    }
    #[test]
    fn a_stopped_window_refuses_writes() {
        let stopped = AtomicBool::new(false);
        let mut window = Window::new(0, 10, &stopped);
        window.write_all(b"so").unwrap();
        stopped.store(true, Ordering::Relaxed);
        assert!(window.write_all(b" far").is_err());
        assert_eq!((window.text(), window.total()), ("so".to_owned(), 2));
    }
}
