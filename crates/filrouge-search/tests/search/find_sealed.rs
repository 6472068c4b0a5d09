//! A search finds what somebody has removed from the sealed index of a history.

use std::path::Path;
use std::sync::Arc;

use filrouge_search::feed::{Indexes, file_name};
use filrouge_search::{SearchRequest, Searcher};
use filrouge_sources::library::samples::{self, MemorySource};
use filrouge_sources::{Library, Role, Source};
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::Keyring;

use crate::tampered::python;

/// The indexes, as a process that has just started opens them.
fn indexes(sources: &[Arc<dyn Source>], dir: &Path) -> Arc<Indexes> {
    let open = |file: &Path| {
        let key = Keyring::single([7; 32]).index_key(b"a history");
        Ok(Arc::new(SqliteIndex::open(file)?.with_key(Some(key))) as _)
    };
    Arc::new(Indexes::new(sources, dir, true, Box::new(open)))
}

#[test]
fn what_was_removed_from_an_index_is_found() {
    let source = MemorySource::default();
    for id in ["a", "b"] {
        let message = samples::message("m", Role::User, vec![samples::text("p", "a quince")]);
        source.put(
            samples::header(id, 1_000),
            samples::conversation(vec![message]),
        );
    }
    let sources: Vec<Arc<dyn Source>> = vec![Arc::new(source)];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(file_name(&*sources[0]).unwrap());
    let request = SearchRequest {
        query: "quince".to_owned(),
        ..SearchRequest::default()
    };
    let of_a = "session = (SELECT id FROM session WHERE key = 'a')";
    for attack in [
        format!("DELETE FROM document WHERE {of_a}"),
        format!("DELETE FROM document WHERE {of_a}; DELETE FROM session WHERE key = 'a'"),
    ] {
        let opened = indexes(&sources, dir.path());
        let index = opened.open_or_create(0).unwrap().unwrap();
        index.update(&mut |_| {}, &|| false).unwrap();
        assert_eq!(index.snapshot(std::time::Duration::ZERO).fresh.len(), 2);
        python(&file, &format!("c.executescript(\"{attack}\")"));
        let searcher = Searcher::new(Library::new(sources.clone(), 1 << 20));
        let searcher = searcher.with_indexes(indexes(&sources, dir.path()));
        let found = searcher.search(&request, &|| false).unwrap();
        assert_eq!(found.total_sessions, 2, "{attack}");
        // The next comparison also notices it in a process that has the index open.
        let snapshot = index.snapshot(std::time::Duration::ZERO);
        assert!(!snapshot.fresh.contains_key("a"), "{attack}");
    }
}
