//! Recognizes credentials that consist of more than a prefix and one run of characters. `start` is the position at
//! which the credential would begin, `after` the end of its anchor (see `scan.rs`).

use super::read::{Alphabet, Text, decode};
use super::shape::{Shape, at_least, exactly};
use super::verdict::{CredentialTail, Verdict, is_placeholder, judge_run, undecided_if};

/// The minimum number of characters after the prefix of an `sk-` key, for which vendors document no length.
const KEY_CHARS_MIN: usize = 20;
/// Words that documentation uses in place of a key.
const PLACEHOLDER_WORDS: &[&[u8]] = &[
    b"your",
    b"example",
    b"placeholder",
    b"here",
    b"xxxx",
    b"token-",
];

/// `sk-…`: Anthropic, OpenAI, OpenRouter, and others that adopted the form.
pub(super) fn sk(text: Text<'_>, start: usize, after: usize) -> Verdict {
    for (prefix, shape) in [
        (&b"ant-"[..], Shape::AnthropicKey),
        (b"proj-", Shape::OpenaiKey),
        (b"svcacct-", Shape::OpenaiKey),
        (b"admin-", Shape::OpenaiKey),
        (b"None-", Shape::OpenaiKey),
        (b"or-v1-", Shape::OpenrouterKey),
    ] {
        match text.literal_at(after, prefix) {
            None => return Verdict::Undecided(start),
            Some(true) => return dashed_key(text, start, after + prefix.len(), shape),
            Some(false) => {}
        }
    }
    // Keys of model gateways have these prefixes. As for other `sk-` keys, a digit is required.
    for prefix in [&b"test-"[..], b"live-"] {
        match text.literal_at(after, prefix) {
            None => return Verdict::Undecided(start),
            Some(true) => return key_with_digit(text, start, after + prefix.len(), Alphabet::Url),
            Some(false) => {}
        }
    }
    key_with_digit(text, start, after, Alphabet::Alnum)
}

/// A key with a digit among its first [`KEY_CHARS_MIN`] characters, so that hyphenated words do not match.
fn key_with_digit(text: Text<'_>, start: usize, at: usize, alphabet: Alphabet) -> Verdict {
    let run = text.run(at, alphabet, KEY_CHARS_MIN);
    if run.count < KEY_CHARS_MIN {
        return undecided_if(run.may_grow, start);
    }
    let body = &text.bytes[at..run.end];
    if !body.iter().any(u8::is_ascii_digit) || is_placeholder(body) {
        return Verdict::NoCredential;
    }
    let tail = CredentialTail::Run(Alphabet::Url);
    Verdict::with_tail(text, Shape::OpenaiKey, start, run.end, tail)
}

/// A key that may contain dashes, unless it contains placeholder words.
fn dashed_key(text: Text<'_>, start: usize, at: usize, shape: Shape) -> Verdict {
    let run = text.run(at, Alphabet::Url, KEY_CHARS_MIN);
    let body = text.bytes[at..run.end].to_ascii_lowercase();
    let has_placeholder_word = PLACEHOLDER_WORDS
        .iter()
        .any(|word| memchr::memmem::find(&body, word).is_some());
    if run.count >= KEY_CHARS_MIN && has_placeholder_word {
        return Verdict::NoCredential;
    }
    let rule = at_least(shape, Alphabet::Url, KEY_CHARS_MIN);
    judge_run(text, start, at, &rule)
}

/// A Slack token: a run of at least `min` characters, of which the first 40 contain at least six digits, as Slack's
/// ids do.
fn slack_token(text: Text<'_>, start: usize, at: usize, min: usize) -> Verdict {
    const EXAMINED_MAX: usize = 40;
    let run = text.run(at, Alphabet::Url, EXAMINED_MAX);
    if run.may_grow {
        return Verdict::Undecided(start);
    }
    let digits = text.bytes[at..run.end]
        .iter()
        .filter(|b| b.is_ascii_digit());
    if run.count < min || digits.count() < 6 {
        return Verdict::NoCredential;
    }
    let tail = CredentialTail::Run(Alphabet::Url);
    Verdict::with_tail(text, Shape::SlackToken, start, run.end, tail)
}

/// `xapp-` and a token.
pub(super) fn slack_app(text: Text<'_>, start: usize, after: usize) -> Verdict {
    slack_token(text, start, after, 32)
}

pub(super) fn slack(text: Text<'_>, start: usize, after: usize) -> Verdict {
    if text.may_arrive(after + 1) {
        return Verdict::Undecided(start);
    }
    match (text.get(after), text.get(after + 1)) {
        (Some(b'a' | b'b' | b'c' | b'e' | b'o' | b'p' | b'r' | b's'), Some(b'-')) => {
            slack_token(text, start, after + 2, 16)
        }
        // A rotating token is `xoxe.xoxp-1-…`; its second half is matched separately.
        _ => Verdict::NoCredential,
    }
}

/// The path after `https://hooks.slack.com`.
pub(super) fn slack_webhook(text: Text<'_>, _at: usize, after: usize) -> Verdict {
    /// `services/T…/B…/` and a secret of 24 characters.
    const PATH_CHARS_MIN: usize = 40;
    let path = text.run(after, Alphabet::Base64, PATH_CHARS_MIN);
    if path.may_grow {
        return Verdict::Undecided(after);
    }
    let symbols = text.symbols(after, Alphabet::Base64, PATH_CHARS_MIN);
    let Some(ids) = ["/services/", "/workflows/", "/triggers/"]
        .iter()
        .find_map(|prefix| symbols.strip_prefix(prefix.as_bytes()))
    else {
        return Verdict::NoCredential;
    };
    if path.count < PATH_CHARS_MIN || !matches!(ids, [b'T' | b'E', ..]) || is_placeholder(&ids[1..])
    {
        return Verdict::NoCredential;
    }
    // Symbols may take several bytes: they may be escaped.
    let prefix = text.run(after, Alphabet::Base64, symbols.len() - ids.len());
    let tail = CredentialTail::Run(Alphabet::Base64);
    Verdict::with_tail(text, Shape::SlackWebhook, prefix.end, path.end, tail)
}

/// `SG.`, 22 characters, a dot, 43 characters.
pub(super) fn sendgrid(text: Text<'_>, start: usize, after: usize) -> Verdict {
    let id = text.run(after, Alphabet::Url, 23);
    if id.may_grow || text.may_arrive(id.end) {
        return Verdict::Undecided(start);
    }
    if id.count != 22 || text.get(id.end) != Some(b'.') {
        return Verdict::NoCredential;
    }
    let rule = exactly(Shape::SendgridKey, Alphabet::Url, 43);
    judge_run(text, start, id.end + 1, &rule)
}

/// A bot's number, `:AA`, and 33 more characters.
pub(super) fn telegram(text: Text<'_>, colon: usize, _after: usize) -> Verdict {
    let start = text.run_start(colon, Alphabet::Hex, 12);
    let number = &text.bytes[start..colon];
    let is_number = (8..=10).contains(&number.len()) && number.iter().all(u8::is_ascii_digit);
    // URLs of bots have the form `…/bot123456789:AA…`.
    let in_bot_url = text.bytes[..start].ends_with(b"/bot");
    if !is_number || !(text.can_begin_at(start) || in_bot_url) {
        return Verdict::NoCredential;
    }
    let rule = exactly(Shape::TelegramToken, Alphabet::Url, 35);
    judge_run(text, start, colon + 1, &rule)
}

/// A user's number in base64, a dot, a time, a dot, a signature; `dot` is the position of the first dot.
pub(super) fn discord(text: Text<'_>, dot: usize) -> Verdict {
    if text.get(dot + 7).is_some_and(|b| b != b'.') {
        return Verdict::NoCredential;
    }
    let start = text.run_start(dot, Alphabet::Url, 29);
    let length = dot - start;
    if !(23..=28).contains(&length) || !matches!(text.bytes[start], b'M' | b'N' | b'O') {
        return Verdict::NoCredential;
    }
    if !text.can_begin_at(start) {
        return Verdict::NoCredential;
    }
    let time = text.run(dot + 1, Alphabet::Url, 7);
    if time.may_grow || text.may_arrive(time.end) {
        return Verdict::Undecided(start);
    }
    let number = decode(&text.bytes[start..dot]).unwrap_or_default();
    let is_number = number.len() >= 17 && number.iter().all(u8::is_ascii_digit);
    if time.count != 6 || text.get(time.end) != Some(b'.') || !is_number {
        return Verdict::NoCredential;
    }
    let rule = at_least(Shape::DiscordToken, Alphabet::Url, 27);
    judge_run(text, start, time.end + 1, &rule)
}

/// `SK` and 32 hexadecimal digits; `k` is the position of the `K`.
pub(super) fn twilio(text: Text<'_>, k: usize) -> Verdict {
    match k.checked_sub(1) {
        Some(start) if text.bytes[start] == b'S' && text.can_begin_at(start) => {
            let rule = exactly(Shape::TwilioKey, Alphabet::Hex, 32);
            judge_run(text, start, k + 1, &rule)
        }
        _ => Verdict::NoCredential,
    }
}

/// `frk_`, an id of 12 characters, `_`, a secret of 43 ([`crate::api_keys`]).
pub(super) fn filrouge(text: Text<'_>, start: usize, after: usize) -> Verdict {
    let id = text.run(after, Alphabet::Alnum, 12);
    if id.count < 12 {
        return undecided_if(id.may_grow, start);
    }
    let rule = exactly(Shape::FilrougeKey, Alphabet::Alnum, 43);
    match text.literal_at(id.end, b"_") {
        None => Verdict::Undecided(start),
        Some(false) => Verdict::NoCredential,
        Some(true) => judge_run(text, start, id.end + 1, &rule),
    }
}
