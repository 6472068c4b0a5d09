//! The known secrets of a turn: values of its `runtime_context` that must not be recorded. They are masked wherever
//! they reappear in the turn.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use filrouge_types::{JsonText, Members, RawJson};
use serde_json::value::RawValue;

use super::mask::Masked;
use super::shape::Shape;

/// The minimum number of characters of a secret. Shorter values would match ordinary text.
const CHARS_MIN: usize = 8;
/// The maximum number of bytes of a secret. A longer value is not masked, and counts as lost.
const VALUE_MAX: usize = 16 << 10;
/// The maximum number of bytes of all values of a turn.
const BYTES_MAX: usize = 256 << 10;
/// The maximum number of values of a turn, approximately.
const VALUES_MAX: usize = 1024;
/// Schemes of the `Authorization` header (RFC 9110). In a value with a scheme, the text after the scheme is a secret
/// too.
const SCHEMES: [&str; 6] = ["basic", "bearer", "token", "apikey", "digest", "negotiate"];

/// The known secrets of one turn. They are only in memory, and there is no `Debug` that could print them.
pub(crate) struct TurnSecrets {
    /// Matches secrets in a text, which may be plain, JSON, or the inside of a JSON string.
    plain: AhoCorasick,
    /// Matches secrets in the strings of a JSON text.
    json: AhoCorasick,
    /// All patterns of `plain`, in order.
    spellings: BTreeSet<String>,
    bytes: usize,
    lost: u64,
}

/// The string values of a JSON text, at any depth, without the names of members.
fn values(json: &str) -> Vec<JsonText> {
    let nested: Vec<&str> = match json.as_bytes().first() {
        Some(b'"') => {
            let value = JsonText::from_raw(RawJson::from_checked(json));
            return value.into_iter().collect();
        }
        Some(b'{') => {
            let members = Members::parse(json).unwrap_or_default().0;
            members.into_iter().map(|(_, value)| value).collect()
        }
        Some(b'[') => {
            let list: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            list.into_iter().map(RawValue::get).collect()
        }
        _ => Vec::new(),
    };
    nested.into_iter().flat_map(values).collect()
}

/// `text` as a JSON string, without its quotes.
fn json_escaped(text: &str) -> String {
    JsonText::from_plain(text).inner().to_owned()
}

/// `text` as a JSON string in ASCII only, without its quotes.
fn json_escaped_ascii(text: &str) -> String {
    let mut out = String::new();
    for c in json_escaped(text).chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// The spellings of a value in a JSON string, and in a string of JSON that is itself in a JSON string.
fn spellings(value: &str) -> Vec<String> {
    let mut all = Vec::new();
    for escaped in [json_escaped(value), json_escaped_ascii(value)] {
        let with_slashes = escaped.replace('/', "\\/");
        for spelling in [escaped, with_slashes] {
            all.push(json_escaped(&spelling));
            all.push(spelling);
        }
    }
    all
}

/// The value itself, and if it begins with a scheme of `Authorization`, also the text after the scheme.
fn parts(value: &str) -> impl Iterator<Item = &str> {
    let credentials = value.trim().split_once(' ').and_then(|(scheme, rest)| {
        SCHEMES
            .iter()
            .any(|s| scheme.eq_ignore_ascii_case(s))
            .then_some(rest.trim())
    });
    [Some(value), credentials].into_iter().flatten()
}

fn automaton<'a>(patterns: impl Iterator<Item = &'a String>) -> Option<AhoCorasick> {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        // A dense automaton would take many times as much memory.
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(patterns)
        .ok()
}

impl TurnSecrets {
    /// The secrets in `contexts`: their string values of at least eight characters, at any depth. Two kinds of values
    /// are no secrets: values that also occur in `recorded`, and values of several words that are the entire text of a
    /// question. `None` if there are no secrets.
    pub(crate) fn from_contexts(
        contexts: &[RawJson],
        recorded: &[RawJson],
        questions: &[&JsonText],
    ) -> Option<Arc<Self>> {
        let all_values = |json: &[RawJson]| -> Vec<JsonText> {
            json.iter().flat_map(|json| values(json.as_str())).collect()
        };
        let allowed = all_values(recorded);
        let allowed: BTreeSet<String> = allowed.iter().map(JsonText::to_plain).collect();
        let question_texts: Vec<String> = questions.iter().map(|q| q.to_plain()).collect();
        let (mut plain, mut json, mut bytes, mut lost) = (BTreeSet::new(), BTreeSet::new(), 0, 0);
        for value in all_values(contexts) {
            let text = value.to_plain();
            // An application may repeat the question in the context. A question of one word could be a token.
            let is_question = text.trim().contains(' ') && question_texts.contains(&text);
            if allowed.contains(&text) || is_question {
                continue;
            }
            for part in parts(&text).filter(|p| p.chars().count() >= CHARS_MIN) {
                if part.len() > VALUE_MAX
                    || bytes + part.len() > BYTES_MAX
                    || plain.len() >= VALUES_MAX * 8
                {
                    lost += 1;
                    continue;
                }
                bytes += part.len();
                json.extend(spellings(part));
                plain.extend(spellings(part));
                plain.insert(part.to_owned());
            }
            if value.inner().len() <= VALUE_MAX && text.chars().count() >= CHARS_MIN {
                json.insert(value.inner().to_owned());
            }
        }
        if plain.is_empty() && lost == 0 {
            return None;
        }
        Some(Arc::new(Self {
            plain: automaton(plain.iter())?,
            json: automaton(json.iter())?,
            spellings: plain,
            bytes,
            lost,
        }))
    }

    /// The approximate memory of the secrets in bytes.
    pub(super) fn memory(&self) -> usize {
        self.plain.memory_usage() + self.json.memory_usage() + 8 * self.bytes + 256
    }

    /// The number of values that are not masked because they are too long or too many.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Masks the secrets in a text; `None` if there are none. Adds what was masked to `counts`.
    pub(crate) fn mask_text(&self, text: &str, counts: &mut Masked) -> Option<String> {
        mask_matches(&self.plain, text, counts, |_| false)
    }

    /// Masks the secrets in the strings of a JSON text; `None` if there are none. The result is valid JSON. Adds what
    /// was masked to `counts`.
    pub(crate) fn mask_json(&self, raw: &str, counts: &mut Masked) -> Option<String> {
        mask_matches(&self.json, raw, counts, |at| in_escape(raw.as_bytes(), at))
    }

    /// A masker of the secrets in a text that arrives in pieces.
    pub(crate) fn stream(self: &Arc<Self>) -> SecretStream {
        SecretStream {
            secrets: self.clone(),
            text: String::new(),
        }
    }

    /// The first position from which the remainder of `text` may be the beginning of a secret; the length of `text` if
    /// there is none.
    fn undecided_from(&self, text: &str) -> usize {
        let longest = self.spellings.iter().map(String::len).max().unwrap_or(0);
        let from = text.len().saturating_sub(longest.saturating_sub(1));
        (from..text.len())
            .filter(|at| text.is_char_boundary(*at))
            .find(|at| {
                let suffix = &text[*at..];
                // In alphabetical order, the spellings of which `suffix` is a proper prefix follow directly after
                // `suffix`.
                self.spellings
                    .range::<str, _>((Bound::Included(suffix), Bound::Unbounded))
                    .find(|s| s.len() > suffix.len() || !s.starts_with(suffix))
                    .is_some_and(|s| s.starts_with(suffix))
            })
            .unwrap_or(text.len())
    }
}

fn mask_matches(
    automaton: &AhoCorasick,
    text: &str,
    counts: &mut Masked,
    skip: impl Fn(usize) -> bool,
) -> Option<String> {
    let (mut out, mut done, mut at) = (String::new(), 0, 0);
    while let Some(hit) = automaton.find(Input::new(text).span(at..text.len())) {
        if skip(hit.start()) {
            at = hit.start() + 1;
            continue;
        }
        out.push_str(&text[done..hit.start()]);
        out.push_str(&Shape::RuntimeContext.mask());
        counts.add(Shape::RuntimeContext, 1);
        (done, at) = (hit.end(), hit.end());
    }
    if done == 0 {
        return None;
    }
    out.push_str(&text[done..]);
    Some(out)
}

/// Whether `at` is inside an escape, so that a mask there would break the JSON.
fn in_escape(raw: &[u8], at: usize) -> bool {
    let slashes = |at: usize| raw[..at].iter().rev().take_while(|b| **b == b'\\').count();
    let before = slashes(at);
    let letter = matches!(raw.get(at), Some(b'n' | b'r' | b't' | b'b' | b'f' | b'u'));
    before % 2 == 1
        || before > 0 && letter
        || (1..=4).any(|n| {
            at.checked_sub(n)
                .is_some_and(|u| raw[u] == b'u' && slashes(u) % 2 == 1)
        })
}

/// Masks a turn's secrets in a text that arrives in pieces.
pub(crate) struct SecretStream {
    secrets: Arc<TurnSecrets>,
    text: String,
}

impl SecretStream {
    /// Appends to the text; returns what may be shown now. Holds back at most the length of the longest secret.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.text.push_str(text);
        let secrets = &self.secrets;
        let (mut out, mut done) = (String::new(), 0);
        let mut safe_end = secrets.undecided_from(&self.text);
        while done < safe_end
            && let Some(hit) = secrets
                .plain
                .find(Input::new(&self.text).span(done..self.text.len()))
            && hit.start() < safe_end
        {
            out.push_str(&self.text[done..hit.start()]);
            out.push_str(&Shape::RuntimeContext.mask());
            done = hit.end();
            safe_end = done + secrets.undecided_from(&self.text[done..]);
        }
        out.push_str(&self.text[done..safe_end.max(done)]);
        self.text.drain(..safe_end.max(done));
        out
    }

    /// Ends the text. Returns the masked form of what was held back.
    pub(crate) fn finish(self) -> String {
        let rest = self.secrets.mask_text(&self.text, &mut Masked::default());
        rest.unwrap_or(self.text)
    }
}
