//! Separates text, code and markers while the text arrives.

use std::ops::Range;

use super::{HELD_BYTES_MAX, NAMES_BYTES_MAX};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    Next,
    From,
    Drop,
    TeamTask,
}

const KEYWORDS: [(&str, Keyword); 4] = [
    ("NEXT", Keyword::Next),
    ("FROM", Keyword::From),
    ("DROP", Keyword::Drop),
    ("TEAM_TASK", Keyword::TeamTask),
];

/// The longest run of backticks that counts as one run; a longer one counts as several.
const RUN_MAX: usize = 128;

/// The longest run of backticks or tildes that is a fence.
const FENCE_MAX: usize = 1000;

/// The maximum number of blanks around a keyword.
const BLANKS_MAX: usize = 16;

/// The kind of the next bytes. A token is returned only once the bytes that decide its kind have arrived, and only
/// bytes within a fixed distance decide. So it makes no difference how a text is split, and little of it is held back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    Text,
    Code,
    /// A marker, and the range of its body.
    Marker(Keyword, Range<usize>),
}

/// The result of looking for something in a text that may not have arrived completely.
enum Ahead<T> {
    Found(T),
    /// It is not there, whatever follows.
    Not,
    /// Found if the text ends here. More text could change this.
    Last(T),
    /// More text is needed to decide.
    More,
}

/// The fence of an open block: its character and the number of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    mark: char,
    len: usize,
}

/// The state between tokens.
#[derive(Debug)]
pub(super) struct Scanner {
    line_start: bool,
    /// The fenced block that is open.
    fence: Option<Fence>,
    /// Whether the limit of markers is reached, so that further ones are text.
    pub(super) markers_are_text: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            line_start: true,
            fence: None,
            markers_are_text: false,
        }
    }
}

impl Scanner {
    /// The next token of `rest`, which must not be empty, and the token's length in bytes. `None`: more text is needed.
    /// `last` states that none follows; then the result is never `None`.
    pub(super) fn next(&mut self, rest: &str, last: bool) -> Option<(Token, usize)> {
        if self.line_start {
            if let Some((token, len)) = self.fence_line(rest, last)? {
                return Some((token, len));
            }
            self.line_start = false;
        }
        let (token, len) = if self.fence.is_some() {
            (Token::Code, line_len(rest))
        } else {
            self.inline(rest, last)?
        };
        self.line_start = rest.get(..len).is_some_and(|text| text.ends_with('\n'));
        Some((token, len))
    }

    /// The line at the start of `rest`, if it opens or closes a fenced block; else `Some(None)`. The outer `None`: more
    /// text is needed.
    #[allow(clippy::option_option)]
    fn fence_line(&mut self, rest: &str, last: bool) -> Option<Option<(Token, usize)>> {
        let line = match self.fence {
            Some(fence) => closing(rest, fence, last),
            None => opening(rest, last),
        };
        match line {
            Ahead::More => None,
            Ahead::Not => Some(None),
            Ahead::Found((len, fence)) | Ahead::Last((len, fence)) => {
                self.fence = fence;
                Some(Some((Token::Code, len)))
            }
        }
    }

    fn inline(&self, rest: &str, last: bool) -> Option<(Token, usize)> {
        let special = rest.find(['`', '[', '\\', '\n']).unwrap_or(rest.len());
        if special > 0 {
            return Some((Token::Text, special));
        }
        match rest.as_bytes().first() {
            Some(b'\\') => match rest.as_bytes().get(1) {
                None if !last => None,
                Some(b'[' | b'`') => Some((Token::Text, 2)),
                _ => Some((Token::Text, 1)),
            },
            Some(b'`') => {
                let run = run_len(rest);
                match span(rest, run) {
                    Ahead::Found(len) => Some((Token::Code, len)),
                    Ahead::Last(_) | Ahead::More if !last => None,
                    Ahead::Last(len) => Some((Token::Code, len)),
                    Ahead::More | Ahead::Not => Some((Token::Text, run)),
                }
            }
            Some(b'[') if !self.markers_are_text => match marker(rest) {
                Ahead::Found((keyword, body, len)) => Some((Token::Marker(keyword, body), len)),
                Ahead::More if !last => None,
                Ahead::Last(_) | Ahead::More | Ahead::Not => Some((Token::Text, 1)),
            },
            _ => Some((Token::Text, 1)),
        }
    }
}

fn line_len(rest: &str) -> usize {
    rest.find('\n').map_or(rest.len(), |end| end + 1)
}

fn run_len(rest: &str) -> usize {
    let marks = rest.bytes().take(RUN_MAX);
    marks.take_while(|b| *b == b'`').count()
}

/// A run of the character `mark` after up to three blanks: the number of characters, 0 if there is none, and the text
/// after the run.
fn run_at_line_start(rest: &str, mark: char) -> (usize, &str) {
    let marks = rest.trim_start_matches(' ');
    let after = marks.trim_start_matches(mark);
    if rest.len() - marks.len() > 3 {
        return (0, rest);
    }
    (marks.len() - after.len(), after)
}

/// The length of the line at the start of `rest` if it opens a fenced block, and the block's fence.
fn opening(rest: &str, last: bool) -> Ahead<(usize, Option<Fence>)> {
    let blanks = rest.trim_start_matches(' ');
    if blanks.is_empty() && rest.len() <= 3 {
        return more(last);
    }
    let Some(mark) = blanks.chars().next().filter(|c| matches!(c, '`' | '~')) else {
        return Ahead::Not;
    };
    let (len, info) = run_at_line_start(rest, mark);
    if len > FENCE_MAX {
        return Ahead::Not;
    }
    if info.is_empty() && len > 0 && !last {
        return Ahead::More;
    }
    if len < 3 {
        return Ahead::Not;
    }
    let end = info.find('\n');
    let line = info.get(..end.unwrap_or(info.len())).unwrap_or_default();
    if mark == '`' && line.contains('`') || line.len() > HELD_BYTES_MAX {
        return Ahead::Not;
    }
    match end {
        None if !last => Ahead::More,
        _ => Ahead::Found((line_len(rest), Some(Fence { mark, len }))),
    }
}

/// The length of the line at the start of `rest` if it closes the block with this fence.
fn closing(rest: &str, fence: Fence, last: bool) -> Ahead<(usize, Option<Fence>)> {
    let (len, after) = run_at_line_start(rest, fence.mark);
    let end = after.trim_start_matches([' ', '\t', '\r']);
    if rest.len() - end.len() > HELD_BYTES_MAX {
        return Ahead::Not;
    }
    let blank = rest.len() <= 3 && rest.bytes().all(|b| b == b' ');
    if end.is_empty() && (len > 0 || blank) && !last {
        return Ahead::More;
    }
    if len >= fence.len && (end.is_empty() || end.starts_with('\n')) {
        return Ahead::Found((line_len(rest), None));
    }
    Ahead::Not
}

/// The result if the text that has arrived does not decide.
fn more<T>(last: bool) -> Ahead<T> {
    if last { Ahead::Not } else { Ahead::More }
}

/// The length of code that begins and ends with a run of `run` backticks on one line, including both runs.
fn span(rest: &str, run: usize) -> Ahead<usize> {
    let mut at = run;
    loop {
        let after = rest.get(at..).unwrap_or_default();
        let next = after.find(['`', '\n']);
        let end = at + next.unwrap_or(after.len());
        if end > HELD_BYTES_MAX {
            return Ahead::Not;
        }
        let run_start = rest.get(end..).unwrap_or_default();
        let len = run_len(run_start);
        if next.is_none() || len == run_start.len() && len < RUN_MAX {
            // The line, or the run of backticks at its end, may continue in text that has not arrived.
            return if len == run {
                Ahead::Last(end + len)
            } else {
                Ahead::More
            };
        }
        if len == 0 {
            return Ahead::Not;
        }
        at = end + len;
        if len == run {
            return Ahead::Found(at);
        }
    }
}

/// The marker at the start of `rest`, which begins with `[`: its keyword, the range of its body and its length.
fn marker(rest: &str) -> Ahead<(Keyword, Range<usize>, usize)> {
    let inside = rest.get(1..).unwrap_or_default();
    let word = inside.trim_start_matches([' ', '\t']);
    if inside.len() - word.len() > BLANKS_MAX {
        return Ahead::Not;
    }
    for (name, keyword) in KEYWORDS {
        let compared = word.len().min(name.len());
        let begins = word.get(..compared).is_some_and(|w| {
            name.get(..compared)
                .is_some_and(|n| w.eq_ignore_ascii_case(n))
        });
        if begins {
            if compared < name.len() {
                return Ahead::More;
            }
            let at = rest.len() - word.len() + name.len();
            return body(rest, at, keyword);
        }
    }
    Ahead::Not
}

/// Reads a marker after its keyword, which ends at `at`.
fn body(rest: &str, at: usize, keyword: Keyword) -> Ahead<(Keyword, Range<usize>, usize)> {
    let after = rest.get(at..).unwrap_or_default();
    let colon = after.trim_start_matches([' ', '\t']);
    if after.len() - colon.len() > BLANKS_MAX {
        return Ahead::Not;
    }
    let at = rest.len() - colon.len();
    let begin = match colon.chars().next() {
        None => return Ahead::More,
        Some(']') if keyword == Keyword::Drop => return Ahead::Found((keyword, at..at, at + 1)),
        Some(c @ (':' | '：' | '﹕')) => at + c.len_utf8(),
        _ => return Ahead::Not,
    };
    let text = rest.get(begin..).unwrap_or_default();
    let (spans_lines, max) = match keyword {
        Keyword::TeamTask => (true, HELD_BYTES_MAX),
        _ => (false, NAMES_BYTES_MAX),
    };
    let mut open = 0_usize;
    for (i, c) in text.char_indices() {
        match c {
            _ if i > max => return Ahead::Not,
            ']' if open == 0 => return Ahead::Found((keyword, begin..begin + i, begin + i + 1)),
            ']' => open -= 1,
            '[' if spans_lines => open += 1,
            '[' => return Ahead::Not,
            '\n' if !spans_lines => return Ahead::Not,
            _ => {}
        }
    }
    if text.len() > max {
        Ahead::Not
    } else {
        Ahead::More
    }
}
