//! Embeds the documents of an index that have no vector yet.

use filrouge_engine::credentials;
use filrouge_sources::Role;
use filrouge_store::text_index::{
    CandidateFilter, CandidateQuery, DocumentNo, IndexScope, IndexUpdate, TITLE, TextIndex,
};
use filrouge_types::Failure;

use super::{Embedder, quantize};
use crate::fields::Field;
use crate::search_document::{SearchDocument, kind};
use crate::texts::Texts;

/// The maximum number of characters of a document that are passed to the embedder: more than models accept, and enough
/// to determine the subject of a message.
const MAX_CHARS: usize = 2_000;

/// Embeds at most `limit` documents of another program's history that have no vector of this embedder yet, the newest
/// first: titles, and messages of people and agents. Tool output and reasoning are not embedded, and credentials are
/// removed. Returns the number of documents that were processed; 0 means that none is left.
///
/// # Errors
/// Those of the index and of the embedder. The next call processes the same documents again.
pub fn embed_documents(
    index: &dyn TextIndex,
    embedder: &dyn Embedder,
    limit: usize,
) -> Result<usize, Failure> {
    embed_texts(Texts::Stored(index), embedder, limit)
}

/// As [`embed_documents`], for any texts.
pub(crate) fn embed_texts(
    texts: Texts<'_>,
    embedder: &dyn Embedder,
    limit: usize,
) -> Result<usize, Failure> {
    let kinds = 1 << kind(Some(Role::User)) | 1 << kind(Some(Role::Assistant)) | 1 << TITLE;
    let candidates = texts.index().candidates(&CandidateQuery {
        reach: &IndexScope::Realm(Box::default()),
        sessions: None,
        kinds,
        since: None,
        until: None,
        wanted: CandidateFilter::WithoutVector(embedder.id(), limit),
    })?;
    let documents: Vec<DocumentNo> = candidates.iter().map(|c| c.document).collect();
    // A document whose text cannot be read is processed as one without text: otherwise each call would try it again.
    let mut read: Vec<(DocumentNo, String)> =
        documents.iter().map(|no| (*no, String::new())).collect();
    let mut unread = read.iter_mut();
    texts.bodies(&documents, &mut |document, body| {
        if let Some((_, text)) = unread.find(|(no, _)| *no == document) {
            *text = text_to_embed(body);
        }
        true
    })?;
    let texts_to_embed: Vec<&str> = read
        .iter()
        .map(|(_, text)| text.as_str())
        .filter(|t| !t.is_empty())
        .collect();
    let mut embedded = if texts_to_embed.is_empty() {
        Vec::new()
    } else {
        embedder.embed(&texts_to_embed)?
    }
    .into_iter();
    let vectors = read.iter().map(|(document, text)| {
        // An empty vector marks a message without text as processed.
        let vector = (!text.is_empty()).then(|| embedded.next()).flatten();
        let vector = vector.map_or_else(Vec::new, |vector| quantize(&vector));
        (*document, vector)
    });
    let vectors: Vec<(DocumentNo, Vec<i8>)> = vectors.collect();
    let update = IndexUpdate::Vectors(embedder.id().into(), vectors);
    texts.index().change(None, &[update], None)?;
    Ok(documents.len())
}

/// The text of a document that is embedded: its beginning, without credentials. Empty if there is none, or the document
/// cannot be decoded.
fn text_to_embed(body: &[u8]) -> String {
    let Ok(doc) = SearchDocument::decode(body) else {
        return String::new();
    };
    let pieces = doc
        .pieces
        .iter()
        .filter(|piece| matches!(piece.field, Field::Text | Field::Title));
    let texts: Vec<&str> = pieces
        .map(|piece| piece.text.trim())
        .filter(|t| !t.is_empty())
        .collect();
    let text = without_credentials(&texts.join("\n"));
    text.chars().take(MAX_CHARS).collect()
}

/// Removes text that has the form of a credential. An embedder may be a remote service, and a search must not find a
/// text by a credential that the text contains.
pub(crate) fn without_credentials(text: &str) -> String {
    let (mut plain, mut from) = (String::with_capacity(text.len()), 0);
    for hidden in credentials(text) {
        plain.push_str(text.get(from..hidden.start).unwrap_or_default());
        from = hidden.end;
    }
    plain.push_str(text.get(from..).unwrap_or_default());
    plain
}
