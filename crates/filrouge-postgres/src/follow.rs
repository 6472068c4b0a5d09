//! Watches for commits of other servers: through notifications on a dedicated connection, or by polling.

use std::sync::{Arc, Weak};
use std::time::Duration;

use filrouge_store::rows::LogRow;
use filrouge_store::{Lane, Lanes, Position};
use filrouge_types::{ErrorCode, Failure, Result, Timestamp};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio::try_join;

use crate::clock::DatabaseClock;
use crate::connect::{Connection, Connector, Notifications};
use crate::error::unavailable;
use crate::lanes::query_lanes;
use crate::rows::{self, NEWEST_LOGS, Rows, column, read_newest_logs, sql_lane};
use crate::session::{Driver, Sql, answer_within};
use crate::store_state::StoreState;
use crate::transact::first_answer_timeout;
use crate::vacuum::{Erasure, READ_REQUEST, Vacuum};

/// The polling interval while a caller waits for commits and PostgreSQL sends no notifications.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The polling interval otherwise. Polling keeps the anchor current, and finds commits whose notification was lost.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// The delay between a notification and the reading of commits, so that commits which follow closely are read together.
const GATHER_DELAY: Duration = Duration::from_millis(2);
/// The delay before the watch connects again after its connection was lost or could not be opened.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// The delay between attempts to open a connection with notifications, while the watch polls through a pooler.
const LISTEN_INTERVAL: Duration = Duration::from_secs(3);
/// The minimum interval between two comparisons of the sessions with the commit log, while commits arrive.
const COMPARE_INTERVAL: Duration = Duration::from_secs(1);
/// Comparisons may take at most 1/50 of the time: after a slow one, the interval is this many times its duration.
const COMPARE_SHARE: u32 = 50;
/// The interval between two comparisons while there are no new commits. They are still needed, because another program
/// that changes the store makes no commit of filrouge.
const IDLE_COMPARE_INTERVAL: Duration = Duration::from_secs(30);

/// How long to try to open a connection with notifications if the watch can poll through a pooler instead.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(1);

/// The configuration of the watch for commits of other servers.
pub(crate) struct CommitWatch {
    pub(crate) driver: Driver,
    /// Connects to the PostgreSQL server itself, even if there is a pooler, because a pooler delivers no notifications.
    pub(crate) connector: Arc<Connector>,
    /// Connects to the pooler, if there is one. While the server itself is unreachable, the watch polls through the
    /// pooler.
    pub(crate) fallback: Option<Arc<Connector>>,
    /// The watch ends when the ledger, which owns the store state, is dropped.
    pub(crate) store_state: Weak<StoreState>,
    pub(crate) lanes: Lanes,
    pub(crate) erasure: Arc<Erasure>,
    /// The clock to keep equal to the database server's; `None` if the ledger uses another clock.
    pub(crate) clock: Option<Arc<DatabaseClock>>,
    pub(crate) answer_timeout: Duration,
}

/// The newest comparison of the sessions with the commit log.
struct Comparison {
    compared_at: Instant,
    /// The minimum interval until the next comparison.
    min_interval: Duration,
    /// The number of verified commits at that time.
    commit_count: u64,
    /// Whether the newest commit of a lane has since turned out to be malformed.
    broken: bool,
}

/// The state of the watch, kept across connections.
struct WatchState {
    comparison: Comparison,
    vacuum: Vacuum,
}

/// A connection, and its notifications; `None` if it receives none.
type Listening = (Connection, Option<Notifications>);

impl CommitWatch {
    /// Watches until the ledger is dropped.
    pub(crate) fn run(self) {
        let mut state = WatchState {
            comparison: Comparison {
                compared_at: Instant::now(),
                min_interval: COMPARE_INTERVAL,
                commit_count: 0,
                broken: false,
            },
            vacuum: Vacuum::new(self.erasure.clone(), self.lanes),
        };
        let mut warned = false;
        while self.store_state.strong_count() > 0 {
            if let Err(error) = self.watch_with_fallback(&mut state) {
                if !warned {
                    tracing::warn!(%error, "the watch for other servers' commits was interrupted; it will be retried");
                }
                warned = true;
            } else {
                warned = false;
            }
            std::thread::sleep(RETRY_DELAY);
        }
    }

    /// Watches over a connection to the server itself. If that cannot be opened and there is a pooler, first watches
    /// through the pooler until it can. Returns when the connection is lost or the ledger was dropped.
    fn watch_with_fallback(&self, state: &mut WatchState) -> Result<()> {
        let listen = listen(&self.connector);
        let listening = match &self.fallback {
            None => self.driver.wait(listen),
            Some(_) => {
                let listen = async { tokio::time::timeout(LISTEN_TIMEOUT, listen).await };
                let listening = self.driver.wait(listen);
                listening.unwrap_or_else(|_| Err(unavailable("PostgreSQL does not answer")))
            }
        };
        let listening = match (listening, &self.fallback) {
            (Ok(listening), _) => listening,
            (Err(failure), None) => return Err(failure),
            (Err(failure), Some(fallback)) => {
                let connection = self.driver.wait(fallback.connect(&STATEMENTS))?;
                self.record_notifications(Some(&failure));
                let listen_retry = ListenRetry::new(&self.connector);
                match self.watch((connection, None), fallback, Some(listen_retry), state)? {
                    Some(listening) => listening,
                    None => return Ok(()),
                }
            }
        };
        let pooler_failure = unavailable("the direct URL leads to a pooler too");
        // Without a direct URL (no `fallback`), polling through the pooler is no failure.
        let works_as_configured = self.fallback.is_none() || listening.1.is_some();
        self.record_notifications((!works_as_configured).then_some(&pooler_failure));
        self.watch(listening, &self.connector, None, state)
            .map(drop)
    }

    /// Records whether notifications arrive. `failure` is the reason why they do not.
    fn record_notifications(&self, failure: Option<&Failure>) {
        if let Some(store_state) = self.store_state.upgrade() {
            store_state.record_notifications(failure);
        }
    }

    /// Watches over one connection. Returns the connection of `listen_retry` once that has connected, or `None` when
    /// the ledger was dropped.
    ///
    /// # Errors
    /// Fails when the connection is lost.
    fn watch(
        &self,
        (mut connection, mut notifications): Listening,
        connector: &Arc<Connector>,
        mut listen_retry: Option<ListenRetry>,
        state: &mut WatchState,
    ) -> Result<Option<Listening>> {
        connection.session.set_answer_timeout(self.answer_timeout);
        let mut state_read_at: Option<Instant> = None;
        let mut vacuum_due = false;
        loop {
            let Some(store_state) = self.store_state.upgrade() else {
                return Ok(None);
            };
            self.verify_commits(&connection, &store_state, &mut state.comparison)?;
            if state_read_at.is_none_or(|at| at.elapsed() >= IDLE_INTERVAL) {
                vacuum_due = self.read_store_state(&connection, &store_state)?;
                state_read_at = Some(Instant::now());
            }
            state.vacuum.run_if_due(connector, vacuum_due);
            let has_waiters = store_state.log.commits().receiver_count() > 0;
            drop(store_state);
            let pause = match (&notifications, has_waiters) {
                (None, true) => POLL_INTERVAL,
                _ => IDLE_INTERVAL,
            };
            if let Some(unread) = notifications.as_mut().filter(|_| !has_waiters) {
                // Nobody waits for a commit, so notifications are not read one by one.
                while unread.try_recv().is_ok() {}
            }
            let awaited = notifications.as_mut().filter(|_| has_waiters);
            // True if the watch was asked to check whether a vacuum is due. After a notification the loop does the same
            // as after the pause.
            let check_vacuum = self.driver.wait(async {
                tokio::select! {
                    () = self.erasure.wake.notified() => true,
                    _ = tokio::time::timeout(pause, self.next_commit(awaited)) => false,
                }
            });
            if check_vacuum {
                state_read_at = None;
            }
            if connection.session.client().is_closed() {
                return Err(unavailable("the connection was lost"));
            }
            let attempt = listen_retry
                .as_mut()
                .map(|listen_retry| listen_retry.take_connection());
            if let Some(Some(listening)) = attempt.map(|attempt| self.driver.wait(attempt)) {
                return Ok(Some(listening));
            }
        }
    }

    /// Reads the state of the store that the commit log does not contain: the schema's version, and whether erased
    /// contents still have to be vacuumed. Records the version in `store_state`, and returns whether a vacuum is due.
    fn read_store_state(&self, connection: &Connection, store_state: &StoreState) -> Result<bool> {
        let (session, erasures) = (&connection.session, self.erasure.count());
        let answer = session.with_answer_timeout(async {
            let requests = query_lanes(session, &READ_REQUEST, self.lanes.iter());
            try_join!(biased; session.query(&SCHEMA, &[]), requests)
        });
        let (schema, vacuum_requests) = self.driver.wait(answer)?;
        let schema = schema.first().map(|row| column::<String>(row, 0));
        store_state.record_schema(schema.transpose()?.as_deref());
        let is_due = vacuum_requests.iter().any(|rows| !rows.is_empty());
        if !is_due {
            // No erased contents remain: this or another server has vacuumed after those erasures.
            self.erasure.record_attempt(erasures);
        }
        Ok(is_due)
    }

    /// Waits for a notification of a commit that this process has not verified yet, and then for [`GATHER_DELAY`].
    /// Without notifications, waits forever.
    async fn next_commit(&self, notifications: Option<&mut Notifications>) {
        let Some(notifications) = notifications else {
            return std::future::pending().await;
        };
        while let Some(payload) = notifications.recv().await {
            let verified = self.store_state.upgrade().map(|state| state.log.position());
            if verified.is_none_or(|verified| announces_new_commits(&payload, &verified)) {
                tokio::time::sleep(GATHER_DELAY).await;
                return;
            }
        }
        // The connection is closed. The caller finds out at its next query.
    }

    /// Reads the database's time, and verifies new commits in one snapshot.
    fn verify_commits(
        &self,
        connection: &Connection,
        store_state: &StoreState,
        comparison: &mut Comparison,
    ) -> Result<()> {
        let rows = Rows {
            session: &connection.session,
            driver: &self.driver,
            lanes: self.lanes,
            read_ahead: rows::ReadAhead::default(),
        };
        if let Some(clock) = &self.clock {
            read_database_time(&rows, clock)?;
        }
        let verified = store_state.log.newest_of_all();
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY{}",
            connection.transaction_settings
        );
        let run = |sql: &str| {
            let timeout = first_answer_timeout(self.answer_timeout);
            self.driver
                .wait(answer_within(timeout, connection.session.run(sql)))
        };
        run(&begin)?;
        let result = verify_snapshot(&rows, store_state, comparison, verified);
        run("ROLLBACK")?;
        result
    }
}

/// Attempts, in the background, to open a connection with notifications.
struct ListenRetry {
    connector: Arc<Connector>,
    /// When the next attempt is due.
    next_attempt: Instant,
    /// The attempt in progress.
    attempt: Option<JoinHandle<Result<Listening>>>,
}

impl ListenRetry {
    fn new(connector: &Arc<Connector>) -> Self {
        Self {
            connector: connector.clone(),
            next_attempt: Instant::now() + LISTEN_INTERVAL,
            attempt: None,
        }
    }

    /// Returns the connection once an attempt has succeeded, and starts the next attempt when it is due.
    async fn take_connection(&mut self) -> Option<Listening> {
        if let Some(attempt) = self.attempt.take_if(|attempt| attempt.is_finished()) {
            self.next_attempt = Instant::now() + LISTEN_INTERVAL;
            if let Ok(Ok(listening)) = attempt.await {
                return Some(listening);
            }
        }
        if self.attempt.is_none() && Instant::now() >= self.next_attempt {
            let connector = self.connector.clone();
            self.attempt = Some(tokio::spawn(async move { listen(&connector).await }));
        }
        None
    }
}

async fn listen(connector: &Connector) -> Result<Listening> {
    connector.listen(&STATEMENTS).await
}

/// The text that notifies other servers of the commits of one transaction: the lane and the number of each.
pub(crate) fn announcement(commits: &[LogRow]) -> String {
    let commits = commits
        .iter()
        .map(|row| format!("{} {}", row.lane, row.commit_no));
    commits.collect::<Vec<_>>().join(",")
}

/// Whether an [`announcement`] names a commit that follows `verified`. A text in another form, which another program
/// sent, counts as one that does.
fn announces_new_commits(announcement: &str, verified: &Position) -> bool {
    let is_new = |commit: &str| {
        let (lane, commit_no) = commit.split_once(' ')?;
        let verified = verified.lane(Lane::new(lane.parse().ok()?));
        Some(commit_no.parse::<u64>().ok()? > verified.commit_no)
    };
    announcement
        .split(',')
        .any(|commit| is_new(commit).unwrap_or(true))
}

/// Verifies the commits of each lane after those in `verified`, the newest ones that were verified before the snapshot
/// `rows` began. If it is due, compares the sessions with the commit log.
fn verify_snapshot(
    rows: &Rows<'_>,
    store_state: &StoreState,
    comparison: &mut Comparison,
    verified: Vec<Option<Arc<LogRow>>>,
) -> Result<()> {
    let lanes: Vec<i16> = rows.lanes.iter().map(sql_lane).collect();
    let mut newest = read_newest_logs(&rows.query_columns(&NEWEST_LOGS, &lanes, &[], &[])?)?;
    for (lane, verified) in rows.lanes.iter().zip(verified) {
        match newest.remove(&lane).transpose() {
            Ok(newest) => store_state.log.verify_new_commits(
                rows,
                lane,
                verified.as_deref(),
                newest.as_ref(),
                &[],
            )?,
            // The newest commit is malformed. The comparison, which is now due, reports this.
            Err(failure) if failure.code == ErrorCode::IntegrityError => comparison.broken = true,
            Err(failure) => return Err(failure),
        }
    }
    let commit_count = store_state.log.position().commit_count();
    let is_due = comparison.broken || commit_count != comparison.commit_count;
    let age = comparison.compared_at.elapsed();
    if is_due && age >= comparison.min_interval
        || age >= IDLE_COMPARE_INTERVAL.max(comparison.min_interval)
    {
        let started_at = Instant::now();
        store_state.log.compare(rows)?;
        let cost = started_at.elapsed();
        *comparison = Comparison {
            compared_at: Instant::now(),
            min_interval: COMPARE_INTERVAL.max(cost * COMPARE_SHARE),
            commit_count,
            broken: false,
        };
    }
    Ok(())
}

/// Reads the database server's time into `clock`.
pub(crate) fn read_database_time(rows: &Rows<'_>, clock: &DatabaseClock) -> Result<()> {
    let sent_at = std::time::Instant::now();
    if let Some(row) = rows.query_opt(&NOW, &[])? {
        clock.update(sent_at, Timestamp::from_micros(column(&row, 0)?));
    }
    Ok(())
}

/// The statements that the watch runs repeatedly.
static STATEMENTS: [&Sql; 4] = [&NEWEST_LOGS, &NOW, &SCHEMA, &READ_REQUEST];

/// Reads the schema's version.
static SCHEMA: Sql = Sql::new(
    "SELECT value FROM filrouge.store WHERE name = 'schema'",
    &[],
);

/// Reads the database server's clock, in microseconds since 1970.
pub(crate) static NOW: Sql = Sql::new(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    &[],
);

#[cfg(test)]
mod tests {
    use filrouge_store::LanePosition;

    use super::*;

    #[test]
    fn an_announcement_of_verified_commits_wakes_nobody() {
        let mut verified = Position::default();
        for (lane, commit_no) in [(0, 4), (2, 9)] {
            let link = Default::default();
            verified.set(Lane::new(lane), LanePosition { commit_no, link });
        }
        for known in ["0 4", "2 9", "0 3,2 9", "1 0"] {
            assert!(!announces_new_commits(known, &verified), "{known}");
        }
        for new in ["0 5", "0 4,2 10", "7 1", "", "5", "0 x", "0 4 4", "0 4,"] {
            assert!(announces_new_commits(new, &verified), "{new}");
        }
    }
}
