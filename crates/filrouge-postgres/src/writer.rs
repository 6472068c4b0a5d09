//! The writer thread: takes what is waiting, does it in one transaction, flushes once, then answers.
//!
//! Two round trips a group: one that takes the lock of writers and fetches what the rules will read, one that sends
//! what they have put and commits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::command::{Command, Outcome};
use filrouge_store::read::in_session;
use filrouge_store::{Entropy, Keyring};
use filrouge_types::{Clock, ErrorCode, Failure};
use tokio::sync::{mpsc, oneshot};

use crate::connect::{Connector, Linked};
use crate::error::unavailable;
use crate::guard::Guard;
use crate::session::{Driver, Sql};
use crate::stage::STATEMENTS;
use crate::transact::{Done, Ended, Spoiled};
use crate::{migrate, vacuum};

/// Most writes in one transaction: bounds how long a write waits for others.
const GROUP_MAX: usize = 256;
/// A group takes no further write once it holds so many bytes.
const GROUP_BYTES: usize = 32 << 20;
/// Between two tries to reach a server that was lost.
const RETRY_EVERY: Duration = Duration::from_millis(100);

type Reply = oneshot::Sender<Result<Outcome, Failure>>;

/// A write and where its answer goes.
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) reply: Reply,
}

pub(crate) struct Writer {
    pub(crate) driver: Driver,
    pub(crate) connector: Arc<Connector>,
    pub(crate) linked: Option<Linked>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether the store's time is the database's, which each transaction is told.
    pub(crate) told_the_time: bool,
    /// The advisory lock that whoever writes to this store holds.
    pub(crate) lock: i64,
    pub(crate) answer_timeout: Duration,
    pub(crate) settle_timeout: Duration,
}

/// The statements of a writer, which are planned once.
pub(crate) fn statements() -> Vec<&'static Sql> {
    let mut statements = STATEMENTS.to_vec();
    statements.push(&vacuum::NOTE);
    statements
}

/// A group whose transaction was lost.
#[derive(Default)]
struct Lost {
    /// Until when it is tried, from the first loss on.
    until: Option<Instant>,
    /// Why it was lost first, which tells more than what keeps another connection from being made.
    why: Option<Failure>,
    /// What may have been committed.
    unsettled: Option<Box<Done>>,
}

impl Lost {
    /// Whether it was tried for `long`.
    fn is_over(&mut self, long: Duration) -> bool {
        let now = Instant::now();
        now >= *self.until.get_or_insert(now + long)
    }
}

impl Writer {
    /// Works until every sender is gone.
    pub(crate) fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut group = Vec::with_capacity(GROUP_MAX);
        while let Some(first) = self.driver.wait(requests.recv()) {
            let mut bytes = first.command.write.content_len();
            group.push(first);
            while group.len() < GROUP_MAX && bytes < GROUP_BYTES {
                match requests.try_recv() {
                    Ok(next) => {
                        bytes += next.command.write.content_len();
                        group.push(next);
                    }
                    Err(_) => break,
                }
            }
            self.serve(&mut group);
        }
    }

    /// Answers all; when one of several writes spoils their transaction, each is done by itself.
    fn serve(&mut self, group: &mut Vec<Request>) {
        match self.settle(group) {
            Ok(outcomes) => {
                for (request, outcome) in group.drain(..).zip(outcomes) {
                    answer(request.reply, outcome);
                }
            }
            Err(Spoiled::ByOne(_)) if group.len() > 1 => {
                for request in std::mem::take(group) {
                    self.serve(&mut vec![request]);
                }
            }
            Err(Spoiled::ByOne(failure) | Spoiled::ForAll(failure)) => {
                answer_all(group, &failure);
            }
        }
    }

    /// Does the group's transaction. When the connection is lost under it, a new one tells whether it was committed;
    /// if not, it is done again.
    fn settle(&mut self, group: &[Request]) -> Result<Vec<Result<Outcome, Failure>>, Spoiled> {
        let mut lost = Lost::default();
        loop {
            match self.attempt(group, &mut lost) {
                Ok(Some(done)) => {
                    if lost.until.is_some() {
                        tracing::info!("the write that the connection was lost under is settled");
                    }
                    self.guard.refuse(None);
                    if let Some(log) = done.log.as_ref().filter(|_| done.erases) {
                        self.guard.erasure().begin(log.commit_no);
                    }
                    self.guard.advance(done.log);
                    return Ok(done.outcomes);
                }
                // It is certain that nothing was committed.
                Ok(None) => {}
                Err(Ended::Spoiled(spoiled)) => {
                    self.note(&spoiled);
                    return Err(*spoiled);
                }
                Err(Ended::Lost(failure, done)) => {
                    self.linked = None;
                    let first = lost.until.is_none();
                    if lost.is_over(self.settle_timeout) {
                        tracing::warn!(%failure, "a write that the connection was lost under is given up");
                        return Err(self.give_up(*failure, done.is_some()));
                    }
                    if first {
                        tracing::warn!(%failure, "the connection to PostgreSQL was lost under a write; it is settled over a new one");
                    }
                    (lost.why, lost.unsettled) = (Some(*failure), done);
                    std::thread::sleep(RETRY_EVERY);
                }
                Err(Ended::Again(failure)) => {
                    if lost.is_over(self.settle_timeout) {
                        return Err(self.give_up(*failure, false));
                    }
                    std::thread::sleep(RETRY_EVERY / 10);
                }
            }
        }
    }

    fn attempt(&mut self, group: &[Request], lost: &mut Lost) -> Result<Option<Box<Done>>, Ended> {
        match (self.link(lost.until), lost.unsettled.take()) {
            (Ok(()), Some(done)) => self.look_for(done),
            (Ok(()), None) => match self.guard.outdated() {
                Some(failure) => Err(Spoiled::ForAll(failure).into()),
                None => self.transact(group),
            },
            // Nothing was begun: whoever waits is told at once.
            (Err(failure), _) if lost.until.is_none() => {
                Err(Spoiled::ForAll(given_up(failure, false)).into())
            }
            (Err(failure), done) => Err(Ended::lost(lost.why.take().unwrap_or(failure), done)),
        }
    }

    fn give_up(&self, failure: Failure, committing: bool) -> Spoiled {
        self.guard.refuse(Some(&failure));
        Spoiled::ForAll(given_up(failure, committing))
    }

    fn note(&self, spoiled: &Spoiled) {
        if let Spoiled::ForAll(failure) = spoiled
            && is_stores(failure)
            && self.guard.outdated().is_none()
        {
            self.guard.refuse(Some(failure));
        }
    }

    /// Makes sure of a connection, until `deadline` or for as long as a loss may take to be settled.
    fn link(&mut self, deadline: Option<Instant>) -> Result<(), Failure> {
        if self
            .linked
            .as_ref()
            .is_some_and(|l| l.session.client().is_closed())
        {
            self.linked = None;
        }
        if self.linked.is_none() {
            let left = deadline.map_or(self.settle_timeout, |d| {
                d.saturating_duration_since(Instant::now())
            });
            let statements = statements();
            let connect =
                async { tokio::time::timeout(left, self.connector.connect(&statements)).await };
            let linked = self.driver.wait(connect);
            let mut linked = linked.map_err(|_| unavailable("PostgreSQL does not answer"))??;
            linked.session.bound(self.answer_timeout);
            self.check_schema(&linked)?;
            self.linked = Some(linked);
        }
        Ok(())
    }
}

impl Writer {
    /// Another program may have brought the store up to a newer schema meanwhile.
    fn check_schema(&self, linked: &Linked) -> Result<(), Failure> {
        let ask = migrate::stored(linked.session.client(), "schema");
        let ask = async { tokio::time::timeout(self.answer_timeout, ask).await };
        let schema = self.driver.wait(ask);
        let schema = schema.map_err(|_| unavailable("PostgreSQL does not answer"))??;
        self.guard.note_schema(schema.as_deref());
        Ok(())
    }
}

/// Whether the store itself failed, perhaps in the middle of a write, rather than the rules refusing it.
pub(crate) const fn is_stores(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::StoreUnavailable | ErrorCode::StoreFull | ErrorCode::StoreReadOnly
    )
}

/// What callers are told once it is not tried any longer.
fn given_up(failure: Failure, committing: bool) -> Failure {
    if committing {
        let what = format!("whether it was written is not known: {}", failure.detail);
        return Failure::new(ErrorCode::StoreUnavailable, what)
            .with_hint("retry with the same key: what was written is found again");
    }
    let hint = match &failure.hint {
        Some(hint) => format!("{hint}; then try again with the same key"),
        None => "try again soon, with the same key".to_owned(),
    };
    failure.with_hint(hint)
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
