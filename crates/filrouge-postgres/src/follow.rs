//! Watches for commits of other servers: through notifications on a dedicated connection, or by polling.

use std::sync::{Arc, Weak};
use std::time::Duration;

use filrouge_store::rows::{LogRow, View};
use filrouge_types::{ErrorCode, Failure, Timestamp};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::clock::DatabaseClock;
use crate::connect::{Connection, Connector};
use crate::error::unavailable;
use crate::guard::Guard;
use crate::rows::{self, NEWEST_LOG, Rows, column};
use crate::session::{Driver, Sql, within};
use crate::transact::first_answer;
use crate::vacuum::{Erasure, Vacuum};

/// The polling interval while a caller waits for commits and no notifications arrive.
const POLL_EVERY: Duration = Duration::from_millis(50);
/// The polling interval otherwise: keeps the anchor current, and covers lost notifications.
const IDLE_EVERY: Duration = Duration::from_secs(1);
/// How long to wait for more notifications after the first, so that many commits are examined together.
const SETTLE: Duration = Duration::from_millis(2);
/// The delay between attempts to reach the server.
const RETRY_EVERY: Duration = Duration::from_millis(500);
/// The delay between attempts to listen while the watch polls.
const LISTEN_EVERY: Duration = Duration::from_secs(3);
/// After commits: the minimum interval between two comparisons of the sessions with the log.
const COMPARE_EVERY: Duration = Duration::from_secs(1);
/// Comparisons take at most one part in this many of the time.
const COMPARE_SHARE: u32 = 50;
/// Without commits: the interval between two comparisons, because changes made outside filrouge are not announced.
const COMPARE_AT_REST: Duration = Duration::from_secs(30);

/// How long to wait for notifications where polling is possible.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(1);

/// The configuration of the watch.
pub(crate) struct Follow {
    pub(crate) driver: Driver,
    /// Connects to the server itself, even if there is a pooler: notifications arrive only there.
    pub(crate) connector: Arc<Connector>,
    /// Connects to the pooler, if there is one: commits are polled for through it while the server itself is
    /// unreachable.
    pub(crate) fallback: Option<Arc<Connector>>,
    pub(crate) guard: Weak<Guard>,
    pub(crate) erasure: Arc<Erasure>,
    pub(crate) clock: Option<Arc<DatabaseClock>>,
    pub(crate) answer_timeout: Duration,
}

/// The last comparison of sessions with the log.
struct Compared {
    at: Instant,
    every: Duration,
    commit_no: u64,
    /// Whether the log itself cannot be read.
    broken: bool,
}

/// The state of the watch, kept across connections.
struct WatchState {
    compared: Compared,
    vacuum: Vacuum,
}

/// A connection, and its commit notifications.
type Listening = (Connection, Option<mpsc::UnboundedReceiver<u64>>);

impl Follow {
    /// Watches until the ledger is dropped.
    pub(crate) fn run(self) {
        let mut state = WatchState {
            compared: Compared {
                at: Instant::now(),
                every: COMPARE_EVERY,
                commit_no: 0,
                broken: false,
            },
            vacuum: Vacuum::new(self.erasure.clone()),
        };
        let mut warned = false;
        while self.guard.strong_count() > 0 {
            if let Err(error) = self.follow(&mut state) {
                if !warned {
                    tracing::warn!(%error, "the watch for other servers' commits was interrupted; it will be retried");
                }
                warned = true;
            } else {
                warned = false;
            }
            std::thread::sleep(RETRY_EVERY);
        }
    }

    /// Watches over one connection; if it cannot be opened, over the fallback until it can.
    fn follow(&self, state: &mut WatchState) -> Result<(), Failure> {
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
                self.report_notifications(Some(&failure));
                let relisten = Relisten::new(&self.connector);
                match self.watch((connection, None), fallback, Some(relisten), state)? {
                    Some(listening) => listening,
                    None => return Ok(()),
                }
            }
        };
        let pooled = unavailable("the direct URL leads to a pooler too");
        let notified = self.fallback.is_none() || listening.1.is_some();
        self.report_notifications((!notified).then_some(&pooled));
        self.watch(listening, &self.connector, None, state)
            .map(drop)
    }

    /// Records whether notifications arrive: `None` if they do, else the failure.
    fn report_notifications(&self, why: Option<&Failure>) {
        if let Some(guard) = self.guard.upgrade() {
            guard.note_notifications(why);
        }
    }

    /// Watches over one connection. Ends when it is lost, when the ledger is dropped, or when `relisten` has connected.
    fn watch(
        &self,
        (mut connection, mut notifications): Listening,
        connector: &Arc<Connector>,
        mut relisten: Option<Relisten>,
        state: &mut WatchState,
    ) -> Result<Option<Listening>, Failure> {
        connection.session.set_answer_timeout(self.answer_timeout);
        let mut state_read_at: Option<Instant> = None;
        let mut vacuum_due = false;
        loop {
            let Some(guard) = self.guard.upgrade() else {
                return Ok(None);
            };
            self.follow_commits(&connection, &guard, &mut state.compared)?;
            if state_read_at.is_none_or(|at| at.elapsed() >= IDLE_EVERY) {
                vacuum_due = self.read_store_state(&connection, &guard)?;
                state_read_at = Some(Instant::now());
            }
            state.vacuum.run_if_due(connector, vacuum_due);
            let has_waiters = guard.commits().receiver_count() > 0;
            drop(guard);
            let pause = match (&notifications, has_waiters) {
                (None, true) => POLL_EVERY,
                _ => IDLE_EVERY,
            };
            let awaited = notifications.as_mut().filter(|_| has_waiters);
            // A notification and a timeout lead to the same work.
            let woken = self.driver.wait(async {
                tokio::select! {
                    () = self.erasure.wake.notified() => true,
                    _ = tokio::time::timeout(pause, self.next_commit(awaited)) => false,
                }
            });
            if woken {
                state_read_at = None;
            }
            if connection.session.client().is_closed() {
                return Err(unavailable("the connection was lost"));
            }
            let attempt = relisten.as_mut().map(|relisten| relisten.poll());
            if let Some(Some(listening)) = attempt.map(|attempt| self.driver.wait(attempt)) {
                return Ok(Some(listening));
            }
        }
    }

    /// Reads the state outside the log: the schema, and whether erased contents still have to be vacuumed. Returns the
    /// latter.
    fn read_store_state(&self, connection: &Connection, guard: &Guard) -> Result<bool, Failure> {
        let pending = self.erasure.pending();
        let answer = connection
            .session
            .answered(connection.session.query(&STORE_STATE, &[]));
        let rows = self.driver.wait(answer)?;
        let Some(row) = rows.first() else {
            return Ok(false);
        };
        let schema: Option<String> = column(row, 0)?;
        guard.note_schema(schema.as_deref());
        let due: bool = column(row, 1)?;
        if !due {
            // Another server has vacuumed.
            self.erasure.settle(pending);
        }
        Ok(due)
    }

    /// Waits for a notification of a commit that this process does not know yet, and briefly for further ones.
    async fn next_commit(&self, notifications: Option<&mut mpsc::UnboundedReceiver<u64>>) {
        let Some(notifications) = notifications else {
            return std::future::pending().await;
        };
        while let Some(commit_no) = notifications.recv().await {
            let verified = self.guard.upgrade().map(|g| g.position().commit_no);
            if verified.is_none_or(|verified| commit_no > verified) {
                tokio::time::sleep(SETTLE).await;
                return;
            }
        }
        // The connection is closed; the next query over it fails.
    }

    fn follow_commits(
        &self,
        connection: &Connection,
        guard: &Guard,
        compared: &mut Compared,
    ) -> Result<(), Failure> {
        let rows = Rows {
            session: &connection.session,
            driver: &self.driver,
            read_ahead: rows::ReadAhead::default(),
        };
        if let Some(clock) = &self.clock {
            compare_clocks(&rows, clock)?;
        }
        let verified = guard.newest();
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY{}",
            connection.local
        );
        let run = |sql: &str| {
            let timeout = first_answer(self.answer_timeout);
            self.driver
                .wait(within(timeout, connection.session.run(sql)))
        };
        run(&begin)?;
        let result = examine(&rows, guard, compared, verified);
        run("ROLLBACK")?;
        result
    }
}

/// Retries listening in the background.
struct Relisten {
    connector: Arc<Connector>,
    next: Instant,
    trying: Option<JoinHandle<Result<Listening, Failure>>>,
}

impl Relisten {
    fn new(connector: &Arc<Connector>) -> Self {
        Self {
            connector: connector.clone(),
            next: Instant::now() + LISTEN_EVERY,
            trying: None,
        }
    }

    /// Returns the connection once an attempt has succeeded, and starts the next attempt when it is due.
    async fn poll(&mut self) -> Option<Listening> {
        if let Some(tried) = self.trying.take_if(|trying| trying.is_finished()) {
            self.next = Instant::now() + LISTEN_EVERY;
            if let Ok(Ok(listening)) = tried.await {
                return Some(listening);
            }
        }
        if self.trying.is_none() && Instant::now() >= self.next {
            let connector = self.connector.clone();
            self.trying = Some(tokio::spawn(async move { listen(&connector).await }));
        }
        None
    }
}

async fn listen(connector: &Connector) -> Result<Listening, Failure> {
    connector.listen(&STATEMENTS).await
}

/// Verifies new commits, and compares the sessions with the log when that is due.
fn examine(
    rows: &Rows<'_>,
    guard: &Guard,
    compared: &mut Compared,
    verified: Option<LogRow>,
) -> Result<(), Failure> {
    match rows.newest_log() {
        Ok(newest) => guard.follow(rows, verified, newest.as_ref(), Vec::new())?,
        // The comparison of the sessions with the log reports the fault.
        Err(failure) if failure.code == ErrorCode::IntegrityError => compared.broken = true,
        Err(failure) => return Err(failure),
    }
    let commit_no = guard.position().commit_no;
    let due = compared.broken || commit_no != compared.commit_no;
    let age = compared.at.elapsed();
    if due && age >= compared.every || age >= COMPARE_AT_REST.max(compared.every) {
        let cost = guard.compare(rows)?;
        *compared = Compared {
            at: Instant::now(),
            every: COMPARE_EVERY.max(cost * COMPARE_SHARE),
            commit_no,
            broken: false,
        };
    }
    Ok(())
}

/// Reads the server's time into `clock`.
pub(crate) fn compare_clocks(rows: &Rows<'_>, clock: &DatabaseClock) -> Result<(), Failure> {
    let sent_at = std::time::Instant::now();
    if let Some(row) = rows.one(&NOW, &[])? {
        clock.update(sent_at, Timestamp::from_micros(column(&row, 0)?));
    }
    Ok(())
}

/// The statements that the watch repeats.
static STATEMENTS: [&Sql; 3] = [&NEWEST_LOG, &NOW, &STORE_STATE];

/// The schema, and whether erased contents still have to be vacuumed.
static STORE_STATE: Sql = Sql::new(
    "SELECT (SELECT value FROM filrouge.store WHERE name = 'schema'),
            EXISTS (SELECT FROM filrouge.store WHERE name = 'erasing')",
    &[],
);

/// The server's clock, in microseconds.
pub(crate) static NOW: Sql = Sql::new(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    &[],
);
