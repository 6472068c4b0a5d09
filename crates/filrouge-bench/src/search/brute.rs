//! Computes the expected results of a search: reads every text of every conversation once and compares it in full. It
//! shares the texts and the folding with the search, but not its queries, filters and indexes.

use std::collections::BTreeMap;

use anyhow::Result;
use filrouge_search::{Field, SearchDocument};
use filrouge_sources::Library;
use filrouge_store::text_index::fold;
use regex::Regex;

/// A message or a title.
struct Document {
    texts: Vec<Text>,
}

/// One text of a document.
pub(super) struct Text {
    pub(super) field: Field,
    /// The original text; for JSON also the text with its escapes resolved.
    pub(super) raw: Vec<String>,
    /// The same, folded, with each run of white space as one space.
    folded: Vec<String>,
}

/// The documents of a library.
pub(super) struct AllDocuments {
    /// By session, the title first.
    documents: Vec<(String, Document)>,
}

/// The condition of a search.
pub(super) enum Condition {
    /// All of these words in one message.
    Words(Vec<String>),
    /// A match within one text of the message.
    Pattern(Regex),
}

impl AllDocuments {
    pub(super) fn read(library: &Library) -> Result<Self> {
        let mut documents = Vec::new();
        for entry in &library.catalog().entries {
            let id = entry.header.id.to_string();
            if let Some(title) = SearchDocument::from_title(&entry.header) {
                documents.push((id.clone(), Document::from_search_document(&title)));
            }
            for message in &library.conversation(entry)?.messages {
                documents.push((
                    id.clone(),
                    Document::from_search_document(&SearchDocument::from_message(message)),
                ));
            }
        }
        Ok(Self { documents })
    }

    /// The number of matching messages and titles, by session id.
    pub(super) fn find(&self, condition: &Condition) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        for (id, document) in &self.documents {
            if document.matches(condition) {
                *found.entry(id.clone()).or_default() += 1;
            }
        }
        found
    }

    /// All texts, each with the number of its document.
    pub(super) fn texts(&self) -> impl Iterator<Item = (usize, &Text)> {
        let all = self.documents.iter().enumerate();
        all.flat_map(|(at, (_, document))| document.texts.iter().map(move |text| (at, text)))
    }
}

impl Document {
    fn from_search_document(document: &SearchDocument<'_>) -> Self {
        let text = |piece: &filrouge_search::Piece<'_>| {
            let mut raw = vec![piece.text.to_string()];
            if matches!(piece.field, Field::ToolInput | Field::Other) {
                raw.extend(unescape(&piece.text));
            }
            Text {
                field: piece.field,
                folded: raw
                    .iter()
                    .map(|text| collapse_spaces(&fold(text)))
                    .collect(),
                raw,
            }
        };
        Self {
            texts: document.pieces.iter().map(text).collect(),
        }
    }

    fn matches(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Words(words) => words.iter().all(|word| {
                let word = collapse_spaces(&fold(word));
                let mut all = self.texts.iter().flat_map(|text| &text.folded);
                all.any(|text| text.contains(&word))
            }),
            Condition::Pattern(regex) => {
                let mut all = self.texts.iter().flat_map(|text| &text.raw);
                all.any(|text| regex.is_match(text))
            }
        }
    }
}

/// Replaces each run of white space by one space.
fn collapse_spaces(text: &str) -> String {
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

/// JSON with the escapes of its strings resolved; `None` if it has none.
fn unescape(json: &str) -> Option<String> {
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
        // Two surrogates that form no pair are decoded separately.
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
    fn json_escapes_are_resolved() {
        let json = r#"{"a":"x\n\"y\" \u00e9 \ud83c\udf31 \\n"}"#;
        assert_eq!(unescape(json).unwrap(), "{\"a\":\"x\n\"y\" é 🌱 \\n\"}");
        assert_eq!(unescape("{\"a\":1}"), None);
        assert_eq!(unescape("no json \\n"), None);
    }

    #[test]
    fn white_space_becomes_one_space() {
        assert_eq!(collapse_spaces("a \n\t b\u{a0}c"), "a b c");
    }
}
