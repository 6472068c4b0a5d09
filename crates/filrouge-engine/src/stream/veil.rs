//! Drafts without credentials: what grows is shown only as far as it cannot become one (DESIGN §8).

use std::sync::Arc;

use filrouge_store::draft::{PieceHead, PieceKind};

use crate::secrets::{CredentialPolicy, MaskStream, SecretStream, TurnSecrets};

/// How one piece is shown.
pub(super) struct Shown {
    /// Which of the piece's texts it is, when it was replaced.
    pub(super) generation: u32,
    /// Whether what was drafted of it stands for another text.
    pub(super) replaces: bool,
    /// Bytes of the piece's text that were looked at.
    taken: usize,
    /// Whether nothing more was to come.
    whole: bool,
    /// What may be shown, when that is not simply the piece's text.
    veiled: Option<Veiled>,
    /// Bytes of what may be shown that were drafted.
    pub(super) given: usize,
    /// Whether the piece was drafted as complete.
    pub(super) done: bool,
    /// What was drafted of it besides its text; `None` when it was not drafted at all.
    pub(super) head: Option<PieceHead>,
}

struct Veiled {
    /// Whether credentials of any kind are masked.
    parameters: bool,
    known: Option<Arc<TurnSecrets>>,
    secrets: Option<SecretStream>,
    credentials: Option<MaskStream>,
    out: String,
}

impl Shown {
    /// A piece that begins.
    pub(super) fn new(
        kind: PieceKind,
        generation: u32,
        policy: CredentialPolicy,
        secrets: Option<&Arc<TurnSecrets>>,
    ) -> Self {
        // Parameters of tools are looked through for credentials, what the agent says is not.
        let parameters = kind == PieceKind::ToolCall && policy != CredentialPolicy::Off;
        let veiled = (parameters || secrets.is_some()).then(|| Veiled {
            parameters,
            known: secrets.cloned(),
            secrets: secrets.map(TurnSecrets::stream),
            credentials: parameters.then(MaskStream::new),
            out: String::new(),
        });
        Self {
            generation,
            replaces: false,
            taken: 0,
            whole: false,
            veiled,
            given: 0,
            done: false,
            head: None,
        }
    }

    /// Looks at what has come to the piece's text.
    pub(super) fn take(&mut self, text: &str, done: bool) {
        let Some(veiled) = self.veiled.as_mut() else {
            return;
        };
        let more = text.get(self.taken..).unwrap_or_default();
        if self.whole {
            if more.is_empty() {
                return;
            }
            // It goes on after all.
            veiled.secrets = veiled.known.as_ref().map(TurnSecrets::stream);
            veiled.credentials = veiled.parameters.then(MaskStream::new);
        }
        let mut more = more.to_owned();
        self.taken = text.len().max(self.taken);
        if let Some(secrets) = &mut veiled.secrets {
            more = secrets.push(&more);
        }
        if let Some(credentials) = &mut veiled.credentials {
            more = credentials.push(&more);
        }
        veiled.out.push_str(&more);
        self.whole = done;
        if done {
            veiled.finish();
        }
    }

    /// What may be shown of the piece and was not drafted; as long as it grows, up to where no character is cut in
    /// two.
    pub(super) fn news<'a>(&'a self, text: &'a str, done: bool) -> &'a str {
        let shown = self.veiled.as_ref().map_or(text, |v| v.out.as_str());
        let news = shown.get(self.given..).unwrap_or_default();
        if done { news } else { whole_characters(news) }
    }

    /// All that may be shown of the piece, which will not grow any more.
    pub(super) fn all(&mut self, text: &str) -> String {
        self.take(text, true);
        match &self.veiled {
            Some(veiled) => veiled.out.clone(),
            None => text.to_owned(),
        }
    }
}

impl Veiled {
    fn finish(&mut self) {
        let mut rest = String::new();
        if let Some(secrets) = self.secrets.take() {
            rest = secrets.finish().0;
        }
        if let Some(mut credentials) = self.credentials.take() {
            rest = credentials.push(&rest);
            rest.push_str(&credentials.finish().0);
        }
        self.out.push_str(&rest);
    }
}

/// Up to where no escape is cut in two, and no pair of them that is one character.
fn whole_characters(text: &str) -> &str {
    let whole = whole_escapes(text);
    match last_escape(whole) {
        // Half a character waits for its other half.
        Some(at) if is_high_half(&whole[at..]) => &whole[..at],
        _ => whole,
    }
}

fn whole_escapes(text: &str) -> &str {
    let Some(at) = last_escape(text) else {
        return text;
    };
    let is_unit = text.as_bytes().get(at + 1) == Some(&b'u');
    let length = if is_unit { 6 } else { 2 };
    if text.len() - at < length {
        &text[..at]
    } else {
        text
    }
}

/// Where an escape begins within the last six bytes, which is as long as one can be.
fn last_escape(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let begins = |at: &usize| {
        let slashes = bytes[..=*at].iter().rev().take_while(|b| **b == b'\\');
        bytes[*at] == b'\\' && slashes.count() % 2 == 1
    };
    (bytes.len().saturating_sub(6)..bytes.len())
        .rev()
        .find(begins)
}

fn is_high_half(escape: &str) -> bool {
    let digits = escape.strip_prefix(r"\u").filter(|d| d.len() == 4);
    let unit = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
    unit.is_some_and(|u| (0xd800..0xdc00).contains(&u))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_a_character_waits_for_its_other_half() {
        for (text, expected) in [
            (r"a\ud83e", "a"),
            (r"a\ud83e\uddf5", r"a\ud83e\uddf5"),
            (r"a\ud83e\u", "a"),
            (r"a\\ud83e", r"a\\ud83e"),
            (r"a\\\ud83e", r"a\\"),
            (r"a\", "a"),
            (r"a\\", r"a\\"),
            (r"a\u00e", "a"),
            (r"a\u00e9", r"a\u00e9"),
            (r"a\n", r"a\n"),
            ("aé", "aé"),
            ("ééé", "ééé"),
            ("", ""),
        ] {
            assert_eq!(whole_characters(text), expected, "{text}");
        }
    }

    proptest! {
        /// What is shown bit by bit is the masked text, whatever the bits.
        #[test]
        fn bit_by_bit(
            words in proptest::collection::vec(
                prop_oneof![Just(r"\u00e9"), Just("é🧵"), Just(r"\\"), Just(r"\n"), Just(r#"\""#), "[a-z ]{0,9}"
                    .prop_map(|w| Box::leak(w.into_boxed_str()) as &str),
                    Just(concat!("ghp", "_", "abcdefghijklmnopqrstuvwxyz0123456789"))],
                0..20,
            ),
            step in 1_usize..9,
        ) {
            let whole = words.concat();
            let mut shown = Shown::new(PieceKind::ToolCall, 0, CredentialPolicy::Mask, None);
            let (mut so_far, mut out) = (String::new(), String::new());
            for (n, c) in whole.chars().enumerate() {
                so_far.push(c);
                if n % step == 0 {
                    shown.take(&so_far, false);
                    let news = shown.news(&so_far, false).to_owned();
                    shown.given += news.len();
                    out.push_str(&news);
                    let token = format!("\"{news}\"");
                    prop_assert!(serde_json::from_str::<serde_json::Value>(&token).is_ok(), "{token}");
                }
            }
            shown.take(&whole, true);
            out.push_str(shown.news(&whole, true));
            let masked = crate::secrets::mask_text(&whole, &mut crate::secrets::Masked::default());
            prop_assert_eq!(out, masked.unwrap_or(whole));
        }
    }
}
