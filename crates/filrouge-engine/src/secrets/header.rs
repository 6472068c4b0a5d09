//! Credentials that are known by what stands before them.

use super::read::{Class, Text, decode, word};
use super::shape::Shape;
use super::verdict::{Tail, Verdict, short};

/// Bytes before a scheme in which the header is named.
const NAME_WITHIN: usize = 32;
const NAME: &[u8] = b"authorization";
/// Characters of a token by which it is judged.
const JUDGED: usize = 64;
/// Characters of `user:password` in base64 by which it is judged.
const BASIC_JUDGED: usize = 256;
/// Words in a token without a digit that tell that it stands for one.
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

/// Where what follows a scheme begins; the first letter of the scheme stands before its anchor.
fn behind_scheme(text: Text<'_>, at: usize, behind: usize, letter: u8) -> Option<usize> {
    let first = at.checked_sub(1)?;
    if !text.bytes[first].eq_ignore_ascii_case(&letter) || !text.begins(first) {
        return None;
    }
    let spaces = text.from(behind).iter().take(4);
    Some(behind + spaces.take_while(|b| **b == b' ').count())
}

/// `Bearer TOKEN` (RFC 6750), `at` is that of `earer `.
pub(super) fn bearer(text: Text<'_>, at: usize, behind: usize) -> Verdict {
    let Some(start) = behind_scheme(text, at, behind, b'b') else {
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
    let tail = Tail::Run(Class::Bearer);
    Verdict::going(text, Shape::BearerToken, start, run.end, tail)
}

/// `Basic BASE64` (RFC 7617) that holds a user and a password, `at` is that of `asic `.
pub(super) fn basic(text: Text<'_>, at: usize, behind: usize) -> Verdict {
    let Some(start) = behind_scheme(text, at, behind, b'b') else {
        return Verdict::No;
    };
    let run = text.run(start, Class::Base64, BASIC_JUDGED);
    if run.open {
        return Verdict::More(start);
    }
    let named = text.near(at, NAME_WITHIN, NAME);
    let told = decode(&text.symbols(start, Class::Base64, BASIC_JUDGED)).unwrap_or_default();
    let readable = |b: &u8| matches!(b, b' '..=b'~') || named && *b >= 0x80;
    let least = if named { 3 } else { 8 };
    if told.len() < least || !told.contains(&b':') || !told.iter().all(readable) {
        return Verdict::No;
    }
    // It would be the rest of something else, of which a part was masked.
    match text.literal(run.end, b"[masked:") {
        None => return Verdict::More(start),
        Some(true) => return Verdict::No,
        Some(false) => {}
    }
    let tail = Tail::Run(Class::Base64);
    Verdict::going(text, Shape::BasicAuth, start, run.end, tail)
}

/// The 40 characters behind a name such as `aws_secret_access_key`.
pub(super) fn aws_secret(text: Text<'_>, behind: usize) -> Verdict {
    const BETWEEN: usize = 24;
    let between = text.from(behind).iter().take(BETWEEN);
    let start = behind
        + between
            .take_while(|b| b" \t\r\n\"'`\\:=>,()|".contains(b))
            .count();
    // An escape's letter: `\\nabc` is no value.
    if text.unknown(start) || start == behind {
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

/// The key in a connection string of Azure: 32 or 64 bytes in base64.
pub(super) fn storage_key(text: Text<'_>, start: usize) -> Verdict {
    const LEAST: usize = 43;
    let run = text.run(start, Class::Base64, LEAST);
    if run.count < LEAST {
        return short(run, start);
    }
    if super::verdict::placeholder(&text.symbols(start, Class::Base64, LEAST)) {
        return Verdict::No;
    }
    let tail = Tail::Run(Class::Base64);
    Verdict::going(text, Shape::AzureKey, start, run.end, tail)
}

/// The password in `scheme://user:password@host` (RFC 3986), `at` is that of `://`.
pub(super) fn url(text: Text<'_>, at: usize, behind: usize) -> Verdict {
    /// Bytes of user, password and host together.
    const AUTHORITY_MAX: usize = 512;
    if !at
        .checked_sub(1)
        .is_some_and(|before| text.bytes[before].is_ascii_alphanumeric())
    {
        return Verdict::No;
    }
    let (mut end, mut colon, mut host) = (behind, None, None);
    while end - behind < AUTHORITY_MAX {
        let Some(b) = text.get(end) else {
            if text.whole {
                break;
            }
            // A password begins behind the colon; without one, not before what is still to come.
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

/// The length of `\u00e9` and the like, 0 for what is no letter; `None` when it cannot be told yet.
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
            // Of the characters of ASCII, none that a URL would not hold as it is.
            Some(if hex.starts_with(b"00") && hex[2] < b'8' {
                0
            } else {
                slashes + 5
            })
        }
        _ if partial && !text.whole => None,
        _ => Some(0),
    }
}
