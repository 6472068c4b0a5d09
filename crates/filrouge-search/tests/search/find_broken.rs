//! If an index does not answer, a search scans the history, and a notice reports it.

use std::sync::{Arc, Mutex};

use filrouge_search::embed::Hashing;
use filrouge_search::feed::Indexes;
use filrouge_search::{Mode, Results, SearchRequest, Searcher};
use filrouge_sources::library::samples::{self, MemorySource};
use filrouge_sources::{Library, Role, Source};
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{
    Candidate, CandidateFilter, CandidateQuery, DocumentNo, IndexState, IndexStatus, IndexUpdate,
    IndexVersion, IndexedDocument, SessionSelection, TextIndex,
};
use filrouge_types::{ErrorCode, Failure};

/// The notice. It gives no reason, because only the operator may know it.
const UNANSWERED: &str = "a search index does not answer: its history was scanned";

/// An index whose calls can be made to fail.
#[derive(Default)]
pub(crate) struct BrokenIndex {
    inner: MemoryIndex,
    fails: Mutex<Vec<&'static str>>,
}

impl BrokenIndex {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Makes these calls fail from now on, and no others: names of methods, `nearest` for candidates by vector,
    /// `garbled` for bodies that cannot be decoded, or `all`.
    pub(crate) fn fail(&self, calls: &[&'static str]) {
        *self.fails.lock().unwrap() = calls.to_vec();
    }

    /// The inner index, or the failure of this call.
    fn inner_for(&self, call: &str) -> Result<&MemoryIndex, Failure> {
        let fails = self.fails.lock().unwrap();
        if fails.iter().any(|one| ["all", call].contains(one)) {
            return Err(Failure::new(
                ErrorCode::StoreUnavailable,
                "the disk is gone",
            ));
        }
        Ok(&self.inner)
    }
}

impl TextIndex for BrokenIndex {
    fn state(&self, selection: SessionSelection<'_>) -> Result<IndexState, Failure> {
        self.inner_for("state")?.state(selection)
    }

    fn change(
        &self,
        expected: Option<&IndexVersion>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        self.inner_for("change")?
            .change(expected, updates, position)
    }

    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure> {
        self.inner_for("forget")?.forget(realm, key)
    }

    fn clear(&self) -> Result<(), Failure> {
        self.inner_for("clear")?.clear()
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        let call = match query.wanted {
            CandidateFilter::Nearest(..) => "nearest",
            _ => "candidates",
        };
        self.inner_for(call)?.candidates(query)
    }

    fn documents(&self, numbers: &[DocumentNo]) -> Result<Vec<IndexedDocument>, Failure> {
        self.inner_for("documents")?.documents(numbers)
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        let inner = self.inner_for("bodies")?;
        if self.fails.lock().unwrap().contains(&"garbled") {
            return inner.bodies(documents, &mut |document, _| each(document, b"?"));
        }
        inner.bodies(documents, each)
    }

    fn tidy(&self) -> Result<bool, Failure> {
        self.inner_for("tidy")?.tidy()
    }

    fn status(&self) -> Result<IndexStatus, Failure> {
        self.inner_for("status")?.status()
    }
}

/// A history of four sessions, which have one to four messages.
fn history() -> Arc<MemorySource> {
    let source = MemorySource::default();
    for n in 0..4 {
        let message = |m: usize| {
            let text = format!("a quince, number {m}");
            samples::message(
                &format!("m{m}"),
                Role::User,
                vec![samples::text("p", &text)],
            )
        };
        let messages = (0..=n).map(message).collect();
        source.put(
            samples::header(&format!("s{n}"), 1),
            samples::conversation(messages),
        );
    }
    Arc::new(source)
}

/// Searches for "quince". Returns the hits with their numbers of matches and excerpts, and the complete results.
fn search_quince(searcher: &Searcher, mode: Mode) -> (Vec<(String, usize, usize)>, Results) {
    let request = SearchRequest {
        query: "quince".to_owned(),
        now: Some(5),
        mode,
        ..SearchRequest::default()
    };
    let results = searcher.search(&request, &|| false).unwrap();
    let hits = results.sessions.iter();
    let hits = hits.map(|hit| (hit.session.id.clone(), hit.matches, hit.excerpts.len()));
    (hits.collect(), results)
}

#[test]
fn a_search_scans_a_source_whose_index_does_not_answer() {
    let sources: Vec<Arc<dyn Source>> = vec![history()];
    let library = Library::new(sources.clone(), 1 << 20);
    let expected = search_quince(&Searcher::new(library.clone()), Mode::Words).0;
    assert_eq!(expected.len(), 4);
    for fails in [
        &["all"][..],
        &["state"],
        &["candidates"],
        &["bodies"],
        &["garbled"],
    ] {
        let (dir, broken) = (tempfile::tempdir().unwrap(), BrokenIndex::new());
        let opened = broken.clone();
        let open = Box::new(move |_: &std::path::Path| Ok(opened.clone() as Arc<dyn TextIndex>));
        let indexes = Arc::new(Indexes::new(&sources, dir.path(), true, open));
        let index = indexes.open_or_create(0).unwrap().unwrap();
        index.update(&mut |_| {}, &|| false).unwrap();
        let searcher = Searcher::new(library.clone()).with_indexes(indexes.clone());
        let searcher = searcher.with_embedder(Some(Arc::new(Hashing)));
        assert_eq!(index.snapshot(std::time::Duration::ZERO).fresh.len(), 4);
        assert!(search_quince(&searcher, Mode::Words).1.as_of.is_some());
        broken.fail(fails);
        let snapshot_succeeds = index.snapshot(std::time::Duration::ZERO).failed.is_none();
        assert_eq!(snapshot_succeeds, fails != ["all"] && fails != ["state"]);
        for mode in [Mode::Words, Mode::Both] {
            let (hits, results) = search_quince(&searcher, mode);
            let sorted = |mut hits: Vec<_>| {
                hits.sort();
                hits
            };
            assert_eq!(sorted(hits), sorted(expected.clone()), "{fails:?}");
            assert!(results.exact);
            let unanswered = results.notices.iter().filter(|n| *n == UNANSWERED);
            assert_eq!(
                unanswered.count(),
                1,
                "{fails:?} {mode:?} {:?}",
                results.notices
            );
        }
    }
}

#[test]
fn sessions_that_an_index_cannot_show_are_read_from_the_source() {
    let sources: Vec<Arc<dyn Source>> = vec![history()];
    let (dir, broken) = (tempfile::tempdir().unwrap(), BrokenIndex::new());
    let opened = broken.clone();
    let open = Box::new(move |_: &std::path::Path| Ok(opened.clone() as Arc<dyn TextIndex>));
    let indexes = Arc::new(Indexes::new(&sources, dir.path(), true, open));
    indexes
        .open_or_create(0)
        .unwrap()
        .unwrap()
        .update(&mut |_| {}, &|| false)
        .unwrap();
    // No candidate is scanned before the page is built; then bodies cannot be read.
    let searcher = Searcher::new(Library::new(sources, 1 << 20)).with_indexes(indexes);
    let searcher = searcher.with_max_candidates(0);
    for fails in ["bodies", "garbled"] {
        broken.fail(&[fails]);
        let (hits, results) = search_quince(&searcher, Mode::Words);
        let mut hits: Vec<_> = hits
            .into_iter()
            .map(|(id, _, excerpts)| (id, excerpts))
            .collect();
        hits.sort();
        let expected: Vec<_> = (0..4).map(|n| (format!("s{n}"), n + 1)).collect();
        assert_eq!(hits, expected, "{fails}");
        assert_eq!(results.notices, [UNANSWERED], "{fails}");
    }
}

/// Results that only the index can find are missing, and a notice reports it.
#[test]
fn a_search_by_meaning_reports_an_unreadable_index() {
    let sources: Vec<Arc<dyn Source>> = vec![history()];
    let (dir, broken) = (tempfile::tempdir().unwrap(), BrokenIndex::new());
    let opened = broken.clone();
    let open = Box::new(move |_: &std::path::Path| Ok(opened.clone() as Arc<dyn TextIndex>));
    let indexes = Arc::new(Indexes::new(&sources, dir.path(), true, open));
    let index = indexes.open_or_create(0).unwrap().unwrap();
    index.update(&mut |_| {}, &|| false).unwrap();
    let searcher = Searcher::new(Library::new(sources, 1 << 20)).with_indexes(indexes);
    let requests = [
        SearchRequest {
            similar: Some("which quince".to_owned()),
            ..SearchRequest::default()
        },
        SearchRequest {
            query: "quince -pear".to_owned(),
            mode: Mode::Meaning,
            ..SearchRequest::default()
        },
        SearchRequest {
            query: "quince".to_owned(),
            mode: Mode::Meaning,
            mask: true,
            ..SearchRequest::default()
        },
    ];
    for request in requests {
        let hits_and_notices = |fails: &[&'static str]| {
            broken.fail(fails);
            let results = searcher.search(&request, &|| false).unwrap();
            let unanswered = results.notices.iter().filter(|n| *n == UNANSWERED).count();
            (results.sessions.len(), unanswered)
        };
        assert_eq!(hits_and_notices(&[]), (4, 0), "{request:?}");
        for fails in ["bodies", "garbled"] {
            assert_eq!(hits_and_notices(&[fails]), (0, 1), "{fails} {request:?}");
        }
    }
}
