//! Masks drafts. A growing text is drafted only up to a position after which it may still become part of a credential
//! (DESIGN §8).

use std::sync::Arc;

use filrouge_store::draft::{PieceHead, PieceKind};

use crate::secrets::{CredentialPolicy, MaskStream, SecretStream, TurnSecrets};

/// The drafted state of one piece (a part of a block of the stream).
#[derive(Default)]
pub(super) struct DraftedPiece {
    /// The version of the piece's text: see `StreamPart::generation`.
    pub(super) generation: u32,
    /// Whether an older version of the text was drafted, which the next draft must replace.
    pub(super) replaces: bool,
    /// The number of bytes of the piece's text that were passed to the maskers.
    processed: usize,
    /// Whether the maskers have been notified that the text is complete.
    complete: bool,
    /// The masked text; `None` if there is nothing to mask, so that the piece's text is drafted unchanged.
    masked_text: Option<MaskedText>,
    /// The number of bytes of the masked (or unchanged) text that were drafted.
    pub(super) drafted_bytes: usize,
    /// Whether the piece was drafted as complete.
    pub(super) done: bool,
    /// The drafted head of the piece; `None` if the piece was not drafted.
    pub(super) head: Option<PieceHead>,
}

struct MaskedText {
    /// Whether credentials that are recognized by their shape are masked, as in parameters of tools.
    masks_credentials: bool,
    turn_secrets: Option<Arc<TurnSecrets>>,
    secrets: Option<SecretStream>,
    credentials: Option<MaskStream>,
    output: String,
}

impl DraftedPiece {
    /// The state of a new piece, which was not drafted.
    pub(super) fn new(
        kind: PieceKind,
        generation: u32,
        policy: CredentialPolicy,
        secrets: Option<&Arc<TurnSecrets>>,
    ) -> Self {
        // Tool arguments are scanned for credentials; the agent's text is not.
        let masks_credentials = kind == PieceKind::ToolCall && policy != CredentialPolicy::Off;
        let masked_text = (masks_credentials || secrets.is_some()).then(|| MaskedText {
            masks_credentials,
            turn_secrets: secrets.cloned(),
            secrets: secrets.map(TurnSecrets::stream),
            credentials: masks_credentials.then(MaskStream::default),
            output: String::new(),
        });
        Self {
            generation,
            masked_text,
            ..Self::default()
        }
    }

    /// Masks the new text of the piece. `text` is the entire text so far; `done` means that it is complete.
    pub(super) fn process(&mut self, text: &str, done: bool) {
        let Some(masked_text) = self.masked_text.as_mut() else {
            return;
        };
        let new_text = text.get(self.processed..).unwrap_or_default();
        if self.complete {
            if new_text.is_empty() {
                return;
            }
            // The piece continues although it was complete: new maskers are needed.
            masked_text.secrets = masked_text.turn_secrets.as_ref().map(TurnSecrets::stream);
            masked_text.credentials = masked_text.masks_credentials.then(MaskStream::default);
        }
        let mut new_text = new_text.to_owned();
        self.processed = text.len().max(self.processed);
        if let Some(secrets) = &mut masked_text.secrets {
            new_text = secrets.push(&new_text);
        }
        if let Some(credentials) = &mut masked_text.credentials {
            new_text = credentials.push(&new_text);
        }
        masked_text.output.push_str(&new_text);
        self.complete = done;
        if done {
            masked_text.finish();
        }
    }

    /// The part of the masked text that was not drafted yet. Unless the piece is `done`, it ends with a complete
    /// character.
    pub(super) fn undrafted<'a>(&'a self, text: &'a str, done: bool) -> &'a str {
        let output = self
            .masked_text
            .as_ref()
            .map_or(text, |v| v.output.as_str());
        let new_text = output.get(self.drafted_bytes..).unwrap_or_default();
        if done {
            new_text
        } else {
            complete_characters(new_text)
        }
    }

    /// The entire masked text of a piece that grows no further.
    pub(super) fn complete_text(&mut self, text: &str) -> String {
        self.process(text, true);
        match &self.masked_text {
            Some(masked_text) => masked_text.output.clone(),
            None => text.to_owned(),
        }
    }
}

impl MaskedText {
    fn finish(&mut self) {
        let mut remainder = String::new();
        if let Some(secrets) = self.secrets.take() {
            remainder = secrets.finish();
        }
        if let Some(mut credentials) = self.credentials.take() {
            remainder = credentials.push(&remainder);
            remainder.push_str(&credentials.finish());
        }
        self.output.push_str(&remainder);
    }
}

/// The text without an incomplete escape at its end, and without the first half of a surrogate pair at its end.
fn complete_characters(text: &str) -> &str {
    let complete = complete_escapes(text);
    match last_escape(complete) {
        // The first half of a surrogate pair waits for the second.
        Some(at) if is_high_half(&complete[at..]) => &complete[..at],
        _ => complete,
    }
}

fn complete_escapes(text: &str) -> &str {
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

/// The start of the last escape, if it is among the last six bytes; no escape is longer.
fn last_escape(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_escape_start = |at: &usize| {
        let slashes = bytes[..=*at].iter().rev().take_while(|b| **b == b'\\');
        bytes[*at] == b'\\' && slashes.count() % 2 == 1
    };
    (bytes.len().saturating_sub(6)..bytes.len())
        .rev()
        .find(is_escape_start)
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
    fn the_first_half_of_a_character_waits_for_the_second() {
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
            assert_eq!(complete_characters(text), expected, "{text}");
        }
    }

    proptest! {
        /// The outputs of all steps together equal the masked text, for any size of the steps.
        #[test]
        fn steps_do_not_change_the_output(
            words in proptest::collection::vec(
                prop_oneof![Just(r"\u00e9"), Just("é🧵"), Just(r"\\"), Just(r"\n"), Just(r#"\""#), "[a-z ]{0,9}"
                    .prop_map(|w| Box::leak(w.into_boxed_str()) as &str),
                    Just(concat!("ghp", "_", "abcdefghijklmnopqrstuvwxyz0123456789"))],
                0..20,
            ),
            step in 1_usize..9,
        ) {
            let text = words.concat();
            let mut piece = DraftedPiece::new(PieceKind::ToolCall, 0, CredentialPolicy::Mask, None);
            let (mut so_far, mut output) = (String::new(), String::new());
            for (n, c) in text.chars().enumerate() {
                so_far.push(c);
                if n % step == 0 {
                    piece.process(&so_far, false);
                    let new_text = piece.undrafted(&so_far, false).to_owned();
                    piece.drafted_bytes += new_text.len();
                    output.push_str(&new_text);
                    let token = format!("\"{new_text}\"");
                    prop_assert!(serde_json::from_str::<serde_json::Value>(&token).is_ok(), "{token}");
                }
            }
            piece.process(&text, true);
            output.push_str(piece.undrafted(&text, true));
            let masked = crate::secrets::mask_text(&text, &mut crate::secrets::Masked::default());
            prop_assert_eq!(output, masked.unwrap_or(text));
        }
    }
}
