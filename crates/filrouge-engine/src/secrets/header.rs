//! Recognizes credentials by the text before them, such as `Bearer`. Positions in this module are byte offsets; `after`
//! is the end of the anchor, and in most functions `at` is its start (see `scan.rs`).

use super::read::{Class, Text, decode, word};
use super::shape::Shape;
use super::verdict::{CredentialTail, Verdict, short};

/// The number of bytes before a scheme (`Bearer`, `Basic`) that are searched for the header's name.
const NAME_WITHIN: usize = 32;
const NAME: &[u8] = b"authorization";
/// The maximum number of characters of a bearer token that are examined.
const JUDGED: usize = 64;
/// The maximum number of characters of `user:password` in base64 that are examined.
const BASIC_JUDGED: usize = 256;
/// Words that mark a token without digits as a placeholder.
const STAND_INS: &[&[u8]] = &[
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
    if !text.bytes[first].eq_ignore_ascii_case(&letter) || !text.begins(first) {
        return None;
    }
    let spaces = text.from(after).iter().take(4);
    Some(after + spaces.take_while(|b| **b == b' ').count())
}

/// `Bearer TOKEN` (RFC 6750); `at` is the position of `earer `.
pub(super) fn bearer(text: Text<'_>, at: usize, after: usize) -> Verdict {
    let Some(start) = after_scheme(text, at, after, b'b') else {
        return Verdict::No;
    };
    let run = text.run(start, Class::Bearer, JUDGED);
    if run.open {
        return Verdict::More(start);
    }
    let token = text.symbols(start, Class::Bearer, JUDGED);
    let digits = token.iter().any(u8::is_ascii_digit);
    let letters = token.iter().any(u8::is_ascii_alphabetic);
    let lower = token.to_ascii_lowercase();
    let stands_in = STAND_INS
        .iter()
        .any(|word| memchr::memmem::find(&lower, word).is_some());
    let is_token = if text.near(at, NAME_WITHIN, NAME) {
        token.len() >= 8 && (digits || token.len() >= 16 && !stands_in)
    } else {
        token.len() >= 20 && digits && letters
    };
    if !is_token || super::verdict::placeholder(&token) {
        return Verdict::No;
    }
    let tail = CredentialTail::Run(Class::Bearer);
    Verdict::extending(text, Shape::BearerToken, start, run.end, tail)
}

/// `Basic BASE64` (RFC 7617), where the base64 encodes a user and a password; `at` is the position of `asic `.
pub(super) fn basic(text: Text<'_>, at: usize, after: usize) -> Verdict {
    let Some(start) = after_scheme(text, at, after, b'b') else {
        return Verdict::No;
    };
    let run = text.run(start, Class::Base64, BASIC_JUDGED);
    if run.open {
        return Verdict::More(start);
    }
    let named = text.near(at, NAME_WITHIN, NAME);
    let decoded = decode(&text.symbols(start, Class::Base64, BASIC_JUDGED)).unwrap_or_default();
    let readable = |b: &u8| matches!(b, b' '..=b'~') || named && *b >= 0x80;
    let least = if named { 3 } else { 8 };
    if decoded.len() < least || !decoded.contains(&b':') || !decoded.iter().all(readable) {
        return Verdict::No;
    }
    // If a mask follows, this is what remains of a credential whose other part was masked.
    match text.literal(run.end, b"[masked:") {
        None => return Verdict::More(start),
        Some(true) => return Verdict::No,
        Some(false) => {}
    }
    let tail = CredentialTail::Run(Class::Base64);
    Verdict::extending(text, Shape::BasicAuth, start, run.end, tail)
}

/// The 40 characters after a name such as `aws_secret_access_key`.
pub(super) fn aws_secret(text: Text<'_>, after: usize) -> Verdict {
    const BETWEEN: usize = 24;
    let between = text.from(after).iter().take(BETWEEN);
    let start = after
        + between
            .take_while(|b| b" \t\r\n\"'`\\:=>,()|".contains(b))
            .count();
    // If a backslash precedes the run, its first letter belongs to an escape (`\nabc`), so the run is no value: see
    // below.
    if text.unknown(start) || start == after {
        return if text.unknown(start) {
            Verdict::More(start)
        } else {
            Verdict::No
        };
    }
    let run = text.run(start, Class::Base64, 41);
    if run.open {
        return Verdict::More(start);
    }
    let value = text.symbols(start, Class::Base64, 40);
    let mixed =
        value.iter().any(u8::is_ascii_uppercase) && value.iter().any(u8::is_ascii_lowercase);
    if run.count != 40 || !mixed || value.contains(&b'=') {
        return Verdict::No;
    }
    if text.get(start - 1) == Some(b'\\') {
        return Verdict::No;
    }
    Verdict::found(Shape::AwsSecretKey, start, run.end)
}

/// The key in an Azure connection string, 32 or 64 bytes in base64; `start` is the position after `AccountKey=`.
pub(super) fn storage_key(text: Text<'_>, start: usize) -> Verdict {
    const LEAST: usize = 43;
    let run = text.run(start, Class::Base64, LEAST);
    if run.count < LEAST {
        return short(run, start);
    }
    if super::verdict::placeholder(&text.symbols(start, Class::Base64, LEAST)) {
        return Verdict::No;
    }
    let tail = CredentialTail::Run(Class::Base64);
    Verdict::extending(text, Shape::AzureKey, start, run.end, tail)
}

/// The password in `scheme://user:password@host` (RFC 3986); `at` is the position of `://`.
pub(super) fn url(text: Text<'_>, at: usize, after: usize) -> Verdict {
    /// The maximum number of bytes of user, password and host together.
    const AUTHORITY_MAX: usize = 512;
    if !at
        .checked_sub(1)
        .is_some_and(|before| text.bytes[before].is_ascii_alphanumeric())
    {
        return Verdict::No;
    }
    let (mut end, mut colon, mut host) = (after, None, None);
    while end - after < AUTHORITY_MAX {
        let Some(b) = text.get(end) else {
            if text.complete {
                break;
            }
            // A password would begin after the colon. If there was no colon yet, it would begin at the end of the text
            // so far, or later.
            return Verdict::More(colon.map_or(end, |colon: usize| colon + 1));
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
                None => return Verdict::More(colon.map_or(end, |colon: usize| colon + 1)),
            },
            b':' if colon.is_none() => colon = Some(end),
            b'@' if colon.is_some() => host = Some(end),
            _ => {}
        }
        end += 1;
    }
    let (Some(colon), Some(host)) = (colon, host) else {
        return Verdict::No;
    };
    let password = &text.bytes[colon + 1..host];
    let template = match password {
        [] | [b'$', ..] => true,
        [b'%', a, b, ..] => !(a.is_ascii_hexdigit() && b.is_ascii_hexdigit()),
        [b'%', ..] => true,
        other => super::verdict::placeholder(other),
    };
    let has_host = text
        .get(host + 1)
        .is_some_and(|b| word(b) || b >= 0x80 || matches!(b, b'[' | b'$' | b'{' | b'%'));
    if template || !has_host {
        return Verdict::No;
    }
    Verdict::found(Shape::UrlPassword, colon + 1, host)
}

/// The number of bytes of the escape at `at` if it encodes a character outside ASCII, as `\u00e9` does; 0 for anything
/// else. `None` if the text ends before that is known.
fn escaped(text: Text<'_>, at: usize) -> Option<usize> {
    let slashes = super::read::backslashes(text.from(at)).min(16);
    let rest = text.from(at + slashes);
    let partial = rest.len() < 5
        && rest.iter().enumerate().all(|(n, b)| {
            if n == 0 {
                *b == b'u'
            } else {
                b.is_ascii_hexdigit()
            }
        });
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
