//! The ways to ask: by looking through everything, and over indexes.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use filrouge_search::embed::{Embedder, Hashing, quantized};
use filrouge_search::feed::{Indexes, SourceIndex};
use filrouge_search::{Ask, Field, Mode, Results, Searcher, Spoken, kind};
use filrouge_sources::{Library, Role, Source};
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::text_index::{CandidateQuery, IndexUpdate, Reach, TextIndex, Wanted};
use filrouge_types::Failure;

/// Texts that are embedded in one call.
const AT_ONCE: usize = 32;

/// An index in a file.
pub(super) fn open(file: &Path) -> Result<Arc<dyn TextIndex>, Failure> {
    Ok(Arc::new(SqliteIndex::open(file)?))
}

/// Indexes of sources, each in a file of its own.
pub(super) struct Indexed {
    all: Arc<Indexes>,
    /// Those that there are.
    pub(super) each: Vec<Arc<SourceIndex>>,
}

impl Indexed {
    /// Those in `dir`; empty ones where nothing is there.
    pub(super) fn open(sources: &[Arc<dyn Source>], dir: &Path) -> Result<Self> {
        let all = Indexes::new(sources, dir, true, Box::new(open));
        let mut each = Vec::new();
        for place in 0..sources.len() {
            each.extend(all.make(place)?);
        }
        let all = Arc::new(all);
        Ok(Self { all, each })
    }

    /// Brings everything in.
    pub(super) fn fill(&self) -> Result<()> {
        for index in &self.each {
            index.update(&mut |_| {}, &|| false)?;
            while index.tidy()? {}
        }
        Ok(())
    }

    /// Who asks them.
    pub(super) fn searcher(&self, library: &Library) -> Searcher {
        scanning(library).with_indexes(self.all.clone())
    }
}

/// Vectors of everything that people and agents have said.
pub(super) fn embed(indexes: &[Arc<SourceIndex>], embedder: &Arc<dyn Embedder>) -> Result<()> {
    let said = 1 << kind(Some(Role::User)) | 1 << kind(Some(Role::Assistant));
    for index in indexes {
        let index = index.index();
        loop {
            let found = index.candidates(&CandidateQuery {
                reach: &Reach::Realm(Box::default()),
                sessions: None,
                kinds: said,
                since: None,
                until: None,
                wanted: Wanted::WithoutVector(embedder.id(), AT_ONCE),
            })?;
            let documents: Vec<_> = found.iter().map(|c| c.document).collect();
            if documents.is_empty() {
                break;
            }
            let mut texts = Vec::new();
            index.bodies(&documents, &mut |document, body| {
                texts.push((document, spoken_text(body)));
                true
            })?;
            let all: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
            let vectors = embedder.embed(&all)?;
            let vectors = vectors.iter().zip(&texts);
            let vectors: Vec<_> = vectors
                .map(|(vector, (at, _))| (*at, quantized(vector)))
                .collect();
            let update = IndexUpdate::Vectors(embedder.id().into(), vectors);
            index.change(None, &[update], None)?;
        }
    }
    Ok(())
}

fn spoken_text(body: &[u8]) -> String {
    let Ok(spoken) = Spoken::decode(body) else {
        return String::new();
    };
    let said = spoken
        .pieces
        .iter()
        .filter(|piece| piece.field == Field::Text);
    said.map(|piece| &*piece.text)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Looks through everything.
pub(super) fn scanning(library: &Library) -> Searcher {
    Searcher::new(library.clone())
}

/// By words; the best first.
pub(super) fn asks(query: &str, limit: usize) -> Ask {
    Ask {
        query: query.to_owned(),
        limit,
        mode: Mode::Words,
        ..Ask::default()
    }
}

/// One page.
pub(super) fn search(searcher: &Searcher, ask: &Ask) -> Result<Results> {
    Ok(searcher.search(ask, &|| false)?)
}

/// The embedder, and what is to be said of it.
pub(super) fn embedder(model: Option<&Path>) -> Result<(Arc<dyn Embedder>, String)> {
    #[cfg(feature = "minilm")]
    if let Some(folder) = model {
        let model = filrouge_search::embed::MiniLm::open(folder)?;
        let told = format!("embedded by {}", model.id());
        return Ok((Arc::new(model), told));
    }
    #[cfg(not(feature = "minilm"))]
    anyhow::ensure!(
        model.is_none(),
        "built without the feature minilm: cargo run --release -p filrouge-bench --features minilm"
    );
    let told = "EMBEDDED BY HASHES OF WORDS: no --model was given. Meaning is not looked at, only words and pieces of words";
    Ok((Arc::new(Hashing), told.to_owned()))
}
