//! The text that stays when markers are taken out, as it comes.

use std::ops::Range;

/// Blanks are held back until something is behind them: those around a marker, and those at the end, are not shown.
#[derive(Debug)]
pub(super) struct Visible {
    content: String,
    given: usize,
    code: Vec<Range<usize>>,
    blanks: String,
    line_is_blank: bool,
    behind_marker: bool,
}

impl Default for Visible {
    fn default() -> Self {
        Self {
            content: String::new(),
            given: 0,
            code: Vec::new(),
            blanks: String::new(),
            line_is_blank: true,
            behind_marker: false,
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

    pub(super) fn marker(&mut self) {
        self.behind_marker = true;
    }

    /// What has come since the last call.
    pub(super) fn new_text(&mut self) -> String {
        let new = self
            .content
            .get(self.given..)
            .unwrap_or_default()
            .to_owned();
        self.given = self.content.len();
        new
    }

    /// The whole, and where in it code stands.
    pub(super) fn finish(self) -> (String, Vec<Range<usize>>) {
        (self.content, self.code)
    }

    fn pieces(&mut self, text: &str, code: bool) {
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (word, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
            if !word.is_empty() {
                self.word(word, code);
            }
            let end = behind
                .find(|c: char| !c.is_whitespace())
                .unwrap_or(behind.len());
            let (blanks, behind) = behind.split_at_checked(end).unwrap_or((behind, ""));
            for c in blanks.chars() {
                self.blank(c);
            }
            rest = behind;
        }
    }

    fn word(&mut self, word: &str, code: bool) {
        if self.content.is_empty() {
            let line = self.blanks.rfind('\n').map_or(0, |end| end + 1);
            self.blanks.drain(..line);
        }
        self.content.push_str(&self.blanks);
        self.blanks.clear();
        let begin = self.content.len();
        self.content.push_str(word);
        if code {
            match self.code.last_mut() {
                Some(last) if last.end == begin => last.end = self.content.len(),
                _ => self.code.push(begin..self.content.len()),
            }
        }
        self.line_is_blank = false;
        self.behind_marker = false;
    }

    fn blank(&mut self, c: char) {
        if !self.behind_marker {
            self.blanks.push(c);
        } else if c == '\n' {
            // What stood before the marker was held back for it.
            let kept = self
                .blanks
                .trim_end_matches(|c: char| c.is_whitespace() && c != '\n');
            self.blanks.truncate(kept.len());
            self.behind_marker = false;
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
