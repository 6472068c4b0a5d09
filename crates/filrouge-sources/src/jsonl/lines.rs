//! Reads the lines of a file that its program may be writing, in one pass and with one buffer. The longest accepted
//! line bounds the buffer.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

/// The length of the longest line that is read, in bytes; a longer line is reported and left out.
pub(super) const LINE_BYTES_MAX: usize = 64 << 20;

/// The number of bytes per read from the operating system.
const BUFFER_BYTES: usize = 256 << 10;

/// One line without its line ending.
pub(super) struct Line<'a> {
    /// The number of lines read so far, including this one. It is the line's number in the file unless
    /// [`Lines::skip_to`] skipped lines.
    pub(super) number: u64,
    /// Its bytes.
    pub(super) bytes: &'a [u8],
    /// Whether its line ending was written.
    pub(super) ended: bool,
    /// Whether the line is longer than [`LINE_BYTES_MAX`]; `bytes` is then empty.
    pub(super) too_long: bool,
}

/// Reads a file line by line.
pub(super) struct Lines {
    file: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    /// The byte offset of the next line in the file.
    pub(super) at: u64,
}

impl Lines {
    pub(super) fn new(file: File) -> Self {
        Self {
            file: BufReader::with_capacity(BUFFER_BYTES, file),
            line: Vec::new(),
            number: 0,
            at: 0,
        }
    }

    /// Continues with the first line that begins at byte `at` or after it; never moves backwards.
    pub(super) fn skip_to(&mut self, at: u64) -> io::Result<()> {
        if at > self.at {
            self.file.seek(SeekFrom::Start(at - 1))?;
            self.at = at - 1;
            self.at += self.file.skip_until(b'\n')? as u64;
        }
        Ok(())
    }

    /// Returns the next line; `None` at the end of the file.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let mut limited = (&mut self.file).take(LINE_BYTES_MAX as u64 + 1);
        let length = limited.read_until(b'\n', &mut self.line)?;
        if length == 0 {
            return Ok(None);
        }
        self.at += length as u64;
        self.number += 1;
        let ended = self.line.ends_with(b"\n");
        let too_long = !ended && self.line.len() > LINE_BYTES_MAX;
        if too_long {
            self.line.clear();
            self.at += self.file.skip_until(b'\n')? as u64;
        }
        let bytes = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        Ok(Some(Line {
            number: self.number,
            bytes: bytes.strip_suffix(b"\r").unwrap_or(bytes),
            ended,
            too_long,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn lines_of(text: &[u8]) -> Vec<(u64, Vec<u8>, bool, bool)> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut lines = Lines::new(file);
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push((line.number, line.bytes.to_vec(), line.ended, line.too_long));
        }
        all
    }

    #[test]
    fn lines_are_cut_at_line_feeds_alone() {
        let long = vec![b'x'; 3 * BUFFER_BYTES + 7];
        let mut text = b"a\r\n\nb\x0b\n".to_vec();
        text.extend(&long);
        text.extend(b"\ntorn");
        let all = lines_of(&text);
        let bytes: Vec<_> = all.iter().map(|line| line.1.as_slice()).collect();
        assert_eq!(bytes, [b"a" as &[u8], b"", b"b\x0b", &long, b"torn"]);
        assert_eq!(
            all.iter().map(|line| line.2).filter(|ended| !ended).count(),
            1
        );
        assert!(lines_of(b"").is_empty());
    }

    #[test]
    fn skipping_continues_at_the_beginning_of_a_line() {
        for (at, next) in [
            (0, "one"),
            (1, "two"),
            (4, "two"),
            (5, "three"),
            (8, "three"),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(b"one\ntwo\nthree\n").unwrap();
            file.seek(SeekFrom::Start(0)).unwrap();
            let mut lines = Lines::new(file);
            lines.skip_to(at).unwrap();
            assert_eq!(
                lines.next().unwrap().unwrap().bytes,
                next.as_bytes(),
                "{at}"
            );
        }
    }

    #[test]
    fn only_the_line_that_is_too_long_is_left_out() {
        let mut text = vec![b'x'; LINE_BYTES_MAX + BUFFER_BYTES];
        text.extend(b"\nnext\n");
        let all = lines_of(&text);
        assert_eq!((all.len(), all[0].3, all[0].1.len()), (2, true, 0));
        assert_eq!(
            (all[1].0, all[1].1.as_slice(), all[1].3),
            (2, b"next" as &[u8], false)
        );
    }
}
