//! The watch for what other servers commit: told by the database over a connection of its own, or looked for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use filrouge_store::rows::{LogRow, View};
use filrouge_types::{ErrorCode, Failure, Timestamp};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::clock::DatabaseClock;
use crate::connect::{Connector, Linked};
use crate::error::unavailable;
use crate::guard::Guard;
use crate::rows::{self, NEWEST_LOG, Rows, column};
use crate::session::{Driver, Sql, within};
use crate::transact::first_answer;
use crate::vacuum::{Erasure, Vacuum};

/// How often commits are looked for while somebody waits for them and nobody tells.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often they are looked for otherwise: for the anchor, and in case that a word was lost.
const REST: Duration = Duration::from_secs(1);
/// How long after a word more are waited for, so that many commits are looked at together.
const SETTLE: Duration = Duration::from_millis(2);
/// Between two tries to reach the server.
const RETRY_EVERY: Duration = Duration::from_millis(500);
/// Between two tries to be told while commits are looked for over another way.
const LISTEN_EVERY: Duration = Duration::from_secs(3);
/// After commits the sessions are compared with the log at most this often…
const COMPARE_EVERY: Duration = Duration::from_secs(1);
/// …and for at most this part of the time; also without commits, as nobody tells of other changes…
const COMPARE_SHARE: u32 = 50;
/// …but then not as often.
const COMPARE_AT_REST: Duration = Duration::from_secs(30);

/// How long being told is waited for where there is another way to look.
const FIRST: Duration = Duration::from_secs(1);

/// What the watch works with.
pub(crate) struct Follow {
    pub(crate) driver: Driver,
    /// To the server itself where there is a pooler before it; only then is anybody told.
    pub(crate) connector: Arc<Connector>,
    /// The pooler then: commits are looked for over it while the server itself cannot be reached.
    pub(crate) fallback: Option<Arc<Connector>>,
    pub(crate) guard: Weak<Guard>,
    pub(crate) erasure: Arc<Erasure>,
    pub(crate) clock: Option<Arc<DatabaseClock>>,
    pub(crate) answer_timeout: Duration,
}

/// When the sessions were compared, and at which commit.
struct Compared {
    at: Instant,
    every: Duration,
    commit_no: u64,
    /// Whether the log itself cannot be read.
    broken: bool,
}

/// What the watch knows over all of its connections.
struct Seen {
    compared: Compared,
    vacuum: Vacuum,
}

/// A connection, and the words that it is told.
type Listening = (Linked, Option<mpsc::UnboundedReceiver<u64>>);

impl Follow {
    /// Watches as long as the ledger is there.
    pub(crate) fn run(self) {
        let mut seen = Seen {
            compared: Compared {
                at: Instant::now(),
                every: COMPARE_EVERY,
                commit_no: 0,
                broken: false,
            },
            vacuum: Vacuum::new(self.erasure.clone()),
        };
        let mut told = false;
        while self.guard.strong_count() > 0 {
            if let Err(error) = self.follow(&mut seen) {
                if !told {
                    tracing::warn!(%error, "the watch for other servers' commits was interrupted; it is tried again");
                }
                told = true;
            } else {
                told = false;
            }
            std::thread::sleep(RETRY_EVERY);
        }
    }

    /// Watches over one connection, or over another one until the first can be had.
    fn follow(&self, seen: &mut Seen) -> Result<(), Failure> {
        let listen = listen(&self.connector);
        let listening = match &self.fallback {
            None => self.driver.wait(listen),
            Some(_) => {
                let listen = async { tokio::time::timeout(FIRST, listen).await };
                let listening = self.driver.wait(listen);
                listening.unwrap_or_else(|_| Err(unavailable("PostgreSQL does not answer")))
            }
        };
        let listening = match (listening, &self.fallback) {
            (Ok(listening), _) => listening,
            (Err(failure), None) => return Err(failure),
            (Err(failure), Some(fallback)) => {
                let linked = self.driver.wait(fallback.connect(&STATEMENTS))?;
                self.says(Some(&failure));
                let again = Again::new(&self.connector);
                match self.watch((linked, None), fallback, Some(again), seen)? {
                    Some(listening) => listening,
                    None => return Ok(()),
                }
            }
        };
        let nobody = unavailable("the direct URL leads to a pooler too");
        let told = self.fallback.is_none() || listening.1.is_some();
        self.says((!told).then_some(&nobody));
        self.watch(listening, &self.connector, None, seen).map(drop)
    }

    fn says(&self, why: Option<&Failure>) {
        if let Some(guard) = self.guard.upgrade() {
            guard.follows(why);
        }
    }

    /// Watches over one connection, until it is lost or the ledger is gone, or what was tried `again` can be had.
    fn watch(
        &self,
        (mut linked, mut words): Listening,
        connector: &Arc<Connector>,
        mut again: Option<Again>,
        seen: &mut Seen,
    ) -> Result<Option<Listening>, Failure> {
        linked.session.bound(self.answer_timeout);
        let mut asked: Option<Instant> = None;
        let mut due = false;
        loop {
            let Some(guard) = self.guard.upgrade() else {
                return Ok(None);
            };
            self.look(&linked, &guard, &mut seen.compared)?;
            if asked.is_none_or(|asked| asked.elapsed() >= REST) {
                due = self.ask(&linked, &guard)?;
                asked = Some(Instant::now());
            }
            seen.vacuum.look(connector, due);
            let waited_for = guard.commits().receiver_count() > 0;
            drop(guard);
            let pause = match (&words, waited_for) {
                (None, true) => LOOK_EVERY,
                _ => REST,
            };
            let told = words.as_mut().filter(|_| waited_for);
            // Whoever is told and whoever has waited does the same.
            let woken = self.driver.wait(async {
                tokio::select! {
                    () = self.erasure.wake.notified() => true,
                    _ = tokio::time::timeout(pause, self.news(told)) => false,
                }
            });
            if woken {
                asked = None;
            }
            if linked.session.client().is_closed() {
                return Err(unavailable("the connection was lost"));
            }
            let again = again.as_mut().map(|again| again.look());
            if let Some(Some(listening)) = again.map(|look| self.driver.wait(look)) {
                return Ok(Some(listening));
            }
        }
    }

    /// Asks for what stands beside the log: the schema; whether something was erased that is not vacuumed yet.
    fn ask(&self, linked: &Linked, guard: &Guard) -> Result<bool, Failure> {
        let pending = self.erasure.pending();
        let asked = linked.session.answered(linked.session.query(&BESIDE, &[]));
        let rows = self.driver.wait(asked)?;
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

    /// Waits for the word of a commit that this process does not know yet, and for those that come right behind it.
    async fn news(&self, told: Option<&mut mpsc::UnboundedReceiver<u64>>) {
        let Some(told) = told else {
            return std::future::pending().await;
        };
        while let Some(commit_no) = told.recv().await {
            let known = self.guard.upgrade().map(|g| g.position().commit_no);
            if known.is_none_or(|known| commit_no > known) {
                tokio::time::sleep(SETTLE).await;
                return;
            }
        }
        // The connection is gone; the next question over it says so.
    }

    fn look(&self, linked: &Linked, guard: &Guard, compared: &mut Compared) -> Result<(), Failure> {
        let rows = Rows {
            session: &linked.session,
            driver: &self.driver,
            seen: rows::Seen::default(),
        };
        if let Some(clock) = &self.clock {
            compare_clocks(&rows, clock)?;
        }
        let known = guard.newest();
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY{}",
            linked.local
        );
        let run = |sql: &str| {
            let patience = first_answer(self.answer_timeout);
            self.driver.wait(within(patience, linked.session.run(sql)))
        };
        run(&begin)?;
        let looked = look_at(&rows, guard, compared, known);
        run("ROLLBACK")?;
        looked
    }
}

/// Tries again to be told.
struct Again {
    connector: Arc<Connector>,
    next: Instant,
    trying: Option<JoinHandle<Result<Listening, Failure>>>,
}

impl Again {
    fn new(connector: &Arc<Connector>) -> Self {
        Self {
            connector: connector.clone(),
            next: Instant::now() + LISTEN_EVERY,
            trying: None,
        }
    }

    /// What has come of it. It goes on beside whatever else is waited for.
    async fn look(&mut self) -> Option<Listening> {
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

fn look_at(
    rows: &Rows<'_>,
    guard: &Guard,
    compared: &mut Compared,
    known: Option<LogRow>,
) -> Result<(), Failure> {
    match rows.newest_log() {
        Ok(found) => guard.follow(rows, known, found.as_ref(), Vec::new())?,
        // The comparison names it.
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

/// Asks the server for its time.
pub(crate) fn compare_clocks(rows: &Rows<'_>, clock: &DatabaseClock) -> Result<(), Failure> {
    let asked = std::time::Instant::now();
    if let Some(row) = rows.one(&NOW, &[])? {
        clock.hear(asked, Timestamp::from_micros(column(&row, 0)?));
    }
    Ok(())
}

/// What is asked again and again.
static STATEMENTS: [&Sql; 3] = [&NEWEST_LOG, &NOW, &BESIDE];

/// The schema, and whether contents were erased that are not vacuumed yet.
static BESIDE: Sql = Sql::new(
    "SELECT (SELECT value FROM filrouge.store WHERE name = 'schema'),
            EXISTS (SELECT FROM filrouge.store WHERE name = 'erasing')",
    &[],
);

/// The server's clock, in microseconds.
pub(crate) static NOW: Sql = Sql::new(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    &[],
);
