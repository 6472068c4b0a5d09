//! The life of sessions and documents.

use super::{
    IndexFixture, IndexTestExt as _, all_words, document, entry, matching_bodies, query,
    query_bodies, shard, texts, tidy_fully, update,
};
use crate::text_index::{
    CandidateQuery, Coverage, IndexScope, IndexUpdate, IndexVersion, SessionSelection,
};

type Make<'a> = &'a dyn Fn() -> IndexFixture;

fn keys(f: &IndexFixture, realm: &str, session: &str) -> Vec<String> {
    let session = f.index.session(realm.as_bytes(), session).unwrap().unwrap();
    let reach = IndexScope::Shard(session.shard);
    let own = CandidateQuery {
        sessions: Some(&[session.no]),
        ..query(&reach, &[])
    };
    let key = |body: String| body.split_once('=').unwrap().0.to_owned();
    let mut keys: Vec<String> = query_bodies(&*f.index, &own).into_iter().map(key).collect();
    keys.sort();
    keys
}

pub fn documents_are_added_and_removed(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    let all = ["one apple", "two apples", "three pears"];
    f.index.apply(&[texts(&a, "s", &all)], None).unwrap();
    assert_eq!(
        matching_bodies(&*f.index, &a, &["apple"]),
        ["1=two apples", "0=one apple"]
    );
    let session = f.index.session(b"r", "s").unwrap().unwrap();
    assert_eq!((&session.shard, &session.entry), (&a, &entry("s")));
    for tidy in [false, true] {
        if tidy {
            tidy_fully(&*f.index);
        }
        // One document is new, one is unchanged, one is removed; then another one is removed.
        let again = vec![document("0", 7, "one plum")];
        let units = Coverage::Units(vec![2, 77]);
        f.index
            .apply(&[update(&a, "s", units, again)], None)
            .unwrap();
        assert_eq!(matching_bodies(&*f.index, &a, &["apple"]), ["1=two apples"]);
        assert_eq!(matching_bodies(&*f.index, &a, &["plum"]), ["0=one plum"]);
        assert_eq!(keys(&f, "r", "s"), ["0", "1"]);
        let units = Coverage::Units(vec![1, 77]);
        let back = vec![document("2", 2, "three pears")];
        f.index
            .apply(&[update(&a, "s", units, back)], None)
            .unwrap();
        assert_eq!(keys(&f, "r", "s"), ["0", "2"]);
        assert_eq!(matching_bodies(&*f.index, &a, &["apple"]), [""; 0]);
        f.index.apply(&[texts(&a, "s", &all)], None).unwrap();
        assert_eq!(matching_bodies(&*f.index, &a, &["apple"]).len(), 2);
        assert_eq!(f.index.session(b"r", "s").unwrap().unwrap().no, session.no);
    }
    let removal = IndexUpdate::Removed(((*b"r").into(), "s".into()));
    f.index.apply(&[removal.clone(), removal], None).unwrap();
    assert_eq!(f.index.session(b"r", "s").unwrap(), None);
    assert_eq!(matching_bodies(&*f.index, &a, &["apple"]), [""; 0]);
    assert!(f.index.sessions(&IndexScope::Shard(a)).unwrap().is_empty());
}

/// An unchanged document keeps its number; of two with one key, the later one counts.
pub fn unchanged_documents_keep_their_numbers(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    let reach = IndexScope::Shard(a.clone());
    let all = ["one apple", "two apples", "three pears"];
    let numbers = || super::numbers(&f.index.candidates(&query(&reach, &[])).unwrap());
    for tidy in [false, true] {
        f.index.clear().unwrap();
        f.index.apply(&[texts(&a, "s", &all)], None).unwrap();
        if tidy {
            tidy_fully(&*f.index);
        }
        let before = numbers();
        f.index
            .apply(
                &[texts(&a, "s", &["one apple", "two plums", "three pears"])],
                None,
            )
            .unwrap();
        let now = numbers();
        assert_eq!(now[1..], [before[0], before[2]]);
        assert!(now[0] > before[0]);
        let twice = vec![document("1", 1, "two figs"), document("1", 1, "two apples")];
        f.index
            .apply(&[update(&a, "s", Coverage::Units(vec![1]), twice)], None)
            .unwrap();
        assert_eq!(matching_bodies(&*f.index, &a, &["two"]), ["1=two apples"]);
        let again = texts(&a, "s", &["one apple", "two apples", "three pears"]);
        let before = numbers();
        f.index.apply(&[again], None).unwrap();
        assert_eq!(numbers(), before);
    }
}

pub fn a_session_moves_to_another_shard(make: Make) {
    let (f, a, b) = (make(), shard("r", "a"), shard("r", "b"));
    f.index
        .apply(&[texts(&a, "s", &["apple", "apple pie"])], None)
        .unwrap();
    tidy_fully(&*f.index);
    let one = vec![document("0", 0, "apple")];
    f.index
        .apply(&[update(&b, "s", Coverage::Units(Vec::new()), one)], None)
        .unwrap();
    assert_eq!(matching_bodies(&*f.index, &a, &["apple"]), [""; 0]);
    assert_eq!(matching_bodies(&*f.index, &b, &["apple"]), ["0=apple"]);
    assert_eq!(f.index.session(b"r", "s").unwrap().unwrap().shard, b);
    let in_a = f.index.sessions(&IndexScope::Shard(a)).unwrap();
    let in_realm = f
        .index
        .sessions(&IndexScope::Realm((*b"r").into()))
        .unwrap();
    assert_eq!((in_a.len(), in_realm.len()), (0, 1));
    // A session with the same id in another realm is another session.
    let other = shard("q", "a");
    f.index
        .apply(&[texts(&other, "s", &["apple"])], None)
        .unwrap();
    assert_eq!(matching_bodies(&*f.index, &b, &["apple"]), ["0=apple"]);
    assert_eq!(matching_bodies(&*f.index, &other, &["apple"]), ["0=apple"]);
    assert_ne!(
        f.index.session(b"q", "s").unwrap().unwrap().no,
        f.index.session(b"r", "s").unwrap().unwrap().no
    );
}

pub fn changes_are_atomic_with_the_position(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    assert_eq!(f.index.position().unwrap(), None);
    f.index.apply(&[], Some(b"12")).unwrap();
    assert_eq!(f.index.position().unwrap().as_deref(), Some(&b"12"[..]));
    f.index.apply(&[texts(&a, "s", &["apple"])], None).unwrap();
    assert_eq!(f.index.position().unwrap().as_deref(), Some(&b"12"[..]));
    f.index
        .apply(&[texts(&a, "t", &["apple"])], Some(b""))
        .unwrap();
    assert_eq!(
        (f.open_again)().position().unwrap().as_deref(),
        Some(&b""[..])
    );
    assert_eq!(matching_bodies(&*(f.open_again)(), &a, &["apple"]).len(), 2);
}

pub fn a_change_requires_the_expected_version(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    let put = |seen: &IndexVersion, words: &str, at: &[u8]| {
        let updates = [texts(&a, "s", &[words])];
        f.index.apply_if(seen, &updates, Some(at)).unwrap()
    };
    let first = f.index.version().unwrap();
    assert!(put(&first, "apple", b"1"));
    assert!(!put(&first, "pear", b"2"));
    let second = f.index.version().unwrap();
    assert_eq!(second.position.as_deref(), Some(&b"1"[..]));
    f.index.forget(b"r", "unknown").unwrap();
    assert!(!put(&second, "pear", b"2"));
    let third = (f.open_again)().version().unwrap();
    assert!(third.forgotten > second.forgotten);
    f.index.forget(b"r", "s").unwrap();
    assert!(!put(&third, "pear", b"2"));
    assert_eq!(matching_bodies(&*f.index, &a, &["pear"]), [""; 0]);
    assert!(put(&f.index.version().unwrap(), "pear", b"2"));
    assert_eq!(matching_bodies(&*f.index, &a, &["pear"]), ["0=pear"]);
    let fourth = f.index.version().unwrap();
    f.index.clear().unwrap();
    assert!(!put(&fourth, "plum", b"3"));
    assert!(f.index.version().unwrap().forgotten > fourth.forgotten);
}

pub fn a_forgotten_session_is_deleted(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    for tidy in [false, true] {
        f.index
            .apply(
                &[texts(&a, "s", &["apple"]), texts(&a, "t", &["apple pie"])],
                None,
            )
            .unwrap();
        if tidy {
            tidy_fully(&*f.index);
        }
        assert_eq!(f.index.unread(9).unwrap(), Vec::new());
        assert_eq!(f.index.forget(b"r", "s").unwrap(), 1);
        assert_eq!(f.index.forget(b"r", "s").unwrap(), 0);
        assert_eq!(f.index.forget(b"q", "t").unwrap(), 0);
        assert_eq!(matching_bodies(&*f.index, &a, &["apple"]), ["0=apple pie"]);
        let session = f.index.session(b"r", "s").unwrap().unwrap();
        assert_eq!(session.entry.stamp, [0, 0]);
        assert_eq!(keys(&f, "r", "s"), [""; 0]);
        assert_eq!(f.index.unread(9).unwrap(), [session]);
        assert_eq!(f.index.unread(0).unwrap(), []);
        let stamped = f
            .index
            .state(SessionSelection::Stamped(2))
            .unwrap()
            .sessions;
        let stamped: Vec<&str> = stamped.iter().map(|s| &*s.entry.key).collect();
        assert_eq!(stamped, ["t"]);
    }
}

pub fn a_cleared_index_is_empty(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    f.index
        .apply(&[texts(&a, "s", &["apple"])], Some(b"1"))
        .unwrap();
    let before = f.index.session(b"r", "s").unwrap().unwrap();
    f.index.clear().unwrap();
    assert_eq!(f.index.position().unwrap(), None);
    assert_eq!(f.index.session(b"r", "s").unwrap(), None);
    assert_eq!(matching_bodies(&*f.index, &a, &["apple"]), [""; 0]);
    let status = f.index.status().unwrap();
    assert_eq!(
        (status.sessions, status.documents, status.text_bytes),
        (0, 0, 0)
    );
    f.index.apply(&[texts(&a, "s", &["apple"])], None).unwrap();
    assert!(f.index.session(b"r", "s").unwrap().unwrap().no > before.no);
    assert_eq!(matching_bodies(&*f.index, &a, &["apple"]), ["0=apple"]);
}

pub fn numbers_are_never_reused(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    let reach = IndexScope::Shard(a.clone());
    let (mut sessions, mut documents) = (0, 0);
    for round in 0..6 {
        f.index.apply(&[texts(&a, "s", &["apple"])], None).unwrap();
        let found = f.index.candidates(&query(&reach, &[])).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].document > documents);
        (sessions, documents) = (sessions.max(found[0].session), found[0].document);
        match round % 3 {
            0 => f.index.forget(b"r", "s").map(|_| ()).unwrap(),
            1 => f.index.clear().unwrap(),
            _ => {
                let removal = IndexUpdate::Removed(((*b"r").into(), "s".into()));
                f.index.apply(&[removal], None).unwrap();
                f.index.apply(&[texts(&a, "s", &[])], None).unwrap();
                let no = f.index.session(b"r", "s").unwrap().unwrap().no;
                assert!(no > sessions);
            }
        }
    }
}

pub fn the_status_counts_sessions_and_documents(make: Make) {
    let (f, a, b) = (make(), shard("r", "a"), shard("r", "b"));
    f.index
        .apply(
            &[
                texts(&a, "s", &["apple", "pear"]),
                texts(&b, "t", &["plums"]),
            ],
            None,
        )
        .unwrap();
    let status = f.index.status().unwrap();
    assert_eq!(
        (status.sessions, status.documents, status.text_bytes),
        (2, 3, 14)
    );
    f.index.apply(&[texts(&a, "s", &["pear"])], None).unwrap();
    let status = (f.open_again)().status().unwrap();
    assert_eq!(
        (status.sessions, status.documents, status.text_bytes),
        (2, 2, 9)
    );
    f.index.forget(b"r", "t").unwrap();
    let status = f.index.status().unwrap();
    assert_eq!(
        (status.sessions, status.documents, status.text_bytes),
        (2, 1, 4)
    );
}

pub fn two_handles_write_concurrently(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    let reach = IndexScope::Shard(a.clone());
    std::thread::scope(|threads| {
        let writers = [0, 1].map(|n| {
            let (index, a) = ((f.open_again)(), &a);
            threads.spawn(move || {
                for m in 0..20 {
                    let words = format!("apple of {n} {m}");
                    let session = format!("s{n}-{m}");
                    index.apply(&[texts(a, &session, &[&words])], None).unwrap();
                    if m % 5 == 0 {
                        index.tidy().unwrap();
                    }
                }
            })
        });
        let index = (f.open_again)();
        let terms = all_words(&["apple"]);
        let (mut before, mut is_last) = (0, false);
        while !is_last {
            // A writer that failed has finished, too.
            is_last = writers.iter().all(|writer| writer.is_finished());
            let now = query_bodies(&*index, &query(&reach, &terms)).len();
            assert!(now >= before);
            before = now;
        }
        assert_eq!(before, 40);
    });
    assert_eq!(matching_bodies(&*f.index, &a, &["apple of"]).len(), 40);
    assert_eq!(
        matching_bodies(&*f.index, &a, &["of 1 19"]),
        ["0=apple of 1 19"]
    );
    (f.open_again)().forget(b"r", "s1-19").unwrap();
    assert_eq!(matching_bodies(&*f.index, &a, &["of 1 19"]), [""; 0]);
    assert_eq!(f.index.sessions(&reach).unwrap().len(), 40);
}
