//! What a search must find, found without one: every text of every conversation, read once and compared as a whole. It
//! shares the texts and the folding with the search, and nothing of its queries, sieves and indexes.

use std::collections::BTreeMap;

use anyhow::Result;
use filrouge_search::{Field, Spoken};
use filrouge_sources::Library;
use filrouge_store::text_index::fold;
use regex::Regex;

/// A message or a title.
struct Document {
    texts: Vec<Text>,
}

/// One of its texts.
pub(super) struct Text {
    pub(super) field: Field,
    /// As it stands, and of JSON as its strings read.
    pub(super) raw: Vec<String>,
    /// The same, folded, runs of white space as one space.
    folded: Vec<String>,
}

/// Everything there is.
pub(super) struct Everything {
    /// By session, the title first.
    documents: Vec<(String, Document)>,
}

/// What is looked for.
pub(super) enum Look {
    /// All of these in one message.
    Words(Vec<String>),
    /// In one text of it.
    Pattern(Regex),
}

impl Everything {
    pub(super) fn read(library: &Library) -> Result<Self> {
        let mut documents = Vec::new();
        for entry in &library.catalog().entries {
            let id = entry.header.id.to_string();
            if let Some(title) = Spoken::of_title(&entry.header) {
                documents.push((id.clone(), Document::of(&title)));
            }
            for message in &library.conversation(entry)?.messages {
                documents.push((id.clone(), Document::of(&Spoken::of(message))));
            }
        }
        Ok(Self { documents })
    }

    /// How many messages and titles of each session hold it.
    pub(super) fn find(&self, look: &Look) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        for (id, document) in &self.documents {
            if document.holds(look) {
                *found.entry(id.clone()).or_default() += 1;
            }
        }
        found
    }

    /// All texts, with the number of their document.
    pub(super) fn texts(&self) -> impl Iterator<Item = (usize, &Text)> {
        let all = self.documents.iter().enumerate();
        all.flat_map(|(at, (_, document))| document.texts.iter().map(move |text| (at, text)))
    }
}

impl Document {
    fn of(spoken: &Spoken<'_>) -> Self {
        let text = |piece: &filrouge_search::Piece<'_>| {
            let mut raw = vec![piece.text.to_string()];
            if matches!(piece.field, Field::ToolInput | Field::Other) {
                raw.extend(as_read(&piece.text));
            }
            Text {
                field: piece.field,
                folded: raw.iter().map(|text| spaced(&fold(text))).collect(),
                raw,
            }
        };
        Self {
            texts: spoken.pieces.iter().map(text).collect(),
        }
    }

    fn holds(&self, look: &Look) -> bool {
        match look {
            Look::Words(words) => words.iter().all(|word| {
                let word = spaced(&fold(word));
                let mut all = self.texts.iter().flat_map(|text| &text.folded);
                all.any(|text| text.contains(&word))
            }),
            Look::Pattern(regex) => {
                let mut all = self.texts.iter().flat_map(|text| &text.raw);
                all.any(|text| regex.is_match(text))
            }
        }
    }
}

/// Every run of white space as one space.
fn spaced(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_whitespace() {
            out.push(c);
        } else if !out.ends_with(' ') {
            out.push(' ');
        }
    }
    out
}

/// JSON with the escapes of its strings resolved; `None` where there are none.
fn as_read(json: &str) -> Option<String> {
    if !json.contains('\\') || !json.trim_start().starts_with(['{', '[', '"']) {
        return None;
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(rest.get(..at)?);
        let escape = rest.get(at..)?;
        let len = match escape.as_bytes().get(1) {
            Some(b'u') if escape.get(6..8) == Some("\\u") => 12,
            Some(b'u') => 6,
            _ => 2,
        };
        // Two that are no pair are read one by one.
        let read = [len, 6, 2].into_iter().find_map(|len| {
            let quoted = format!("\"{}\"", escape.get(..len)?);
            Some((serde_json::from_str::<String>(&quoted).ok()?, len))
        });
        let (text, len) = read.unwrap_or_else(|| ("\\".to_owned(), 1));
        out.push_str(&text);
        rest = escape.get(len..)?;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_reads_as_it_was_meant() {
        let json = r#"{"a":"x\n\"y\" \u00e9 \ud83c\udf31 \\n"}"#;
        assert_eq!(as_read(json).unwrap(), "{\"a\":\"x\n\"y\" é 🌱 \\n\"}");
        assert_eq!(as_read("{\"a\":1}"), None);
        assert_eq!(as_read("no json \\n"), None);
    }

    #[test]
    fn white_space_is_one_space() {
        assert_eq!(spaced("a \n\t b\u{a0}c"), "a b c");
    }
}
