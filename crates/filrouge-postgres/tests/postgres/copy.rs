//! A store with rows of every kind is copied from database to database, into another number of lanes. The contents are
//! equal, even if a run continues an interrupted one.

use std::sync::Arc;

use filrouge_postgres::{Options, PostgresCopyTarget};
use filrouge_store::copy::{
    Copied, CopyObserver, CopyStage, CopyTarget, CopyWrites, StartedCopy, TargetContents, copy,
    unfinished_copy,
};
use filrouge_store::verify::Verdict;
use filrouge_store::{Lanes, Ledger, Position, View};
use filrouge_testbed::Database;
use filrouge_types::{ErrorCode, Failure};

use super::servers::callers::assert_intact;
use super::servers::{block_on, close, open, separate_server_options, start_turn};
use super::tamper::world;

/// The columns of each table that a copy keeps: all except the lane, the session's number, in whose place is its name,
/// and MACs, which end most values. The third part is the column with the session's number.
const CONTENTS: [(&str, &str, &str); 11] = [
    (
        "session",
        "t.identity_id, t.parent_session_id, t.project_id, t.team_id, t.title, t.status, t.state, t.metadata,
             t.created_at, t.token, t.erased",
        "pk",
    ),
    ("head", "substr(t.data, 1, length(t.data) - 16)", "pk"),
    (
        "turn",
        "t.place, t.turn_id, t.open, t.open_since, substr(t.data, 1, length(t.data) - 16)",
        "session_pk",
    ),
    (
        "record",
        "t.first_seq, t.count, t.head, t.body",
        "session_pk",
    ),
    ("item_key", "t.key, t.seq", "session_pk"),
    (
        "session_agent",
        "t.agent, substr(t.data, 1, length(t.data) - 16)",
        "session_pk",
    ),
    (
        "event",
        "t.number, t.key, t.at, substr(t.data, 1, length(t.data) - 16)",
        "session_pk",
    ),
    (
        "checkpoint",
        "t.seq, substr(t.data, 1, length(t.data) - 16)",
        "session_pk",
    ),
    (
        "draft",
        "t.place, substr(t.data, 1, length(t.data) - 16)",
        "session_pk",
    ),
    // The MAC of a chunk follows its first five bytes.
    (
        "draft_chunk",
        "t.place, t.number, substr(t.data, 22)",
        "session_pk",
    ),
    (
        "note",
        "t.name, substr(t.data, 1, length(t.data) - 16)",
        "lane",
    ),
];

/// Asserts that two stores have the same contents.
#[track_caller]
pub(crate) fn assert_equal(source: &Database, target: &Database) {
    for (table, columns, pk) in CONTENTS {
        let sql = format!(
            "SELECT q::text FROM (SELECT s.tenant_id, s.session_id, {columns} FROM filrouge.{table} t
                 LEFT JOIN filrouge.session s ON s.pk = t.{pk}) q ORDER BY 1"
        );
        assert_eq!(source.sql(&sql), target.sql(&sql), "{table}");
    }
}

/// A target that writes a few rows at a time, and fails after a number of transactions.
struct FailingTarget {
    copy_target: PostgresCopyTarget,
    rows: usize,
    writes_left: usize,
}

impl FailingTarget {
    fn count_write(&mut self) -> Result<(), Failure> {
        let injected = || Failure::new(ErrorCode::StoreUnavailable, "injected failure");
        self.writes_left = self.writes_left.checked_sub(1).ok_or_else(injected)?;
        Ok(())
    }
}

/// An observer that ignores progress.
struct Silent;

impl CopyObserver for Silent {
    fn progress(&mut self, _: CopyStage, _: u64, _: u64) -> Result<(), Failure> {
        Ok(())
    }

    fn note_value(&mut self, _: &str, value: Vec<u8>, _: &Position) -> Option<Vec<u8>> {
        Some(value)
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

    fn rows_per_transaction(&self) -> usize {
        self.rows
    }

    fn with_view(
        &mut self,
        query: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.copy_target.with_view(query)
    }

    fn write(&mut self, work: CopyWrites<'_>) -> Result<(), Failure> {
        self.count_write()?;
        self.copy_target.write(work)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.count_write()?;
        self.copy_target.finish()
    }
}

/// The lanes of the targets. A source has the default number of lanes.
fn lanes() -> Lanes {
    Lanes::new(3).unwrap()
}

async fn run(
    source: &Arc<dyn Ledger>,
    target: &Database,
    (rows, writes_left): (usize, usize),
) -> Result<Copied, Failure> {
    let mut options = separate_server_options(&target.url());
    options.lanes = lanes();
    run_with(source, options, (rows, writes_left)).await
}

/// Copies into the store of `options`, in transactions of `rows` rows, of which all after the first `writes_left` fail.
pub(crate) async fn run_with(
    source: &Arc<dyn Ledger>,
    options: Options,
    (rows, writes_left): (usize, usize),
) -> Result<Copied, Failure> {
    let mut copy_target = FailingTarget {
        copy_target: PostgresCopyTarget::new(options),
        rows,
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
        assert_ne!(source.lanes(), lanes());
        let mut tries = 0;
        // Every run may write more than the one before it.
        let copied = loop {
            match run(&source, &target, (5, 3 + tries * 7)).await {
                Ok(copied) => break copied,
                Err(failure) => assert_eq!(failure.detail, "injected failure"),
            }
            tries += 1;
        };
        assert!(tries > 2 && copied.resumed, "{tries}");
        assert_eq!(copied.source.verdict(), Verdict::Intact);
        assert_eq!(copied.copy.checkpoints, copied.source.checkpoints);
        assert!(copied.copy.checkpoints > 2 && copied.left_out.is_empty());
        let commits = source.position().commit_count();
        assert_eq!(copied.position.commit_count(), commits);
        close(vec![source]).await;
        assert_equal(&source_database, &target);
        let copied_ledger = open(separate_server_options(&target.url()));
        assert_eq!(copied_ledger.lanes(), lanes());
        assert_intact(&*copied_ledger).await;
        start_turn(&*copied_ledger, "next", "r").await;
        assert_intact(&*copied_ledger).await;
        close(vec![copied_ledger]).await;
    });
}

/// A session that has changed since an earlier run is written again under its number, and the log is rewritten.
#[test]
fn a_run_after_one_that_nearly_finished_replaces_its_log() {
    let (source_database, target) = (Database::new(), Database::new());
    block_on(async {
        let source = open(separate_server_options(&source_database.url()));
        for session in ["a", "b", "c", "d"] {
            start_turn(&*source, session, "r").await;
        }
        let failed = run(&source, &target, (1000, 2)).await;
        assert_eq!(failed.unwrap_err().detail, "injected failure");
        let numbers = "SELECT session_id, pk FROM filrouge.session ORDER BY pk";
        let before = target.sql(numbers);
        let commits = "SELECT lane, commit_no FROM filrouge.commit_log";
        assert!(before.len() == 4 && !target.sql(commits).is_empty());
        start_turn(&*source, "a", "more").await;
        let copied = run(&source, &target, (1000, usize::MAX)).await.unwrap();
        assert!(copied.resumed);
        close(vec![source]).await;
        assert_equal(&source_database, &target);
        assert_eq!(target.sql(numbers), before);
        // One transaction has written the log, so no lane has two commits.
        let newer = "SELECT lane FROM filrouge.commit_log WHERE commit_no > 1";
        assert!(target.sql(newer).is_empty());
        let copied_ledger = open(separate_server_options(&target.url()));
        assert_intact(&*copied_ledger).await;
        close(vec![copied_ledger]).await;
    });
}

#[test]
fn a_server_that_has_the_empty_target_open_refuses_reads_until_the_copy_is_finished() {
    let (source_database, target) = (Database::new(), Database::new());
    block_on(async {
        let source = open(separate_server_options(&source_database.url()));
        start_turn(&*source, "a", "r").await;
        let mut options = separate_server_options(&target.url());
        options.lanes = lanes();
        let waiting = open(options);
        // The log of a run that nearly finished is rewritten by the next run.
        for writes in [1, 2] {
            let failed = run(&source, &target, (1000, writes)).await;
            assert_eq!(failed.unwrap_err().detail, "injected failure");
            let refused = waiting.query(|snapshot| snapshot.view.session_pks()).await;
            let hidden = refused.unwrap_err();
            assert_eq!(
                hidden.detail,
                unfinished_copy("the store in this database").detail
            );
        }
        run(&source, &target, (1000, usize::MAX)).await.unwrap();
        assert_intact(&*waiting).await;
        assert_eq!(waiting.health().integrity, None);
        close(vec![source, waiting]).await;
    });
}
