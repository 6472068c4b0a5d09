//! Parses a bundle file. Any deviation from what filrouge writes is reported with its place.

use serde_json::value::RawValue;

use super::refused::{Refused, broken};
use super::{CHECKPOINTS, END, HEAD, ITEMS, OPENING, SIGNATURE, TURNS};

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

struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// The section being read, for error messages.
    section: &'static str,
    /// The index of the list element being read.
    element: Option<u64>,
    /// Why the text ends early: the bytes that follow are not UTF-8.
    cut: Option<String>,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn malformed(&self, what: &str) -> Refused {
        let element = self.element.map_or_else(String::new, |n| format!("[{n}]"));
        let seq = self.element.filter(|_| self.section == "items");
        let what = self.cut.as_deref().unwrap_or(what);
        let what = format!("{}{element}, byte {}: {what}", self.section, self.at);
        broken(None, seq.map(|n| n + 1), what)
    }

    fn expect(&mut self, text: &str) -> Result<(), Refused> {
        if self.rest().starts_with(text) {
            self.at += text.len();
            return Ok(());
        }
        Err(self.malformed(&format!("expected {text:?}")))
    }

    /// One JSON value, without surrounding white space.
    fn value(&mut self) -> Result<&'a str, Refused> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<&RawValue>();
        match values.next() {
            Some(Ok(raw)) if self.rest().starts_with(raw.get()) => {
                self.at += raw.get().len();
                Ok(raw.get())
            }
            Some(Err(e)) => Err(self.malformed(&format!("not valid JSON ({e})"))),
            _ => Err(self.malformed("expected a JSON value")),
        }
    }

    fn list(&mut self) -> Result<List<'a>, Refused> {
        let start = self.at;
        let mut elements = Vec::new();
        if self.rest().starts_with("[]") {
            self.at += 2;
        } else {
            self.expect("[\n")?;
            loop {
                self.element = Some(elements.len() as u64);
                elements.push(self.value()?);
                if self.rest().starts_with(",\n") {
                    self.at += 2;
                } else {
                    self.expect("\n]")?;
                    break;
                }
            }
            self.element = None;
        }
        Ok(List {
            raw: &self.text[start..self.at],
            elements,
        })
    }

    /// Begins a section. The name changes only after the opening was read, so that a missing opening is reported for
    /// the preceding section, which may be truncated or may contain the opening.
    fn section(&mut self, name: &'static str, opening: &str) -> Result<(), Refused> {
        self.expect(opening)?;
        self.section = name;
        Ok(())
    }
}

/// Splits a file into its sections.
pub(super) fn sections(bytes: &[u8]) -> Result<Sections<'_>, Refused> {
    // Bytes that are not UTF-8 must not be replaced by U+FFFD: where the signed text contains U+FFFD, a file with
    // invalid bytes would verify as well. Instead the text ends before them, so that the error names their position.
    let (text, cut) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let at = error.valid_up_to();
            let before = bytes.get(..at).unwrap_or_default();
            let before = std::str::from_utf8(before).unwrap_or_default();
            (before, Some(format!("byte {at} is not UTF-8")))
        }
    };
    let mut cursor = Cursor {
        text,
        at: 0,
        section: "the beginning",
        element: None,
        cut,
    };
    if !text.starts_with(OPENING)
        && let Some(version) = other_version(text)
    {
        return Err(Refused::Version(version));
    }
    cursor.section("session", OPENING)?;
    let session = cursor.value()?;
    cursor.section("turns", TURNS)?;
    let turns = cursor.list()?;
    cursor.section("items", ITEMS)?;
    let items = cursor.list()?;
    cursor.section("checkpoints", CHECKPOINTS)?;
    let checkpoints = cursor.value()?;
    cursor.section("head", HEAD)?;
    let head = cursor.value()?;
    cursor.section("signature", SIGNATURE)?;
    let signature = cursor.value()?;
    cursor.section("the end", END)?;
    if !cursor.rest().is_empty() || cursor.cut.is_some() {
        return Err(cursor.malformed("something follows the bundle"));
    }
    Ok(Sections {
        session,
        turns,
        items,
        checkpoints,
        head,
        signature,
    })
}

/// The version that a bundle declares, if it is not this one.
fn other_version(text: &str) -> Option<String> {
    let rest = text.strip_prefix("{\"filrouge_bundle\":")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let other = !digits.is_empty() && digits != "1" && rest[digits.len()..].starts_with(',');
    other.then_some(digits)
}
