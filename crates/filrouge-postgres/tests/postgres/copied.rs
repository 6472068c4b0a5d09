//! A store with everything is copied from database to database: the rows are equal, even if one run continues
//! another's.

use std::sync::Arc;

use filrouge_postgres::PostgresCopyTarget;
use filrouge_store::copy::{
    Copied, CopyObserver, CopyRow, CopyStage, CopyTarget, StartedCopy, TargetContents, copy,
};
use filrouge_store::rows::SessionPk;
use filrouge_store::{Ledger, Position, View};
use filrouge_testbed::Database;
use filrouge_types::{ErrorCode, Failure};

use super::many::{close, open, separate_server_options, wait};
use super::tamper::world;

/// The tables whose rows do not depend on the store's name.
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

/// A target that writes a few rows at a time, and fails after some.
struct Brittle {
    copy_target: PostgresCopyTarget,
    left: usize,
}

struct Silent;

impl CopyObserver for Silent {
    fn progress(&mut self, _: CopyStage, _: u64, _: u64) -> Result<(), Failure> {
        Ok(())
    }

    fn write_anchor(&mut self, _: &str, _: Position) -> Result<(), Failure> {
        Ok(())
    }
}

impl CopyTarget for Brittle {
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
        for few in rows.chunks(5) {
            let broken = || Failure::new(ErrorCode::StoreUnavailable, "broke down");
            self.left = self.left.checked_sub(1).ok_or_else(broken)?;
            self.copy_target.put(few)?;
        }
        Ok(())
    }

    fn finish(&mut self, newest: SessionPk) -> Result<(), Failure> {
        self.copy_target.finish(newest)
    }
}

async fn run(source: &Arc<dyn Ledger>, to: &Database, left: usize) -> Result<Copied, Failure> {
    let mut copy_target = Brittle {
        copy_target: PostgresCopyTarget::new(separate_server_options(&to.url())),
        left,
    };
    let id = source.store_id().to_owned();
    let asked = source.query(move |snapshot| copy(snapshot, &id, &mut copy_target, &mut Silent));
    asked.await
}

#[test]
fn everything_is_copied() {
    let (from, to) = (world(), Database::new());
    wait(async {
        let source = open(separate_server_options(&from.url()));
        let mut tries = 0;
        // Every run gets a little further than the one before it.
        let copied = loop {
            match run(&source, &to, 3 + tries * 7).await {
                Ok(copied) => break copied,
                Err(failure) => assert_eq!(failure.detail, "broke down"),
            }
            tries += 1;
        };
        assert!(tries > 2 && copied.resumed, "{tries}");
        assert_eq!(copied.copy.checkpoints, copied.source.checkpoints);
        assert!(copied.copy.checkpoints > 2);
        close(vec![source]).await;
        for table in TABLES {
            let all = format!("SELECT t::text FROM filrouge.{table} t ORDER BY 1");
            assert_eq!(from.sql(&all), to.sql(&all), "{table}");
        }
        let beside = open(separate_server_options(&to.url()));
        super::many::callers::intact(&*beside).await;
        close(vec![beside]).await;
    });
}
