//! What was erased goes from the tables: PostgreSQL leaves old versions of rows until they are vacuumed, which by itself
//! it may do much later (docs/format.md).
//!
//! The commit that erases notes its number in the store. Any server that sees the note vacuums the tables, and takes
//! it away when that was done: a process that ends in between leaves the rest to the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use filrouge_types::Failure;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::connect::{Connector, Linked};
use crate::error::{failure, is_locked, unavailable};
use crate::rows::column;
use crate::session::{Driver, Session, Sql};

/// Between two vacuums.
const EVERY: Duration = Duration::from_secs(60);
/// Until it is tried again when others were in the way.
const HELD_UP: Duration = Duration::from_secs(5);
/// How long closing waits for a vacuum.
const LAST: Duration = Duration::from_secs(5);
/// How often it is looked whether older snapshots have gone: most go soon…
const LOOKS: u32 = 30;
/// …and how long is between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long one may take.
const LONGEST: Duration = Duration::from_secs(3600);

/// Notes in the transaction of a commit that it erases contents.
pub(crate) static NOTE: Sql = Sql::new(
    "INSERT INTO filrouge.store (name, value) VALUES ('erasing', $1)
     ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value",
    &[Type::TEXT],
);
/// The note, and the transaction that has written it.
static NOTED: Sql = Sql::new(
    "SELECT value, xmin::text FROM filrouge.store WHERE name = 'erasing'",
    &[],
);
/// Whether a snapshot or a transaction that is older than a commit keeps what that has erased.
static SEEN: Sql = Sql::new(
    "SELECT EXISTS (SELECT FROM pg_stat_activity a
         WHERE (a.datname = current_database() OR a.datname IS NULL) AND a.pid <> pg_backend_pid()
         AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
         AND (age(a.backend_xmin) >= age($1::text::xid) OR age(a.backend_xid) >= age($1::text::xid)))",
    &[Type::TEXT],
);
/// Takes the note away; a newer one stays for the next vacuum.
static FORGET: Sql = Sql::new(
    "DELETE FROM filrouge.store WHERE name = 'erasing' AND value = $1",
    &[Type::TEXT],
);
/// The tables that erased contents stand in and this role may not vacuum: for those, VACUUM only warns.
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
/// Waits for locks as long as the connection does: a table that was skipped would count as done.
const VACUUM: &str = "VACUUM filrouge.record, filrouge.turn, filrouge.session, filrouge.item_key,
     filrouge.event, filrouge.session_agent, filrouge.draft, filrouge.draft_chunk, filrouge.checkpoint,
     filrouge.search_document, filrouge.search_vector, filrouge.search_session, filrouge.search_shard";

/// What this process has erased, for whoever vacuums and whoever waits for it.
#[derive(Default)]
pub(crate) struct Erasure {
    /// The newest commit of this process that erased and behind which no vacuum was tried yet; 0 for none.
    pending: watch::Sender<u64>,
    closing: AtomicBool,
    /// Has the watch look at once.
    pub(crate) wake: Notify,
}

impl Erasure {
    /// Takes note that commit `commit_no` erases.
    pub(crate) fn begin(&self, commit_no: u64) {
        self.pending.send_modify(|p| *p = commit_no.max(*p));
        self.wake.notify_one();
    }

    pub(crate) fn pending(&self) -> u64 {
        *self.pending.borrow()
    }

    /// A vacuum was tried behind all commits up to `commit_no`.
    pub(crate) fn settle(&self, commit_no: u64) {
        self.pending.send_modify(|p| {
            if *p <= commit_no {
                *p = 0;
            }
        });
    }

    /// Waits a while until a vacuum was tried behind what this process has erased.
    pub(crate) async fn finish(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
        let mut pending = self.pending.subscribe();
        let settled = tokio::time::timeout(LAST, pending.wait_for(|p| *p == 0)).await;
        if settled.is_err() {
            tracing::warn!(
                "the tables are not vacuumed yet after contents were erased; the next server does it"
            );
        }
    }
}

/// How a try has ended.
enum Tried {
    Done,
    /// Others were in the way.
    HeldUp(&'static str),
    /// The role may not vacuum these tables.
    Forbidden(String),
    Failed(Failure),
}

/// Has tables vacuumed after contents were erased from them.
pub(crate) struct Vacuum {
    erasure: Arc<Erasure>,
    /// Not before.
    next: Option<Instant>,
    running: Option<JoinHandle<Tried>>,
    /// Whether it was told that the role may not.
    told: bool,
}

impl Vacuum {
    pub(crate) const fn new(erasure: Arc<Erasure>) -> Self {
        Self {
            erasure,
            next: None,
            running: None,
            told: false,
        }
    }

    /// Begins a vacuum when the store says that one is `due` and none is running; on a thread of its own, as it may
    /// take long.
    pub(crate) fn look(&mut self, connector: &Arc<Connector>, due: bool) {
        if self.running.as_ref().is_some_and(|r| !r.is_finished()) {
            return;
        }
        if let Some(ended) = self.running.take() {
            let tried = ended.join();
            let failed = |_| Tried::Failed(unavailable("the vacuum ended by a panic"));
            self.tell(tried.unwrap_or_else(failed));
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
            let tried = vacuum(&connector).unwrap_or_else(Tried::Failed);
            erasure.settle(before);
            erasure.wake.notify_one();
            tried
        };
        let thread = std::thread::Builder::new().name("filrouge-vacuum".to_owned());
        match thread.spawn(work) {
            Ok(thread) => self.running = Some(thread),
            Err(error) => tracing::warn!(%error, "no thread to vacuum with; it is tried again"),
        }
    }

    fn tell(&mut self, tried: Tried) {
        match tried {
            Tried::Done => self.told = false,
            Tried::HeldUp(why) => {
                tracing::debug!(
                    why,
                    "the vacuum after an erasure is held up; it is tried again"
                );
                self.next = Some(Instant::now() + HELD_UP);
            }
            Tried::Forbidden(tables) if !self.told => {
                tracing::warn!(
                    %tables,
                    "contents were erased, but this role may not vacuum their tables, so that old versions stay in them: \
                     GRANT MAINTAIN on them (PostgreSQL 17), or let a server run with the role that owns them; \
                     until then their owner has to VACUUM them"
                );
                self.told = true;
            }
            Tried::Forbidden(_) => {}
            Tried::Failed(error) => {
                tracing::warn!(%error, "the tables could not be vacuumed after contents were erased; it is tried again");
            }
        }
    }
}

fn vacuum(connector: &Connector) -> Result<Tried, Failure> {
    let driver = Driver::own()?;
    let mut linked = driver.wait(connector.connect(&[]))?;
    linked.session.bound(LONGEST);
    driver.wait(vacuum_over(&linked))
}

async fn vacuum_over(linked: &Linked) -> Result<Tried, Failure> {
    let session = &linked.session;
    let noted = session.answered(session.query(&NOTED, &[])).await?;
    let Some(noted) = noted.first() else {
        // Another server has done it.
        return Ok(Tried::Done);
    };
    let (value, xid): (String, String) = (column(noted, 0)?, column(noted, 1)?);
    let forbidden = session.answered(session.query(&FORBIDDEN, &[])).await?;
    let forbidden = forbidden.first().map(|row| column(row, 0)).transpose()?;
    if let Some(Some(tables)) = forbidden {
        return Ok(Tried::Forbidden(tables));
    }
    if !is_unseen(session, &xid).await? {
        return Ok(Tried::HeldUp("an older snapshot sees what was erased"));
    }
    let done = tokio::time::timeout(LONGEST, session.run(VACUUM)).await;
    match done.map_err(|_| unavailable("PostgreSQL does not answer"))? {
        Err(error) if is_locked(&error) => return Ok(Tried::HeldUp("a table is locked")),
        done => done.map_err(|e| failure(&e))?,
    }
    session.answered(session.query(&FORGET, &[&value])).await?;
    Ok(Tried::Done)
}

/// Waits a while until nobody sees any more what transaction `xid` has erased; vacuum would leave it.
async fn is_unseen(session: &Session, xid: &str) -> Result<bool, Failure> {
    for _ in 0..LOOKS {
        let seen = session.answered(session.query(&SEEN, &[&xid])).await?;
        if let Some(row) = seen.first()
            && !column::<bool>(row, 0)?
        {
            return Ok(true);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(false)
}
