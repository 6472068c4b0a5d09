//! The text without its markers, built incrementally.

use std::ops::Range;

/// The visible text so far. Blanks are held back until more text follows, because those around a marker and at the end
/// of the text are not shown.
#[derive(Debug)]
pub(super) struct Visible {
    /// The visible text.
    content: String,
    /// How many of its bytes `new_text` has returned.
    returned: usize,
    /// The ranges of code in it.
    code: Vec<Range<usize>>,
    /// The blanks that are held back.
    blanks: String,
    /// Whether the current line has nothing but blanks and markers so far.
    line_is_blank: bool,
    /// Whether only blanks have followed the newest marker.
    after_marker: bool,
}

impl Default for Visible {
    fn default() -> Self {
        Self {
            content: String::new(),
            returned: 0,
            code: Vec::new(),
            blanks: String::new(),
            line_is_blank: true,
            after_marker: false,
        }
    }
}

impl Visible {
    pub(super) fn text(&mut self, text: &str) {
        self.pieces(text, false);
    }

    pub(super) fn code(&mut self, text: &str) {
        self.pieces(text, true);
    }

    /// Notes that a marker was removed here.
    pub(super) fn marker(&mut self) {
        self.after_marker = true;
    }

    /// The text added since the last call.
    pub(super) fn new_text(&mut self) -> String {
        let new = self
            .content
            .get(self.returned..)
            .unwrap_or_default()
            .to_owned();
        self.returned = self.content.len();
        new
    }

    /// The entire text, and the ranges of code in it.
    pub(super) fn finish(self) -> (String, Vec<Range<usize>>) {
        (self.content, self.code)
    }

    /// Adds text, split into words and blanks.
    fn pieces(&mut self, text: &str, is_code: bool) {
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            if !word.is_empty() {
                self.word(word, is_code);
            }
            let end = after
                .find(|c: char| !c.is_whitespace())
                .unwrap_or(after.len());
            let (blanks, after) = after.split_at_checked(end).unwrap_or((after, ""));
            for c in blanks.chars() {
                self.blank(c);
            }
            rest = after;
        }
    }

    fn word(&mut self, word: &str, is_code: bool) {
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
        self.line_is_blank = false;
        self.after_marker = false;
    }

    fn blank(&mut self, c: char) {
        if !self.after_marker {
            self.blanks.push(c);
        } else if c == '\n' {
            // Drop the blanks before the marker, which were held back.
            let kept = self
                .blanks
                .trim_end_matches(|c: char| c.is_whitespace() && c != '\n');
            self.blanks.truncate(kept.len());
            self.after_marker = false;
            if !self.line_is_blank {
                self.blanks.push(c);
            }
        } else if !self.line_is_blank && self.blanks.is_empty() {
            self.blanks.push(c);
        }
        if c == '\n' {
            self.line_is_blank = true;
        }
    }
}
