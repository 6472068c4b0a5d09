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

/// The result of a search in a text that may not have arrived completely.
enum Lookahead<T> {
    Found(T),
    /// The text does not contain it, whatever follows.
    Absent,
    /// Found if the text ends here; more text could change the result.
    FoundAtEnd(T),
    /// More text is needed to decide.
    NeedsMore,
}

/// The fence of an open block: its character and their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    fence_char: char,
    len: usize,
}

/// The state between tokens.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// Whether the next token does not start a line.
    is_inside_line: bool,
    /// The fence of the open block, if a block is open.
    fence: Option<Fence>,
    /// Whether the limit of markers is reached, so that further ones are text.
    pub(super) markers_are_text: bool,
}

impl Scanner {
    /// The next token of `remaining`, which must not be empty, and the token's length in bytes. `None`: more text is
    /// needed. `is_last` states that none follows; then the result is never `None`.
    pub(super) fn next(&mut self, remaining: &str, is_last: bool) -> Option<(Token, usize)> {
        if !self.is_inside_line {
            if let Some((token, len)) = self.scan_fence_line(remaining, is_last)? {
                return Some((token, len));
            }
            self.is_inside_line = true;
        }
        let (token, len) = if self.fence.is_some() {
            (Token::Code, line_len(remaining))
        } else {
            self.scan_inline(remaining, is_last)?
        };
        self.is_inside_line = !remaining
            .get(..len)
            .is_some_and(|text| text.ends_with('\n'));
        Some((token, len))
    }

    /// The line at the start of `remaining`, if it opens or closes a fenced block; else `Some(None)`. The outer `None`:
    /// more text is needed.
    #[allow(clippy::option_option)]
    fn scan_fence_line(
        &mut self,
        remaining: &str,
        is_last: bool,
    ) -> Option<Option<(Token, usize)>> {
        let line = match self.fence {
            Some(fence) => scan_closing_fence(remaining, fence, is_last),
            None => scan_opening_fence(remaining, is_last),
        };
        match line {
            Lookahead::NeedsMore => None,
            Lookahead::Absent => Some(None),
            Lookahead::Found((len, fence)) | Lookahead::FoundAtEnd((len, fence)) => {
                self.fence = fence;
                Some(Some((Token::Code, len)))
            }
        }
    }

    fn scan_inline(&self, remaining: &str, is_last: bool) -> Option<(Token, usize)> {
        let special = remaining
            .find(['`', '[', '\\', '\n'])
            .unwrap_or(remaining.len());
        if special > 0 {
            return Some((Token::Text, special));
        }
        match remaining.as_bytes().first() {
            Some(b'\\') => match remaining.as_bytes().get(1) {
                None if !is_last => None,
                Some(b'[' | b'`') => Some((Token::Text, 2)),
                _ => Some((Token::Text, 1)),
            },
            Some(b'`') => {
                let run = run_len(remaining);
                match code_span(remaining, run) {
                    Lookahead::Found(len) => Some((Token::Code, len)),
                    Lookahead::FoundAtEnd(_) | Lookahead::NeedsMore if !is_last => None,
                    Lookahead::FoundAtEnd(len) => Some((Token::Code, len)),
                    Lookahead::NeedsMore | Lookahead::Absent => Some((Token::Text, run)),
                }
            }
            Some(b'[') if !self.markers_are_text => match scan_marker(remaining) {
                Lookahead::Found((keyword, body, len)) => Some((Token::Marker(keyword, body), len)),
                Lookahead::NeedsMore if !is_last => None,
                Lookahead::FoundAtEnd(_) | Lookahead::NeedsMore | Lookahead::Absent => {
                    Some((Token::Text, 1))
                }
            },
            _ => Some((Token::Text, 1)),
        }
    }
}

fn line_len(remaining: &str) -> usize {
    remaining.find('\n').map_or(remaining.len(), |end| end + 1)
}

fn run_len(remaining: &str) -> usize {
    let marks = remaining.bytes().take(RUN_MAX);
    marks.take_while(|b| *b == b'`').count()
}

/// A run of the character `fence_char` after up to three blanks: the number of characters, 0 if there is none, and the
/// text after the run.
fn run_at_line_start(remaining: &str, fence_char: char) -> (usize, &str) {
    let marks = remaining.trim_start_matches(' ');
    let after = marks.trim_start_matches(fence_char);
    if remaining.len() - marks.len() > 3 {
        return (0, remaining);
    }
    (marks.len() - after.len(), after)
}

/// The length of the line at the start of `remaining` if it opens a fenced block, and the block's fence.
fn scan_opening_fence(remaining: &str, is_last: bool) -> Lookahead<(usize, Option<Fence>)> {
    let blanks = remaining.trim_start_matches(' ');
    if blanks.is_empty() && remaining.len() <= 3 && !is_last {
        return Lookahead::NeedsMore;
    }
    let Some(fence_char) = blanks.chars().next().filter(|c| matches!(c, '`' | '~')) else {
        return Lookahead::Absent;
    };
    let (len, info) = run_at_line_start(remaining, fence_char);
    if len > FENCE_MAX {
        return Lookahead::Absent;
    }
    if info.is_empty() && len > 0 && !is_last {
        return Lookahead::NeedsMore;
    }
    if len < 3 {
        return Lookahead::Absent;
    }
    let end = info.find('\n');
    let line = info.get(..end.unwrap_or(info.len())).unwrap_or_default();
    if fence_char == '`' && line.contains('`') || line.len() > HELD_BYTES_MAX {
        return Lookahead::Absent;
    }
    match end {
        None if !is_last => Lookahead::NeedsMore,
        _ => Lookahead::Found((line_len(remaining), Some(Fence { fence_char, len }))),
    }
}

/// The length of the line at the start of `remaining` if it closes the block with this fence.
fn scan_closing_fence(
    remaining: &str,
    fence: Fence,
    is_last: bool,
) -> Lookahead<(usize, Option<Fence>)> {
    let (len, after) = run_at_line_start(remaining, fence.fence_char);
    let end = after.trim_start_matches([' ', '\t', '\r']);
    if remaining.len() - end.len() > HELD_BYTES_MAX {
        return Lookahead::Absent;
    }
    let blank = remaining.len() <= 3 && remaining.bytes().all(|b| b == b' ');
    if end.is_empty() && (len > 0 || blank) && !is_last {
        return Lookahead::NeedsMore;
    }
    if len >= fence.len && (end.is_empty() || end.starts_with('\n')) {
        return Lookahead::Found((line_len(remaining), None));
    }
    Lookahead::Absent
}

/// The length of code that begins and ends with a run of `run` backticks on one line, including both runs.
fn code_span(remaining: &str, run: usize) -> Lookahead<usize> {
    let mut at = run;
    loop {
        let after = remaining.get(at..).unwrap_or_default();
        let next = after.find(['`', '\n']);
        let end = at + next.unwrap_or(after.len());
        if end > HELD_BYTES_MAX {
            return Lookahead::Absent;
        }
        let run_start = remaining.get(end..).unwrap_or_default();
        let len = run_len(run_start);
        if next.is_none() || len == run_start.len() && len < RUN_MAX {
            // The line, or the run of backticks at its end, may continue in text that has not arrived.
            return if len == run {
                Lookahead::FoundAtEnd(end + len)
            } else {
                Lookahead::NeedsMore
            };
        }
        if len == 0 {
            return Lookahead::Absent;
        }
        at = end + len;
        if len == run {
            return Lookahead::Found(at);
        }
    }
}

/// The marker at the start of `remaining`, which begins with `[`: its keyword, the range of its body and its length.
fn scan_marker(remaining: &str) -> Lookahead<(Keyword, Range<usize>, usize)> {
    let after_bracket = remaining.get(1..).unwrap_or_default();
    let word = after_bracket.trim_start_matches([' ', '\t']);
    if after_bracket.len() - word.len() > BLANKS_MAX {
        return Lookahead::Absent;
    }
    for (name, keyword) in KEYWORDS {
        let compared_len = word.len().min(name.len());
        let name_start = &name.as_bytes()[..compared_len];
        if word.as_bytes()[..compared_len].eq_ignore_ascii_case(name_start) {
            if compared_len < name.len() {
                return Lookahead::NeedsMore;
            }
            let at = remaining.len() - word.len() + name.len();
            return scan_marker_body(remaining, at, keyword);
        }
    }
    Lookahead::Absent
}

/// Reads a marker after its keyword, which ends at `at`.
fn scan_marker_body(
    remaining: &str,
    at: usize,
    keyword: Keyword,
) -> Lookahead<(Keyword, Range<usize>, usize)> {
    let after = remaining.get(at..).unwrap_or_default();
    let colon = after.trim_start_matches([' ', '\t']);
    if after.len() - colon.len() > BLANKS_MAX {
        return Lookahead::Absent;
    }
    let at = remaining.len() - colon.len();
    let begin = match colon.chars().next() {
        None => return Lookahead::NeedsMore,
        Some(']') if keyword == Keyword::Drop => {
            return Lookahead::Found((keyword, at..at, at + 1));
        }
        Some(c @ (':' | '：' | '﹕')) => at + c.len_utf8(),
        _ => return Lookahead::Absent,
    };
    let text = remaining.get(begin..).unwrap_or_default();
    let (spans_lines, max) = match keyword {
        Keyword::TeamTask => (true, HELD_BYTES_MAX),
        _ => (false, NAMES_BYTES_MAX),
    };
    let mut open_brackets = 0_usize;
    for (i, c) in text.char_indices() {
        match c {
            _ if i > max => return Lookahead::Absent,
            ']' if open_brackets == 0 => {
                return Lookahead::Found((keyword, begin..begin + i, begin + i + 1));
            }
            ']' => open_brackets -= 1,
            '[' if spans_lines => open_brackets += 1,
            '[' => return Lookahead::Absent,
            '\n' if !spans_lines => return Lookahead::Absent,
            _ => {}
        }
    }
    if text.len() > max {
        Lookahead::Absent
    } else {
        Lookahead::NeedsMore
    }
}
