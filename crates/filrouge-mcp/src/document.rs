//! A page of a document that is written as a whole.

use std::io::{self, Write};

/// Takes a document and keeps some of its characters.
pub(crate) struct Window {
    from: usize,
    to: usize,
    seen: usize,
    kept: Vec<u8>,
}

impl Window {
    /// Keeps `chars` characters from the one at `from` on.
    pub(crate) const fn new(from: usize, chars: usize) -> Self {
        Self {
            from,
            to: from.saturating_add(chars),
            seen: 0,
            kept: Vec::new(),
        }
    }

    /// What was kept.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
    }

    /// How many characters the document has.
    pub(crate) const fn total(&self) -> usize {
        self.seen
    }

    /// Where the page ends, unless that is the end of the document.
    pub(crate) fn next(&self) -> Option<usize> {
        (self.to < self.seen).then_some(self.to)
    }
}

/// A byte that does not begin a character of UTF-8.
const fn continues(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

impl Write for Window {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (mut first, mut behind) = (None, bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            // A character may come in two writes: what continues it belongs to the character counted last.
            if !continues(*byte) {
                self.seen += 1;
            }
            let inside = self.seen > self.from && self.seen <= self.to;
            if inside && first.is_none() {
                first = Some(at);
            }
            if !inside && first.is_some() && behind == bytes.len() {
                behind = at;
            }
        }
        if let Some(kept) = first.and_then(|first| bytes.get(first..behind)) {
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
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn pages_put_together_are_the_document() {
        let document = "añ漢字🙂\nb".repeat(7);
        for (chars, chunk) in [(1, 1), (2, 3), (5, 4), (1000, 2), (49, 1000)] {
            let (mut whole, mut from) = (String::new(), 0);
            loop {
                let mut window = Window::new(from, chars);
                for bytes in document.as_bytes().chunks(chunk) {
                    window.write_all(bytes).unwrap();
                }
                let page = window.text();
                assert!(page.chars().count() <= chars);
                whole.push_str(&page);
                assert_eq!(window.total(), document.chars().count());
                match window.next() {
                    Some(next) => from = next,
                    None => break,
                }
            }
            assert_eq!(whole, document, "{chars} {chunk}");
        }
    }
}
