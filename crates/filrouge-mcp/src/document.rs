//! Extracts one page from a document while the document is written.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// A writer that receives an entire document, counts its characters, and keeps those of one page.
pub(crate) struct Window<'a> {
    stopped: &'a AtomicBool,
    /// The page's first character, counted from 0.
    start: usize,
    /// The character after the page.
    end: usize,
    /// The number of characters written so far.
    written_chars: usize,
    page_bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    /// Creates a window on the page of `chars` characters that begins at character `start`, counted from 0. Writes fail
    /// once `stopped` is set.
    pub(crate) const fn new(start: usize, chars: usize, stopped: &'a AtomicBool) -> Self {
        Self {
            stopped,
            start,
            end: start.saturating_add(chars),
            written_chars: 0,
            page_bytes: Vec::new(),
        }
    }

    /// The kept characters.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.page_bytes).into_owned()
    }

    /// The number of characters written so far: after the last write, the length of the document.
    pub(crate) const fn total(&self) -> usize {
        self.written_chars
    }

    /// The position of the character after the page; `None` when the page reaches the end of the document. Valid after
    /// the last write.
    pub(crate) fn next_page_start(&self) -> Option<usize> {
        (self.end < self.written_chars).then_some(self.end)
    }
}

/// Whether a byte is a continuation byte of UTF-8: not the first one of its character.
const fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

impl Write for Window<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stopped.load(Ordering::Relaxed) {
            // Not `Interrupted`: `write_all` would retry it.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        for byte in bytes {
            // A character may be split over two writes, so continuation bytes belong to the character counted before
            // them, even if an earlier write contained its first byte.
            if !is_continuation(*byte) {
                self.written_chars += 1;
            }
            if self.written_chars > self.start && self.written_chars <= self.end {
                self.page_bytes.push(*byte);
            }
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
            let (mut concatenated, mut start) = (String::new(), 0);
            loop {
                let mut window = Window::new(start, chars, &never_stopped);
                for bytes in document.as_bytes().chunks(chunk) {
                    window.write_all(bytes).unwrap();
                }
                let page = window.text();
                assert!(page.chars().count() <= chars);
                concatenated.push_str(&page);
                assert_eq!(window.total(), document.chars().count());
                match window.next_page_start() {
                    Some(next_start) => start = next_start,
                    None => break,
                }
            }
            assert_eq!(concatenated, document, "{chars} {chunk}");
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
