//! Recognizes private keys in PEM (RFC 7468), complete or truncated, with line breaks that may be escaped as in JSON.

use super::read::{Class, Text, backslashes};
use super::shape::Shape;
use super::verdict::{CredentialTail, Verdict};

/// The maximum number of bytes of the label between `BEGIN` and the dashes.
const LABEL_MAX: usize = 48;
/// The minimum number of characters of the first line of the key.
const FIRST_LEAST: usize = 24;
/// A run of at least this many characters is a line of the key. A shorter run can only be its last line.
const LINE_LEAST: usize = 16;
/// The maximum number of words of headers before the key, such as `Proc-Type: 4,ENCRYPTED`.
const HEADER_WORDS: usize = 16;
const HEADER_WORD_MAX: usize = 80;
/// The maximum number of bytes of white space between two lines.
const SPACE_MAX: usize = 64;
const END: &[u8] = b"-----END";

/// The end of the white space at `at`, some of which may be escaped (`\n`); `None` if the text ends before that is
/// known.
fn space(text: Text<'_>, at: usize) -> Option<usize> {
    let mut end = at;
    while end - at < SPACE_MAX {
        if text.unknown(end) {
            return None;
        }
        match text.get(end) {
            Some(b' ' | b'\t' | b'\r' | b'\n') => end += 1,
            Some(b'\\') => {
                let slashes = backslashes(text.from(end)).min(SPACE_MAX);
                if text.unknown(end + slashes) {
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

pub(super) fn judge(text: Text<'_>, start: usize, after: usize) -> Verdict {
    let label = text.from(after);
    let Some(length) = memchr::memchr(b'-', &label[..label.len().min(LABEL_MAX)]) else {
        let open = label.len() < LABEL_MAX && !text.complete;
        return if open {
            Verdict::More(start)
        } else {
            Verdict::No
        };
    };
    let is_label = label[..length]
        .iter()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b' ');
    if !is_label || memchr::memmem::find(&label[..length], b"PRIVATE KEY").is_none() {
        return Verdict::No;
    }
    match text.literal(after + length, b"-----") {
        None => return Verdict::More(start),
        Some(false) => return Verdict::No,
        Some(true) => {}
    }
    let mut at = after + length + 5;
    for word in 0..HEADER_WORDS {
        let Some(begin) = space(text, at) else {
            return Verdict::More(start);
        };
        let line = text.run(begin, Class::Base64, FIRST_LEAST);
        if line.open {
            return Verdict::More(start);
        }
        if line.count >= FIRST_LEAST {
            return Verdict::extending(
                text,
                Shape::PrivateKey,
                start,
                line.end,
                CredentialTail::Pem,
            );
        }
        let Some(end) = header_word(text, begin) else {
            return Verdict::More(start);
        };
        // Headers begin with a name, and are short.
        let is_header = end > begin && end - begin < HEADER_WORD_MAX;
        if !is_header || word == 0 && text.get(end - 1) != Some(b':') {
            return Verdict::No;
        }
        at = end;
    }
    Verdict::No
}

/// The end of the header word at `at`; `None` if the text ends before that is known.
fn header_word(text: Text<'_>, at: usize) -> Option<usize> {
    let mut end = at;
    while end - at < HEADER_WORD_MAX {
        if text.unknown(end) {
            return None;
        }
        match text.get(end) {
            Some(b) if b.is_ascii_graphic() && !matches!(b, b'\\' | b'"' | b'\'' | b'[') => {
                end += 1;
            }
            _ => break,
        }
    }
    Some(end)
}

/// The end of a key that continues at `at`, and whether the key may continue further.
pub(super) fn extend(text: Text<'_>, at: usize) -> (usize, bool) {
    // The first line may continue.
    let line = text.run(at, Class::Base64, usize::MAX);
    let mut end = line.end;
    if line.open {
        return (end, true);
    }
    loop {
        let Some(begin) = space(text, end) else {
            return (end, true);
        };
        if let Some(footer_end) = footer(text, begin) {
            return footer_end.map_or((end, true), |end| (end, false));
        }
        let line = text.run(begin, Class::Base64, usize::MAX);
        if begin > end && line.count >= LINE_LEAST {
            end = line.end;
            if line.open {
                return (end, true);
            }
            continue;
        }
        if line.open {
            return (end, true);
        }
        if begin == end || line.count == 0 {
            return (end, false);
        }
        // A short line is the last one.
        return match space(text, line.end).map(|begin| footer(text, begin)) {
            None | Some(Some(None)) => (end, true),
            Some(Some(Some(end))) => (end, false),
            Some(None) => (end, false),
        };
    }
}

/// The end of the footer (`-----END …-----`) at `at`. `None` if there is no footer there, `Some(None)` if the text ends
/// before that is known.
#[allow(clippy::option_option, reason = "present, absent, or not yet known")]
fn footer(text: Text<'_>, at: usize) -> Option<Option<usize>> {
    match text.literal(at, END) {
        Some(false) => return None,
        None => return Some(None),
        Some(true) => {}
    }
    let label = text.from(at + END.len());
    let length_max = label.len().min(LABEL_MAX);
    let Some(length) = memchr::memchr(b'-', &label[..length_max]) else {
        return (length_max < LABEL_MAX && !text.complete).then_some(None);
    };
    let dashes = at + END.len() + length;
    match text.literal(dashes, b"-----") {
        Some(true) => Some(Some(dashes + 5)),
        Some(false) => None,
        None => Some(None),
    }
}
