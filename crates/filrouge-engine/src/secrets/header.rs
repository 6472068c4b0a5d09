//! Recognizes credentials by the text before them, such as `Bearer`. Positions are byte offsets. `at` is the start of
//! an anchor, a few bytes that are rare outside credentials (see `scan.rs`); `after` is its end.

use super::read::{Alphabet, Text, decode, is_word_byte};
use super::shape::Shape;
use super::verdict::{CredentialTail, Verdict, undecided_if};

/// The number of bytes before a scheme (`Bearer`, `Basic`) that are searched for the header's name.
const HEADER_NAME_DISTANCE_MAX: usize = 32;
/// The name of the header, in lower case.
const HEADER_NAME: &[u8] = b"authorization";
/// The maximum number of characters of a bearer token that are examined.
const TOKEN_CHARS_MAX: usize = 64;
/// The maximum number of characters of `user:password` in base64 that are examined.
const BASIC_CHARS_MAX: usize = 256;
/// Words that mark a token without digits as a placeholder.
const PLACEHOLDER_WORDS: &[&[u8]] = &[
    b"token",
    b"key",
    b"your",
    b"example",
    b"here",
    b"secret",
    b"jwt",
    b"auth",
    b"bearer",
    b"xxx",
    b"credential",
    b"placeholder",
    b"value",
];

/// The position of the credential after a scheme such as `Bearer`. `None` if the scheme's first letter, which is not
/// part of the anchor, does not precede the anchor.
fn after_scheme(text: Text<'_>, at: usize, after: usize, letter: u8) -> Option<usize> {
    let first = at.checked_sub(1)?;
    if !text.bytes[first].eq_ignore_ascii_case(&letter) || !text.can_begin_at(first) {
        return None;
    }
    let spaces = text.from(after).iter().take(4);
    Some(after + spaces.take_while(|b| **b == b' ').count())
}

/// `Bearer TOKEN` (RFC 6750); `at` is the position of `earer `.
pub(super) fn bearer(text: Text<'_>, at: usize, after: usize) -> Verdict {
    let Some(start) = after_scheme(text, at, after, b'b') else {
        return Verdict::NoCredential;
    };
    let run = text.run(start, Alphabet::Bearer, TOKEN_CHARS_MAX);
    if run.may_grow {
        return Verdict::Undecided(start);
    }
    let token = text.symbols(start, Alphabet::Bearer, TOKEN_CHARS_MAX);
    let digits = token.iter().any(u8::is_ascii_digit);
    let letters = token.iter().any(u8::is_ascii_alphabetic);
    let lower = token.to_ascii_lowercase();
    let has_placeholder_word = PLACEHOLDER_WORDS
        .iter()
        .any(|word| memchr::memmem::find(&lower, word).is_some());
    let is_token = if text.has_word_before(at, HEADER_NAME_DISTANCE_MAX, HEADER_NAME) {
        token.len() >= 8 && (digits || token.len() >= 16 && !has_placeholder_word)
    } else {
        token.len() >= 20 && digits && letters
    };
    if !is_token || super::verdict::is_placeholder(&token) {
        return Verdict::NoCredential;
    }
    let tail = CredentialTail::Run(Alphabet::Bearer);
    Verdict::with_tail(text, Shape::BearerToken, start, run.end, tail)
}

/// `Basic BASE64` (RFC 7617), where the base64 encodes a user and a password; `at` is the position of `asic `.
pub(super) fn basic(text: Text<'_>, at: usize, after: usize) -> Verdict {
    let Some(start) = after_scheme(text, at, after, b'b') else {
        return Verdict::NoCredential;
    };
    let run = text.run(start, Alphabet::Base64, BASIC_CHARS_MAX);
    if run.may_grow {
        return Verdict::Undecided(start);
    }
    let has_header_name = text.has_word_before(at, HEADER_NAME_DISTANCE_MAX, HEADER_NAME);
    let decoded =
        decode(&text.symbols(start, Alphabet::Base64, BASIC_CHARS_MAX)).unwrap_or_default();
    let readable = |b: &u8| matches!(b, b' '..=b'~') || has_header_name && *b >= 0x80;
    let min = if has_header_name { 3 } else { 8 };
    if decoded.len() < min || !decoded.contains(&b':') || !decoded.iter().all(readable) {
        return Verdict::NoCredential;
    }
    // If a mask follows, the run is the remainder of a credential that is already masked.
    match text.literal_at(run.end, b"[masked:") {
        None => return Verdict::Undecided(start),
        Some(true) => return Verdict::NoCredential,
        Some(false) => {}
    }
    let tail = CredentialTail::Run(Alphabet::Base64);
    Verdict::with_tail(text, Shape::BasicAuth, start, run.end, tail)
}

/// An AWS secret key: 40 characters after a name such as `aws_secret_access_key`.
pub(super) fn aws_secret(text: Text<'_>, _at: usize, after: usize) -> Verdict {
    const SEPARATORS_MAX: usize = 24;
    let separators = text.from(after).iter().take(SEPARATORS_MAX);
    let start = after
        + separators
            .take_while(|b| b" \t\r\n\"'`\\:=>,()|".contains(b))
            .count();
    if text.may_arrive(start) || start == after {
        return undecided_if(text.may_arrive(start), start);
    }
    let run = text.run(start, Alphabet::Base64, 41);
    if run.may_grow {
        return Verdict::Undecided(start);
    }
    let value = text.symbols(start, Alphabet::Base64, 40);
    let mixed =
        value.iter().any(u8::is_ascii_uppercase) && value.iter().any(u8::is_ascii_lowercase);
    if run.count != 40 || !mixed || value.contains(&b'=') {
        return Verdict::NoCredential;
    }
    // After a backslash, the first letter of the run belongs to an escape (`\nabc`), so the run is no value.
    if text.get(start - 1) == Some(b'\\') {
        return Verdict::NoCredential;
    }
    Verdict::complete(Shape::AwsSecretKey, start, run.end)
}

/// The key in an Azure connection string, 32 or 64 bytes in base64; `start` is the position after `AccountKey=`.
pub(super) fn storage_key(text: Text<'_>, _at: usize, start: usize) -> Verdict {
    const CHARS_MIN: usize = 43;
    let run = text.run(start, Alphabet::Base64, CHARS_MIN);
    if run.count < CHARS_MIN {
        return undecided_if(run.may_grow, start);
    }
    if super::verdict::is_placeholder(&text.symbols(start, Alphabet::Base64, CHARS_MIN)) {
        return Verdict::NoCredential;
    }
    let tail = CredentialTail::Run(Alphabet::Base64);
    Verdict::with_tail(text, Shape::AzureKey, start, run.end, tail)
}

/// The password in `scheme://user:password@host` (RFC 3986); `at` is the position of `://`.
pub(super) fn url(text: Text<'_>, at: usize, after: usize) -> Verdict {
    /// The maximum number of bytes of user, password and host together.
    const AUTHORITY_MAX: usize = 512;
    if !at
        .checked_sub(1)
        .is_some_and(|before| text.bytes[before].is_ascii_alphanumeric())
    {
        return Verdict::NoCredential;
    }
    let (mut end, mut colon, mut host) = (after, None, None);
    while end - after < AUTHORITY_MAX {
        let Some(b) = text.get(end) else {
            if text.complete {
                break;
            }
            // A password would begin after the colon. If there was no colon yet, it would begin at the end of the text
            // so far, or later.
            return Verdict::Undecided(colon.map_or(end, |colon: usize| colon + 1));
        };
        match b {
            b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'[' | b']' | b'{' | b'}'
            | b'(' | b')' | b'|' | b'^' => break,
            b if b <= b' ' || b == 0x7f => break,
            b'\\' => match escaped(text, end) {
                Some(0) => break,
                Some(length) => {
                    end += length;
                    continue;
                }
                None => return Verdict::Undecided(colon.map_or(end, |colon: usize| colon + 1)),
            },
            b':' if colon.is_none() => colon = Some(end),
            b'@' if colon.is_some() => host = Some(end),
            _ => {}
        }
        end += 1;
    }
    let (Some(colon), Some(host)) = (colon, host) else {
        return Verdict::NoCredential;
    };
    let password = &text.bytes[colon + 1..host];
    let is_template = match password {
        [] | [b'$', ..] => true,
        [b'%', a, b, ..] => !(a.is_ascii_hexdigit() && b.is_ascii_hexdigit()),
        [b'%', ..] => true,
        other => super::verdict::is_placeholder(other),
    };
    let has_host = text
        .get(host + 1)
        .is_some_and(|b| is_word_byte(b) || b >= 0x80 || matches!(b, b'[' | b'$' | b'{' | b'%'));
    if is_template || !has_host {
        return Verdict::NoCredential;
    }
    Verdict::complete(Shape::UrlPassword, colon + 1, host)
}

/// The number of bytes of the escape at `at` if it encodes a character outside ASCII, as `\u00e9` does; 0 for anything
/// else. `None` if the text ends before that is known.
fn escaped(text: Text<'_>, at: usize) -> Option<usize> {
    let slashes = super::read::backslashes(text.from(at)).min(16);
    let rest = text.from(at + slashes);
    let partial = rest.len() < 5
        && rest
            .split_first()
            .is_none_or(|(u, hex)| *u == b'u' && hex.iter().all(u8::is_ascii_hexdigit));
    match rest {
        [b'u', hex @ ..] if hex.len() >= 4 && hex[..4].iter().all(u8::is_ascii_hexdigit) => {
            // An escaped ASCII character ends the URL, because a URL would contain it unescaped.
            Some(if hex.starts_with(b"00") && hex[2] < b'8' {
                0
            } else {
                slashes + 5
            })
        }
        _ if partial && !text.complete => None,
        _ => Some(0),
    }
}
