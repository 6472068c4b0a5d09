//! An index that does not answer: its history is looked through, and that is said.

use std::sync::{Arc, Mutex};

use filrouge_search::embed::Hashing;
use filrouge_search::feed::Indexes;
use filrouge_search::{Ask, Mode, Results, Searcher};
use filrouge_sources::library::made::{self, Made};
use filrouge_sources::{Library, Role, Source};
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, IndexStatus, IndexUpdate, IndexedSession, KnownDocument,
    Reach, Seen, SessionNo, TextIndex,
};
use filrouge_types::{ErrorCode, Failure};

/// Why it does not answer is the operator's to know.
const UNANSWERED: &str = "a search index does not answer: its history was looked through";

/// An index of which some calls, or all, fail.
#[derive(Default)]
pub(crate) struct Broken {
    inner: MemoryIndex,
    fails: Mutex<Vec<&'static str>>,
}

impl Broken {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on only these fail.
    pub(crate) fn fail(&self, calls: &[&'static str]) {
        *self.fails.lock().unwrap() = calls.to_vec();
    }

    fn works(&self, call: &str) -> Result<&MemoryIndex, Failure> {
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

impl TextIndex for Broken {
    fn position(&self) -> Result<Option<Box<[u8]>>, Failure> {
        self.works("position")?.position()
    }

    fn session(&self, realm: &[u8], key: &str) -> Result<Option<IndexedSession>, Failure> {
        self.works("session")?.session(realm, key)
    }

    fn sessions(&self, reach: &Reach) -> Result<Arc<Vec<IndexedSession>>, Failure> {
        self.works("sessions")?.sessions(reach)
    }

    fn sessions_by_no(&self, numbers: &[SessionNo]) -> Result<Vec<IndexedSession>, Failure> {
        self.works("sessions_by_no")?.sessions_by_no(numbers)
    }

    fn documents(&self, session: SessionNo) -> Result<Vec<KnownDocument>, Failure> {
        self.works("documents")?.documents(session)
    }

    fn apply(&self, updates: &[IndexUpdate], position: Option<&[u8]>) -> Result<(), Failure> {
        self.works("apply")?.apply(updates, position)
    }

    fn seen(&self) -> Result<Seen, Failure> {
        self.works("seen")?.seen()
    }

    fn apply_if(
        &self,
        seen: &Seen,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        self.works("apply_if")?.apply_if(seen, updates, position)
    }

    fn unread(&self, limit: usize) -> Result<Vec<IndexedSession>, Failure> {
        self.works("unread")?.unread(limit)
    }

    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure> {
        self.works("forget")?.forget(realm, key)
    }

    fn tidy(&self) -> Result<bool, Failure> {
        self.works("tidy")?.tidy()
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        self.works("candidates")?.candidates(query)
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        let inner = self.works("bodies")?;
        if self.fails.lock().unwrap().contains(&"garbled") {
            return inner.bodies(documents, &mut |document, _| each(document, b"?"));
        }
        inner.bodies(documents, each)
    }

    fn without_vector(
        &self,
        embedder: &str,
        kinds: u32,
        limit: usize,
    ) -> Result<Vec<DocumentNo>, Failure> {
        self.works("without_vector")?
            .without_vector(embedder, kinds, limit)
    }

    fn put_vectors(&self, embedder: &str, all: &[(DocumentNo, Vec<i8>)]) -> Result<(), Failure> {
        self.works("put_vectors")?.put_vectors(embedder, all)
    }

    fn nearest(
        &self,
        embedder: &str,
        vector: &[i8],
        query: &CandidateQuery<'_>,
        limit: usize,
    ) -> Result<Vec<(Candidate, i32)>, Failure> {
        self.works("nearest")?
            .nearest(embedder, vector, query, limit)
    }

    fn keep_vectors_of(&self, embedder: Option<&str>) -> Result<(), Failure> {
        self.works("keep_vectors_of")?.keep_vectors_of(embedder)
    }

    fn clear(&self) -> Result<(), Failure> {
        self.works("clear")?.clear()
    }

    fn status(&self) -> Result<IndexStatus, Failure> {
        self.works("status")?.status()
    }
}

fn history() -> Arc<Made> {
    let made = Made::default();
    for n in 0..4 {
        let said = |m: usize| {
            let text = format!("a quince, number {m}");
            made::message(&format!("m{m}"), Role::User, vec![made::text("p", &text)])
        };
        let messages = (0..=n).map(said).collect();
        made.put(
            made::header(&format!("s{n}"), 1),
            made::conversation(messages),
        );
    }
    Arc::new(made)
}

fn found(searcher: &Searcher, mode: Mode) -> (Vec<(String, usize, usize)>, Results) {
    let ask = Ask {
        query: "quince".to_owned(),
        now: Some(5),
        mode,
        ..Ask::default()
    };
    let results = searcher.search(&ask, &|| false).unwrap();
    let hits = results.sessions.iter();
    let hits = hits.map(|hit| (hit.session.id.clone(), hit.matches, hit.excerpts.len()));
    (hits.collect(), results)
}

#[test]
fn find_without_the_index_of_a_source() {
    let sources: Vec<Arc<dyn Source>> = vec![history()];
    let library = Library::new(sources.clone(), 1 << 20);
    let right = found(&Searcher::new(library.clone()), Mode::Words).0;
    assert_eq!(right.len(), 4);
    for fails in [
        &["all"][..],
        &["sessions"],
        &["candidates"],
        &["bodies"],
        &["garbled"],
    ] {
        let (dir, broken) = (tempfile::tempdir().unwrap(), Broken::new());
        let given = broken.clone();
        let open = Box::new(move |_: &std::path::Path| Ok(given.clone() as Arc<dyn TextIndex>));
        let indexes = Arc::new(Indexes::new(&sources, dir.path(), true, open));
        let index = indexes.make(0).unwrap().unwrap();
        index.update(&mut |_| {}, &|| false).unwrap();
        let searcher = Searcher::new(library.clone()).with_indexes(indexes.clone());
        let searcher = searcher.with_embedder(Some(Arc::new(Hashing)));
        assert_eq!(index.known(std::time::Duration::ZERO).fresh.len(), 4);
        assert!(found(&searcher, Mode::Words).1.as_of.is_some());
        broken.fail(fails);
        let knows = index.known(std::time::Duration::ZERO).failed.is_none();
        assert_eq!(knows, fails != ["all"] && fails != ["sessions"]);
        for mode in [Mode::Words, Mode::Both] {
            let (hits, results) = found(&searcher, mode);
            let sorted = |mut hits: Vec<_>| {
                hits.sort();
                hits
            };
            assert_eq!(sorted(hits), sorted(right.clone()), "{fails:?}");
            assert!(results.exact);
            let told = results.notices.iter().filter(|n| *n == UNANSWERED);
            assert_eq!(told.count(), 1, "{fails:?} {mode:?} {:?}", results.notices);
        }
    }
}

#[test]
fn find_in_the_source_what_an_index_cannot_show() {
    let sources: Vec<Arc<dyn Source>> = vec![history()];
    let (dir, broken) = (tempfile::tempdir().unwrap(), Broken::new());
    let given = broken.clone();
    let open = Box::new(move |_: &std::path::Path| Ok(given.clone() as Arc<dyn TextIndex>));
    let indexes = Arc::new(Indexes::new(&sources, dir.path(), true, open));
    indexes
        .make(0)
        .unwrap()
        .unwrap()
        .update(&mut |_| {}, &|| false)
        .unwrap();
    // Nothing is looked through beforehand; then bodies cannot be read.
    let searcher = Searcher::new(Library::new(sources, 1 << 20)).with_indexes(indexes);
    let searcher = searcher.looking_through(0);
    for fails in ["bodies", "garbled"] {
        broken.fail(&[fails]);
        let (hits, results) = found(&searcher, Mode::Words);
        let mut hits: Vec<_> = hits
            .into_iter()
            .map(|(id, _, excerpts)| (id, excerpts))
            .collect();
        hits.sort();
        let right: Vec<_> = (0..4).map(|n| (format!("s{n}"), n + 1)).collect();
        assert_eq!(hits, right, "{fails}");
        assert_eq!(results.notices, [UNANSWERED], "{fails}");
    }
}

/// What only an index knows is missing then, and that is said.
#[test]
fn find_by_meaning_in_an_index_that_cannot_be_read() {
    let sources: Vec<Arc<dyn Source>> = vec![history()];
    let (dir, broken) = (tempfile::tempdir().unwrap(), Broken::new());
    let given = broken.clone();
    let open = Box::new(move |_: &std::path::Path| Ok(given.clone() as Arc<dyn TextIndex>));
    let indexes = Arc::new(Indexes::new(&sources, dir.path(), true, open));
    let index = indexes.make(0).unwrap().unwrap();
    index.update(&mut |_| {}, &|| false).unwrap();
    let searcher = Searcher::new(Library::new(sources, 1 << 20)).with_indexes(indexes);
    let asks = [
        Ask {
            similar: Some("which quince".to_owned()),
            ..Ask::default()
        },
        Ask {
            query: "quince -pear".to_owned(),
            mode: Mode::Meaning,
            ..Ask::default()
        },
        Ask {
            query: "quince".to_owned(),
            mode: Mode::Meaning,
            mask: true,
            ..Ask::default()
        },
    ];
    for ask in asks {
        let told = |fails: &[&'static str]| {
            broken.fail(fails);
            let results = searcher.search(&ask, &|| false).unwrap();
            let told = results.notices.iter().filter(|n| *n == UNANSWERED).count();
            (results.sessions.len(), told)
        };
        assert_eq!(told(&[]), (4, 0), "{ask:?}");
        for fails in ["bodies", "garbled"] {
            assert_eq!(told(&[fails]), (0, 1), "{fails} {ask:?}");
        }
    }
}
