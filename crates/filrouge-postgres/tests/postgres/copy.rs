//! A store with rows of every kind is copied from database to database. The rows are equal, even if a run continues an
//! interrupted one.

use std::sync::Arc;

use filrouge_postgres::PostgresCopyTarget;
use filrouge_store::copy::{
    Copied, CopyObserver, CopyRow, CopyStage, CopyTarget, StartedCopy, TargetContents, copy,
};
use filrouge_store::rows::SessionPk;
use filrouge_store::{Ledger, Position, View};
use filrouge_testbed::Database;
use filrouge_types::{ErrorCode, Failure};

use super::servers::{block_on, close, open, separate_server_options};
use super::tamper::world;

/// The tables whose rows do not depend on the store's id.
const TABLES: [&str; 12] = [
    "session",
    "head",
    "turn",
    "record",
    "item_key",
    "session_agent",
    "event",
    "note",
    "draft",
    "draft_chunk",
    "checkpoint",
    "commit_log",
];

/// A target that writes five rows at a time, and fails after a number of writes.
struct FailingTarget {
    copy_target: PostgresCopyTarget,
    writes_left: usize,
}

/// An observer that ignores progress.
struct Silent;

impl CopyObserver for Silent {
    fn progress(&mut self, _: CopyStage, _: u64, _: u64) -> Result<(), Failure> {
        Ok(())
    }

    fn write_anchor(&mut self, _: &str, _: Position) -> Result<(), Failure> {
        Ok(())
    }
}

impl CopyTarget for FailingTarget {
    fn contents(&mut self) -> Result<TargetContents, Failure> {
        self.copy_target.contents()
    }

    fn begin(&mut self, source: &str) -> Result<StartedCopy, Failure> {
        self.copy_target.begin(source)
    }

    fn with_view(
        &mut self,
        query: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.copy_target.with_view(query)
    }

    fn put(&mut self, rows: &[CopyRow]) -> Result<(), Failure> {
        for chunk in rows.chunks(5) {
            let injected = || Failure::new(ErrorCode::StoreUnavailable, "injected failure");
            self.writes_left = self.writes_left.checked_sub(1).ok_or_else(injected)?;
            self.copy_target.put(chunk)?;
        }
        Ok(())
    }

    fn finish(&mut self, newest: SessionPk) -> Result<(), Failure> {
        self.copy_target.finish(newest)
    }
}

async fn run(
    source: &Arc<dyn Ledger>,
    target: &Database,
    writes_left: usize,
) -> Result<Copied, Failure> {
    let mut copy_target = FailingTarget {
        copy_target: PostgresCopyTarget::new(separate_server_options(&target.url())),
        writes_left,
    };
    let id = source.store_id().to_owned();
    let copied = source.query(move |snapshot| copy(snapshot, &id, &mut copy_target, &mut Silent));
    copied.await
}

#[test]
fn everything_is_copied() {
    let (source_database, target) = (world(), Database::new());
    block_on(async {
        let source = open(separate_server_options(&source_database.url()));
        let mut tries = 0;
        // Every run may write more than the one before it.
        let copied = loop {
            match run(&source, &target, 3 + tries * 7).await {
                Ok(copied) => break copied,
                Err(failure) => assert_eq!(failure.detail, "injected failure"),
            }
            tries += 1;
        };
        assert!(tries > 2 && copied.resumed, "{tries}");
        assert_eq!(copied.copy.checkpoints, copied.source.checkpoints);
        assert!(copied.copy.checkpoints > 2);
        close(vec![source]).await;
        for table in TABLES {
            let all = format!("SELECT t::text FROM filrouge.{table} t ORDER BY 1");
            assert_eq!(source_database.sql(&all), target.sql(&all), "{table}");
        }
        let copied_ledger = open(separate_server_options(&target.url()));
        super::servers::callers::assert_intact(&*copied_ledger).await;
        close(vec![copied_ledger]).await;
    });
}
