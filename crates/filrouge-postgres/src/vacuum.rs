//! Removes erased contents from the tables. PostgreSQL keeps old row versions until a vacuum, and autovacuum may run
//! much later (docs/format.md).
//!
//! A commit that redacts or erases contents also writes a vacuum request: the row `erasing` of the table `store`. Any
//! filrouge server that reads the request vacuums the tables, and then deletes the request. If that server stops in
//! between, another server vacuums.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use filrouge_types::Failure;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::connect::{Connection, Connector};
use crate::error::{failure, is_locked, unavailable};
use crate::rows::column;
use crate::session::{Driver, Session, Sql};

/// The minimum interval between the beginnings of two vacuums.
const VACUUM_INTERVAL: Duration = Duration::from_secs(60);
/// The delay before a retry of a vacuum that other transactions blocked.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long a ledger that is closed waits for a vacuum.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How many times a vacuum checks whether older snapshots have ended, before it counts as blocked. Most end soon.
const SNAPSHOT_CHECKS: u32 = 30;
/// The delay between two checks for older snapshots.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The time limit of a vacuum.
const VACUUM_TIMEOUT: Duration = Duration::from_secs(3600);

/// Writes the vacuum request, in the transaction that erases contents.
pub(crate) static REQUEST_VACUUM: Sql = Sql::new(
    "INSERT INTO filrouge.store (name, value) VALUES ('erasing', $1)
     ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value",
    &[Type::TEXT],
);
/// Reads the vacuum request, and the id of the transaction that wrote it.
static READ_REQUEST: Sql = Sql::new(
    "SELECT value, xmin::text FROM filrouge.store WHERE name = 'erasing'",
    &[],
);
/// Reads whether the snapshot of any other process is older than a given transaction, and so may still see the rows
/// that the transaction erased.
static ERASED_ROWS_VISIBLE: Sql = Sql::new(
    "SELECT EXISTS (SELECT FROM pg_stat_activity a
         WHERE (a.datname = current_database() OR a.datname IS NULL) AND a.pid <> pg_backend_pid()
         AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
         AND (age(a.backend_xmin) >= age($1::text::xid) OR age(a.backend_xid) >= age($1::text::xid)))",
    &[Type::TEXT],
);
/// Deletes the vacuum request, unless a newer commit has changed it and so requests another vacuum.
static DELETE_REQUEST: Sql = Sql::new(
    "DELETE FROM filrouge.store WHERE name = 'erasing' AND value = $1",
    &[Type::TEXT],
);
/// Reads the names of the tables that this role may not vacuum. `VACUUM` would skip them with only a warning.
static FORBIDDEN_TABLES: Sql = Sql::new(
    "SELECT string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid)
     FROM pg_class c CROSS JOIN (SELECT datdba, current_setting('server_version_num')::int >= 170000 AS maintain
         FROM pg_database WHERE datname = current_database()) d
     WHERE c.relnamespace = to_regnamespace('filrouge')::oid AND c.relname IN
         ('record', 'turn', 'session', 'item_key', 'event', 'session_agent', 'draft', 'draft_chunk', 'checkpoint',
          'search_document', 'search_vector', 'search_session', 'search_shard')
     AND NOT (pg_has_role(c.relowner, 'USAGE') OR pg_has_role(d.datdba, 'USAGE') OR d.maintain
         AND has_table_privilege(c.oid, CASE WHEN d.maintain THEN 'MAINTAIN' ELSE 'SELECT' END))",
    &[],
);
/// Vacuums the tables. This waits for locks, up to the connection's limit: it must not skip a locked table, because the
/// table would then count as vacuumed.
const VACUUM_TABLES: &str = "VACUUM filrouge.record, filrouge.turn, filrouge.session, filrouge.item_key,
     filrouge.event, filrouge.session_agent, filrouge.draft, filrouge.draft_chunk, filrouge.checkpoint,
     filrouge.search_document, filrouge.search_vector, filrouge.search_session, filrouge.search_shard";

/// The erasures of this process after which the tables were not vacuumed yet. A ledger that is closed waits for the
/// vacuum.
#[derive(Default)]
pub(crate) struct Erasure {
    /// The newest commit of this process that erased contents, if no vacuum was attempted since; otherwise 0.
    newest_erasing_commit: watch::Sender<u64>,
    /// Whether the ledger is being closed: then a vacuum need not wait for [`VACUUM_INTERVAL`].
    closing: AtomicBool,
    /// Wakes the watch, which then checks once whether a vacuum is due.
    pub(crate) wake: Notify,
}

impl Erasure {
    /// Records that commit `commit_no` erases contents.
    pub(crate) fn record_erasure(&self, commit_no: u64) {
        self.newest_erasing_commit
            .send_modify(|p| *p = commit_no.max(*p));
        self.wake.notify_one();
    }

    /// The newest commit of this process that still waits for a vacuum attempt; 0 if there is none.
    pub(crate) fn newest_erasing_commit(&self) -> u64 {
        *self.newest_erasing_commit.borrow()
    }

    /// Records that a vacuum was attempted after all commits up to `commit_no`.
    pub(crate) fn record_attempt(&self, commit_no: u64) {
        self.newest_erasing_commit.send_modify(|p| {
            if *p <= commit_no {
                *p = 0;
            }
        });
    }

    /// Waits up to [`CLOSE_TIMEOUT`] until a vacuum was attempted after this process's newest erasure. Called when the
    /// ledger is closed.
    pub(crate) async fn wait_for_attempt(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
        let mut pending = self.newest_erasing_commit.subscribe();
        let attempted = tokio::time::timeout(CLOSE_TIMEOUT, pending.wait_for(|p| *p == 0)).await;
        if attempted.is_err() {
            tracing::warn!(
                "the tables are not vacuumed yet after contents were erased; the next server does it"
            );
        }
    }
}

/// The outcome of an attempt to vacuum.
enum VacuumResult {
    Done,
    /// Other transactions blocked the vacuum, for this reason.
    Blocked(&'static str),
    /// This role may not vacuum these tables.
    Forbidden(String),
    Failed(Failure),
}

/// Runs a vacuum of the tables after contents were erased from them.
pub(crate) struct Vacuum {
    erasure: Arc<Erasure>,
    /// The earliest time of the next attempt.
    next_attempt: Option<Instant>,
    /// The thread of the newest attempt, until its result was read.
    running: Option<JoinHandle<VacuumResult>>,
    /// Whether a warning about a missing privilege was logged.
    warned: bool,
}

impl Vacuum {
    pub(crate) const fn new(erasure: Arc<Erasure>) -> Self {
        Self {
            erasure,
            next_attempt: None,
            running: None,
            warned: false,
        }
    }

    /// Starts a vacuum on a separate thread, because it may take long. `due`: the store contains a vacuum request. Does
    /// nothing while a vacuum runs, or too soon after the previous one.
    pub(crate) fn run_if_due(&mut self, connector: &Arc<Connector>, due: bool) {
        if self.running.as_ref().is_some_and(|r| !r.is_finished()) {
            return;
        }
        if let Some(finished) = self.running.take() {
            let result = finished.join();
            let failed = |_| VacuumResult::Failed(unavailable("the vacuum ended by a panic"));
            self.record_result(result.unwrap_or_else(failed));
        }
        let now = Instant::now();
        let close_waits = self.erasure.closing.load(Ordering::Acquire)
            && self.erasure.newest_erasing_commit() > 0;
        if !due || !close_waits && self.next_attempt.is_some_and(|next| now < next) {
            return;
        }
        self.next_attempt = Some(now + VACUUM_INTERVAL);
        let (connector, erasure) = (connector.clone(), self.erasure.clone());
        let work = move || {
            let erased_before = erasure.newest_erasing_commit();
            let result = run_vacuum(&connector).unwrap_or_else(VacuumResult::Failed);
            erasure.record_attempt(erased_before);
            erasure.wake.notify_one();
            result
        };
        let thread = std::thread::Builder::new().name("filrouge-vacuum".to_owned());
        match thread.spawn(work) {
            Ok(thread) => self.running = Some(thread),
            Err(error) => tracing::warn!(%error, "no thread to vacuum with; it will be retried"),
        }
    }

    /// Logs the result of an attempt, and determines when the next one may begin.
    fn record_result(&mut self, result: VacuumResult) {
        match result {
            VacuumResult::Done => self.warned = false,
            VacuumResult::Blocked(why) => {
                tracing::debug!(
                    why,
                    "the vacuum after an erasure is blocked; it will be retried"
                );
                self.next_attempt = Some(Instant::now() + RETRY_AFTER);
            }
            VacuumResult::Forbidden(tables) if !self.warned => {
                tracing::warn!(
                    %tables,
                    "contents were erased, but this role may not vacuum their tables, so that old versions stay in them: \
                     GRANT MAINTAIN on them (PostgreSQL 17), or let a server run with the role that owns them; \
                     until then their owner has to VACUUM them"
                );
                self.warned = true;
            }
            VacuumResult::Forbidden(_) => {}
            VacuumResult::Failed(error) => {
                tracing::warn!(%error, "the tables could not be vacuumed after contents were erased; it will be retried");
            }
        }
    }
}

fn run_vacuum(connector: &Connector) -> Result<VacuumResult, Failure> {
    let driver = Driver::on_current_thread()?;
    let mut connection = driver.wait(connector.connect(&[]))?;
    connection.session.set_answer_timeout(VACUUM_TIMEOUT);
    driver.wait(vacuum_with(&connection))
}

async fn vacuum_with(connection: &Connection) -> Result<VacuumResult, Failure> {
    let session = &connection.session;
    let request = session
        .with_answer_timeout(session.query(&READ_REQUEST, &[]))
        .await?;
    let Some(request) = request.first() else {
        // Without a request, another server has vacuumed.
        return Ok(VacuumResult::Done);
    };
    let (value, xid): (String, String) = (column(request, 0)?, column(request, 1)?);
    let forbidden = session
        .with_answer_timeout(session.query(&FORBIDDEN_TABLES, &[]))
        .await?;
    let forbidden = forbidden.first().map(|row| column(row, 0)).transpose()?;
    if let Some(Some(tables)) = forbidden {
        return Ok(VacuumResult::Forbidden(tables));
    }
    if !wait_until_unseen(session, &xid).await? {
        return Ok(VacuumResult::Blocked(
            "an older snapshot sees what was erased",
        ));
    }
    let done = tokio::time::timeout(VACUUM_TIMEOUT, session.run(VACUUM_TABLES)).await;
    match done.map_err(|_| unavailable("PostgreSQL does not answer"))? {
        Err(error) if is_locked(&error) => return Ok(VacuumResult::Blocked("a table is locked")),
        done => done.map_err(|e| failure(&e))?,
    }
    session
        .with_answer_timeout(session.query(&DELETE_REQUEST, &[&value]))
        .await?;
    Ok(VacuumResult::Done)
}

/// Waits until no snapshot sees the rows that the transaction `xid` erased: until then, a vacuum would keep them.
/// Returns false if this takes too long.
async fn wait_until_unseen(session: &Session, xid: &str) -> Result<bool, Failure> {
    for _ in 0..SNAPSHOT_CHECKS {
        let visible = session
            .with_answer_timeout(session.query(&ERASED_ROWS_VISIBLE, &[&xid]))
            .await?;
        if let Some(row) = visible.first()
            && !column::<bool>(row, 0)?
        {
            return Ok(true);
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    Ok(false)
}
