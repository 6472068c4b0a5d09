//! A writer thread: collects the writes in its queue as a group, applies those whose lanes are free in one
//! transaction with one flush, and then answers their callers. The others stay pending.
//!
//! A group usually needs two round trips. The first locks the lanes that no other server has locked, and fetches the
//! rows that the rules will read. The second sends the rows that the rules have written, and commits. If no lane is
//! free, a round trip in between waits for the lane of the oldest write. A writer never waits for a lane while it holds
//! another one, so two writers never wait for each other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::write_queue::{
    Aborted, BusyLanes, GroupOutcome, GroupResult, PendingWrites, Request, Requests,
    is_store_failure,
};
use filrouge_store::{Entropy, Keyring, Lane, Outcome};
use filrouge_types::{Clock, ErrorCode, Failure};

use crate::connect::{Connection, Connector};
use crate::error::unavailable;
use crate::lanes::writer_of;
use crate::migrate;
use crate::nodes::{self, Nodes};
use crate::session::Driver;
use crate::stage::STATEMENTS;
use crate::store_state::StoreState;
use crate::transact::{LaneChoice, NotCommitted, first_answer_timeout, move_to_front};

/// The delay before a retry after the connection was lost.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// A writer, which has its own thread and its own connection.
pub(crate) struct Writer {
    pub(crate) driver: Driver,
    pub(crate) connector: Arc<Connector>,
    pub(crate) connection: Option<Connection>,
    /// The number of this writer among those of its server.
    pub(crate) number: usize,
    /// The nodes of a distributed store; `None` for every other store.
    pub(crate) nodes: Option<Nodes>,
    /// What other servers are still to be notified of.
    pub(crate) unannounced: Option<String>,
    pub(crate) store_state: Arc<StoreState>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether writes use the database's time, which each transaction reads, instead of `clock`.
    pub(crate) uses_database_time: bool,
    pub(crate) answer_timeout: Duration,
    /// How long a group is retried after its connection was lost.
    pub(crate) settle_timeout: Duration,
}

/// The retries of a group whose connection was lost during its transaction.
#[derive(Default)]
struct RetryState {
    /// The deadline of retries, set at the first failure.
    deadline: Option<Instant>,
    /// The failure that caused the loss. It is more informative than a later failure to connect.
    cause: Option<Failure>,
    /// The outcome of the group, if its transaction may have been committed.
    unresolved: Option<Box<GroupOutcome>>,
}

impl RetryState {
    /// Returns whether the retries have lasted for `limit`. The first call sets the deadline.
    fn has_expired(&mut self, limit: Duration) -> bool {
        let now = Instant::now();
        now >= *self.deadline.get_or_insert(now + limit)
    }
}

impl Writer {
    /// Serves requests until the queue is closed.
    pub(crate) fn run(mut self, mut requests: Requests) {
        let mut pending = PendingWrites::new(self.store_state.log.lanes(), self.own_lanes());
        while self.driver.wait(pending.receive(&mut requests)) {
            pending.serve(&mut |group, busy| {
                if self.nodes.is_some() {
                    return self.commit_in_one_lane(group, busy);
                }
                let choice = busy.due().map_or(LaneChoice::Free, LaneChoice::Due);
                self.commit_with_retries(group, choice)
            });
            self.announce_commits();
        }
    }

    /// The number of lanes that this writer may write: all for the first one, and its share for any other.
    fn own_lanes(&self) -> usize {
        let lanes = self.store_state.log.lanes();
        let writers = lanes.iter().map(|lane| writer_of(lane, lanes));
        let own = writers.filter(|writer| self.number == 0 || *writer == self.number);
        own.count()
    }

    /// Whether no other writer of this server ever writes this lane.
    pub(crate) fn is_only_writer_of(&self, lane: Lane) -> bool {
        self.number == 0 && writer_of(lane, self.store_state.log.lanes()) == 0
    }

    /// Runs a transaction for the writes of one lane of a distributed store: of the lane that is due, or of the first
    /// one that is free, in the order of their oldest writes. If none is free, waits for the first. The transaction
    /// goes to the node that owns the lane.
    fn commit_in_one_lane(&mut self, group: &mut [Request], busy: &BusyLanes) -> GroupResult {
        for (lane, choice) in lanes_to_try(group, busy.due()) {
            self.use_owner(lane);
            let count = move_to_front(group, |other| other == lane);
            match self.commit_with_retries(&mut group[..count], choice) {
                Err(Aborted::Lane(..)) if matches!(choice, LaneChoice::FreeNow) => {}
                aborted @ Err(Aborted::Write(_)) if count > 1 => return aborted,
                // The writes of other lanes may go to other nodes.
                Err(Aborted::Write(failure) | Aborted::Store(failure)) => {
                    return Ok(vec![Err(failure); count]);
                }
                served => return served,
            }
        }
        Ok(Vec::new())
    }

    /// Makes the connection to the node that owns `lane` the one in use.
    fn use_owner(&mut self, lane: Lane) {
        let Some(nodes) = &mut self.nodes else { return };
        if nodes.are_old()
            && let Some(connection) = &self.connection
        {
            let lanes = self.store_state.log.lanes();
            let read_owners = nodes::read_owners(&connection.session, lanes);
            let limit = first_answer_timeout(self.answer_timeout);
            let read_owners = async { tokio::time::timeout(limit, read_owners).await };
            let owners = self.driver.wait(read_owners).ok().and_then(Result::ok);
            if owners.is_none() {
                self.connection = None;
            }
            nodes.update(owners);
        }
        nodes.switch_to_owner(lane, &mut self.connection);
    }

    /// Runs a transaction for the writes of the group whose lanes are free. If the connection is lost during the
    /// transaction, finds out over a new connection whether it was committed, and if not, runs it again.
    fn commit_with_retries(&mut self, group: &mut [Request], choice: LaneChoice) -> GroupResult {
        let mut retries = RetryState::default();
        loop {
            match self.attempt(group, choice, &mut retries) {
                Ok(Some(outcome)) => {
                    if retries.deadline.is_some() {
                        tracing::info!(
                            "the write during which the connection was lost is completed"
                        );
                    }
                    return Ok(self.record_outcome(*outcome));
                }
                // The lost transaction was certainly not committed: run it again.
                Ok(None) => {}
                Err(NotCommitted::Aborted(aborted)) => {
                    self.record_abort(&aborted);
                    return Err(*aborted);
                }
                Err(NotCommitted::Busy(lane, failure)) => {
                    return Err(self.refuse_overdue(group, lane, *failure));
                }
                Err(NotCommitted::Lost(failure, outcome)) => {
                    self.connection = None;
                    let first = retries.deadline.is_none();
                    if retries.has_expired(self.settle_timeout) {
                        tracing::warn!(%failure, "giving up a write during which the connection was lost");
                        let Some(outcome) = outcome else {
                            return Err(self.give_up(*failure));
                        };
                        // Only the first writes of the group belong to the transaction. The others stay pending.
                        self.store_state.record_write(Some(&failure));
                        let refusal = give_up_failure(*failure, true);
                        let writes = outcome.outcomes.iter();
                        return Ok(writes.map(|_| Err(refusal.clone())).collect());
                    }
                    if first {
                        tracing::warn!(
                            %failure,
                            "the connection to PostgreSQL was lost during a write; the write will be completed over a new one"
                        );
                    }
                    (retries.cause, retries.unresolved) = (Some(*failure), outcome);
                    std::thread::sleep(RETRY_EVERY);
                }
                Err(NotCommitted::Conflict(failure)) => {
                    if retries.has_expired(self.settle_timeout) {
                        return Err(self.give_up(*failure));
                    }
                    std::thread::sleep(RETRY_EVERY / 10);
                }
            }
        }
    }

    /// Makes one attempt: runs the transaction. If an earlier attempt may have been committed, first finds out whether
    /// it was.
    fn attempt(
        &mut self,
        group: &mut [Request],
        choice: LaneChoice,
        retries: &mut RetryState,
    ) -> Result<Option<Box<GroupOutcome>>, NotCommitted> {
        match (
            self.ensure_connection(retries.deadline),
            retries.unresolved.take(),
        ) {
            (Ok(()), Some(outcome)) => self.find_commit(outcome),
            (Ok(()), None) => match self.store_state.outdated() {
                Some(failure) => Err(Aborted::Store(failure).into()),
                None => self.transact(group, choice),
            },
            // Nothing of the group was sent, so the callers get the error at once.
            (Err(failure), _) if retries.deadline.is_none() => {
                Err(Aborted::Store(give_up_failure(failure, false)).into())
            }
            (Err(failure), outcome) => Err(NotCommitted::lost(
                retries.cause.take().unwrap_or(failure),
                outcome,
            )),
        }
    }

    /// Records the effects of a transaction, and returns the outcomes of its writes.
    fn record_outcome(&self, outcome: GroupOutcome) -> Vec<Result<Outcome, Failure>> {
        self.store_state.record_write(None);
        if !outcome.erases.is_empty() {
            self.store_state.erasure().record_erasure();
        }
        self.store_state.log.advance(outcome.commits);
        outcome.outcomes
    }

    /// Refuses the writes of a lane that have waited for it for too long, with the failure of the newest wait. All other
    /// writes stay pending.
    fn refuse_overdue(&self, group: &[Request], lane: Lane, failure: Failure) -> Aborted {
        let limit = self.connector.lock_timeout();
        let mut of_lane = group.iter().filter(|request| request.lane == lane);
        if of_lane.any(|request| request.waited() >= limit) {
            self.store_state.record_write(Some(&failure));
        }
        Aborted::Lane(lane, limit, failure)
    }

    /// Ends the retries of a transaction that was certainly not committed.
    fn give_up(&self, failure: Failure) -> Aborted {
        self.store_state.record_write(Some(&failure));
        Aborted::Store(give_up_failure(failure, false))
    }

    fn record_abort(&self, aborted: &Aborted) {
        if let Aborted::Store(failure) = aborted
            && is_store_failure(failure)
            && self.store_state.outdated().is_none()
        {
            self.store_state.record_write(Some(failure));
        }
    }

    /// Connects, unless a connection is open. Without `deadline`, the time limit is `settle_timeout`.
    fn ensure_connection(&mut self, deadline: Option<Instant>) -> Result<(), Failure> {
        if self
            .connection
            .as_ref()
            .is_some_and(|connection| connection.session.client().is_closed())
        {
            self.connection = None;
        }
        if self.connection.is_none() {
            let remaining = deadline.map_or(self.settle_timeout, |d| {
                d.saturating_duration_since(Instant::now())
            });
            let connector = match &self.nodes {
                Some(nodes) => nodes.connector(&self.connector),
                None => self.connector.clone(),
            };
            let connect =
                async { tokio::time::timeout(remaining, connector.connect(STATEMENTS)).await };
            let connection = self.driver.wait(connect);
            let mut connection =
                connection.map_err(|_| unavailable("PostgreSQL does not answer"))??;
            connection.session.set_answer_timeout(self.answer_timeout);
            self.check_schema(&connection)?;
            self.connection = Some(connection);
        }
        Ok(())
    }
}

impl Writer {
    /// Reads the schema's version, because a newer filrouge may have migrated the schema since the previous connection.
    fn check_schema(&self, connection: &Connection) -> Result<(), Failure> {
        let query = migrate::store_value(connection.session.client(), "schema");
        let query = async { tokio::time::timeout(self.answer_timeout, query).await };
        let schema = self.driver.wait(query);
        let schema = schema.map_err(|_| unavailable("PostgreSQL does not answer"))??;
        self.store_state.record_schema(schema.as_deref());
        Ok(())
    }
}

/// The lanes for which a transaction in a distributed store is tried, one after another.
fn lanes_to_try(group: &[Request], due: Option<Lane>) -> Vec<(Lane, LaneChoice)> {
    if let Some(due) = due.filter(|due| group.iter().any(|request| request.lane == *due)) {
        return vec![(due, LaneChoice::Due(due))];
    }
    let mut lanes = Vec::new();
    for request in group {
        if !lanes.contains(&request.lane) {
            lanes.push(request.lane);
        }
    }
    let tries = lanes.iter().map(|lane| (*lane, LaneChoice::FreeNow));
    let wait = lanes.first().map(|lane| (*lane, LaneChoice::Due(*lane)));
    tries.chain(wait).collect()
}

/// The error that callers get after the last retry. `maybe_committed`: it is unknown whether the write was committed.
fn give_up_failure(failure: Failure, maybe_committed: bool) -> Failure {
    if maybe_committed {
        let detail = format!(
            "it is unknown whether the write was committed: {}",
            failure.detail
        );
        return Failure::new(ErrorCode::StoreUnavailable, detail)
            .with_hint("retry with the same key: a committed write is not repeated");
    }
    let hint = match &failure.hint {
        Some(hint) => format!("{hint}; then try again with the same key"),
        None => "try again soon, with the same key".to_owned(),
    };
    failure.with_hint(hint)
}
