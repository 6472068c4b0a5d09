//! One input: a damaged stream, or a random sequence of events.

use std::ops::Range;

use filrouge_transcode::StreamFormat;

use super::corpus::{Corpus, FormatStreams};
use crate::workload::Rng;

/// JSON tokens, valid and invalid, that replace others.
const VALUES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2",
    "0.5",
    "1e999",
    "-0",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890",
    "{}",
    "[]",
    "[null]",
    "[{}]",
    "[[]]",
    "[1,\"\"]",
    "\"\"",
    "\" \"",
    r#""\ud800""#,
    r#""\udc00\ud800""#,
    r#""\ud83d\ude00""#,
    r#""\ud83d""#,
    r#""\ude00""#,
    r#""\u0000""#,
    r#""\"""#,
    r#""\\""#,
    r#""\n""#,
    "\"\u{7f}é\u{2028}😀\"",
    r#""{\"a\":1}""#,
    r#""{\"a\":""#,
    r#""[DONE]""#,
    r#""error""#,
    r#"{"type":"text","text":"x"}"#,
    r#"{"type":7}"#,
    r#"{"type":""}"#,
    r#"{"type":"a","type":"b"}"#,
    r#"{"text":"x"}"#,
    r#"{"a":1,"a":2}"#,
    r#"[{"type":"redaction"}]"#,
    "\"a\u{1}b\"",
    r#""\x""#,
    "\"",
    "01",
    "{",
    "}",
];

/// Bytes that are inserted anywhere.
const INSERTS: &[&[u8]] = &[
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\r\r",
    b"data:",
    b"\ndata: ",
    b"\ndata\n",
    b"event: error\n",
    b"\nevent: x",
    b": c\n",
    b"id: 1\nretry: 2\n",
    b"data: [DONE]\n\n",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\0",
    b"\\",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b" ",
    b"[DONE]",
    b"<html>",
    b"null",
];

/// The approximate maximum size of an input.
const MAX_BYTES: usize = 64 << 10;

/// The input of a decoder.
pub(super) struct Input {
    pub(super) format: StreamFormat,
    pub(super) bytes: Vec<u8>,
    /// Decides how the input is split and which checks run.
    pub(super) random: Rng,
}

impl Input {
    /// The input with this number.
    pub(super) fn new(corpus: &Corpus, seed: u64, number: u64) -> Self {
        // The odd factor spreads the numbers over all seeds.
        let mut random = Rng::new(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let at = random.below(corpus.formats.len());
        let streams = &corpus.formats[at];
        // Some inputs do not have the format that the decoder expects.
        let decoder_format = if random.below(12) == 0 {
            random.below(corpus.formats.len())
        } else {
            at
        };
        let mut bytes = if random.below(3) == 0 {
            random_events(streams, &mut random)
        } else {
            random_element(&streams.complete, &mut random).clone()
        };
        for _ in 0..random.below(7) {
            damage(&mut bytes, streams, &mut random);
            bytes.truncate(MAX_BYTES);
        }
        Self {
            format: corpus.formats[decoder_format].format,
            bytes,
            random,
        }
    }

    /// The ranges of chunks of random sizes. Some are empty, unless all are tiny.
    pub(super) fn chunks(&mut self) -> Vec<Range<usize>> {
        let random = &mut self.random;
        let max = [1, 2, 16, 300, 5000, MAX_BYTES][random.below(6)];
        let (mut from, mut chunks) = (0, Vec::new());
        while from < self.bytes.len() {
            let to = self
                .bytes
                .len()
                .min(from + random.below(max + 1).max(usize::from(max < 3)));
            chunks.push(from..to);
            from = to;
        }
        chunks
    }
}

fn random_element<'a, T>(elements: &'a [T], random: &mut Rng) -> &'a T {
    &elements[random.below(elements.len())]
}

/// Events of a format in random order, and values built from its tokens.
fn random_events(streams: &FormatStreams, random: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(24) {
        if random.below(12) == 0 {
            bytes.extend_from_slice(b"data: ");
            random_value(streams, random, 0, &mut bytes);
            bytes.extend_from_slice(b"\n\n");
            continue;
        }
        let mut event = random_element(&streams.events, random).clone();
        for _ in 0..random.below(3) {
            replace_token(&mut event, streams, random);
        }
        bytes.extend(event);
    }
    bytes
}

/// Appends a random JSON value; its keys may be no strings.
fn random_value(streams: &FormatStreams, random: &mut Rng, depth: usize, out: &mut Vec<u8>) {
    let members = random.below(6);
    match random.below(if depth > 4 { 2 } else { 6 }) {
        0 => out.extend_from_slice(random_element(VALUES, random).as_bytes()),
        1 | 2 => out.extend_from_slice(random_element(&streams.tokens, random).as_slice()),
        3 => {
            out.push(b'[');
            for at in 0..members {
                out.extend_from_slice(if at > 0 { b"," } else { b"" });
                random_value(streams, random, depth + 1, out);
            }
            out.push(b']');
        }
        _ => {
            out.push(b'{');
            for at in 0..members {
                out.extend_from_slice(if at > 0 { b"," } else { b"" });
                out.extend_from_slice(random_element(&streams.tokens, random).as_slice());
                out.push(b':');
                random_value(streams, random, depth + 1, out);
            }
            out.push(b'}');
        }
    }
}

/// A part of the bytes, usually a short one.
fn random_range(bytes: &[u8], random: &mut Rng) -> Range<usize> {
    let from = random.below(bytes.len() + 1);
    let max = if random.below(4) == 0 {
        bytes.len()
    } else {
        40
    };
    from..bytes.len().min(from + random.below(max + 1))
}

/// Damages the bytes in one of many ways.
fn damage(bytes: &mut Vec<u8>, streams: &FormatStreams, random: &mut Rng) {
    let at = random.below(bytes.len() + 1);
    match random.below(16) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(random_range(bytes, random))),
        4 => {
            let twice = bytes[random_range(bytes, random)].to_vec();
            drop(bytes.splice(at..at, twice));
        }
        5 => {
            let other = random_element(&streams.complete, random);
            let part = other[random_range(other, random)].to_vec();
            drop(bytes.splice(at..at, part));
        }
        6 => drop(bytes.splice(at..at, random_element(INSERTS, random).iter().copied())),
        7 => replace_line_ends(bytes, random),
        8 | 9 => change_event(bytes, streams, random),
        10 => nest_deeper(bytes, random),
        _ => replace_token(bytes, streams, random),
    }
}

/// Replaces all or some line ends.
fn replace_line_ends(bytes: &mut Vec<u8>, random: &mut Rng) {
    let end: &[u8] = [&b"\r"[..], b"\r\n", b"\n\r", b"\n\n", b""][random.below(5)];
    let every = 1 + random.below(3);
    let mut out = Vec::with_capacity(bytes.len() + 100);
    for byte in bytes.iter() {
        match byte {
            b'\n' if random.below(every) == 0 => out.extend_from_slice(end),
            byte => out.push(*byte),
        }
    }
    *bytes = out;
}

/// Removes, inserts, duplicates or replaces an event.
fn change_event(bytes: &mut Vec<u8>, streams: &FormatStreams, random: &mut Rng) {
    let at = random.below(bytes.len() + 1);
    let is_end = |pair: &[u8]| pair == b"\n\n";
    let next = |from: usize| {
        let rest = bytes.get(from..)?;
        Some(from + rest.windows(2).position(is_end)? + 2)
    };
    let Some(begin) = next(at) else { return };
    let end = next(begin).unwrap_or(bytes.len());
    let event = match random.below(4) {
        0 => Vec::new(),
        1 => bytes[begin..end].repeat(2),
        2 => [
            &bytes[begin..end],
            &random_element(&streams.events, random)[..],
        ]
        .concat(),
        _ => random_element(&streams.events, random).clone(),
    };
    drop(bytes.splice(begin..end, event));
}

/// Nests a value in lists or objects: about as deep as is accepted, far deeper, or a little.
fn nest_deeper(bytes: &mut Vec<u8>, random: &mut Rng) {
    let Some(token) = random_token(bytes, random) else {
        return;
    };
    let depth = [
        110 + random.below(24),
        100 + random.below(400),
        random.below(10),
    ][random.below(3)];
    let (open, close) = [(&b"["[..], &b"]"[..]), (b"{\"a\":", b"}")][random.below(2)];
    let value = [
        &open.repeat(depth),
        &bytes[token.clone()],
        &close.repeat(depth),
    ]
    .concat();
    drop(bytes.splice(token, value));
}

/// Replaces a token by another one.
fn replace_token(bytes: &mut Vec<u8>, streams: &FormatStreams, random: &mut Rng) {
    let Some(token) = random_token(bytes, random) else {
        return;
    };
    let long;
    let new: &[u8] = match random.below(12) {
        0..5 => random_element(VALUES, random).as_bytes(),
        5 => {
            long = format!("\"{}\"", "long ".repeat(random.below(2000)));
            long.as_bytes()
        }
        _ => random_element(&streams.tokens, random).as_slice(),
    };
    drop(bytes.splice(token, new.iter().copied()));
}

/// The range of a string, a number or a word in one of the lines.
fn random_token(bytes: &[u8], random: &mut Rng) -> Option<Range<usize>> {
    let at = random.below(bytes.len().max(1));
    let begin = bytes
        .get(..at)?
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    let length = bytes[begin..].iter().position(|b| *b == b'\n');
    let line = &bytes[begin..length.map_or(bytes.len(), |length| begin + length)];
    let found = tokens(line);
    let found = found.get(random.below(found.len().max(1)))?;
    Some(begin + found.start..begin + found.end)
}

/// The ranges of the strings, numbers and words in some JSON.
pub(super) fn tokens(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let length = match byte {
            b'"' => string_length(rest),
            b'-' | b'0'..=b'9' | b'a'..=b'z' => {
                let inside = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
                rest.iter().position(|b| !inside(b)).unwrap_or(rest.len())
            }
            _ => {
                at += 1;
                continue;
            }
        };
        found.push(at..at + length);
        at += length;
    }
    found
}

/// The length of the string at the beginning of the bytes, with its quotes.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}
