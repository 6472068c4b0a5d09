//! Removes erased contents from the tables. PostgreSQL keeps old row versions until a vacuum, and autovacuum may run
//! much later (docs/format.md).
//!
//! A commit that redacts or erases contents also writes a vacuum request: the row of its lane in the table `erasing`.
//! Any filrouge server that reads a request vacuums the tables, and then deletes the request. If that server stops in
//! between, another server vacuums.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use filrouge_store::{Lane, Lanes};
use filrouge_types::Failure;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::connect::{Connection, Connector};
use crate::error::{failure, is_locked, unavailable};
use crate::lanes::query_lanes;
use crate::nodes::read_owners;
use crate::rows::{column, sql_lane};
use crate::session::{Driver, Param, Session, Sql};

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

/// Reads the vacuum request of a lane, and the id of the transaction that wrote it.
pub(crate) static READ_REQUEST: Sql = Sql::new(
    "SELECT commit_no, xmin::text FROM filrouge.erasing WHERE lane = $1",
    &[Type::INT2],
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
/// Deletes the vacuum request of a lane, unless a newer commit has changed it and so requests another vacuum.
static DELETE_REQUEST: Sql = Sql::new(
    "DELETE FROM filrouge.erasing WHERE lane = $1 AND commit_no = $2",
    &[Type::INT2, Type::INT8],
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
    counts: watch::Sender<Counts>,
    /// Whether the ledger is being closed: then a vacuum need not wait for [`VACUUM_INTERVAL`].
    closing: AtomicBool,
    /// Wakes the watch, which then checks once whether a vacuum is due.
    pub(crate) wake: Notify,
}

/// The number of transactions of this process that erased contents.
#[derive(Default)]
struct Counts {
    committed: u64,
    /// Those after which a vacuum was attempted.
    attempted: u64,
}

impl Counts {
    const fn are_equal(&self) -> bool {
        self.committed == self.attempted
    }
}

impl Erasure {
    /// Records that a transaction has erased contents.
    pub(crate) fn record_erasure(&self) {
        self.counts.send_modify(|counts| counts.committed += 1);
        self.wake.notify_one();
    }

    /// The number of erasures of this process so far.
    pub(crate) fn count(&self) -> u64 {
        self.counts.borrow().committed
    }

    /// Whether an erasure of this process still waits for a vacuum attempt.
    fn is_waiting(&self) -> bool {
        !self.counts.borrow().are_equal()
    }

    /// Records that a vacuum was attempted after the first `count` erasures.
    pub(crate) fn record_attempt(&self, count: u64) {
        self.counts
            .send_modify(|counts| counts.attempted = counts.attempted.max(count));
    }

    /// Waits up to [`CLOSE_TIMEOUT`] until a vacuum was attempted after this process's newest erasure. Called when the
    /// ledger is closed.
    pub(crate) async fn wait_for_attempt(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
        let mut counts = self.counts.subscribe();
        let attempted = tokio::time::timeout(CLOSE_TIMEOUT, counts.wait_for(Counts::are_equal));
        if attempted.await.is_err() {
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
    lanes: Lanes,
    /// The earliest time of the next attempt.
    next_attempt: Option<Instant>,
    /// The thread of the newest attempt, until its result was read.
    running: Option<JoinHandle<VacuumResult>>,
    /// Whether a warning about a missing privilege was logged.
    warned: bool,
}

impl Vacuum {
    pub(crate) const fn new(erasure: Arc<Erasure>, lanes: Lanes) -> Self {
        Self {
            erasure,
            lanes,
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
        let close_waits = self.erasure.closing.load(Ordering::Acquire) && self.erasure.is_waiting();
        if !due || !close_waits && self.next_attempt.is_some_and(|next| now < next) {
            return;
        }
        self.next_attempt = Some(now + VACUUM_INTERVAL);
        let (connector, erasure, lanes) = (connector.clone(), self.erasure.clone(), self.lanes);
        let work = move || {
            let erased_before = erasure.count();
            let result = run_vacuum(&connector, lanes).unwrap_or_else(VacuumResult::Failed);
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

fn run_vacuum(connector: &Arc<Connector>, lanes: Lanes) -> Result<VacuumResult, Failure> {
    let driver = Driver::on_current_thread()?;
    let mut connection = driver.wait(connector.connect(&[]))?;
    connection.session.set_answer_timeout(VACUUM_TIMEOUT);
    driver.wait(vacuum_with(connector, &connection.session, lanes))
}

/// A vacuum request.
struct VacuumRequest {
    lane: Lane,
    /// The commit that erased contents, or another number that identifies the request.
    commit_no: i64,
    /// The transaction that wrote the request.
    xid: String,
}

/// Reads the vacuum requests of all lanes.
async fn read_requests(session: &Session, lanes: Lanes) -> Result<Vec<VacuumRequest>, Failure> {
    let read = query_lanes(session, &READ_REQUEST, lanes.iter());
    let rows = session.with_answer_timeout(read).await?;
    let requests = lanes.iter().zip(&rows).flat_map(|(lane, rows)| {
        rows.iter().map(move |row| {
            Ok(VacuumRequest {
                lane,
                commit_no: column(row, 0)?,
                xid: column(row, 1)?,
            })
        })
    });
    requests.collect()
}

/// In a distributed store, connects to the node that owns a lane: the transaction ids of the lane's rows are those of
/// this node.
async fn connect_to_owner(
    connector: &Arc<Connector>,
    session: &Session,
    lanes: Lanes,
    lane: Lane,
) -> Result<Option<Connection>, Failure> {
    if !session.is_distributed() {
        return Ok(None);
    }
    let owners = read_owners(session, lanes).await?;
    let Some(owner) = owners.get(lane.index()) else {
        return Ok(None);
    };
    owner.connector(connector).connect(&[]).await.map(Some)
}

async fn vacuum_with(
    connector: &Arc<Connector>,
    session: &Session,
    lanes: Lanes,
) -> Result<VacuumResult, Failure> {
    let requests = read_requests(session, lanes).await?;
    if requests.is_empty() {
        // Another server has vacuumed.
        return Ok(VacuumResult::Done);
    }
    let forbidden = session
        .with_answer_timeout(session.query(&FORBIDDEN_TABLES, &[]))
        .await?;
    let forbidden = forbidden.first().map(|row| column(row, 0)).transpose()?;
    if let Some(Some(tables)) = forbidden {
        return Ok(VacuumResult::Forbidden(tables));
    }
    for request in &requests {
        let owner = connect_to_owner(connector, session, lanes, request.lane).await?;
        let session = owner.as_ref().map_or(session, |owner| &owner.session);
        if !wait_until_unseen(session, &request.xid).await? {
            return Ok(VacuumResult::Blocked(
                "an older snapshot sees what was erased",
            ));
        }
    }
    let done = tokio::time::timeout(VACUUM_TIMEOUT, session.run(VACUUM_TABLES)).await;
    match done.map_err(|_| unavailable("PostgreSQL does not answer"))? {
        Err(error) if is_locked(&error) => return Ok(VacuumResult::Blocked("a table is locked")),
        done => done.map_err(|e| failure(&e))?,
    }
    for request in &requests {
        let params: [Param<'_>; 2] = [&sql_lane(request.lane), &request.commit_no];
        session
            .with_answer_timeout(session.query(&DELETE_REQUEST, &params))
            .await?;
    }
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
