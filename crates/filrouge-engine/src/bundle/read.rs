//! Taking a bundle's file apart. Whatever does not stand as it is written is told with its place.

use serde_json::value::RawValue;

use super::{CHECKPOINTS, END, HEAD, ITEMS, OPENING, SIGNATURE, TURNS};

/// The sections of a bundle, as they stand.
pub(super) struct Sections<'a> {
    pub(super) session: &'a str,
    pub(super) turns: List<'a>,
    pub(super) items: List<'a>,
    pub(super) checkpoints: &'a str,
    pub(super) head: &'a str,
    pub(super) signature: &'a str,
}

/// A list with its elements.
pub(super) struct List<'a> {
    pub(super) whole: &'a str,
    pub(super) elements: Vec<&'a str>,
}

/// Why a file is not read as a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unread {
    /// It was written by another version.
    Version(String),
    /// It is not what a bundle is; with the item concerned, when it is one.
    Malformed {
        seq: Option<u64>,
        place: String,
        what: String,
    },
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// What is being read, for telling the place.
    section: &'static str,
    /// Elements of the list that were read.
    element: Option<u64>,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn malformed(&self, what: &str) -> Unread {
        let place = self.element.map_or_else(String::new, |n| format!("[{n}]"));
        Unread::Malformed {
            seq: self
                .element
                .filter(|_| self.section == "items")
                .map(|n| n + 1),
            place: format!("{}{place}, byte {}", self.section, self.at),
            what: what.to_owned(),
        }
    }

    fn expect(&mut self, text: &str) -> Result<(), Unread> {
        if self.rest().starts_with(text) {
            self.at += text.len();
            return Ok(());
        }
        Err(self.malformed(&format!("expected {text:?}")))
    }

    /// One JSON value, exactly as long as it is.
    fn value(&mut self) -> Result<&'a str, Unread> {
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

    fn list(&mut self) -> Result<List<'a>, Unread> {
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
            whole: &self.text[start..self.at],
            elements,
        })
    }

    /// What opens a section is looked for while the one before is read: that one may have been cut short, or may
    /// have swallowed it.
    fn section(&mut self, name: &'static str, opening: &str) -> Result<(), Unread> {
        self.expect(opening)?;
        self.section = name;
        Ok(())
    }
}

/// The sections of a file.
pub(super) fn sections(bytes: &[u8]) -> Result<Sections<'_>, Unread> {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return sections_of(text),
        Err(error) => error,
    };
    // Nothing is put in the place of what is no text: other bytes would pass for those that were signed. What
    // stands before it ends where it is, and so tells the place.
    let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
    let found = sections_of(std::str::from_utf8(before).unwrap_or_default());
    let (seq, place) = match found {
        Err(Unread::Malformed { seq, place, .. }) => (seq, place),
        Err(version) => return Err(version),
        Ok(_) => (None, format!("the end, byte {}", before.len())),
    };
    let what = format!("byte {} is no UTF-8", before.len());
    Err(Unread::Malformed { seq, place, what })
}

fn sections_of(text: &str) -> Result<Sections<'_>, Unread> {
    let mut cursor = Cursor {
        text,
        at: 0,
        section: "the beginning",
        element: None,
    };
    if !text.starts_with(OPENING)
        && let Some(version) = other_version(text)
    {
        return Err(Unread::Version(version));
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
    if !cursor.rest().is_empty() {
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

/// The version that a bundle says it has, when it is not this one.
fn other_version(text: &str) -> Option<String> {
    let rest = text.strip_prefix("{\"filrouge_bundle\":")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let other = !digits.is_empty() && digits != "1" && rest[digits.len()..].starts_with(',');
    other.then_some(digits)
}
