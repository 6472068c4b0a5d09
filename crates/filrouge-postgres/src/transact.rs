//! One transaction of the writer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;

use filrouge_store::command::Outcome;
use filrouge_store::copy::unfinished;
use filrouge_store::rows::{LogRow, View};
use filrouge_store::rules::{self, Context, Group};
use filrouge_types::{ErrorCode, Failure, Timestamp};
use tokio::sync::Notify;
use tokio::try_join;
use tokio_postgres::Error;

use crate::error::{failure, is_lost, is_passing, is_standby, unavailable};
use crate::rows::{Rows, Seen, int, read_log};
use crate::session::{Param, Session};
use crate::stage::{LOCK, LOG_AT, Pending, Stage, Wanted};
use crate::vacuum;
use crate::writer::{Request, Writer, is_stores};

/// Each write's answer, and the commit's log row.
pub(crate) struct Done {
    pub(crate) outcomes: Vec<Result<Outcome, Failure>>,
    pub(crate) log: Option<LogRow>,
    /// Whether contents were erased.
    pub(crate) erases: bool,
}

/// Why a transaction came to nothing.
pub(crate) enum Spoiled {
    /// One write failed half-way.
    ByOne(Failure),
    /// The store failed.
    ForAll(Failure),
}

/// How a transaction has ended that was not committed for certain.
pub(crate) enum Ended {
    /// Nothing was written.
    Spoiled(Box<Spoiled>),
    /// The connection is gone; with what was under way if COMMIT had been sent.
    Lost(Box<Failure>, Option<Box<Done>>),
    /// Another transaction was in the way: nothing was written, another try can do.
    Again(Box<Failure>),
}

impl Ended {
    pub(crate) fn lost(failure: Failure, done: Option<Box<Done>>) -> Self {
        Self::Lost(Box::new(failure), done)
    }
}

impl From<Spoiled> for Ended {
    fn from(spoiled: Spoiled) -> Self {
        Self::Spoiled(Box::new(spoiled))
    }
}

/// Reads an error of the connection, before anything was committed.
fn ended(error: &Error) -> Ended {
    let failure = failure(error);
    if is_lost(error) {
        Ended::lost(failure, None)
    } else if is_passing(error) {
        Ended::Again(Box::new(failure))
    } else if is_stores(&failure) {
        Spoiled::ForAll(failure).into()
    } else {
        // What one write has brought along, or one row that it looks at.
        Spoiled::ByOne(failure).into()
    }
}

/// Each statement sees what was committed before it, also behind the wait for the lock, whatever a role or a database
/// has set.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

impl Writer {
    /// Waits for an answer for a bounded time.
    fn wait<T>(
        &self,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, Failure> {
        let within = async { tokio::time::timeout(self.answer_timeout, future).await };
        self.driver
            .wait(within)
            .map_err(|_| unavailable("PostgreSQL does not answer"))
    }

    /// As [`Self::wait`] for what begins a transaction and says when that was answered: this is waited for less long
    /// than the lock, as a pooler whose server is away only lets its clients wait.
    fn wait_begun<T>(
        &self,
        ask: impl AsyncFnOnce(&Notify) -> Result<T, Error>,
    ) -> Result<Result<T, Error>, Failure> {
        let (begun, first) = (Notify::new(), first_answer(self.answer_timeout));
        let within = async {
            let mut ask = pin!(ask(&begun));
            tokio::select! {
                biased;
                answer = &mut ask => return Ok(answer),
                begun = tokio::time::timeout(first, begun.notified()) => begun?,
            }
            tokio::time::timeout(self.answer_timeout, ask).await
        };
        self.driver
            .wait(within)
            .map_err(|_| unavailable("PostgreSQL does not answer"))
    }

    /// Does the group in one transaction.
    pub(crate) fn transact(&mut self, group: &[Request]) -> Result<Option<Box<Done>>, Ended> {
        let done = self.begin_and_apply(group);
        match done {
            Ok((done, pending)) => self.commit(done, &pending).map(Some),
            Err(Ended::Lost(failure, done)) => Err(Ended::Lost(failure, done)),
            Err(ended) => {
                self.roll_back();
                Err(ended)
            }
        }
    }

    fn begin_and_apply(&self, group: &[Request]) -> Result<(Box<Done>, Pending), Ended> {
        let Some(linked) = &self.linked else {
            return Err(Ended::lost(unavailable("not connected"), None));
        };
        // Before the database is asked: a transaction that has lost its lock meanwhile must not take what others have
        // committed since, and this process knows of, for gone.
        let known = self.guard.newest();
        let before = known.as_ref().map_or(0, |row| row.commit_no);
        let wanted = Wanted::by(group.iter().map(|r| &r.command), &self.keyring);
        let begin = format!("{BEGIN}{}", linked.local);
        let session = &linked.session;
        session.begins();
        let fetched = self.wait_begun(async |begun| {
            let begin = async {
                session.run(&begin).await?;
                begun.notify_one();
                Ok(())
            };
            wanted.fetch(session, begin, self.lock, before).await
        });
        let fetched = fetched.map_err(|f| Ended::lost(f, None))?;
        let mut fetched = fetched.map_err(|e| ended(&e))?.map_err(Spoiled::ByOne)?;
        if fetched.copying {
            return Err(Spoiled::ForAll(unfinished("the store in this database")).into());
        }
        let more = self.wait(wanted.fetch_records(&linked.session, &mut fetched));
        let more = more.map_err(|f| Ended::lost(f, None))?;
        more.map_err(|e| ended(&e))?.map_err(Spoiled::ByOne)?;
        let rows = || Rows {
            session: &linked.session,
            driver: &self.driver,
            seen: Seen::default(),
        };
        if fetched.commits.is_empty() && known.is_some() {
            // What was known is gone: the guard is shown what is left.
            let newest = rows().newest_log().map_err(lost_or_all)?;
            fetched.commits.extend(newest);
        }
        let near = fetched.commits.clone();
        self.guard
            .follow(&rows(), known, fetched.commits.first(), near)
            .map_err(lost_or_all)?;
        // By the database's clock, which tells whether a lease has ended, whatever this process's own clock does.
        let told = fetched.now.filter(|_| self.told_the_time);
        let now = told.unwrap_or_else(|| self.clock.now());
        let mut stage = Stage::new(rows(), fetched);
        // A fault in the rules must cost its own write, not the writer.
        let applied = catch_unwind(AssertUnwindSafe(|| self.apply_all(&mut stage, group, now)));
        let applied = applied.unwrap_or_else(|_| {
            let what = "a write failed within the program; its report is in the log";
            Err(Spoiled::ByOne(Failure::new(ErrorCode::Internal, what)))
        });
        match applied {
            Ok(done) => Ok((done, stage.into_pending())),
            Err(Spoiled::ForAll(failure)) => Err(lost_or_all(failure)),
            Err(spoiled) => Err(spoiled.into()),
        }
    }

    fn apply_all(
        &self,
        stage: &mut Stage<'_>,
        group: &[Request],
        now: Timestamp,
    ) -> Result<Box<Done>, Spoiled> {
        let suspects = self.guard.suspects();
        let ctx = Context {
            keyring: &self.keyring,
            entropy: self.entropy.as_ref(),
            now,
            suspects: &suspects,
        };
        let mut log = Group::begin(stage).map_err(Spoiled::ForAll)?;
        let mut outcomes = Vec::with_capacity(group.len());
        let mut erases = false;
        for request in group {
            let before = stage.puts();
            match rules::apply(stage, &mut log, &ctx, &request.command) {
                Err(failure) if is_stores(&failure) => return Err(Spoiled::ForAll(failure)),
                // What a refused write has put already must not be committed with the others.
                Err(failure) if stage.puts() != before => return Err(Spoiled::ByOne(failure)),
                // A statement that has failed leaves a transaction in which nothing more is done.
                Err(failure) if failure.code == ErrorCode::Internal || stage.failed() => {
                    return Err(Spoiled::ByOne(failure));
                }
                outcome => {
                    erases |= match &outcome {
                        Ok(Outcome::Redacted(r)) => !r.replayed,
                        Ok(Outcome::Erased(_)) => stage.puts() != before,
                        _ => false,
                    };
                    outcomes.push(outcome);
                }
            }
        }
        let log = log.finish(stage, &ctx).map_err(Spoiled::ForAll)?;
        Ok(Box::new(Done {
            outcomes,
            log,
            erases,
        }))
    }

    /// Sends what was put, and commits, in one round trip.
    fn commit(&mut self, done: Box<Done>, pending: &Pending) -> Result<Box<Done>, Ended> {
        let Some(linked) = &self.linked else {
            return Err(Ended::lost(unavailable("not connected"), None));
        };
        let session = &linked.session;
        let send = async {
            let note = note_erasure(session, &done);
            try_join!(biased; pending.send(session), note, session.run("COMMIT")).map(drop)
        };
        match self.wait(send) {
            Ok(Ok(())) => Ok(done),
            // With nothing put there is nothing to be lost.
            Err(_) if done.log.is_none() => Ok(done),
            Err(failure) => Err(Ended::lost(failure, Some(done))),
            Ok(Err(error)) if is_lost(&error) && !is_standby(&error) => {
                Err(Ended::lost(failure(&error), Some(done)))
            }
            Ok(Err(error)) => {
                // A statement was refused, so that COMMIT has undone everything.
                self.roll_back();
                Err(ended(&error))
            }
        }
    }

    /// Whether a transaction whose answer was lost was committed: nobody holds the lock of writers any more.
    pub(crate) fn look_for(&mut self, done: Box<Done>) -> Result<Option<Box<Done>>, Ended> {
        let Some(row) = done.log.clone() else {
            return Ok(Some(done));
        };
        let Some(linked) = &self.linked else {
            return Err(Ended::lost(unavailable("not connected"), Some(done)));
        };
        let begin = format!("{BEGIN}{}", linked.local);
        let session = &linked.session;
        let look = self.wait_begun(async |begun| {
            let number = int(row.commit_no);
            let (lock, number): ([Param<'_>; 1], [Param<'_>; 1]) = ([&self.lock], [&number]);
            let begin = async {
                session.run(&begin).await?;
                begun.notify_one();
                Ok(())
            };
            let ((), _, found, ()) = try_join!(
                biased;
                begin,
                session.query(&LOCK, &lock),
                session.query(&LOG_AT, &number),
                session.run("ROLLBACK")
            )?;
            Ok(found)
        });
        let found = match look {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                self.linked = None;
                return Err(Ended::lost(failure(&error), Some(done)));
            }
            Err(failure) => return Err(Ended::lost(failure, Some(done))),
        };
        let found = found
            .first()
            .map(|row| read_log(row, 0))
            .transpose()
            .map_err(Spoiled::ForAll)?;
        if found.is_none_or(|found| found.link != row.link) {
            return Ok(None);
        }
        // The connection may have been lost while the commit waited for its standbys: a later one that they have tells
        // that they have this one, too.
        let later = "UPDATE filrouge.store SET value = value WHERE name = 'store_id'";
        match self.wait(session.run(later)) {
            Ok(Ok(())) => Ok(Some(done)),
            Ok(Err(error)) => Err(Ended::lost(failure(&error), Some(done))),
            Err(failure) => Err(Ended::lost(failure, Some(done))),
        }
    }

    /// Ends the transaction; a connection that cannot even do that is given up.
    fn roll_back(&mut self) {
        let Some(linked) = &self.linked else { return };
        if !matches!(self.wait(linked.session.run("ROLLBACK")), Ok(Ok(()))) {
            self.linked = None;
        }
    }
}

/// How long the answer to the beginning of a transaction is waited for, of which nothing but the network and a pooler
/// is in the way.
pub(crate) fn first_answer(answer_timeout: Duration) -> Duration {
    answer_timeout.min(Duration::from_secs(5))
}

/// Notes that contents are erased, for whoever vacuums.
async fn note_erasure(session: &Session, done: &Done) -> Result<(), Error> {
    let Some(log) = done.log.as_ref().filter(|_| done.erases) else {
        return Ok(());
    };
    let commit_no = log.commit_no.to_string();
    session.query(&vacuum::NOTE, &[&commit_no]).await.map(drop)
}

/// A failure in the middle of the rules: nothing was committed, and over another connection the group can be done again.
fn lost_or_all(failure: Failure) -> Ended {
    if matches!(
        failure.code,
        ErrorCode::StoreUnavailable | ErrorCode::StoreReadOnly
    ) {
        Ended::lost(failure, None)
    } else {
        Spoiled::ForAll(failure).into()
    }
}
