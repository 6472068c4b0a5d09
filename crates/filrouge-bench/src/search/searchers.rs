//! Searchers: one that scans everything, and one over indexes.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use filrouge_search::embed::{Embedder, Hashing, quantize};
use filrouge_search::feed::{Indexes, SourceIndex};
use filrouge_search::{Field, Mode, Results, SearchDocument, SearchRequest, Searcher, kind};
use filrouge_sources::{Library, Role, Source};
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::text_index::{
    CandidateFilter, CandidateQuery, IndexScope, IndexUpdate, TextIndex,
};
use filrouge_store::{Keyring, Ledger};
use filrouge_types::Failure;

/// The number of texts embedded in one call.
const TEXTS_PER_CALL: usize = 32;

/// Opens an index in a file.
pub(super) fn open(file: &Path) -> Result<Arc<dyn TextIndex>, Failure> {
    let key = Keyring::single([7; 32]).index_key(b"bench");
    Ok(Arc::new(SqliteIndex::open(file)?.with_key(Some(key))))
}

/// Opens the index of the ledger in `dir`, where a server with this store looks for it.
pub(crate) fn open_ledger_index(ledger: &dyn Ledger, dir: &Path) -> Result<Arc<dyn TextIndex>> {
    let key = ledger.keyring().index_key(ledger.store_id().as_bytes());
    let index = SqliteIndex::open(dir.join("filrouge.db.index"))?;
    Ok(Arc::new(index.with_key(Some(key))))
}

/// Indexes of sources, each in a separate file.
pub(super) struct SourceIndexes {
    all: Arc<Indexes>,
    /// The same indexes, one by one.
    pub(super) each: Vec<Arc<SourceIndex>>,
}

impl SourceIndexes {
    /// The indexes in `dir`; creates missing ones empty.
    pub(super) fn open(sources: &[Arc<dyn Source>], dir: &Path) -> Result<Self> {
        let all = Indexes::new(sources, dir, true, Box::new(open));
        let mut each = Vec::new();
        for position in 0..sources.len() {
            each.extend(all.open_or_create(position)?);
        }
        let all = Arc::new(all);
        Ok(Self { all, each })
    }

    /// Indexes everything.
    pub(super) fn index_everything(&self) -> Result<()> {
        for index in &self.each {
            index.update(&mut |_| {}, &|| false)?;
            while index.tidy()? {}
        }
        Ok(())
    }

    /// A searcher over the indexes.
    pub(super) fn searcher(&self, library: &Library) -> Searcher {
        full_scan(library).with_indexes(self.all.clone())
    }
}

/// Embeds all messages of users and agents.
pub(super) fn embed(indexes: &[Arc<SourceIndex>], embedder: &Arc<dyn Embedder>) -> Result<()> {
    let kinds = 1 << kind(Some(Role::User)) | 1 << kind(Some(Role::Assistant));
    for index in indexes {
        let index = index.index();
        loop {
            let found = index.candidates(&CandidateQuery {
                reach: &IndexScope::Realm(Box::default()),
                sessions: None,
                kinds,
                since: None,
                until: None,
                wanted: CandidateFilter::WithoutVector(embedder.id(), TEXTS_PER_CALL),
            })?;
            let documents: Vec<_> = found.iter().map(|c| c.document).collect();
            if documents.is_empty() {
                break;
            }
            let mut texts = Vec::new();
            index.bodies(&documents, &mut |document, body| {
                texts.push((document, message_text(body)));
                true
            })?;
            let all: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
            let vectors = embedder.embed(&all)?;
            let vectors = vectors.iter().zip(&texts);
            let vectors: Vec<_> = vectors
                .map(|(vector, (at, _))| (*at, quantize(vector)))
                .collect();
            let update = IndexUpdate::Vectors(embedder.id().into(), vectors);
            index.change(None, &[update], None)?;
        }
    }
    Ok(())
}

/// The text of a message, without its tool calls and other fields.
fn message_text(body: &[u8]) -> String {
    let Ok(document) = SearchDocument::decode(body) else {
        return String::new();
    };
    let texts = document
        .pieces
        .iter()
        .filter(|piece| piece.field == Field::Text);
    texts
        .map(|piece| &*piece.text)
        .collect::<Vec<_>>()
        .join("\n")
}

/// A searcher that scans everything.
pub(super) fn full_scan(library: &Library) -> Searcher {
    Searcher::new(library.clone())
}

/// A query by words, best results first.
pub(super) fn words_request(query: &str, limit: usize) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        limit,
        mode: Mode::Words,
        ..SearchRequest::default()
    }
}

/// One page of results.
pub(super) fn search(searcher: &Searcher, request: &SearchRequest) -> Result<Results> {
    Ok(searcher.search(request, &|| false)?)
}

/// The embedder, and a note about it for the report.
pub(super) fn embedder(model: Option<&Path>) -> Result<(Arc<dyn Embedder>, String)> {
    #[cfg(feature = "minilm")]
    if let Some(folder) = model {
        let model = filrouge_search::embed::MiniLm::open(folder)?;
        let note = format!("embedded by {}", model.id());
        return Ok((Arc::new(model), note));
    }
    #[cfg(not(feature = "minilm"))]
    anyhow::ensure!(
        model.is_none(),
        "built without the feature minilm: cargo run --release -p filrouge-bench --features minilm"
    );
    let note = "EMBEDDED BY HASHES OF WORDS, because --model is missing. These vectors compare words and parts of words, not meaning";
    Ok((Arc::new(Hashing), note.to_owned()))
}
