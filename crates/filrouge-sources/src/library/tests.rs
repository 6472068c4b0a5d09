//! Sources together, and what is kept of them.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::list::{Ask, list};
use super::made::{Made, conversation, header, message, text};
use super::{Library, LibraryError};
use crate::{Header, Role, Source};

fn library(sources: Vec<Made>) -> Library {
    let sources = sources.into_iter().map(|s| Arc::new(s) as Arc<dyn Source>);
    Library::new(sources.collect(), 1 << 20)
}

#[test]
fn of_two_sessions_of_one_id_the_first_source_has_it() {
    let (new, old) = (Made::default(), Made::default());
    for (made, titles) in [(&new, ["new", "new"]), (&old, ["old", "old"])] {
        for (n, title) in titles.into_iter().enumerate() {
            let title = Some(title.into());
            let said = vec![message("m", Role::User, vec![])];
            made.put(
                Header {
                    title,
                    ..header(&format!("s{n}"), 1)
                },
                conversation(said),
            );
        }
    }
    old.put(header("s2", 0), conversation(Vec::new()));
    let library = library(vec![
        new,
        old,
        Made {
            broken: true,
            ..Made::default()
        },
    ]);
    let catalog = library.catalog();
    let titles: Vec<_> = catalog
        .entries
        .iter()
        .map(|e| e.header.title.as_deref().unwrap())
        .collect();
    assert_eq!(titles, ["Title of s2", "new", "new"]);
    assert_eq!(catalog.shadowed.len(), 2);
    assert!(matches!(catalog.get("s3"), Err(LibraryError::NoSession(id)) if id == "s3"));
    let told = list(&library, &Ask::default()).unwrap().notices;
    let expected = [
        "a source cannot be listed: opencode: made does not exist",
        "2 sessions are stored twice; the newer storage is read",
    ];
    assert_eq!(told, expected);
}

#[test]
fn the_catalog_is_made_anew_when_something_has_changed() {
    let made = Arc::new(Made::default());
    made.put(header("a", 1), conversation(Vec::new()));
    let library = Library::new(vec![made.clone()], 1 << 20);
    let first = library.catalog();
    made.put(header("b", 2), conversation(Vec::new()));
    let second = library.catalog();
    assert_eq!((first.entries.len(), second.entries.len()), (1, 2));
}

#[test]
fn a_conversation_is_read_again_when_it_has_changed() {
    let made = Arc::new(Made::default());
    let said = |n: usize| {
        let messages = (0..n).map(|n| message(&n.to_string(), Role::User, vec![]));
        conversation(messages.collect())
    };
    made.put(header("a", 1), said(1));
    let library = Library::new(vec![made.clone()], 1 << 20);
    let messages = |library: &Library| {
        let catalog = library.catalog();
        library
            .conversation(catalog.get("a").unwrap())
            .unwrap()
            .messages
            .len()
    };
    assert_eq!([messages(&library), messages(&library)], [1, 1]);
    assert_eq!(made.read_count(), 1);
    made.put(header("a", 1), said(2));
    assert_eq!([messages(&library), messages(&library.clone())], [2, 2]);
    assert_eq!(made.read_count(), 2);
}

#[test]
fn nothing_of_a_callers_own_source_is_kept() {
    let made = Arc::new(Made::default());
    made.put(header("a", 1), conversation(Vec::new()));
    let shared = library(vec![]);
    let with = shared.with(made.clone());
    let catalog = with.catalog();
    for reads in 1..3 {
        with.conversation(catalog.get("a").unwrap()).unwrap();
        assert_eq!(made.read_count(), reads);
    }
    assert!(shared.catalog().get("a").is_err());
    assert_eq!(shared.cache.weight(), 0);
}

#[test]
fn without_a_fingerprint_nothing_is_kept() {
    let made = Arc::new(Made {
        unmarked: true,
        ..Made::default()
    });
    made.put(header("a", 1), conversation(Vec::new()));
    let library = Library::new(vec![made.clone()], 1 << 20);
    let catalog = library.catalog();
    for reads in 1..3 {
        library.conversation(catalog.get("a").unwrap()).unwrap();
        assert_eq!(made.read_count(), reads);
    }
    assert_eq!(library.cache.weight(), 0);
}

#[test]
fn what_is_kept_stays_within_its_bound() {
    const BOUND: usize = 100_000;
    let made = Arc::new(Made::default());
    for n in 0..200 {
        let long = "x".repeat(if n % 10 == 0 { BOUND / 2 } else { 4_000 });
        let said = vec![message("m", Role::User, vec![text("t", &long)])];
        made.put(header(&format!("s{n}"), n), conversation(said));
    }
    let library = Library::new(vec![made.clone()], BOUND);
    let catalog = library.catalog();
    for entry in &catalog.entries {
        library.conversation(entry).unwrap();
        assert!(library.cache.weight() <= BOUND as u64);
    }
    assert!(
        library.cache.weight() > BOUND as u64 / 2,
        "{}",
        library.cache.weight()
    );
    // One that would take the place of all the others is not kept.
    let before = made.read_count();
    for _ in 0..2 {
        library.conversation(catalog.get("s0").unwrap()).unwrap();
    }
    assert_eq!(made.read_count() - before, 2);
}

#[test]
fn one_conversation_is_read_once_however_many_ask() {
    let made = Arc::new(Made::default());
    made.put(header("a", 1), conversation(Vec::new()));
    let library = Library::new(vec![made.clone()], 1 << 20);
    let catalog = library.catalog();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| library.conversation(catalog.get("a").unwrap()).unwrap());
        }
    });
    assert_eq!(made.read_count(), 1);
}

#[test]
fn one_question_lists_and_reads_once() {
    let source = Arc::new(Made {
        unmarked: true,
        ..Made::default()
    });
    for (n, id) in ["s0", "s1", "s2"].into_iter().enumerate() {
        let project = Header {
            project_id: Some("p".into()),
            parent_id: (n == 2).then(|| "s0".into()),
            ..header(id, 10 + n as i64)
        };
        let mut said = message("m", Role::User, vec![text("t", "said")]);
        said.created = 1;
        source.put(project, conversation(vec![said]));
    }
    let library = Library::new(vec![source.clone()], 1 << 20);
    let once = library.once(None);
    let found = super::lineage::lineage(&once, "s1").unwrap();
    assert_eq!((found.forked_from.len(), found.notices.len()), (1, 0));
    super::stats::session(&once, "s1").unwrap();
    list(&once, &Ask::default()).unwrap();
    assert_eq!(source.read_count(), 3);
    assert_eq!(source.lists.load(Ordering::SeqCst), 1);
    // The next question sees what has changed since.
    source.put(header("s3", 20), conversation(Vec::new()));
    assert_eq!(once.catalog().entries.len(), 3);
    assert_eq!(library.once(None).catalog().entries.len(), 4);
    // On its own, too, a question reads nothing twice.
    super::lineage::lineage(&library, "s1").unwrap();
    assert_eq!(source.read_count(), 6);
}

#[test]
fn sessions_of_no_project_are_not_compared() {
    let source = Arc::new(Made {
        unmarked: true,
        ..Made::default()
    });
    for n in 0..20 {
        let mut said = message("m", Role::User, vec![text("t", "said")]);
        said.created = 1;
        source.put(header(&format!("s{n}"), 10 + n), conversation(vec![said]));
    }
    let library = Library::new(vec![source.clone()], 1 << 20);
    let found = super::lineage::lineage(&library, "s7").unwrap();
    assert!(found.forked_from.is_empty() && found.forks.is_empty());
    assert!(found.notices.is_empty(), "{:?}", found.notices);
    assert_eq!(source.read_count(), 1);
    let stats = super::stats::session(&library, "s7").unwrap();
    assert_eq!(stats.without_copied.message_count, 1);
    assert_eq!(source.read_count(), 2);
}

#[test]
fn what_nobody_waits_for_is_given_up() {
    let source = Arc::new(Made::default());
    source.put(header("s", 1), conversation(Vec::new()));
    let library = Library::new(vec![source.clone()], 1 << 20);
    let once = library.once(Some(Arc::new(AtomicBool::new(true))));
    let given_up = [
        super::lineage::lineage(&once, "s").err(),
        super::stats::session(&once, "s").err(),
        super::stats::overview(&once, &Ask::default()).err(),
    ];
    for error in given_up {
        assert_eq!(error.map(|e| e.code()), Some("cancelled"));
    }
    assert_eq!(source.read_count(), 0);
}
