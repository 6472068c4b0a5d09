//! Recognizes private keys in PEM (RFC 7468), complete or truncated, with line breaks that may be escaped as in JSON.

use super::read::{Alphabet, Text, backslashes};
use super::shape::Shape;
use super::verdict::{CredentialTail, Verdict, undecided_if};

/// The maximum number of bytes of the label between `BEGIN` and the dashes.
const LABEL_MAX: usize = 48;
/// The minimum number of characters of the first line of the key.
const FIRST_LINE_MIN: usize = 24;
/// A run of at least this many characters is a line of the key. A shorter run can only be its last line.
const LINE_MIN: usize = 16;
/// The maximum number of words of headers before the key, such as `Proc-Type: 4,ENCRYPTED`.
const HEADER_WORDS: usize = 16;
const HEADER_WORD_MAX: usize = 80;
/// The maximum number of bytes of white space between two lines.
const SPACE_MAX: usize = 64;
const FOOTER_START: &[u8] = b"-----END";

/// The end of the white space at `at`, some of which may be escaped (`\n`); `None` if the text ends before that is
/// known.
fn skip_space(text: Text<'_>, at: usize) -> Option<usize> {
    let mut end = at;
    while end - at < SPACE_MAX {
        if text.may_arrive(end) {
            return None;
        }
        match text.get(end) {
            Some(b' ' | b'\t' | b'\r' | b'\n') => end += 1,
            Some(b'\\') => {
                let slashes = backslashes(text.from(end)).min(SPACE_MAX);
                if text.may_arrive(end + slashes) {
                    return None;
                }
                match text.get(end + slashes) {
                    Some(b'n' | b'r' | b't') => end += slashes + 1,
                    _ => break,
                }
            }
            _ => break,
        }
    }
    Some(end)
}

/// The verdict on a text from `start`, where `-----BEGIN ` starts; `after` is the end of these characters.
pub(super) fn judge(text: Text<'_>, start: usize, after: usize) -> Verdict {
    let label = text.from(after);
    let Some(length) = memchr::memchr(b'-', &label[..label.len().min(LABEL_MAX)]) else {
        let may_grow = label.len() < LABEL_MAX && !text.complete;
        return undecided_if(may_grow, start);
    };
    let is_label = label[..length]
        .iter()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b' ');
    if !is_label || memchr::memmem::find(&label[..length], b"PRIVATE KEY").is_none() {
        return Verdict::NoCredential;
    }
    match text.literal_at(after + length, b"-----") {
        None => return Verdict::Undecided(start),
        Some(false) => return Verdict::NoCredential,
        Some(true) => {}
    }
    let mut at = after + length + 5;
    for word in 0..HEADER_WORDS {
        let Some(begin) = skip_space(text, at) else {
            return Verdict::Undecided(start);
        };
        let line = text.run(begin, Alphabet::Base64, FIRST_LINE_MIN);
        if line.may_grow {
            return Verdict::Undecided(start);
        }
        if line.count >= FIRST_LINE_MIN {
            let tail = CredentialTail::Pem;
            return Verdict::with_tail(text, Shape::PrivateKey, start, line.end, tail);
        }
        let Some(end) = header_word(text, begin) else {
            return Verdict::Undecided(start);
        };
        // Headers begin with a name, and are short.
        let is_header = end > begin && end - begin < HEADER_WORD_MAX;
        if !is_header || word == 0 && text.get(end - 1) != Some(b':') {
            return Verdict::NoCredential;
        }
        at = end;
    }
    Verdict::NoCredential
}

/// The end of the header word at `at`; `None` if the text ends before that is known.
fn header_word(text: Text<'_>, at: usize) -> Option<usize> {
    let next = text.from(at).iter().take(HEADER_WORD_MAX);
    let is_word = |b: &&u8| b.is_ascii_graphic() && !matches!(**b, b'\\' | b'"' | b'\'' | b'[');
    let end = at + next.take_while(is_word).count();
    (end - at == HEADER_WORD_MAX || !text.may_arrive(end)).then_some(end)
}

/// The end of a key that continues at `at`, and whether the key may become longer when the text grows.
pub(super) fn extend(text: Text<'_>, at: usize) -> (usize, bool) {
    // The first line may continue.
    let line = text.run(at, Alphabet::Base64, usize::MAX);
    let mut end = line.end;
    if line.may_grow {
        return (end, true);
    }
    loop {
        let Some(begin) = skip_space(text, end) else {
            return (end, true);
        };
        if let Some(footer_end) = find_footer(text, begin) {
            return footer_end.map_or((end, true), |end| (end, false));
        }
        let line = text.run(begin, Alphabet::Base64, usize::MAX);
        if begin > end && line.count >= LINE_MIN {
            end = line.end;
            if line.may_grow {
                return (end, true);
            }
            continue;
        }
        if line.may_grow {
            return (end, true);
        }
        if begin == end || line.count == 0 {
            return (end, false);
        }
        // A short line is the last one.
        return match skip_space(text, line.end).map(|begin| find_footer(text, begin)) {
            None | Some(Some(None)) => (end, true),
            Some(Some(Some(end))) => (end, false),
            Some(None) => (end, false),
        };
    }
}

/// The end of the footer (`-----END …-----`) that starts at `at`. `None` if no footer starts at `at`, `Some(None)` if
/// the text ends before that is known.
#[allow(clippy::option_option, reason = "present, absent, or not yet known")]
fn find_footer(text: Text<'_>, at: usize) -> Option<Option<usize>> {
    match text.literal_at(at, FOOTER_START) {
        Some(false) => return None,
        None => return Some(None),
        Some(true) => {}
    }
    let label = text.from(at + FOOTER_START.len());
    let length_max = label.len().min(LABEL_MAX);
    let Some(length) = memchr::memchr(b'-', &label[..length_max]) else {
        return (length_max < LABEL_MAX && !text.complete).then_some(None);
    };
    let dashes = at + FOOTER_START.len() + length;
    match text.literal_at(dashes, b"-----") {
        Some(true) => Some(Some(dashes + 5)),
        Some(false) => None,
        None => Some(None),
    }
}
