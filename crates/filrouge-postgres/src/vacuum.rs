//! Removes erased contents from the tables: PostgreSQL keeps old row versions until a vacuum, and autovacuum may
//! run much later (docs/format.md).
//!
//! A commit that erases contents writes its number into the store, as a note. Any server that sees the note vacuums the
//! tables, and then deletes it: if the process ends in between, the next one finishes.

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

/// The minimum interval between two vacuums.
const EVERY: Duration = Duration::from_secs(60);
/// The delay before a retry when other transactions were in the way.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long closing waits for a vacuum.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of checks whether older snapshots have ended; most end soon.
const SNAPSHOT_CHECKS: u32 = 30;
/// The delay between two of these checks.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// The time limit of a vacuum.
const VACUUM_TIMEOUT: Duration = Duration::from_secs(3600);

/// Records, in the transaction of a commit, that it erases contents.
pub(crate) static WRITE_NOTE: Sql = Sql::new(
    "INSERT INTO filrouge.store (name, value) VALUES ('erasing', $1)
     ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value",
    &[Type::TEXT],
);
/// The note, and the transaction that wrote it.
static READ_NOTE: Sql = Sql::new(
    "SELECT value, xmin::text FROM filrouge.store WHERE name = 'erasing'",
    &[],
);
/// Whether a snapshot or a transaction older than a given commit still sees the erased rows.
static IS_VISIBLE: Sql = Sql::new(
    "SELECT EXISTS (SELECT FROM pg_stat_activity a
         WHERE (a.datname = current_database() OR a.datname IS NULL) AND a.pid <> pg_backend_pid()
         AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
         AND (age(a.backend_xmin) >= age($1::text::xid) OR age(a.backend_xid) >= age($1::text::xid)))",
    &[Type::TEXT],
);
/// Deletes the note; a newer one is kept for the next vacuum.
static DELETE_NOTE: Sql = Sql::new(
    "DELETE FROM filrouge.store WHERE name = 'erasing' AND value = $1",
    &[Type::TEXT],
);
/// The tables with erased contents that this role may not vacuum: for those, VACUUM only warns.
static FORBIDDEN: Sql = Sql::new(
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
/// Waits for locks up to the connection's limit. It must not skip a locked table, which would count as vacuumed.
const VACUUM: &str = "VACUUM filrouge.record, filrouge.turn, filrouge.session, filrouge.item_key,
     filrouge.event, filrouge.session_agent, filrouge.draft, filrouge.draft_chunk, filrouge.checkpoint,
     filrouge.search_document, filrouge.search_vector, filrouge.search_session, filrouge.search_shard";

/// The erasures of this process, for the vacuum and for callers that wait for it.
#[derive(Default)]
pub(crate) struct Erasure {
    /// The newest commit of this process that erased contents and has had no vacuum attempt since; 0 for none.
    pending: watch::Sender<u64>,
    closing: AtomicBool,
    /// Wakes the watch for one check.
    pub(crate) wake: Notify,
}

impl Erasure {
    /// Records that commit `commit_no` erases contents.
    pub(crate) fn begin(&self, commit_no: u64) {
        self.pending.send_modify(|p| *p = commit_no.max(*p));
        self.wake.notify_one();
    }

    pub(crate) fn pending(&self) -> u64 {
        *self.pending.borrow()
    }

    /// Records that a vacuum was attempted after all commits up to `commit_no`.
    pub(crate) fn settle(&self, commit_no: u64) {
        self.pending.send_modify(|p| {
            if *p <= commit_no {
                *p = 0;
            }
        });
    }

    /// Waits a limited time for a vacuum attempt after this process's last erasure.
    pub(crate) async fn finish(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
        let mut pending = self.pending.subscribe();
        let settled = tokio::time::timeout(CLOSE_TIMEOUT, pending.wait_for(|p| *p == 0)).await;
        if settled.is_err() {
            tracing::warn!(
                "the tables are not vacuumed yet after contents were erased; the next server does it"
            );
        }
    }
}

/// The outcome of an attempt.
enum VacuumResult {
    Done,
    /// Other transactions were in the way.
    Blocked(&'static str),
    /// The role may not vacuum these tables.
    Forbidden(String),
    Failed(Failure),
}

/// Starts a vacuum of the tables after contents were erased from them.
pub(crate) struct Vacuum {
    erasure: Arc<Erasure>,
    /// The earliest time of the next attempt.
    next: Option<Instant>,
    running: Option<JoinHandle<VacuumResult>>,
    /// Whether the missing privilege was logged.
    warned: bool,
}

impl Vacuum {
    pub(crate) const fn new(erasure: Arc<Erasure>) -> Self {
        Self {
            erasure,
            next: None,
            running: None,
            warned: false,
        }
    }

    /// Starts a vacuum if the store says that one is `due` and none is running; on a separate thread, as it may take
    /// long.
    pub(crate) fn run_if_due(&mut self, connector: &Arc<Connector>, due: bool) {
        if self.running.as_ref().is_some_and(|r| !r.is_finished()) {
            return;
        }
        if let Some(ended) = self.running.take() {
            let result = ended.join();
            let failed = |_| VacuumResult::Failed(unavailable("the vacuum ended by a panic"));
            self.finish(result.unwrap_or_else(failed));
        }
        let now = Instant::now();
        let closes = self.erasure.closing.load(Ordering::Acquire) && self.erasure.pending() > 0;
        if !due || !closes && self.next.is_some_and(|next| now < next) {
            return;
        }
        self.next = Some(now + EVERY);
        let (connector, erasure) = (connector.clone(), self.erasure.clone());
        let work = move || {
            let before = erasure.pending();
            let result = vacuum(&connector).unwrap_or_else(VacuumResult::Failed);
            erasure.settle(before);
            erasure.wake.notify_one();
            result
        };
        let thread = std::thread::Builder::new().name("filrouge-vacuum".to_owned());
        match thread.spawn(work) {
            Ok(thread) => self.running = Some(thread),
            Err(error) => tracing::warn!(%error, "no thread to vacuum with; it will be retried"),
        }
    }

    fn finish(&mut self, result: VacuumResult) {
        match result {
            VacuumResult::Done => self.warned = false,
            VacuumResult::Blocked(why) => {
                tracing::debug!(
                    why,
                    "the vacuum after an erasure is blocked; it will be retried"
                );
                self.next = Some(Instant::now() + RETRY_AFTER);
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

fn vacuum(connector: &Connector) -> Result<VacuumResult, Failure> {
    let driver = Driver::on_current_thread()?;
    let mut connection = driver.wait(connector.connect(&[]))?;
    connection.session.set_answer_timeout(VACUUM_TIMEOUT);
    driver.wait(vacuum_over(&connection))
}

async fn vacuum_over(connection: &Connection) -> Result<VacuumResult, Failure> {
    let session = &connection.session;
    let note = session.answered(session.query(&READ_NOTE, &[])).await?;
    let Some(note) = note.first() else {
        // Another server has already vacuumed.
        return Ok(VacuumResult::Done);
    };
    let (value, xid): (String, String) = (column(note, 0)?, column(note, 1)?);
    let forbidden = session.answered(session.query(&FORBIDDEN, &[])).await?;
    let forbidden = forbidden.first().map(|row| column(row, 0)).transpose()?;
    if let Some(Some(tables)) = forbidden {
        return Ok(VacuumResult::Forbidden(tables));
    }
    if !is_unseen(session, &xid).await? {
        return Ok(VacuumResult::Blocked(
            "an older snapshot sees what was erased",
        ));
    }
    let done = tokio::time::timeout(VACUUM_TIMEOUT, session.run(VACUUM)).await;
    match done.map_err(|_| unavailable("PostgreSQL does not answer"))? {
        Err(error) if is_locked(&error) => return Ok(VacuumResult::Blocked("a table is locked")),
        done => done.map_err(|e| failure(&e))?,
    }
    session
        .answered(session.query(&DELETE_NOTE, &[&value]))
        .await?;
    Ok(VacuumResult::Done)
}

/// Waits a limited time until no transaction sees what `xid` has erased, because vacuum would keep those rows.
async fn is_unseen(session: &Session, xid: &str) -> Result<bool, Failure> {
    for _ in 0..SNAPSHOT_CHECKS {
        let visible = session
            .answered(session.query(&IS_VISIBLE, &[&xid]))
            .await?;
        if let Some(row) = visible.first()
            && !column::<bool>(row, 0)?
        {
            return Ok(true);
        }
        tokio::time::sleep(CHECK_EVERY).await;
    }
    Ok(false)
}
