//! A server is killed, loses its connections or freezes at each step of a transaction that writes to several lanes. All
//! or none of these writes are stored, each of them once, and another server writes to the same lanes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::contract::fixture::{anyone, cmd, text};
use filrouge_store::contract::lanes::session_in;
use filrouge_store::{Lane, Ledger, Outcome};
use filrouge_testbed::{Database, FaultProxy};
use filrouge_types::Failure;
use tokio::task::JoinHandle;

use crate::servers::callers::{
    Answer, PlannedWrite, TIMEOUT, answer, assert_intact, eventually, items,
};
use crate::servers::{block_on, open, separate_server_options, start_turn};
use crate::{database, one_lane};

/// How each transaction of a writer begins.
const BEGIN: &[u8] = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
/// The number of writes of the stalled transaction. They are in the lanes with even numbers, which belong to one writer.
/// The other lanes stay free.
const WRITES: usize = 5;
/// A transaction has more steps than this: its lanes and rows are read, and rows of at least five tables are written.
const MIN_STEPS: usize = 8;

type PendingAnswer = JoinHandle<Result<Outcome, Failure>>;

/// A server that is stalled in a transaction, and another server that is not.
struct Stall {
    database: Arc<Database>,
    /// The proxy between the stalled server and the database.
    proxy: FaultProxy,
    stalled: Arc<dyn Ledger>,
    healthy: Arc<dyn Ledger>,
    /// The number of statements of the transaction that have reached the database.
    step: usize,
    /// The writes of the transaction, with their sessions.
    group: Vec<(String, PlannedWrite)>,
    answers: Vec<PendingAnswer>,
}

/// Plans writes of each kind, each in another session.
async fn plan_group(ledger: &dyn Ledger, step: usize) -> Vec<(String, PlannedWrite)> {
    let lanes: Vec<Lane> = ledger.lanes().iter().step_by(2).collect();
    let mut group = Vec::new();
    for (n, lane) in lanes.iter().cycle().take(WRITES).enumerate() {
        let session = session_in(ledger.lanes(), *lane, &format!("step{step}-{n}-"));
        let write = match n % 3 {
            0 => PlannedWrite::Start {
                request: "question".to_owned(),
            },
            1 => PlannedWrite::Append {
                turn: start_turn(ledger, &session, "question").await.turn_id,
                words: vec!["one".to_owned(), "two".to_owned()],
            },
            _ => PlannedWrite::Finalize {
                turn: start_turn(ledger, &session, "question").await.turn_id,
                words: "answer".to_owned(),
            },
        };
        group.push((session, write));
    }
    group
}

/// A session of the first lane, which the transaction before each stalled one writes.
fn earlier_session(ledger: &dyn Ledger) -> String {
    session_in(ledger.lanes(), Lane::FIRST, "earlier")
}

fn spawn_write(
    ledger: &Arc<dyn Ledger>,
    (session, write): &(String, PlannedWrite),
) -> PendingAnswer {
    let (ledger, command) = (ledger.clone(), cmd(&anyone(), write.write(session)));
    tokio::spawn(async move { ledger.put(command).await })
}

impl Stall {
    /// Opens a ledger behind a proxy, and stalls it after `step` statements of a transaction. If the transaction has
    /// fewer statements, it is completed.
    async fn begin(
        database: &Arc<Database>,
        healthy: &Arc<dyn Ledger>,
        step: usize,
        settle_timeout: Duration,
    ) -> Self {
        let proxy = FaultProxy::before(database.tcp());
        let mut options = separate_server_options(&proxy.url(database.name()));
        options.settle_timeout = settle_timeout;
        let stalled = open(options);
        let group = plan_group(&**healthy, step).await;
        // While the writer waits for the answers to an earlier transaction, all writes of the group collect in its
        // queue. So they become one transaction.
        proxy.hold_after(BEGIN, 1);
        let earlier = PlannedWrite::Start {
            request: format!("before step {step}"),
        };
        let earlier = spawn_write(&stalled, &(earlier_session(&*stalled), earlier));
        eventually("the earlier transaction is held", || proxy.is_held()).await;
        let answers: Vec<_> = group.iter().map(|w| spawn_write(&stalled, w)).collect();
        eventually("all writes are queued", || {
            stalled.load().queued_writes == group.len() as u64
        })
        .await;
        proxy.hold_after(BEGIN, step);
        proxy.release();
        earlier.await.unwrap().unwrap();
        eventually("the transaction is held or completed", || {
            proxy.is_held() || answers.iter().all(JoinHandle::is_finished)
        })
        .await;
        let stall = Self {
            database: database.clone(),
            proxy,
            stalled,
            healthy: healthy.clone(),
            step,
            group,
            answers,
        };
        let is_settled = || match step {
            0 => true,
            _ => stall.locked_lanes() == stall.lanes(true).len() || stall.is_committed(),
        };
        eventually(
            "the lanes are locked or the transaction is committed",
            is_settled,
        )
        .await;
        stall
    }

    /// The number of lanes that transactions have locked.
    fn locked_lanes(&self) -> usize {
        let sql =
            "SELECT l.lane FROM filrouge.lane l JOIN pg_stat_activity a ON a.backend_xid = l.xmax
            WHERE a.datname = current_database()";
        self.database.sql(sql).len()
    }

    /// Whether the transaction is committed. Its first write creates a session.
    fn is_committed(&self) -> bool {
        let (session, _) = &self.group[0];
        let sql = format!("SELECT pk FROM filrouge.session WHERE session_id = '{session}'");
        !self.database.sql(&sql).is_empty()
    }

    /// The lanes of the group, or the others.
    fn lanes(&self, of_group: bool) -> Vec<Lane> {
        let lanes = self.healthy.lanes().iter().enumerate();
        let lanes = lanes.filter(|(n, _)| n.is_multiple_of(2) == of_group);
        lanes.map(|(_, lane)| lane).collect()
    }

    /// Starts a turn at the healthy server, in another session of each of these lanes.
    async fn write_other_sessions(&self, lanes: Vec<Lane>) {
        for lane in lanes {
            let prefix = format!("other{}-", self.step);
            let session = session_in(self.healthy.lanes(), lane, &prefix);
            assert!(!start_turn(&*self.healthy, &session, "r").await.replayed);
        }
    }

    /// Lets the stalled server continue. Its callers get their answers, which are no replays, and repeat their writes at
    /// the healthy server.
    async fn release_and_check(&mut self) {
        self.proxy.release();
        let mut answers = Vec::new();
        for pending in self.answers.drain(..) {
            let (first, replayed) = answer(pending.await.unwrap().unwrap());
            assert!(!replayed, "step {}", self.step);
            answers.push(first);
        }
        assert_eq!(self.repeat().await, (answers, true), "step {}", self.step);
        self.stalled.close().await;
    }

    /// Repeats all writes at the healthy server, as their callers do, and checks that each is stored once. Returns the
    /// answers, and whether the writes had been stored before.
    async fn repeat(&self) -> (Vec<Answer>, bool) {
        let (mut answers, mut replays) = (Vec::new(), BTreeSet::new());
        for (session, write) in &self.group {
            let repeat = || self.healthy.put(cmd(&anyone(), write.write(session)));
            let (first, replayed) = answer(repeat().await.unwrap());
            assert_eq!(answer(repeat().await.unwrap()), (first.clone(), true));
            answers.push(first);
            replays.insert(replayed);
            let mut texts = write.texts();
            if !matches!(write, PlannedWrite::Start { .. }) {
                texts.insert(0, "question".to_owned());
            }
            let stored = items(&*self.healthy, session).await;
            let stored: Vec<_> = stored.into_iter().map(|item| item.body.parts).collect();
            let expected: Vec<_> = texts.iter().map(|words| text(words)).collect();
            assert_eq!(stored, expected, "{write:?} at step {}", self.step);
        }
        let Some((replayed, true)) = replays.first().map(|first| (*first, replays.len() == 1))
        else {
            panic!("step {}: a part of the group was stored", self.step);
        };
        (answers, replayed)
    }
}

/// Runs `test` with a transaction that is stalled at each of these steps, up to the last step of a transaction. Returns
/// the results.
async fn at_steps<T>(
    database: Database,
    steps: impl Iterator<Item = usize>,
    settle_timeout: Duration,
    test: impl AsyncFn(Stall) -> T,
) -> Vec<T> {
    let database = Arc::new(database);
    let mut options = separate_server_options(&database.url());
    options.lock_timeout = TIMEOUT;
    let healthy = open(options);
    let mut results = Vec::new();
    for step in steps {
        let stall = Stall::begin(&database, &healthy, step, settle_timeout).await;
        if !stall.proxy.is_held() {
            assert!(step >= MIN_STEPS, "the transaction had {step} statements");
            assert!(stall.repeat().await.1);
            stall.stalled.close().await;
            break;
        }
        results.push(test(stall).await);
        assert_intact(&*healthy).await;
    }
    // The transaction before each stalled one was acknowledged.
    let acknowledged = items(&*healthy, &earlier_session(&*healthy)).await.len();
    assert_eq!(acknowledged, results.len() + 1);
    healthy.close().await;
    results
}

#[test]
fn a_server_that_is_killed_at_any_step_has_written_all_or_nothing() {
    block_on(async {
        let no_retries = Duration::from_millis(400);
        let test = async |mut stall: Stall| {
            stall.write_other_sessions(stall.lanes(false)).await;
            // The operating system closes the connections of a killed process.
            stall.proxy.cut();
            let (_, was_committed) = stall.repeat().await;
            stall.write_other_sessions(stall.lanes(true)).await;
            for answer in stall.answers.drain(..) {
                assert!(answer.await.unwrap().is_err());
            }
            // It does not connect again either.
            let Stall { proxy, stalled, .. } = stall;
            drop(proxy);
            stalled.close().await;
            was_committed
        };
        for database in [database(), one_lane::database()] {
            let mut committed = at_steps(database, 0.., no_retries, &test).await;
            // The last statement, a notification, follows `COMMIT`.
            assert_eq!(committed.pop(), Some(true));
            assert!(!committed.contains(&true), "{committed:?}");
        }
    });
}

#[test]
fn a_server_that_loses_its_connection_at_any_step_writes_once() {
    block_on(async {
        let test = async |mut stall: Stall| {
            stall.proxy.cut();
            // The other server writes first, so a group that is not committed yet gets later commits.
            for of_group in [false, true] {
                stall.write_other_sessions(stall.lanes(of_group)).await;
            }
            stall.release_and_check().await;
        };
        at_steps(database(), 0.., TIMEOUT, test).await;
    });
}

/// PostgreSQL ends a transaction after 5 s without a statement, so a test of every step would take long.
#[test]
fn the_lanes_of_a_frozen_server_become_free() {
    block_on(async {
        let test = async |mut stall: Stall| {
            let begun = Instant::now();
            let start = |lane| {
                let (healthy, step) = (stall.healthy.clone(), stall.step);
                let session = session_in(healthy.lanes(), lane, &format!("held{step}-"));
                tokio::spawn(async move { start_turn(&*healthy, &session, "r").await })
            };
            let waiting: Vec<_> = stall.lanes(true).into_iter().map(start).collect();
            stall.write_other_sessions(stall.lanes(false)).await;
            // On a very slow machine the transaction may have ended already.
            if !stall.is_committed() && begun.elapsed() < Duration::from_secs(3) {
                assert!(waiting.iter().all(|write| !write.is_finished()));
            }
            for write in waiting {
                let written = tokio::time::timeout(TIMEOUT, write).await;
                assert!(!written.unwrap().unwrap().replayed);
            }
            stall.release_and_check().await;
        };
        at_steps(database(), (1..).step_by(4), TIMEOUT, test).await;
    });
}
