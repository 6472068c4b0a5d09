//! A source whose records are JSON in any spelling.

use std::sync::Arc;

use crate::fields::{self, Field};
use filrouge_sources::{
    Conversation, Found, Header, Listing, LoadedSession, ReadError, Scan, Source, SourceError,
    Stamp,
};

/// Numbers without much thought, for spelling.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A JSON string of the text, in one of all its spellings.
pub(super) fn spell(text: &str, dice: &mut Dice) -> String {
    let freely = dice.roll(4) == 0;
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
        let must = c < ' ' && short.is_none();
        if must || freely && dice.roll(3) == 0 {
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

/// A source whose records are JSON texts, each spelled anew at each scan.
pub(super) struct Spelled {
    pub(super) sessions: Vec<(Arc<Header>, Conversation)>,
    pub(super) seed: u64,
}

impl Spelled {
    fn record(texts: &[(Field, &str)], dice: &mut Dice) -> String {
        let fields = texts.iter().map(|(field, text)| {
            let is_json = field.is_json() && dice.roll(2) == 0;
            let value = if is_json {
                (*text).to_owned()
            } else {
                spell(text, dice)
            };
            format!("{}:{value}", spell(field.as_str(), dice))
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    }
}

impl Source for Spelled {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn generation(&self) -> &'static str {
        "spelled"
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        let headers = self.sessions.iter().map(|s| s.0.clone()).collect();
        Ok(Arc::new(Listing {
            headers,
            ..Listing::default()
        }))
    }

    fn stamp(&self, _: &str) -> Result<Option<Stamp>, ReadError> {
        Ok(Some(Stamp(0, 0)))
    }

    fn conversation(&self, id: &str) -> Result<Conversation, ReadError> {
        let session = self.sessions.iter().find(|s| *s.0.id == *id);
        session.map(|s| s.1.clone()).ok_or(ReadError::Gone)
    }

    fn scan(&self, scan: &Scan<'_>) -> Result<(), SourceError> {
        let mut dice = Dice(self.seed);
        for (header, conversation) in &self.sessions {
            for message in &conversation.messages {
                let one = |parts, error| Found {
                    session: &header.id,
                    message: &message.id,
                    role: scan.roles.then_some(message.role),
                    parts,
                    error,
                };
                for part in &message.parts {
                    let mut texts = Vec::new();
                    fields::of_part(part, &mut |field, text| texts.push((field, text)));
                    let record = Self::record(&texts, &mut dice);
                    if (scan.wanted)(&header.id) && (scan.may_hold)(record.as_bytes()) {
                        (scan.found)(one(std::slice::from_ref(part), None));
                    }
                }
                if let Some(error) = &message.error {
                    let mut texts = Vec::new();
                    fields::of_error(error, &mut |field, text| texts.push((field, text)));
                    let record = Self::record(&texts, &mut dice);
                    if (scan.wanted)(&header.id) && (scan.may_hold)(record.as_bytes()) {
                        (scan.found)(one(&[], Some(error)));
                    }
                }
            }
        }
        Ok(())
    }

    fn load(&self, _: &str) -> Result<LoadedSession, ReadError> {
        Err(ReadError::Gone)
    }
}
