//! A source of generated sessions, random numbers, and JSON strings in any spelling.

use std::path::Path;
use std::sync::Arc;

use filrouge_sources::{Conversation, Header, Listing, ReadError, Source, SourceError};

/// A simple generator of pseudorandom numbers.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// A number below `sides`.
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A JSON string of the text, in one of its possible spellings.
pub(super) fn spell(text: &str, dice: &mut Dice) -> String {
    let escapes_freely = dice.roll(4) == 0;
    let mut out = String::from('"');
    for c in text.chars() {
        let short = match c {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '\n' => Some("\\n"),
            '\t' => Some("\\t"),
            '/' if dice.roll(2) == 0 => Some("\\/"),
            _ => None,
        };
        let must_escape = c < ' ' && short.is_none();
        if must_escape || escapes_freely && dice.roll(3) == 0 {
            for unit in c.encode_utf16(&mut [0; 2]) {
                match dice.roll(2) {
                    0 => out.push_str(&format!("\\u{unit:04x}")),
                    _ => out.push_str(&format!("\\u{unit:04X}")),
                }
            }
        } else {
            match short {
                Some(short) => out.push_str(short),
                None => out.push(c),
            }
        }
    }
    out.push('"');
    out
}

/// A source that returns generated sessions.
pub(super) struct GeneratedSource {
    pub(super) sessions: Vec<(Arc<Header>, Conversation)>,
}

impl Source for GeneratedSource {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        let headers = self.sessions.iter().map(|s| s.0.clone()).collect();
        Ok(Arc::new(Listing {
            headers,
            ..Listing::default()
        }))
    }

    fn path(&self) -> Option<&Path> {
        None
    }

    fn read(&self, id: &str) -> Result<Conversation, ReadError> {
        let session = self.sessions.iter().find(|s| *s.0.id == *id);
        session.map(|s| s.1.clone()).ok_or(ReadError::Gone)
    }
}
