//! The number of queries that a search sends to the ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use filrouge_store::Ledger;
use filrouge_store::command::Command;
use filrouge_store::ledger::{CommittedWrite, LedgerLayer, QuerySubject, SnapshotQuery};
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_types::Failure;

use super::find::{empty_library, index_searcher, query};
use super::world::*;

/// A ledger that counts its queries.
struct CountingLedger {
    inner: Arc<dyn Ledger>,
    queries: AtomicUsize,
}

#[async_trait]
impl LedgerLayer for CountingLedger {
    fn inner(&self) -> &dyn Ledger {
        self.inner.as_ref()
    }

    async fn write(&self, command: Command) -> Result<CommittedWrite, Failure> {
        self.inner.write(command).await
    }

    async fn inspect(&self, about: QuerySubject<'_>, query: SnapshotQuery) -> Result<(), Failure> {
        self.queries.fetch_add(1, Ordering::SeqCst);
        self.inner.inspect(about, query).await
    }
}

#[test]
fn a_search_reads_many_turns_at_once_and_none_again() {
    let ledger = Arc::new(CountingLedger {
        inner: ledger(),
        queries: AtomicUsize::new(0),
    });
    let world = LedgerWorld::from_parts(ledger.clone(), Arc::new(MemoryIndex::default()));
    for n in 0..40 {
        let name = format!("s{n}");
        world.create_session(&operator(), &name, None);
        world.start_turn(
            &operator(),
            (&name, "r"),
            "where is the quince",
            Some("here"),
        );
    }
    world.catch_up();
    let searcher = index_searcher(&world, &operator(), empty_library());
    let queries_of_search = || {
        let before = ledger.queries.load(Ordering::SeqCst);
        let found = searcher.search(&query("quince"), &|| false).unwrap();
        assert_eq!((found.total_sessions, found.exact), (40, true));
        ledger.queries.load(Ordering::SeqCst) - before
    };
    let (first, second) = (queries_of_search(), queries_of_search());
    assert!(first < 20, "{first} queries for 40 sessions");
    assert!(
        second < first,
        "{second} queries for cached texts, {first} for others"
    );
}
