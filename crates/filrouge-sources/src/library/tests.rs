//! Tests of combined sources and of the caches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::list::{ListRequest, list};
use super::samples::{MemorySource, conversation, header, message, text};
use super::{Library, LibraryError};
use crate::{Header, Role, Source};

fn library(sources: Vec<MemorySource>) -> Library {
    let sources = sources.into_iter().map(|s| Arc::new(s) as Arc<dyn Source>);
    Library::new(sources.collect(), 1 << 20)
}

#[test]
fn a_session_id_in_two_sources_is_read_from_the_first() {
    let (new, old) = (MemorySource::default(), MemorySource::default());
    for (source, titles) in [(&new, ["new", "new"]), (&old, ["old", "old"])] {
        for (n, title) in titles.into_iter().enumerate() {
            let title = Some(title.into());
            let messages = vec![message("m", Role::User, vec![])];
            source.put(
                Header {
                    title,
                    ..header(&format!("s{n}"), 1)
                },
                conversation(messages),
            );
        }
    }
    old.put(header("s2", 0), conversation(Vec::new()));
    let library = library(vec![
        new,
        old,
        MemorySource {
            broken: true,
            ..MemorySource::default()
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
    let notices = list(&library, &ListRequest::default()).unwrap().notices;
    let expected = [
        "a source cannot be listed: opencode: made does not exist",
        "2 sessions are stored twice; the newer storage is read",
    ];
    assert_eq!(notices, expected);
}

#[test]
fn the_catalog_is_rebuilt_after_a_change() {
    let source = Arc::new(MemorySource::default());
    source.put(header("a", 1), conversation(Vec::new()));
    let library = Library::new(vec![source.clone()], 1 << 20);
    let first = library.catalog();
    source.put(header("b", 2), conversation(Vec::new()));
    let second = library.catalog();
    assert_eq!((first.entries.len(), second.entries.len()), (1, 2));
}

#[test]
fn a_changed_conversation_is_read_again() {
    let source = Arc::new(MemorySource::default());
    let with_messages = |n: usize| {
        let messages = (0..n).map(|n| message(&n.to_string(), Role::User, vec![]));
        conversation(messages.collect())
    };
    source.put(header("a", 1), with_messages(1));
    let library = Library::new(vec![source.clone()], 1 << 20);
    let messages = |library: &Library| {
        let catalog = library.catalog();
        library
            .conversation(catalog.get("a").unwrap())
            .unwrap()
            .messages
            .len()
    };
    assert_eq!([messages(&library), messages(&library)], [1, 1]);
    assert_eq!(source.read_count(), 1);
    source.put(header("a", 1), with_messages(2));
    assert_eq!([messages(&library), messages(&library.clone())], [2, 2]);
    assert_eq!(source.read_count(), 2);
}

#[test]
fn a_callers_own_source_is_never_cached() {
    let source = Arc::new(MemorySource::default());
    source.put(header("a", 1), conversation(Vec::new()));
    let shared = self::library(vec![]);
    let library = shared.with(source.clone());
    let catalog = library.catalog();
    for reads in 1..3 {
        library.conversation(catalog.get("a").unwrap()).unwrap();
        assert_eq!(source.read_count(), reads);
    }
    assert!(shared.catalog().get("a").is_err());
    assert_eq!(shared.cache.weight(), 0);
}

#[test]
fn sessions_without_a_fingerprint_are_not_cached() {
    let source = Arc::new(MemorySource {
        without_fingerprints: true,
        ..MemorySource::default()
    });
    source.put(header("a", 1), conversation(Vec::new()));
    let library = Library::new(vec![source.clone()], 1 << 20);
    let catalog = library.catalog();
    for reads in 1..3 {
        library.conversation(catalog.get("a").unwrap()).unwrap();
        assert_eq!(source.read_count(), reads);
    }
    assert_eq!(library.cache.weight(), 0);
}

#[test]
fn the_cache_stays_within_its_bound() {
    const BOUND: usize = 100_000;
    let source = Arc::new(MemorySource::default());
    for n in 0..200 {
        let long = "x".repeat(if n % 10 == 0 { BOUND / 2 } else { 4_000 });
        let messages = vec![message("m", Role::User, vec![text("t", &long)])];
        source.put(header(&format!("s{n}"), n), conversation(messages));
    }
    let library = Library::new(vec![source.clone()], BOUND);
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
    // A conversation that would evict all others is not cached.
    let before = source.read_count();
    for _ in 0..2 {
        library.conversation(catalog.get("s0").unwrap()).unwrap();
    }
    assert_eq!(source.read_count() - before, 2);
}

#[test]
fn concurrent_callers_read_a_conversation_once() {
    let source = Arc::new(MemorySource::default());
    source.put(header("a", 1), conversation(Vec::new()));
    let library = Library::new(vec![source.clone()], 1 << 20);
    let catalog = library.catalog();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| library.conversation(catalog.get("a").unwrap()).unwrap());
        }
    });
    assert_eq!(source.read_count(), 1);
}

#[test]
fn one_query_lists_once_and_reads_each_session_once() {
    let source = Arc::new(MemorySource {
        without_fingerprints: true,
        ..MemorySource::default()
    });
    for (n, id) in ["s0", "s1", "s2"].into_iter().enumerate() {
        let project = Header {
            project_id: Some("p".into()),
            parent_id: (n == 2).then(|| "s0".into()),
            ..header(id, 10 + n as i64)
        };
        let mut message = message("m", Role::User, vec![text("t", "hello")]);
        message.created = 1;
        source.put(project, conversation(vec![message]));
    }
    let library = Library::new(vec![source.clone()], 1 << 20);
    let query = library.for_one_query(None);
    let found = super::lineage::lineage(&query, "s1").unwrap();
    assert_eq!((found.forked_from.len(), found.notices.len()), (1, 0));
    super::stats::session(&query, "s1").unwrap();
    list(&query, &ListRequest::default()).unwrap();
    assert_eq!(source.read_count(), 3);
    assert_eq!(source.lists.load(Ordering::SeqCst), 1);
    // The next query sees later changes.
    source.put(header("s3", 20), conversation(Vec::new()));
    assert_eq!(query.catalog().entries.len(), 3);
    assert_eq!(library.for_one_query(None).catalog().entries.len(), 4);
    // A query on a plain library does not read a session twice either.
    super::lineage::lineage(&library, "s1").unwrap();
    assert_eq!(source.read_count(), 6);
}

#[test]
fn sessions_without_a_project_are_not_compared() {
    let source = Arc::new(MemorySource {
        without_fingerprints: true,
        ..MemorySource::default()
    });
    for n in 0..20 {
        let mut message = message("m", Role::User, vec![text("t", "hello")]);
        message.created = 1;
        source.put(
            header(&format!("s{n}"), 10 + n),
            conversation(vec![message]),
        );
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
fn a_cancelled_query_fails_without_reading() {
    let source = Arc::new(MemorySource::default());
    source.put(header("s", 1), conversation(Vec::new()));
    let library = Library::new(vec![source.clone()], 1 << 20);
    let query = library.for_one_query(Some(Arc::new(AtomicBool::new(true))));
    let errors = [
        super::lineage::lineage(&query, "s").err(),
        super::stats::session(&query, "s").err(),
        super::stats::overview(&query, &ListRequest::default()).err(),
    ];
    for error in errors {
        assert_eq!(error.map(|e| e.code()), Some("cancelled"));
    }
    assert_eq!(source.read_count(), 0);
}
