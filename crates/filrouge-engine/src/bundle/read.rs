//! Parses a bundle file. Reports any difference from the format that filrouge writes, with its position.

use serde_json::value::RawValue;

use super::refusal::{Refusal, broken};
use super::{CHECKPOINTS, END, HEAD, ITEMS, MARK, OPENING, SIGNATURE, TURNS};

/// The sections of a bundle, as raw text.
pub(super) struct Sections<'a> {
    pub(super) session: &'a str,
    pub(super) turns: List<'a>,
    pub(super) items: List<'a>,
    pub(super) checkpoints: &'a str,
    pub(super) head: &'a str,
    pub(super) signature: &'a str,
}

/// A list: its raw text, and the raw text of each element.
pub(super) struct List<'a> {
    pub(super) raw: &'a str,
    pub(super) elements: Vec<&'a str>,
}

struct Parser<'a> {
    text: &'a str,
    offset: usize,
    /// The section being read, for error messages.
    section: &'static str,
    /// The index of the list element being read.
    element: Option<u64>,
    /// Describes the invalid bytes before which the text ends; `None` if the file is UTF-8.
    invalid_utf8: Option<String>,
}

impl<'a> Parser<'a> {
    fn remaining(&self) -> &'a str {
        self.text.get(self.offset..).unwrap_or("")
    }

    fn malformed(&self, detail: &str) -> Refusal {
        let element = self.element.map_or_else(String::new, |n| format!("[{n}]"));
        let seq = self.element.filter(|_| self.section == "items");
        let detail = self.invalid_utf8.as_deref().unwrap_or(detail);
        let detail = format!("{}{element}, byte {}: {detail}", self.section, self.offset);
        broken(None, seq.map(|n| n + 1), detail)
    }

    fn expect(&mut self, text: &str) -> Result<(), Refusal> {
        if self.remaining().starts_with(text) {
            self.offset += text.len();
            return Ok(());
        }
        Err(self.malformed(&format!("expected {text:?}")))
    }

    /// One JSON value, without surrounding white space.
    fn value(&mut self) -> Result<&'a str, Refusal> {
        let mut values =
            serde_json::Deserializer::from_str(self.remaining()).into_iter::<&RawValue>();
        match values.next() {
            Some(Ok(raw)) if self.remaining().starts_with(raw.get()) => {
                self.offset += raw.get().len();
                Ok(raw.get())
            }
            Some(Err(e)) => Err(self.malformed(&format!("not valid JSON ({e})"))),
            _ => Err(self.malformed("expected a JSON value")),
        }
    }

    fn list(&mut self) -> Result<List<'a>, Refusal> {
        let start = self.offset;
        let mut elements = Vec::new();
        if self.remaining().starts_with("[]") {
            self.offset += 2;
        } else {
            self.expect("[\n")?;
            loop {
                self.element = Some(elements.len() as u64);
                elements.push(self.value()?);
                if self.remaining().starts_with(",\n") {
                    self.offset += 2;
                } else {
                    self.expect("\n]")?;
                    break;
                }
            }
            self.element = None;
        }
        Ok(List {
            raw: &self.text[start..self.offset],
            elements,
        })
    }

    /// Reads the opening of a section. The section's name is set only afterwards: a missing opening is reported for the
    /// preceding section, which may be truncated or may contain the opening.
    fn section(&mut self, name: &'static str, opening: &str) -> Result<&mut Self, Refusal> {
        self.expect(opening)?;
        self.section = name;
        Ok(self)
    }
}

/// Splits a file into its sections.
pub(super) fn parse_sections(bytes: &[u8]) -> Result<Sections<'_>, Refusal> {
    if !bytes.starts_with(MARK.as_bytes()) {
        return Err(Refusal::NotABundle);
    }
    // Bytes that are not UTF-8 must not be replaced by U+FFFD: where the signed text contains U+FFFD, a file with
    // invalid bytes would verify as well. Instead the text ends before them, so that the error names their position.
    let (text, invalid_utf8) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let at = error.valid_up_to();
            let before = bytes.get(..at).unwrap_or_default();
            let before = std::str::from_utf8(before).unwrap_or_default();
            (before, Some(format!("byte {at} is not UTF-8")))
        }
    };
    let mut parser = Parser {
        text,
        offset: 0,
        section: "the beginning",
        element: None,
        invalid_utf8,
    };
    if !text.starts_with(OPENING)
        && let Some(version) = other_version(text)
    {
        return Err(Refusal::OtherVersion(version));
    }
    let sections = Sections {
        session: parser.section("session", OPENING)?.value()?,
        turns: parser.section("turns", TURNS)?.list()?,
        items: parser.section("items", ITEMS)?.list()?,
        checkpoints: parser.section("checkpoints", CHECKPOINTS)?.value()?,
        head: parser.section("head", HEAD)?.value()?,
        signature: parser.section("signature", SIGNATURE)?.value()?,
    };
    parser.section("the end", END)?;
    if !parser.remaining().is_empty() || parser.invalid_utf8.is_some() {
        return Err(parser.malformed("something follows the bundle"));
    }
    Ok(sections)
}

/// The format version that a bundle declares, if it is not 1.
fn other_version(text: &str) -> Option<String> {
    let rest = text.strip_prefix(MARK)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let is_other = !digits.is_empty() && digits != "1" && rest[digits.len()..].starts_with(',');
    is_other.then_some(digits)
}
