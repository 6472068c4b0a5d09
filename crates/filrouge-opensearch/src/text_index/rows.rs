//! The rows of an index: JSON documents of sessions, documents and vectors. They have the names of their owner and
//! session, so that a query of one kind of row needs no other.

use std::collections::BTreeSet;

use filrouge_store::text_index::{
    Candidate, DocumentNo, IndexScope, IndexedDocument, IndexedSession, NewDocument, SessionEntry,
    SessionNo, Shard, is_dense,
};
use filrouge_types::Failure;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::errors::malformed;

pub(super) const SESSION: &str = "session";
pub(super) const DOCUMENT: &str = "document";
pub(super) const VECTOR: &str = "vector";

/// The fields of a document's row that [`read_candidate`] needs, besides its number.
pub(super) const CANDIDATE_FIELDS: [&str; 3] = ["session", "kind", "created"];

/// A write or the deletion of a row.
#[derive(Debug)]
pub(super) enum Action {
    /// Writes a row with this id.
    Write(String, Value),
    /// Deletes the row with this id.
    Delete(String),
}

impl Action {
    /// Whether this deletes a document.
    pub(super) fn is_of_document(&self) -> bool {
        matches!(self, Self::Delete(id) if id.starts_with("d-"))
    }

    /// Adds the action to the lines of a request. `version` is the number of the change.
    pub(super) fn add_to(&self, lines: &mut String, version: u64) {
        let meta =
            |id: &str| json!({ "_id": id, "version": version, "version_type": "external_gte" });
        *lines += &match self {
            Self::Write(id, row) => format!("{}\n{row}\n", json!({ "index": meta(id) })),
            Self::Delete(id) => format!("{}\n", json!({ "delete": meta(id) })),
        };
    }
}

pub(super) fn session_id(no: SessionNo) -> String {
    format!("s-{no}")
}

pub(super) fn document_id(no: DocumentNo) -> String {
    format!("d-{no}")
}

/// The id of a vector by an embedder.
pub(super) fn vector_id(embedder: &str, no: DocumentNo) -> String {
    let digest = hex::encode(Sha256::digest(embedder.as_bytes()));
    format!("v-{digest}-{no}")
}

/// The word that identifies a shard.
fn shard_word(shard: &Shard) -> String {
    format!(
        "{}/{}",
        hex::encode(&shard.realm),
        hex::encode(&shard.owner)
    )
}

/// The word that identifies a session.
pub(super) fn session_word(realm: &[u8], key: &str) -> String {
    format!("{}/{key}", hex::encode(realm))
}

/// The condition that a row is within a scope.
pub(super) fn within(scope: &IndexScope) -> Value {
    match scope {
        IndexScope::Shard(shard) => json!({ "term": { "shard": shard_word(shard) } }),
        IndexScope::Realm(realm) => json!({ "term": { "realm": hex::encode(realm) } }),
    }
}

pub(super) fn write_session(session: &IndexedSession) -> Action {
    let IndexedSession { no, shard, entry } = session;
    let [stamp_0, stamp_1] = entry.stamp.map(|stamp| stamp.to_string());
    let row = json!({
        "row": SESSION,
        "no": no,
        "realm": hex::encode(&shard.realm),
        "owner": hex::encode(&shard.owner),
        "shard": shard_word(shard),
        "name": session_word(&shard.realm, &entry.key),
        "session_key": entry.key,
        "stamp_0": stamp_0,
        "stamp_1": stamp_1,
        "updated": entry.updated,
        "project": entry.project,
    });
    Action::Write(session_id(*no), row)
}

pub(super) fn write_document(
    no: DocumentNo,
    session: &IndexedSession,
    document: &NewDocument,
) -> Action {
    let NewDocument {
        key,
        unit,
        kind,
        created,
        digest,
        folded,
        body,
    } = document;
    let mut row = json!({
        "row": DOCUMENT,
        "no": no,
        "session": session.no,
        "realm": hex::encode(&session.shard.realm),
        "shard": shard_word(&session.shard),
        "session_key": session.entry.key,
        "key": key,
        "unit": unit.to_string(),
        "kind": kind,
        "created": created,
        "digest": digest.to_string(),
        "bytes": folded.len(),
        "folded": folded,
    });
    let dense = dense_words(folded);
    if !dense.is_empty() {
        row["dense"] = json!(dense);
    }
    if !body.is_empty() {
        row["body"] = hex::encode(body).into();
    }
    Action::Write(document_id(no), row)
}

/// The row of a vector of a document. `document` is the stored part of the document's row.
pub(super) fn write_vector(
    no: DocumentNo,
    document: &Value,
    embedder: &str,
    vector: &[i8],
) -> Action {
    let bytes: Vec<u8> = vector.iter().map(|n| n.cast_unsigned()).collect();
    let mut row = json!({
        "row": VECTOR,
        "no": no,
        "embedder": embedder,
        "vector": hex::encode(bytes),
    });
    for name in ["session", "realm", "shard", "kind", "created"] {
        row[name] = document[name].clone();
    }
    Action::Write(vector_id(embedder, no), row)
}

/// The dense characters of a text, and each two of them that follow one another: words that are too short for trigrams.
fn dense_words(folded: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut before = None;
    for c in folded.chars() {
        let dense = is_dense(c).then_some(c);
        if let Some(c) = dense {
            words.insert(c.to_string());
            words.extend(before.map(|before: char| [before, c].iter().collect::<String>()));
        }
        before = dense;
    }
    words
}

/// The dense word by which texts with a literal of one or two characters are found; `None` if it has no dense
/// character.
pub(super) fn dense_word(literal: &str) -> Option<String> {
    let words = dense_words(literal);
    words.into_iter().max_by_key(String::len)
}

pub(super) fn read_session(hit: &Value) -> Result<IndexedSession, Failure> {
    let row = &hit["_source"];
    Ok(IndexedSession {
        no: number(&row["no"])?,
        shard: Shard {
            realm: bytes(&row["realm"])?.into(),
            owner: bytes(&row["owner"])?.into(),
        },
        entry: SessionEntry {
            key: text(&row["session_key"])?.into(),
            stamp: [parsed(&row["stamp_0"])?, parsed(&row["stamp_1"])?],
            updated: row["updated"].as_i64().ok_or_else(malformed)?,
            project: row["project"].as_str().map(Into::into),
        },
    })
}

pub(super) fn read_document(hit: &Value) -> Result<IndexedDocument, Failure> {
    let row = &hit["_source"];
    Ok(IndexedDocument {
        no: number(&row["no"])?,
        session: (
            bytes(&row["realm"])?.into(),
            text(&row["session_key"])?.into(),
        ),
        key: text(&row["key"])?.into(),
        unit: parsed(&row["unit"])?,
        digest: parsed(&row["digest"])?,
    })
}

/// Reads a candidate from the fields of a hit, which is sorted by its number last.
pub(super) fn read_candidate(hit: &Value) -> Result<Candidate, Failure> {
    let fields = &hit["fields"];
    let sort = hit["sort"].as_array().and_then(|sort| sort.last());
    let kind = number(&fields["kind"][0])?;
    Ok(Candidate {
        document: number(sort.ok_or_else(malformed)?)?,
        session: number(&fields["session"][0])?,
        kind: u8::try_from(kind).map_err(|_| malformed())?,
        created: fields["created"][0].as_i64().ok_or_else(malformed)?,
        met: 0,
        whole_words: false,
        near: 0,
    })
}

pub(super) fn number(value: &Value) -> Result<u64, Failure> {
    value.as_u64().ok_or_else(malformed)
}

fn text(value: &Value) -> Result<&str, Failure> {
    value.as_str().ok_or_else(malformed)
}

fn parsed(value: &Value) -> Result<u64, Failure> {
    text(value)?.parse().map_err(|_| malformed())
}

/// Decodes hexadecimal bytes.
pub(super) fn bytes(value: &Value) -> Result<Vec<u8>, Failure> {
    hex::decode(text(value)?).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_literals_have_a_word_of_each_text_that_contains_them() {
        let texts = ["a中文 学习b", "学", "x中y"];
        for literal in ["中", "中文", "学习", "学", "x中", "中y", " 学"] {
            let word = dense_word(literal).unwrap();
            for text in texts.iter().filter(|text| text.contains(literal)) {
                assert!(dense_words(text).contains(&word), "{text} {literal}");
            }
        }
        assert_eq!(dense_word("ab"), None);
        assert_eq!(dense_word("中文").as_deref(), Some("中文"));
    }
}
