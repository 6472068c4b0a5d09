//! What one process has found out saves others time, and what little is new is brought in before an answer.

use std::os::unix::fs::PermissionsExt;

use super::*;

const LONG: Duration = Duration::from_secs(3600);

fn one(word: u8) -> BTreeMap<u8, u8> {
    BTreeMap::from([(1, word)])
}

#[test]
fn what_a_source_notes_is_given_to_it_in_the_next_process() {
    let dir = tempfile::tempdir().unwrap();
    let made = Arc::new(Made::default());
    put(&made, "a", 1, &one(1));
    *made.noted.lock().unwrap() = Some(b"first".to_vec());
    let all = indexes(&made, dir.path(), true);
    assert!(made.recalled.lock().unwrap().is_empty());
    update(&all.of(0).unwrap());
    let file = || {
        let mut files = std::fs::read_dir(dir.path()).unwrap().flatten();
        files.find(|file| file.path().extension().is_some_and(|e| e == "listing"))
    };
    assert_eq!(
        file().unwrap().metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    drop(indexes(&made, dir.path(), false));
    assert_eq!(*made.recalled.lock().unwrap(), [b"first"]);
    // Replaced by a step, too; not by who only reads while another one feeds the index.
    let index = all.of(0).unwrap();
    *made.noted.lock().unwrap() = Some(b"second".to_vec());
    put(&made, "a", 1, &one(2));
    assert_eq!(now(&index).pending, 1);
    assert_eq!(index.step(&|| false).unwrap(), Step::Done(0));
    assert_eq!(std::fs::read(file().unwrap().path()).unwrap(), b"second");
    let feeding = index.feeding().unwrap();
    *made.noted.lock().unwrap() = Some(b"third".to_vec());
    put(&made, "a", 1, &one(3));
    assert_eq!(index.step(&|| false).unwrap(), Step::Elsewhere);
    drop(feeding);
    assert_eq!(std::fs::read(file().unwrap().path()).unwrap(), b"second");
    // A file that cannot be replaced fails nothing.
    std::fs::remove_file(file().unwrap().path()).unwrap();
    let name = file_name(&*made).unwrap();
    std::fs::create_dir(dir.path().join(name).with_extension("listing")).unwrap();
    assert_eq!(now(&index).pending, 1);
    assert_eq!(index.step(&|| false).unwrap(), Step::Done(0));
    assert_eq!(now(&index).fresh.len(), 1);
    drop(indexes(&made, dir.path(), false));
    assert_eq!(made.recalled.lock().unwrap().len(), 1);
}

#[test]
fn a_listing_of_a_moment_ago_is_good_for_no_more_than_its_own_time() {
    let made = Arc::new(Made::default());
    put(&made, "a", 1, &one(1));
    let index = over(&made);
    update(&index);
    made.list().unwrap();
    let lists = made.lists.load(Ordering::SeqCst);
    let before = filrouge_types::Clock::now(&filrouge_types::SystemClock);
    std::thread::sleep(Duration::from_millis(30));
    put(&made, "b", 1, &one(1));
    let known = index.known(LONG);
    assert_eq!((known.fresh.len(), known.pending), (1, 0));
    assert_eq!(made.lists.load(Ordering::SeqCst), lists);
    assert!(known.as_of <= before);
    // Nor is what was found out by it believed for longer.
    assert_eq!(index.known(Duration::from_millis(30)).pending, 1);
    // Who brings it in looks itself.
    put(&made, "c", 1, &one(1));
    update(&index);
    assert_eq!(now(&index).fresh.len(), 3);
}

#[test]
fn nothing_is_taken_for_gone_by_a_listing_of_before() {
    let made = Arc::new(Made::default());
    put(&made, "a", 1, &one(1));
    let index = over(&made);
    update(&index);
    let before = made.recent.lock().unwrap().clone();
    // Another process brings in what that listing does not have.
    put(&made, "b", 1, &one(1));
    let other = SourceIndex::new(made.clone(), index.index().clone(), None);
    update(&other);
    *made.recent.lock().unwrap() = before;
    index.changed();
    assert_eq!(index.known(LONG).fresh.len(), 1);
    assert_eq!(index.step(&|| false).unwrap(), Step::Idle);
    assert_eq!(held(&**index.index(), &now(&index)), said(&*made));
    // What has gone indeed, goes all the same.
    let before = made.recent.lock().unwrap().clone();
    made.sessions.lock().unwrap().remove("b");
    *made.recent.lock().unwrap() = before;
    index.changed();
    let known = index.known(LONG);
    assert_eq!((known.fresh.len(), known.stale.len()), (1, 1));
    update(&index);
    assert_eq!(index.index().sessions(&reach()).unwrap().len(), 1);
}

#[test]
fn what_little_is_new_is_brought_in_before_an_answer() {
    let made = Arc::new(Made::default());
    for id in ["a", "b", "c", "d"] {
        put(&made, id, 1, &(0..9).map(|at| (at, 1)).collect());
    }
    let index = over(&made);
    let told = |index: &SourceIndex| {
        let known = index.known_with_news(Duration::ZERO);
        (known.fresh.len(), known.stale.len())
    };
    // Nothing is held yet: that is for an update.
    assert_eq!(told(&index), (0, 4));
    update(&index);
    made.messages.store(0, Ordering::SeqCst);
    let more = |id: &str, word: u8| {
        let mut words: BTreeMap<u8, u8> = (0..9).map(|at| (at, 1)).collect();
        words.insert(9, word);
        put(&made, id, 1, &words);
    };
    more("a", 2);
    more("b", 2);
    assert_eq!(told(&index), (4, 0));
    assert_eq!(made.messages.load(Ordering::SeqCst), 2);
    let known = now(&index);
    assert_eq!(held(&**index.index(), &known), said(&*made));
    // Many are looked through, and brought in behind the answer.
    for id in ["a", "b", "c"] {
        more(id, 3);
    }
    assert_eq!(told(&index), (1, 3));
    // So is one that cannot be read as a whole, again and again.
    update(&index);
    let torn_now = || {
        let mut sessions = made.sessions.lock().unwrap();
        let session = sessions.get_mut("a").unwrap();
        session.1.skipped = vec![torn()];
        session.2 += 1_000_000;
    };
    torn_now();
    assert_eq!(told(&index), (3, 1));
    torn_now();
    made.messages.store(0, Ordering::SeqCst);
    assert_eq!(told(&index), (3, 1));
    assert_eq!(made.messages.load(Ordering::SeqCst), 0);
    // One that has gone is not told.
    made.sessions.lock().unwrap().remove("b");
    assert_eq!(told(&index), (2, 1));
}

#[test]
fn who_may_not_bring_it_in_is_told_what_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let made = Arc::new(Made::default());
    put(&made, "a", 1, &one(1));
    let shared: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    let lock = Some(dir.path().join("a.lock"));
    let index = SourceIndex::new(made.clone(), shared.clone(), lock.clone());
    update(&index);
    put(&made, "a", 1, &one(2));
    let feeding = index.feeding().unwrap();
    let known = index.known_with_news(Duration::ZERO);
    assert_eq!((known.fresh.len(), known.pending), (0, 1));
    assert!(known.failed.is_none());
    drop(feeding);
    let known = index.known_with_news(Duration::ZERO);
    assert_eq!((known.fresh.len(), known.pending), (1, 0));
    assert_eq!(held(&*shared, &known), said(&*made));
}

#[test]
fn a_history_that_was_touched_and_says_the_same_is_compared_once() {
    let made = Arc::new(Made::default());
    let mark = |mark| *made.mark.lock().unwrap() = Some(Stamp(mark, mark));
    mark(1);
    for id in ["a", "b", "c"] {
        put(&made, id, 1, &one(1));
    }
    let shared: Arc<dyn TextIndex> = Arc::new(MemoryIndex::default());
    // As a process that has just started, answers a question and ends.
    let process = || {
        let index = SourceIndex::new(made.clone(), shared.clone(), None);
        // The sessions were listed before it is asked what is known of them.
        made.list().unwrap();
        assert_eq!(index.known_with_news(LONG).fresh.len(), 3);
        index.remember();
        made.compared.swap(0, Ordering::SeqCst)
    };
    update(&SourceIndex::new(made.clone(), shared.clone(), None));
    made.compared.store(0, Ordering::SeqCst);
    assert_eq!(process(), 0);
    mark(2);
    assert!(process() > 0);
    assert_eq!(process(), 0);
    // What is new is brought in by the answer, and that nothing else is, noted behind it.
    put(&made, "b", 2, &one(2));
    mark(3);
    assert!(process() > 0);
    assert_eq!(process(), 0);
    // As long as it is being written to it has none, and is compared each time.
    *made.mark.lock().unwrap() = None;
    assert_eq!((process(), process()), (3, 3));
}
