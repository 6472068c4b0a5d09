//! What one process notes of a tree for others: it saves reads, and nothing that has changed is overlooked for it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filrouge_sources::{Header, Library, Look, Since, Skipped, Source, opencode};

use crate::live_tree::Later;
use crate::{Made, named, put};

const HOUR: i64 = 60 * 60 * 1000;
const SESSIONS: u64 = 20;

/// Sessions with a message each, which names the agent.
fn made() -> Made {
    let made = Made::new();
    fs::remove_file(made.path().join("storage/session/p1/s1.json")).unwrap();
    put(made.path(), "storage/project/p1.json", r#"{"name":"one"}"#);
    for at in 0..SESSIONS {
        let (id, created) = (format!("t{at:02}"), i64::try_from(at).unwrap());
        made.session("p1", &id, created);
        said(made.path(), &id, "m5", "build");
    }
    made
}

fn said(root: &Path, session: &str, message: &str, agent: &str) {
    let text = format!(
        r#"{{"role":"user","agent":"{agent}","path":{{"cwd":"/w","root":"/r"}},"time":{{"created":1}}}}"#
    );
    put(
        root,
        &format!("storage/message/{session}/{message}.json"),
        &text,
    );
}

/// The tree as a process sees it whose clock goes so much ahead.
fn ahead(root: &Path, millis: i64) -> Arc<dyn Source> {
    let mut sources = opencode::open_at(root, Arc::new(Later::by(millis))).unwrap();
    assert_eq!(sources.len(), 1);
    sources.remove(0)
}

fn opened(root: &Path) -> Arc<dyn Source> {
    ahead(root, HOUR)
}

fn told(source: &dyn Source) -> (Vec<Header>, Vec<Skipped>) {
    let listing = source.list().unwrap();
    let headers = listing.headers.iter().map(|header| (**header).clone());
    (headers.collect(), listing.skipped.clone())
}

/// What a process notes that has read everything.
fn notes(root: &Path) -> Vec<u8> {
    let source = opened(root);
    source.list().unwrap();
    source.notes().unwrap()
}

/// Whether a process that has these notes is told what one is told that reads everything; and whether it has read all of
/// it, too.
fn with(root: &Path, notes: &[u8]) -> bool {
    let source = opened(root);
    source.recall(notes);
    assert_eq!(told(&*source), told(&*opened(root)));
    source.notes().is_some()
}

#[test]
fn what_was_noted_is_not_read_again() {
    let made = made();
    let noted = notes(made.path());
    assert!(!with(made.path(), &noted));
    // What is noted twice, is noted in the same words.
    let first = opened(made.path());
    assert_eq!(told(&*first).0.len(), 20);
    assert!(first.notes().is_some() && first.notes().is_none());
    // Everything else is as if it had been read here.
    let later = opened(made.path());
    later.recall(&noted);
    assert_eq!(
        later.list().unwrap().headers[3].agent.as_deref(),
        Some("build")
    );
    assert_eq!(later.conversation("t03").unwrap().messages.len(), 1);
    assert_eq!(&*later.load("t03").unwrap().session.title.unwrap(), "t03");
    assert_eq!(later.lasting("t03").unwrap(), first.lasting("t03").unwrap());
}

#[test]
fn few_are_not_worth_it_and_what_may_still_be_written_is_not_noted() {
    let few = Made::new();
    said(few.path(), "s1", "m1", "build");
    let source = opened(few.path());
    source.list().unwrap();
    assert_eq!(source.notes(), None);
    let made = made();
    let before = ahead(made.path(), -HOUR);
    before.list().unwrap();
    assert_eq!(before.notes(), None);
    // Of sessions whose agent is not known the first message may still come.
    let silent = self::made();
    fs::remove_dir_all(silent.path().join("storage/message")).unwrap();
    let source = opened(silent.path());
    source.list().unwrap();
    assert_eq!(source.notes(), None);
}

/// Writes a file of the same length in place, and gives it the time that it had.
fn in_place(path: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let before = fs::metadata(path).unwrap();
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from));
    fs::write(path, text.replace(from, to)).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    let after = fs::metadata(path).unwrap();
    assert_eq!(
        (before.len(), before.modified().unwrap()),
        (after.len(), after.modified().unwrap())
    );
}

/// Puts another file of the same length in its place.
fn replaced(path: &Path, from: &str, to: &str) {
    let other = path.with_extension("other");
    fs::copy(path, &other).unwrap();
    let times = fs::metadata(path).unwrap().modified().unwrap();
    in_place(&other, from, to);
    fs::File::options()
        .write(true)
        .open(&other)
        .unwrap()
        .set_modified(times)
        .unwrap();
    fs::rename(&other, path).unwrap();
}

/// What is done to a tree, in words and indeed.
type Change<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn whatever_has_changed_is_seen_all_the_same() {
    let session = |root: &Path| root.join("storage/session/p1/t03.json");
    let message = |root: &Path| root.join("storage/message/t03/m5.json");
    let changes: [Change<'_>; 14] = [
        ("nothing", &|_| {}),
        ("a title of the same length", &|root| {
            in_place(&session(root), r#""title":"t03""#, r#""title":"xyz""#);
        }),
        ("another file", &|root| {
            replaced(&session(root), r#""title":"t03""#, r#""title":"xyz""#);
        }),
        ("the agent of the first message", &|root| {
            in_place(&message(root), "build", "write");
        }),
        ("another first message", &|root| {
            replaced(&message(root), "build", "write");
        }),
        ("one before it", &|root| said(root, "t03", "m1", "plan")),
        ("the first message gone", &|root| {
            fs::remove_file(message(root)).unwrap();
        }),
        ("all messages gone", &|root| {
            fs::remove_dir_all(root.join("storage/message/t03")).unwrap();
        }),
        ("a session gone", &|root| {
            fs::remove_file(session(root)).unwrap();
        }),
        ("moved to another project", &|root| {
            fs::create_dir_all(root.join("storage/session/p2")).unwrap();
            let to = root.join("storage/session/p2/t03.json");
            fs::rename(session(root), to).unwrap();
        }),
        ("in two projects", &|root| {
            let text = fs::read_to_string(session(root)).unwrap();
            let text = text.replace(r#""updated":3"#, r#""updated":4"#);
            put(root, "storage/session/p2/t03.json", &text);
        }),
        ("torn", &|root| fs::write(session(root), "{").unwrap()),
        ("the project's name", &|root| {
            in_place(&root.join("storage/project/p1.json"), "one", "two");
        }),
        ("the project's folder", &|root| {
            put(root, "storage/project/p1.json", r#"{"worktree":"/other"}"#);
        }),
    ];
    for (what, change) in changes {
        let made = made();
        let noted = notes(made.path());
        let before = told(&*opened(made.path()));
        change(made.path());
        let is_other = told(&*opened(made.path())) != before;
        assert_eq!(is_other, what != "nothing", "{what}");
        let read_all = with(made.path(), &noted);
        // Notes of what has gone are written anew.
        let goes = ["a session gone", "moved to another project"];
        assert_eq!(read_all, goes.contains(&what), "{what}");
    }
}

#[test]
fn what_has_gone_is_not_kept_in_notes() {
    let made = made();
    let noted = notes(made.path());
    let holds = |notes: &[u8]| notes.windows(3).any(|bytes| bytes == b"t07");
    assert!(holds(&noted));
    fs::remove_file(made.path().join("storage/session/p1/t07.json")).unwrap();
    let later = opened(made.path());
    later.recall(&noted);
    later.list().unwrap();
    assert!(!holds(&later.notes().unwrap()));
    assert_eq!(later.notes(), None);
    // By the process that has noted it, too.
    fs::remove_file(made.path().join("storage/session/p1/t08.json")).unwrap();
    later.list().unwrap();
    assert!(later.notes().is_some());
}

#[test]
fn notes_that_are_no_good_are_worth_nothing() {
    let made = made();
    let noted = notes(made.path());
    for cut in (0..noted.len()).step_by(97) {
        assert!(with(made.path(), &noted[..cut]), "{cut}");
    }
    for at in (0..noted.len()).step_by(89) {
        let mut other = noted.clone();
        other[at] ^= 1;
        assert!(with(made.path(), &other), "{at}");
    }
    // Those of another tree, whose files may be in the very same states.
    let other = self::made();
    assert!(with(made.path(), &notes(other.path())));
}

#[test]
fn notes_are_taken_where_a_place_is_watched() {
    let made = made();
    let sources = || opencode::watch_at(made.path(), Arc::new(Later::by(HOUR)));
    let tree = |all: Vec<Arc<dyn Source>>| {
        let mut trees = all.into_iter().filter(|one| one.generation() == "storage");
        trees.next().unwrap()
    };
    let first = tree(sources());
    first.list().unwrap();
    let noted = first.notes().unwrap();
    for source in sources() {
        source.recall(&noted);
        let count = source.list().unwrap().headers.len();
        assert_eq!(count == 20, source.generation() == "storage");
        assert_eq!(source.notes(), None);
    }
    assert!(named(made.path(), &first.list().unwrap().skipped).is_empty());
}

#[test]
fn a_listing_of_a_moment_ago_is_told_again_to_who_asks_for_no_newer_one() {
    let made = Made::new();
    let database = crate::copy_of("opencode-sqlite");
    let logs = crate::copy_of("codex");
    let all = [
        opencode::open_at(made.path(), Arc::new(Later::by(0))).unwrap(),
        opencode::watch(made.path()),
        opencode::watch(database.path()),
        filrouge_sources::codex::open(logs.path()).unwrap(),
    ];
    for sources in all {
        let library = Library::new(sources.clone(), 0);
        let first = library.catalog();
        assert!(!first.entries.is_empty());
        for source in &sources {
            let (at, listing) = source.list_within(Duration::from_secs(3600)).unwrap();
            let (again, same) = source.list_within(Duration::from_secs(3600)).unwrap();
            assert!(at <= again && listing.headers == same.headers);
        }
        assert!(Arc::ptr_eq(
            &first,
            &library.catalog_within(Duration::from_secs(3600))
        ));
    }
    let library = Library::new(opencode::watch(made.path()), 0);
    let count = |catalog: Arc<filrouge_sources::library::Catalog>| catalog.entries.len();
    let within = || count(library.catalog_within(Duration::from_secs(3600)));
    assert_eq!(within(), 1);
    made.session("p1", "s2", 2_000);
    assert_eq!(within(), 1);
    // Who wants it exact has it, and all others from then on.
    assert_eq!(count(library.catalog_within(Duration::ZERO)), 2);
    assert_eq!(within(), 2);
    made.session("p1", "s3", 3_000);
    assert_eq!(count(library.catalog()), 3);
    assert_eq!(within(), 3);
    // A history that is lost is told at once to who looks, and no listing of before is told any more.
    fs::remove_dir_all(made.path()).unwrap();
    assert_eq!(within(), 3);
    assert!(!library.catalog().unavailable.is_empty());
    assert_eq!(within(), 0);
}

#[test]
fn what_a_listing_has_just_looked_at_is_looked_at_once() {
    let made = made();
    let (noted, ids) = (notes(made.path()), ["t03", "t04"]);
    let known = ids.map(|id| (id, opened(made.path()).lasting(id).unwrap().unwrap()));
    let listed = || {
        let source = opened(made.path());
        source.recall(&noted);
        source.list().unwrap();
        source
    };
    let since = |source: &Arc<dyn Source>| source.since(&known, Look::Quick).unwrap();
    let source = listed();
    assert_eq!(since(&source), [Since::Same, Since::Same]);
    // What comes between is of a later moment than the listing, and for the next one who asks.
    let (source, other) = (listed(), listed());
    said(made.path(), "t03", "m6", "build");
    assert_eq!(since(&source), [Since::Same, Since::Same]);
    assert_eq!(since(&source), [Since::Changed, Since::Same]);
    other.list().unwrap();
    assert_eq!(since(&other), [Since::Changed, Since::Same]);
    // Nobody goes by a listing of long ago.
    fs::remove_file(made.path().join("storage/message/t03/m6.json")).unwrap();
    let source = listed();
    said(made.path(), "t04", "m6", "build");
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(since(&source)[1], Since::Changed);
}
