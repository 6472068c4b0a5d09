//! The writer thread: takes what is waiting, does it in one transaction, flushes once, then answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use filrouge_store::command::{Command, Outcome};
use filrouge_store::read::in_session;
use filrouge_store::rows::LogRow;
use filrouge_store::rules::{self, Context, Group};
use filrouge_store::{Entropy, Keyring};
use filrouge_types::{Clock, ErrorCode, Failure};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::erasure::{self, Erasure};
use crate::error::{failure, is_io_failure};
use crate::guard::{Guard, data_version};
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
    /// The file's version up to which foreign changes were looked for.
    pub(crate) seen: i64,
    /// What was redacted and still stands in the WAL.
    pub(crate) erasure: Erasure,
}

/// Each write's answer, and the commit's log row.
struct Applied {
    outcomes: Vec<Result<Outcome, Failure>>,
    log: Option<LogRow>,
    /// Whether contents were erased.
    erases: bool,
}

/// Why a transaction came to nothing.
enum Spoiled {
    /// One write failed half-way.
    ByOne(Failure),
    /// The store failed.
    ForAll(Failure),
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
        let emptied = self.erasure.finish(&self.conn);
        if let Err(error) = emptied {
            tracing::warn!(%error, "the last checkpoint failed; the WAL stays and is read at the next start");
        }
    }

    fn serve(&mut self, group: &mut Vec<Request>) {
        match self.guard.read_only() {
            Some(why) => answer_all(group, &read_only(&why)),
            None => self.serve_group(group),
        }
        group.clear();
    }

    /// Answers all; when one of several writes spoils their transaction, each is done by itself.
    fn serve_group(&mut self, group: &mut Vec<Request>) {
        let done = self.transact(group);
        if let Err(Spoiled::ByOne(failure) | Spoiled::ForAll(failure)) = &done {
            // Any other failure tells nothing about the disk.
            if failure.code == ErrorCode::StoreFull {
                self.guard.found_room(false);
            }
        }
        match done {
            Ok(outcomes) => {
                for (request, outcome) in group.drain(..).zip(outcomes) {
                    answer(request.reply, outcome);
                }
            }
            Err(Spoiled::ByOne(_)) if group.len() > 1 => {
                for request in group.drain(..) {
                    self.serve(&mut vec![request]);
                }
            }
            Err(Spoiled::ByOne(failure) | Spoiled::ForAll(failure)) => answer_all(group, &failure),
        }
    }

    /// One transaction; an error means that none of the group is acknowledged.
    fn transact(&mut self, group: &[Request]) -> Result<Vec<Result<Outcome, Failure>>, Spoiled> {
        self.conn
            .prepare_cached("BEGIN IMMEDIATE")
            .and_then(|mut s| s.execute([]))
            .map_err(|e| Spoiled::ForAll(failure(e)))?;
        // A fault in the rules must cost its own write, not the writer.
        let done = catch_unwind(AssertUnwindSafe(|| self.apply_all(group)));
        let done = done.unwrap_or_else(|_| {
            let what = "a write failed within the program; its report is in the log";
            Err(Spoiled::ByOne(Failure::new(ErrorCode::Internal, what)))
        });
        let result = match done {
            Ok(done) => {
                let commit = self.commit(done.log, done.erases);
                commit.map(|()| done.outcomes).map_err(Spoiled::ForAll)
            }
            Err(spoiled) => Err(spoiled),
        };
        if result.is_err() {
            self.roll_back();
        }
        result
    }

    fn commit(&mut self, log: Option<LogRow>, erases: bool) -> Result<(), Failure> {
        self.guard.committing();
        let commit_no = log.as_ref().map(|row| row.commit_no);
        let commit = self
            .conn
            .prepare_cached("COMMIT")
            .and_then(|mut s| s.execute([]));
        // Within the commit, so that the watch takes the emptied WAL for this process's own doing.
        let commit = commit.and_then(|_| match commit_no {
            Some(number) if erases => self.erasure.begin(&self.conn, number),
            Some(_) => self.erasure.try_again(&self.conn),
            None => Ok(()),
        });
        match commit {
            Ok(()) => {
                if commit_no.is_some() {
                    self.guard.found_room(true);
                }
                let quiet = data_version(&self.conn).is_ok_and(|now| now == self.seen);
                self.guard.committed(log, quiet);
                Ok(())
            }
            Err(error) => {
                self.guard.committed(None, false);
                if is_io_failure(&error) {
                    self.guard.stop_writing(error.to_string());
                    Err(read_only(&error.to_string()))
                } else {
                    Err(failure(error))
                }
            }
        }
    }

    fn apply_all(&mut self, group: &[Request]) -> Result<Applied, Spoiled> {
        self.look().map_err(Spoiled::ForAll)?;
        let mut rows = Rows(&self.conn);
        let suspects = self.guard.suspects();
        let ctx = Context {
            keyring: &self.keyring,
            entropy: self.entropy.as_ref(),
            now: self.clock.now(),
            suspects: &suspects,
        };
        let mut log = Group::begin(&rows).map_err(Spoiled::ForAll)?;
        let mut outcomes = Vec::with_capacity(group.len());
        let mut erases = false;
        for request in group {
            let before = self.conn.total_changes();
            match rules::apply(&mut rows, &mut log, &ctx, &request.command) {
                Err(failure) if is_stores(&failure) => return Err(Spoiled::ForAll(failure)),
                // What a refused write has put already must not be committed with the others.
                Err(failure) if self.conn.total_changes() != before => {
                    return Err(Spoiled::ByOne(failure));
                }
                Err(failure) if failure.code == ErrorCode::Internal => {
                    return Err(Spoiled::ByOne(failure));
                }
                outcome => {
                    erases |= match &outcome {
                        Ok(Outcome::Redacted(r)) => !r.replayed,
                        Ok(Outcome::Erased(_)) => self.conn.total_changes() != before,
                        _ => false,
                    };
                    outcomes.push(outcome);
                }
            }
        }
        let log = log.finish(&mut rows, &ctx).map_err(Spoiled::ForAll)?;
        if let Some(row) = log.as_ref().filter(|_| erases) {
            erasure::note(&self.conn, row.commit_no).map_err(|e| Spoiled::ForAll(failure(e)))?;
        }
        Ok(Applied {
            outcomes,
            log,
            erases,
        })
    }

    /// Looks for foreign changes; nobody else can make one while this transaction holds the write lock.
    fn look(&mut self) -> Result<(), Failure> {
        let version = data_version(&self.conn)?;
        self.guard.look()?;
        if version != self.seen {
            self.erasure.take_over(&self.conn).map_err(failure)?;
        }
        self.seen = version;
        Ok(())
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
        ErrorCode::StoreUnavailable | ErrorCode::StoreFull | ErrorCode::StoreReadOnly
    )
}

pub(crate) fn read_only(why: &str) -> Failure {
    Failure::new(
        ErrorCode::StoreReadOnly,
        format!("a flush failed, so nothing more is acknowledged: {why}"),
    )
    .with_hint("check the disk, then start filrouge again; retry the write with the same key")
}

fn answer_all(group: &mut Vec<Request>, failure: &Failure) {
    for request in group.drain(..) {
        let refusal = Err(failure.clone());
        let refusal = match request.command.write.session_id() {
            Some(id) => in_session(id, refusal),
            None => refusal,
        };
        answer(request.reply, refusal);
    }
}

fn answer(reply: Reply, outcome: Result<Outcome, Failure>) {
    if reply.send(outcome).is_err() {
        // The caller has gone; what was written stays, and a retry with the same key finds it.
        tracing::debug!("nobody waits for this write any more");
    }
}
