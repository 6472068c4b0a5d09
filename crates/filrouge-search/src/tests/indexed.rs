//! Compares searches by an index with the reference: with a complete, partial or empty index, the results and their
//! order are the same.

use std::collections::BTreeSet;
use std::time::Duration;

use filrouge_sources::Source;
use filrouge_sources::library::samples::MemorySource;
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::text_index::TextIndex;
use filrouge_store::text_index::memory::MemoryIndex;

use super::reference::places;
use super::*;
use crate::feed::Indexes;

type Sessions = Vec<(Arc<Header>, Conversation)>;

const NOW: i64 = 1_000_000;

/// A history and its index.
struct IndexedHistory {
    dir: tempfile::TempDir,
    source: Arc<MemorySource>,
    /// The index in memory; `None` if the index is in a file.
    memory: Option<Arc<MemoryIndex>>,
    max_candidates: usize,
}

impl IndexedHistory {
    fn new(in_file: bool) -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            source: Arc::default(),
            memory: (!in_file).then(Arc::default),
            max_candidates: 1_000,
        }
    }

    fn put(&self, sessions: &[(Arc<Header>, Conversation)]) {
        for (header, conversation) in sessions {
            self.source.put((**header).clone(), conversation.clone());
        }
    }

    fn sources(&self) -> Vec<Arc<dyn Source>> {
        vec![self.source.clone()]
    }

    /// Opens the indexes, as a process that has just started does.
    fn indexes(&self) -> Arc<Indexes> {
        let memory = self.memory.clone();
        let open = move |file: &std::path::Path| -> Result<Arc<dyn TextIndex>, _> {
            match &memory {
                Some(memory) => Ok(memory.clone()),
                None => Ok(Arc::new(SqliteIndex::open(file)?)),
            }
        };
        Arc::new(Indexes::new(
            &self.sources(),
            self.dir.path(),
            true,
            Box::new(open),
        ))
    }

    fn update(&self) {
        let index = self.indexes().open_or_create(0).unwrap();
        if let Some(index) = index {
            index.update(&mut |_| {}, &|| false).unwrap();
            while index.tidy().unwrap() {}
        }
    }

    fn scanning(&self) -> Searcher {
        Searcher::new(Library::new(self.sources(), 1 << 20))
    }

    fn searcher(&self) -> Searcher {
        let mut searcher = self.scanning().with_indexes(self.indexes());
        searcher.max_age = Duration::ZERO;
        searcher.with_max_candidates(self.max_candidates)
    }

    /// Brings the history and the index into a state. Returns the sessions that the history then has.
    fn set_up(&self, state: State, sessions: &Sessions, others: &Sessions) -> Sessions {
        let (first_half, second_half) = sessions.split_at(sessions.len() / 2);
        let mut current = sessions.clone();
        match state {
            State::Half => {
                self.put(first_half);
                self.update();
                self.put(second_half);
                return current;
            }
            _ => {
                self.put(sessions);
                self.update();
            }
        }
        // The first session gets the messages of another one.
        let changed = (current[0].0.clone(), others[0].1.clone());
        match state {
            State::Half | State::Complete => {}
            State::Changed | State::Updated => {
                current[0] = changed.clone();
                self.put(&[changed]);
            }
            State::Removed => {
                let removed = current.remove(0).0;
                self.source.sessions.lock().unwrap().remove(&removed.id);
            }
            State::Cleared => {
                assert!(
                    self.indexes()
                        .open_or_create(0)
                        .unwrap()
                        .unwrap()
                        .clear()
                        .unwrap()
                );
            }
        }
        if state == State::Updated {
            self.update();
        }
        current
    }
}

impl IndexedHistory {
    /// Removes one session and adds another.
    fn replace_first_session(&self, current: &mut Sessions, others: &Sessions) {
        if !current.is_empty() {
            let removed = current.remove(0).0;
            self.source.sessions.lock().unwrap().remove(&removed.id);
        }
        let mut added = others[0].clone();
        Arc::make_mut(&mut added.0).id = "ses_added".into();
        self.put(std::slice::from_ref(&added));
        current.push(added);
    }
}

/// How an index differs from its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has all sessions.
    Complete,
    /// It lacks half of the sessions.
    Half,
    /// A session changed after the last update.
    Changed,
    /// A session changed, and the index was updated.
    Updated,
    /// A session was removed after the last update.
    Removed,
    /// It is empty.
    Cleared,
}

const STATES: [State; 6] = [
    State::Complete,
    State::Half,
    State::Changed,
    State::Updated,
    State::Removed,
    State::Cleared,
];

/// A random search: words, phrases, expressions, exclusions and all filters.
fn random_search_request(sessions: &Sessions, dice: &mut Dice) -> Option<SearchRequest> {
    let mut request = match dice.roll(5) {
        0 => SearchRequest {
            query: REGEXES[dice.roll(REGEXES.len() as u64) as usize].to_owned(),
            ..SearchRequest::default()
        },
        1 => SearchRequest::default(),
        _ => random_request(sessions, dice)?,
    };
    let id = sessions[dice.roll(sessions.len() as u64) as usize]
        .0
        .id
        .to_string();
    match dice.roll(12) {
        0 => request.role = Some(Role::Assistant),
        1 => request.tool = Some("READ".to_owned()),
        2 => request.agent = Some("plan".to_owned()),
        3 => request.since = Some(7),
        4 => request.until = Some(12),
        5 => request.session_id = Some(id),
        6 => request.exclude_session = Some(id),
        7 => request.project_id = Some("phare".to_owned()),
        8 => request.source = Some(["opencode", "codex"][dice.roll(2) as usize].to_owned()),
        _ => {}
    }
    let is_invalid = crate::parsed_search::ParsedSearch::new(&request, &|| false).is_err();
    request.limit = 1 + dice.roll(3) as usize;
    request.excerpts = if request.session_id.is_some() {
        1
    } else {
        1_000
    };
    request.now = Some(NOW);
    request.order = [Order::Best, Order::Newest][dice.roll(2) as usize];
    (!is_invalid).then_some(request)
}

/// A session with its number of matches and their places.
type ShownSession = (String, usize, Vec<String>);

/// Reads all pages. Returns each session once with the places of all its excerpts, the cursors between the pages, and
/// the first page.
fn read_pages(
    searcher: &Searcher,
    mut request: SearchRequest,
) -> (Vec<ShownSession>, Vec<String>, Results) {
    let (mut all, mut cursors) = (Vec::<ShownSession>::new(), Vec::new());
    let is_one_session = request.session_id.is_some();
    let first = searcher.search(&request, &|| false).unwrap();
    let mut page = first.clone();
    loop {
        for hit in page.sessions {
            let mut places: Vec<String> =
                hit.excerpts.iter().map(|one| one.place.clone()).collect();
            if !is_one_session {
                places.dedup();
            }
            match all.iter_mut().find(|(id, ..)| *id == hit.session.id) {
                Some((_, _, more)) if is_one_session => more.extend(places),
                Some(_) => panic!("{} is shown twice", hit.session.id),
                None => all.push((hit.session.id, hit.matches, places)),
            }
        }
        let Some(cursor) = page.next_cursor else {
            return (all, cursors, first);
        };
        cursors.push(cursor.clone());
        request.cursor = Some(cursor);
        page = searcher.search(&request, &|| false).unwrap();
        assert!(
            !page.sessions.is_empty(),
            "the cursor leads to an empty page"
        );
    }
}

/// Sessions by their ids, with their places.
fn sorted(all: &[ShownSession]) -> BTreeSet<(String, Vec<String>)> {
    let one = |(id, _, places): &ShownSession| {
        let mut places = places.clone();
        places.sort();
        (id.clone(), places)
    };
    all.iter().map(one).collect()
}

/// The places that the reference finds, by session.
fn expected(sessions: &Sessions, request: &SearchRequest) -> BTreeSet<(String, Vec<String>)> {
    let found = places(sessions, request).into_iter();
    let found = found.map(|(id, mut places)| {
        places.sort();
        (id, places)
    });
    found.collect()
}

/// Drops the session filter if the session does not exist.
fn drop_missing_session_filter(request: &mut SearchRequest, sessions: &Sessions) {
    let exists = |id: &String| sessions.iter().any(|(header, _)| *header.id == **id);
    request.session_id = request.session_id.take().filter(exists);
    request.excerpts = if request.session_id.is_some() {
        1
    } else {
        1_000
    };
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Compares searches by the index with the reference and with a scan.
fn check_searches(
    in_file: bool,
    sessions: &Sessions,
    others: &Sessions,
    seed: u64,
    state: State,
) -> Result<(), TestCaseError> {
    let history = IndexedHistory::new(in_file);
    let mut current = history.set_up(state, sessions, others);
    let mut dice = Dice(seed);
    let (indexed, scanning) = (history.searcher(), history.scanning());
    for round in 0..12 {
        if round == 8 {
            // This makes the searcher's cached state outdated.
            history.replace_first_session(&mut current, others);
        }
        let Some(mut request) = random_search_request(sessions, &mut dice) else {
            continue;
        };
        drop_missing_session_filter(&mut request, &current);
        if crate::parsed_search::ParsedSearch::new(&request, &|| false).is_err() {
            continue;
        }
        let (found, cursors, first) = read_pages(&indexed, request.clone());
        let expected_places = expected(&current, &request);
        prop_assert_eq!(
            &sorted(&found),
            &expected_places,
            "{:?} {:?}",
            state,
            request
        );
        let count = |all: &BTreeSet<(String, Vec<String>)>| {
            all.iter().map(|one| one.1.len()).sum::<usize>()
        };
        for (id, matches, places) in &found {
            prop_assert_eq!(*matches, places.len(), "{} {:?}", id, request);
        }
        prop_assert!(first.exact);
        prop_assert!(
            first.as_of.is_some() || current.is_empty(),
            "the index was not used"
        );
        prop_assert_eq!(
            (first.total_sessions, first.total_matches),
            (expected_places.len(), count(&expected_places))
        );
        // Equal cursors show that the scores are equal, too.
        let (scanned, scan_cursors, _) = read_pages(&scanning, request.clone());
        let order = |all: &[ShownSession]| all.iter().map(|one| one.0.clone()).collect::<Vec<_>>();
        prop_assert_eq!(order(&found), order(&scanned), "{:?} {:?}", state, request);
        prop_assert_eq!(cursors, scan_cursors, "{:?} {:?}", state, request);
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(160))]

    #[test]
    fn an_index_in_memory_finds_everything(sessions in any_history(), others in any_history(), seed in any::<u64>(), state in proptest::sample::select(&STATES[..])) {
        check_searches(false, &sessions, &others, seed, state)?;
    }

    /// Beyond the scanned candidates, numbers of matches are estimated, but every shown session matches.
    #[test]
    fn estimates_neither_hide_nor_add_sessions(sessions in any_history(), seed in any::<u64>(), max_candidates in 0_usize..6) {
        let mut history = IndexedHistory::new(false);
        history.max_candidates = max_candidates;
        history.put(&sessions);
        history.update();
        let mut dice = Dice(seed);
        for _ in 0..12 {
            let Some(request) = random_search_request(&sessions, &mut dice) else {
                continue;
            };
            let (found, _, first) = read_pages(&history.searcher(), request.clone());
            let expected_places = expected(&sessions, &request);
            prop_assert_eq!(&sorted(&found), &expected_places, "{:?}", request);
            let matches: usize = expected_places.iter().map(|one| one.1.len()).sum();
            let documents: usize = sessions.iter().map(|s| s.1.messages.len() + 1).sum();
            if first.exact {
                prop_assert_eq!((first.total_sessions, first.total_matches), (expected_places.len(), matches), "{:?}", request);
            }
            // A session whose excerpts are all shown was fully scanned. Only if a single session is searched and
            // shown on several pages, it may have an estimate on its first page.
            let is_one_session = request.session_id.is_some() || request.query.contains("session:");
            for (id, matches, places) in &found {
                let mut hits = first.sessions.iter();
                if hits.any(|hit| hit.session.id == *id && !hit.exact) {
                    prop_assert!(is_one_session, "{} {:?}", id, request);
                } else {
                    prop_assert_eq!(*matches, places.len(), "{} {:?}", id, request);
                }
            }
            prop_assert!(first.exact || first.next_cursor.is_some(), "one page shows everything, but its totals are estimated: {:?}", request);
            prop_assert!(first.total_sessions <= sessions.len() && first.total_matches <= documents);
            prop_assert!(first.sessions.len() <= first.total_sessions);
        }
    }
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn an_index_in_a_file_finds_everything(sessions in any_history(), others in any_history(), seed in any::<u64>(), state in proptest::sample::select(&STATES[..])) {
        check_searches(true, &sessions, &others, seed, state)?;
    }
}
