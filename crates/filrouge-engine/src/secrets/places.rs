//! Recognizes credentials that consist of more than a prefix and one run of characters. `start` is where the credential
//! would begin, `after` the end of its anchor (see `scan.rs`).

use super::read::{Class, Text, decode};
use super::shape::Shape;
use super::verdict::{CredentialTail, Verdict, exact, growing, placeholder, short};

/// The minimum number of characters after the prefix of an `sk-` key, for which vendors document no length.
const KEY_LEAST: usize = 20;
/// Words that examples in documentation contain in place of a key.
const STAND_INS: &[&[u8]] = &[
    b"your",
    b"example",
    b"placeholder",
    b"here",
    b"xxxx",
    b"token-",
];

/// `sk-…`: Anthropic, OpenAI, OpenRouter, and others that adopted the form.
pub(super) fn sk(text: Text<'_>, start: usize, after: usize) -> Verdict {
    if !text.begins(start) {
        return Verdict::No;
    }
    for (prefix, shape) in [
        (&b"ant-"[..], Shape::AnthropicKey),
        (b"proj-", Shape::OpenaiKey),
        (b"svcacct-", Shape::OpenaiKey),
        (b"admin-", Shape::OpenaiKey),
        (b"None-", Shape::OpenaiKey),
        (b"or-v1-", Shape::OpenrouterKey),
    ] {
        match text.literal(after, prefix) {
            None => return Verdict::More(start),
            Some(true) => return dashed_key(text, start, after + prefix.len(), shape),
            Some(false) => {}
        }
    }
    // Keys of model gateways have these prefixes. As for other `sk-` keys, a digit is required.
    for prefix in [&b"test-"[..], b"live-"] {
        match text.literal(after, prefix) {
            None => return Verdict::More(start),
            Some(true) => return key_with_digit(text, start, after + prefix.len(), Class::Url),
            Some(false) => {}
        }
    }
    key_with_digit(text, start, after, Class::Alnum)
}

/// A key with a digit among its first [`KEY_LEAST`] characters, so that hyphenated words do not match.
fn key_with_digit(text: Text<'_>, start: usize, at: usize, class: Class) -> Verdict {
    let run = text.run(at, class, KEY_LEAST);
    if run.count < KEY_LEAST {
        return short(run, start);
    }
    let body = &text.bytes[at..run.end];
    if !body.iter().any(u8::is_ascii_digit) || placeholder(body) {
        return Verdict::No;
    }
    let tail = CredentialTail::Run(Class::Url);
    Verdict::extending(text, Shape::OpenaiKey, start, run.end, tail)
}

/// A key that may contain dashes, unless it contains placeholder words.
fn dashed_key(text: Text<'_>, start: usize, at: usize, shape: Shape) -> Verdict {
    let run = text.run(at, Class::Url, KEY_LEAST);
    let body = text.bytes[at..run.end].to_ascii_lowercase();
    let stands_in = STAND_INS
        .iter()
        .any(|word| memchr::memmem::find(&body, word).is_some());
    if run.count >= KEY_LEAST && stands_in {
        return Verdict::No;
    }
    growing(text, start, at, KEY_LEAST, Class::Url, shape)
}

/// A Slack token: a run of at least `least` characters, of which the first 40 contain at least six digits, as Slack's
/// ids do.
fn numbered(text: Text<'_>, start: usize, at: usize, least: usize) -> Verdict {
    const SEEN: usize = 40;
    let run = text.run(at, Class::Url, SEEN);
    if run.open {
        return Verdict::More(start);
    }
    let digits = text.bytes[at..run.end]
        .iter()
        .filter(|b| b.is_ascii_digit());
    if run.count < least || digits.count() < 6 {
        return Verdict::No;
    }
    let tail = CredentialTail::Run(Class::Url);
    Verdict::extending(text, Shape::SlackToken, start, run.end, tail)
}

pub(super) fn slack(text: Text<'_>, start: usize, after: usize) -> Verdict {
    if !text.begins(start) {
        return Verdict::No;
    }
    if text.unknown(after + 1) {
        return Verdict::More(start);
    }
    match (text.get(after), text.get(after + 1)) {
        (Some(b'a' | b'b' | b'c' | b'e' | b'o' | b'p' | b'r' | b's'), Some(b'-')) => {
            numbered(text, start, after + 2, 16)
        }
        // A rotating token is `xoxe.xoxp-1-…`; its second half is matched separately.
        _ => Verdict::No,
    }
}

pub(super) fn slack_app(text: Text<'_>, start: usize, after: usize) -> Verdict {
    if text.begins(start) {
        numbered(text, start, after, 32)
    } else {
        Verdict::No
    }
}

/// The path after `https://hooks.slack.com`.
pub(super) fn slack_webhook(text: Text<'_>, after: usize) -> Verdict {
    /// `services/T…/B…/` and a secret of 24 characters.
    const LEAST: usize = 40;
    let path = text.run(after, Class::Base64, LEAST);
    if path.open {
        return Verdict::More(after);
    }
    let symbols = text.symbols(after, Class::Base64, LEAST);
    let Some(ids) = ["/services/", "/workflows/", "/triggers/"]
        .iter()
        .find_map(|prefix| symbols.strip_prefix(prefix.as_bytes()))
    else {
        return Verdict::No;
    };
    if path.count < LEAST || !matches!(ids, [b'T' | b'E', ..]) || placeholder(&ids[1..]) {
        return Verdict::No;
    }
    let start = after + bytes_of_symbols(text, after, symbols.len() - ids.len());
    let tail = CredentialTail::Run(Class::Base64);
    Verdict::extending(text, Shape::SlackWebhook, start, path.end, tail)
}

/// The number of bytes that this many symbols from `at` on take, with their escapes.
fn bytes_of_symbols(text: Text<'_>, at: usize, symbols: usize) -> usize {
    text.run(at, Class::Base64, symbols).end - at
}

/// `SG.`, 22 characters, a dot, 43 characters.
pub(super) fn sendgrid(text: Text<'_>, start: usize, after: usize) -> Verdict {
    if !text.begins(start) {
        return Verdict::No;
    }
    let id = text.run(after, Class::Url, 23);
    if id.open {
        return Verdict::More(start);
    }
    if text.unknown(id.end) {
        return Verdict::More(start);
    }
    if id.count != 22 || text.get(id.end) != Some(b'.') {
        return Verdict::No;
    }
    exact(text, start, id.end + 1, 43, Class::Url, Shape::SendgridKey)
}

/// A bot's number, `:AA`, and 33 more characters.
pub(super) fn telegram(text: Text<'_>, colon: usize) -> Verdict {
    let start = text.back(colon, Class::Hex, 12);
    let number = &text.bytes[start..colon];
    let is_number = (8..=10).contains(&number.len()) && number.iter().all(u8::is_ascii_digit);
    // URLs of bots have the form `…/bot123456789:AA…`.
    let in_bot_url = text.bytes[..start].ends_with(b"/bot");
    if !is_number || !(text.begins(start) || in_bot_url) {
        return Verdict::No;
    }
    exact(text, start, colon + 1, 35, Class::Url, Shape::TelegramToken)
}

/// A user's number in base64, a dot, a time, a dot, a signature; `dot` is the position of the first dot.
pub(super) fn discord(text: Text<'_>, dot: usize) -> Verdict {
    if text.get(dot + 7).is_some_and(|b| b != b'.') {
        return Verdict::No;
    }
    let start = text.back(dot, Class::Url, 29);
    let length = dot - start;
    if !(23..=28).contains(&length) || !matches!(text.bytes[start], b'M' | b'N' | b'O') {
        return Verdict::No;
    }
    if !text.begins(start) {
        return Verdict::No;
    }
    let time = text.run(dot + 1, Class::Url, 7);
    if time.open || text.unknown(time.end) {
        return Verdict::More(start);
    }
    let number = decode(&text.bytes[start..dot]).unwrap_or_default();
    let is_number = number.len() >= 17 && number.iter().all(u8::is_ascii_digit);
    if time.count != 6 || text.get(time.end) != Some(b'.') || !is_number {
        return Verdict::No;
    }
    growing(
        text,
        start,
        time.end + 1,
        27,
        Class::Url,
        Shape::DiscordToken,
    )
}

/// `SK` and 32 hexadecimal digits; `k` is the position of the `K`.
pub(super) fn twilio(text: Text<'_>, k: usize) -> Verdict {
    match k.checked_sub(1) {
        Some(start) if text.bytes[start] == b'S' && text.begins(start) => {
            exact(text, start, k + 1, 32, Class::Hex, Shape::TwilioKey)
        }
        _ => Verdict::No,
    }
}

/// `frk_`, an id of 12 characters, `_`, a secret of 43 ([`crate::api_keys`]).
pub(super) fn filrouge(text: Text<'_>, start: usize, after: usize) -> Verdict {
    if !text.begins(start) {
        return Verdict::No;
    }
    let id = text.run(after, Class::Alnum, 12);
    if id.count < 12 {
        return short(id, start);
    }
    match text.literal(id.end, b"_") {
        None => Verdict::More(start),
        Some(false) => Verdict::No,
        Some(true) => exact(
            text,
            start,
            id.end + 1,
            43,
            Class::Alnum,
            Shape::FilrougeKey,
        ),
    }
}
