//! The text without its markers, built incrementally.

use std::ops::Range;

/// The visible text so far. Blanks are held back until more text follows, because those around a marker and at the end
/// of the text are not shown.
#[derive(Debug, Default)]
pub(super) struct VisibleText {
    /// The visible text.
    content: String,
    /// The number of bytes of `content` that [`Self::take_new_text`] has returned.
    returned: usize,
    /// The ranges of code in it.
    code: Vec<Range<usize>>,
    /// The blanks that are held back.
    blanks: String,
    /// Whether the current line has more than blanks and markers so far.
    line_has_text: bool,
    /// Whether only blanks have followed the newest marker.
    pub(super) after_marker: bool,
}

impl VisibleText {
    /// The text added since the last call.
    pub(super) fn take_new_text(&mut self) -> String {
        let new = self.content[self.returned..].to_owned();
        self.returned = self.content.len();
        new
    }

    /// The entire text, and the ranges of code in it.
    pub(super) fn finish(self) -> (String, Vec<Range<usize>>) {
        (self.content, self.code)
    }

    /// Adds text, split into words and blanks.
    pub(super) fn push_pieces(&mut self, text: &str, is_code: bool) {
        for piece in text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end();
            if !word.is_empty() {
                self.push_word(word, is_code);
            }
            for c in piece[word.len()..].chars() {
                self.push_blank(c);
            }
        }
    }

    fn push_word(&mut self, word: &str, is_code: bool) {
        if self.content.is_empty() {
            let line = self.blanks.rfind('\n').map_or(0, |end| end + 1);
            self.blanks.drain(..line);
        }
        self.content.push_str(&self.blanks);
        self.blanks.clear();
        let begin = self.content.len();
        self.content.push_str(word);
        if is_code {
            match self.code.last_mut() {
                Some(last) if last.end == begin => last.end = self.content.len(),
                _ => self.code.push(begin..self.content.len()),
            }
        }
        self.line_has_text = true;
        self.after_marker = false;
    }

    fn push_blank(&mut self, c: char) {
        if !self.after_marker {
            self.blanks.push(c);
        } else if c == '\n' {
            // Drop the blanks before the marker, which were held back.
            let kept = self.blanks.rfind('\n').map_or(0, |end| end + 1);
            self.blanks.truncate(kept);
            self.after_marker = false;
            if self.line_has_text {
                self.blanks.push(c);
            }
        } else if self.line_has_text && self.blanks.is_empty() {
            self.blanks.push(c);
        }
        if c == '\n' {
            self.line_has_text = false;
        }
    }
}
