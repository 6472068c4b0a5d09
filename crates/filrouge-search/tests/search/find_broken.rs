//! An index that does not answer: its history is looked through, and that is said.

use std::sync::{Arc, Mutex};

use filrouge_search::embed::Hashing;
use filrouge_search::feed::Indexes;
use filrouge_search::{Ask, Mode, Results, Searcher};
use filrouge_sources::library::made::{self, Made};
use filrouge_sources::{Library, Role, Source};
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, IndexStatus, IndexUpdate, Known, Seen, TextIndex,
    Wanted, Which,
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
    fn known(&self, which: Which<'_>) -> Result<Known, Failure> {
        self.works("known")?.known(which)
    }

    fn change(
        &self,
        expected: Option<&Seen>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        self.works("change")?.change(expected, updates, position)
    }

    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure> {
        self.works("forget")?.forget(realm, key)
    }

    fn clear(&self) -> Result<(), Failure> {
        self.works("clear")?.clear()
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        let call = match query.wanted {
            Wanted::Nearest(..) => "nearest",
            _ => "candidates",
        };
        self.works(call)?.candidates(query)
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

    fn tidy(&self) -> Result<bool, Failure> {
        self.works("tidy")?.tidy()
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
        &["known"],
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
        assert_eq!(knows, fails != ["all"] && fails != ["known"]);
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
