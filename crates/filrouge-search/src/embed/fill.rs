//! Vectors for what an index holds and has none of yet.

use filrouge_engine::credentials;
use filrouge_sources::Role;
use filrouge_store::text_index::{
    CandidateQuery, DocumentNo, IndexUpdate, Reach, TITLE, TextIndex, Wanted,
};
use filrouge_types::Failure;

use super::{Embedder, quantized};
use crate::fields::Field;
use crate::spoken::{Spoken, kind};

/// How many characters of a message are embedded: more than models take, and enough to say what it is about.
const CHARS: usize = 2_000;

/// Embeds at most `most` titles, and messages of people and agents, that have no vector of this embedder yet, the newest
/// first; how many there were. What tools print, and what an agent thinks, has none; credentials are left out.
///
/// # Errors
/// The index's and the embedder's; what has none yet is tried again the next time.
pub fn fill(index: &dyn TextIndex, embedder: &dyn Embedder, most: usize) -> Result<usize, Failure> {
    let kinds = 1 << kind(Some(Role::User)) | 1 << kind(Some(Role::Assistant)) | 1 << TITLE;
    let found = index.candidates(&CandidateQuery {
        reach: &Reach::Realm(Box::default()),
        sessions: None,
        kinds,
        since: None,
        until: None,
        wanted: Wanted::WithoutVector(embedder.id(), most),
    })?;
    let documents: Vec<DocumentNo> = found.iter().map(|c| c.document).collect();
    let mut texts: Vec<(DocumentNo, String)> = Vec::with_capacity(documents.len());
    index.bodies(&documents, &mut |document, body| {
        texts.push((document, said(body)));
        true
    })?;
    let some: Vec<&str> = texts
        .iter()
        .map(|(_, text)| text.as_str())
        .filter(|t| !t.is_empty())
        .collect();
    let mut embedded = if some.is_empty() {
        Vec::new()
    } else {
        embedder.embed(&some)?
    }
    .into_iter();
    let vectors = texts.iter().map(|(document, text)| {
        // A message that says nothing is marked as looked at.
        let vector = if text.is_empty() {
            None
        } else {
            embedded.next()
        };
        (
            *document,
            vector.map_or_else(Vec::new, |vector| quantized(&vector)),
        )
    });
    let vectors: Vec<(DocumentNo, Vec<i8>)> = vectors.collect();
    let update = IndexUpdate::Vectors(embedder.id().into(), vectors);
    index.change(None, &[update], None)?;
    Ok(documents.len())
}

/// The beginning of what a message says.
fn said(body: &[u8]) -> String {
    let Ok(spoken) = Spoken::decode(body) else {
        return String::new();
    };
    let pieces = spoken
        .pieces
        .iter()
        .filter(|piece| matches!(piece.field, Field::Text | Field::Title));
    let texts: Vec<&str> = pieces
        .map(|piece| piece.text.trim())
        .filter(|t| !t.is_empty())
        .collect();
    let text = without_credentials(&texts.join("\n"));
    text.chars().take(CHARS).collect()
}

/// A text without what has the form of a credential: an embedder may be a service, and nothing is to be found by it.
pub(crate) fn without_credentials(text: &str) -> String {
    let (mut plain, mut from) = (String::with_capacity(text.len()), 0);
    for hidden in credentials(text) {
        plain.push_str(text.get(from..hidden.start).unwrap_or_default());
        from = hidden.end;
    }
    plain.push_str(text.get(from..).unwrap_or_default());
    plain
}
