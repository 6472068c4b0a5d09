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

/// Somebody empties the index, makes it use the same numbers again, and puts the body of then back.
#[test]
fn an_older_text_with_the_same_number_is_not_shown() {
    let source = Arc::new(MemorySource::default());
    let put = |at, words| {
        let message = samples::message("m", Role::User, vec![samples::text("p", words)]);
        source.put(
            samples::header("a", at),
            samples::conversation(vec![message]),
        );
    };
    let sources: Vec<Arc<dyn Source>> = vec![source.clone()];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(file_name(&*sources[0]).unwrap());
    let update = || {
        let index = indexes(&sources, dir.path()).open_or_create(0);
        index.unwrap().unwrap().update(&mut |_| {}, &|| false)
    };
    put(1_000, "an old quince");
    update().unwrap();
    let empty = r#"c.executescript("""CREATE TABLE kept AS SELECT * FROM body;
        UPDATE sqlite_sequence SET seq = seq - (SELECT count(*) FROM document) WHERE name = 'document';
        UPDATE sqlite_sequence SET seq = seq - 1 WHERE name IN ('session', 'shard');
        DELETE FROM document; DELETE FROM body; DELETE FROM pending; DELETE FROM session; DELETE FROM shard;
        UPDATE state SET position = NULL, seal = NULL""")"#;
    python(&file, empty);
    put(2_000, "a new quince");
    update().unwrap();
    // A body may not be null, so this fails unless the documents have the numbers of then.
    let restore = "c.execute('UPDATE body SET packed = \
         (SELECT packed FROM kept WHERE kept.document = body.document)')";
    python(&file, restore);
    let searcher = Searcher::new(Library::new(sources.clone(), 1 << 20));
    let searcher = searcher.with_indexes(indexes(&sources, dir.path()));
    let request = SearchRequest {
        query: "quince".to_owned(),
        ..SearchRequest::default()
    };
    let found = searcher.search(&request, &|| false).unwrap();
    assert_eq!(found.sessions[0].excerpts[0].text, "a new «quince»");
}
