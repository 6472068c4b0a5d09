//! The writer thread: takes what is waiting, does it in one transaction, flushes once, then answers.

use std::sync::Arc;

use filrouge_store::command::{Command, Outcome};
use filrouge_store::rows::View;
use filrouge_store::rules::{self, Context, Group};
use filrouge_store::{Entropy, Keyring};
use filrouge_types::{Clock, ErrorCode, Failure};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::{failure, is_io_failure};
use crate::guard::Guard;
use crate::rows::Rows;

/// Most writes in one transaction: bounds how long a write waits for others.
const GROUP_MAX: usize = 256;

type Reply = oneshot::Sender<Result<Outcome, Failure>>;

/// A write and where its answer goes.
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) reply: Reply,
}

pub(crate) struct Writer {
    pub(crate) conn: Connection,
    pub(crate) guard: Arc<Guard>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) data_version: i64,
}

impl Writer {
    /// Works until every sender is gone.
    pub(crate) fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut group = Vec::with_capacity(GROUP_MAX);
        while let Some(first) = requests.blocking_recv() {
            group.push(first);
            while group.len() < GROUP_MAX {
                match requests.try_recv() {
                    Ok(next) => group.push(next),
                    Err(_) => break,
                }
            }
            self.serve(&mut group);
        }
        if let Err(error) = self.conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)") {
            tracing::warn!(%error, "the last checkpoint failed; the WAL stays and is read at the next start");
        }
    }

    fn serve(&mut self, group: &mut Vec<Request>) {
        if let Some(why) = self.guard.read_only() {
            let refusal = read_only(&why);
            for request in group.drain(..) {
                answer(request.reply, Err(refusal.clone()));
            }
            return;
        }
        match self.transact(group) {
            Ok(outcomes) => {
                for (request, outcome) in group.drain(..).zip(outcomes) {
                    answer(request.reply, outcome);
                }
            }
            Err(failure) => {
                for request in group.drain(..) {
                    answer(request.reply, Err(failure.clone()));
                }
            }
        }
    }

    /// One transaction; an error means that none of the group is acknowledged.
    fn transact(&mut self, group: &[Request]) -> Result<Vec<Result<Outcome, Failure>>, Failure> {
        self.conn
            .prepare_cached("BEGIN IMMEDIATE")
            .and_then(|mut s| s.execute([]))
            .map_err(failure)?;
        let done = self.apply_all(group);
        let result = match done {
            Ok((outcomes, log)) => {
                let commit = self
                    .conn
                    .prepare_cached("COMMIT")
                    .and_then(|mut s| s.execute([]));
                match commit {
                    Ok(_) => {
                        if let Some(row) = log {
                            self.guard.committed(row);
                        }
                        return Ok(outcomes);
                    }
                    Err(error) => {
                        if is_io_failure(&error) {
                            self.guard.stop_writing(error.to_string());
                            Err(read_only(&error.to_string()))
                        } else {
                            Err(failure(error))
                        }
                    }
                }
            }
            Err(failure) => Err(failure),
        };
        self.roll_back();
        result
    }

    #[expect(
        clippy::type_complexity,
        reason = "the outcomes in order, and the commit's log row"
    )]
    fn apply_all(
        &mut self,
        group: &[Request],
    ) -> Result<
        (
            Vec<Result<Outcome, Failure>>,
            Option<filrouge_store::rows::LogRow>,
        ),
        Failure,
    > {
        let mut rows = Rows(&self.conn);
        let version = data_version(&self.conn)?;
        if version != self.data_version {
            self.guard.check_foreign(&rows)?;
            self.data_version = version;
        }
        let suspects = self.guard.suspects();
        let ctx = Context {
            keyring: &self.keyring,
            entropy: self.entropy.as_ref(),
            now: self.clock.now(),
            suspects: &suspects,
        };
        let mut log = Group::begin(&rows)?;
        let mut outcomes = Vec::with_capacity(group.len());
        for request in group {
            match rules::apply(&mut rows, &mut log, &ctx, &request.command) {
                Err(failure) if is_stores(&failure) => return Err(failure),
                outcome => outcomes.push(outcome),
            }
        }
        let row = log.finish(&mut rows, &ctx)?;
        Ok((outcomes, row))
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            self.guard
                .stop_writing(format!("a rollback failed: {error}"));
        }
    }
}

/// Whether the store itself failed, perhaps in the middle of a write, rather than the rules refusing it.
fn is_stores(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::StoreUnavailable
            | ErrorCode::StoreFull
            | ErrorCode::StoreReadOnly
            | ErrorCode::Internal
    )
}

pub(crate) fn read_only(why: &str) -> Failure {
    Failure::new(
        ErrorCode::StoreReadOnly,
        format!("a flush failed, so nothing more is acknowledged: {why}"),
    )
    .with_hint("check the disk, then start filrouge again; retry the write with the same key")
}

/// Grows when another connection has changed the file.
pub(crate) fn data_version(conn: &Connection) -> Result<i64, Failure> {
    conn.prepare_cached("PRAGMA data_version")
        .and_then(|mut s| s.query_row([], |row| row.get(0)))
        .map_err(failure)
}

/// Makes sure that a view's own newest log row is read in the transaction it belongs to.
pub(crate) fn touch(rows: &Rows<'_>) -> Result<(), Failure> {
    rows.newest_log().map(|_| ())
}

fn answer(reply: Reply, outcome: Result<Outcome, Failure>) {
    if reply.send(outcome).is_err() {
        // The caller has gone; what was written stays, and a retry with the same key finds it.
        tracing::debug!("nobody waits for this write any more");
    }
}
