//! The judged set: queries that a user might type, and the sessions the user means (`judged/queries.toml`).

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The corpus that a query searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum JudgedCorpus {
    /// `opencode-json-whole`, `claude-code` and `codex` of `tests/fixtures`.
    Genuine,
    /// `tests/fixtures/opencode-sqlite`.
    OpencodeSqlite,
    /// Invented: `judged/desk.json` and `judged/coding.json`.
    Made,
    /// `tools/gen_opencode_storage.py`.
    Generated,
}

impl JudgedCorpus {
    pub(super) const ALL: [Self; 4] = [
        Self::Genuine,
        Self::OpencodeSqlite,
        Self::Made,
        Self::Generated,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Genuine => "genuine",
            Self::OpencodeSqlite => "opencode-sqlite",
            Self::Made => "made",
            Self::Generated => "generated",
        }
    }
}

/// The kind of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// One word.
    Word,
    /// Words in quotes.
    Phrase,
    /// An identifier from a program.
    Identifier,
    /// The path of a file.
    Path,
    /// Chinese or Japanese.
    Cjk,
    /// The text has accents, the query mostly not.
    Accented,
    /// Several remembered words.
    Memory,
    /// The topic in other words.
    Paraphrase,
    /// "Have we answered this before?"
    Question,
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::Word,
        Self::Phrase,
        Self::Identifier,
        Self::Path,
        Self::Cjk,
        Self::Accented,
        Self::Memory,
        Self::Paraphrase,
        Self::Question,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Word => "word",
            Self::Phrase => "phrase",
            Self::Identifier => "identifier",
            Self::Path => "path",
            Self::Cjk => "CJK",
            Self::Accented => "accented",
            Self::Memory => "from memory",
            Self::Paraphrase => "paraphrase",
            Self::Question => "question",
        })
    }
}

/// A query with its grades.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    #[serde(rename = "ask")]
    pub(super) text: String,
    pub(super) corpus: JudgedCorpus,
    pub(super) kind: Kind,
    /// The language of the query, not of the sessions it finds.
    pub(super) language: String,
    /// Grades 3, 2 or 1 by session id; in the file by short name.
    pub(super) relevant: BTreeMap<String, u8>,
    /// The reason for the grades.
    pub(super) why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueryFile {
    /// By corpus, the ids of sessions by short name.
    sessions: BTreeMap<String, BTreeMap<String, String>>,
    query: Vec<Query>,
}

/// The folder of the judged set.
pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("judged")
}

/// All queries, with sessions by id.
pub(super) fn queries() -> Result<Vec<Query>> {
    let path = folder().join("queries.toml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let file: QueryFile = toml::from_str(&text)?;
    let mut queries = file.query;
    for query in &mut queries {
        let names = file.sessions.get(query.corpus.name());
        let names = names.with_context(|| query.corpus.name())?;
        let mut relevant = BTreeMap::new();
        for (name, grade) in &query.relevant {
            ensure!((1..=3).contains(grade), "{:?}: grade {grade}", query.text);
            let id = names.get(name);
            let id = id.with_context(|| format!("{:?}: no session {name}", query.text))?;
            relevant.insert(id.clone(), *grade);
        }
        query.relevant = relevant;
    }
    Ok(queries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judged_set_is_large_and_has_every_kind() {
        let queries = queries().unwrap();
        assert!(queries.len() >= 80, "{}", queries.len());
        let of_kind = |kind| queries.iter().filter(|q| q.kind == kind).count();
        for kind in Kind::ALL {
            assert!(of_kind(kind) >= 6, "{kind}: {}", of_kind(kind));
        }
        let made: Vec<_> = queries
            .iter()
            .filter(|q| q.corpus == JudgedCorpus::Made)
            .collect();
        let in_other_words = |q: &&&Query| matches!(q.kind, Kind::Paraphrase | Kind::Question);
        assert!(
            made.len() >= 40 && 2 * made.iter().filter(in_other_words).count() + 2 >= made.len()
        );
        for query in &queries {
            let best = query.relevant.values().max();
            assert_eq!(best, Some(&3), "{:?}: no session has grade 3", query.text);
            assert!(
                !query.why.is_empty() && query.language.len() == 2,
                "{:?}",
                query.text
            );
        }
    }

    #[test]
    fn no_query_occurs_twice() {
        let mut queries: Vec<_> = queries()
            .unwrap()
            .into_iter()
            .map(|q| (q.corpus, q.text))
            .collect();
        let count = queries.len();
        queries.sort();
        queries.dedup();
        assert_eq!(queries.len(), count);
    }
}
