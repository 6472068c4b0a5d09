//! The newest 20 turns of a session: a copy in Redis compared with a plain list of the same bytes.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use filrouge_engine::ListTurns;
use filrouge_engine::scopes::{DurablePolicy, TieredLedger};
use filrouge_redis::RedisHot;
use filrouge_store::hot::{HotBounds, HotKey, HotStore, MemoryHot, RecentFill};
use filrouge_testbed::Redis;
use filrouge_types::{SessionId, SystemClock, TurnStatus};
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

use super::TASKS;
use crate::Setup;
use crate::product::Product;
use crate::report::{Line, Target};
use crate::stats::{Leg, Series, micros};
use crate::workload::{Turns, requests, session};

/// The number of turns requested.
const NEWEST: usize = 20;

fn newest() -> ListTurns {
    ListTurns {
        status: Some(TurnStatus::Finalized),
        limit: NEWEST,
        ..ListTurns::default()
    }
}

/// The object that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// The hot store.
    Hot,
    /// LRANGE, over one connection of the same client.
    List,
    /// The ledger's answer: the copy, after the ledger confirmed that it matches the history.
    Ledger,
    /// The hot store in memory.
    Memory,
}

const WHATS: [(What, &str); 4] = [
    (What::Hot, "RedisHot::recent"),
    (What::List, "LRANGE"),
    (What::Ledger, "TieredLedger::recent, over SQLite"),
    (What::Memory, "MemoryHot::recent"),
];

/// One leg of each kind per pair, by one task and by many.
pub(super) struct NewestMeasured {
    one: Vec<Series>,
    many: Vec<Series>,
}

impl Default for NewestMeasured {
    fn default() -> Self {
        let series = |tasks: &str| {
            let named = |what: &str| Series::new(format!("{what}, {tasks}"));
            WHATS.iter().map(|(_, what)| named(what)).collect()
        };
        Self {
            one: series("1 task"),
            many: series("32 tasks"),
        }
    }
}

/// Sessions in the ledger, their copies in Redis and in memory, and lists of the copies' records.
pub(super) struct CopiesBed {
    product: Product,
    scopes: Arc<TieredLedger>,
    redis: Arc<RedisHot>,
    memory: Arc<MemoryHot>,
    list: MultiplexedConnection,
    bytes: usize,
    _dir: TempDir,
}

fn key(product: &Product, session: &SessionId) -> HotKey {
    HotKey::new(product.ledger.store_id(), product.caller.tenant(), session)
}

fn list(session: &SessionId) -> String {
    format!("list:{}", session.as_str())
}

impl CopiesBed {
    /// Writes the sessions.
    pub(super) async fn fill(setup: &Setup, redis: &Redis) -> Result<Self> {
        let dir = setup.dir()?;
        let hot = super::open(&redis.url(), Duration::from_secs(24 * 60 * 60))?;
        let (product, scopes) =
            Product::open_in_front(dir.path(), hot.clone(), DurablePolicy::All).await?;
        let client = redis::Client::open(redis.url())?;
        let memory = MemoryHot::new(HotBounds::default(), 1 << 30, Arc::new(SystemClock));
        let mut bed = Self {
            product,
            scopes,
            redis: hot,
            memory: Arc::new(memory),
            list: client.get_multiplexed_async_connection().await?,
            bytes: 0,
            _dir: dir,
        };
        let mut texts = Turns::new(5);
        for n in 0..TASKS {
            bed.session(n, &mut texts, setup.size(100, NEWEST + 1))
                .await?;
        }
        Ok(bed)
    }

    async fn session(&mut self, n: usize, texts: &mut Turns, turns: usize) -> Result<()> {
        let id = session(n)?;
        let product = &self.product;
        for request in requests(&texts.many(turns))? {
            let written = product
                .engine
                .turns
                .start(&product.caller, id.clone(), request);
            written.await?;
        }
        self.scopes.settle().await;
        let key = key(product, &id);
        let Some(copy) = self.redis.recent(&key, turns).await? else {
            anyhow::bail!("the copy is missing");
        };
        ensure!(
            copy.all && copy.turns.len() == turns,
            "the copy is incomplete"
        );
        for turn in &copy.turns {
            let mut push = redis::cmd("RPUSH");
            push.arg(list(&id)).arg(&turn.record);
            let _: u64 = push.query_async(&mut self.list).await?;
        }
        let newest = copy.turns.iter().rev().take(NEWEST);
        self.bytes = newest.map(|turn| turn.record.len()).sum();
        let fill = RecentFill {
            as_of: copy.as_of,
            turns: copy.turns,
            all: true,
        };
        self.memory.fill(&key, fill).await?;
        Ok(())
    }

    /// One leg of each kind.
    pub(super) async fn pair(&self, setup: &Setup, measured: &mut NewestMeasured) -> Result<()> {
        for (n, (what, _)) in WHATS.iter().enumerate() {
            let calls = setup.size(2000, 50);
            measured.one[n].legs.push(self.leg(*what, 1, calls).await?);
            let calls = setup.size(500, 5);
            let leg = self.leg(*what, TASKS, calls).await?;
            measured.many[n].legs.push(leg);
        }
        Ok(())
    }

    /// One leg of `tasks` tasks, each with its own session and `calls` calls.
    async fn leg(&self, what: What, tasks: usize, calls: usize) -> Result<Leg> {
        let start = Instant::now();
        let mut running = Vec::new();
        for n in 0..tasks {
            let id = session(n)?;
            let (product, redis, memory) = (&self.product, self.redis.clone(), self.memory.clone());
            let (engine, caller) = (product.engine.clone(), product.caller.clone());
            let (key, mut list) = (key(product, &id), Listed::new(&self.list, &id));
            running.push(tokio::spawn(async move {
                let mut latencies = Vec::with_capacity(calls);
                for _ in 0..calls {
                    let call = Instant::now();
                    let found = match what {
                        What::Hot => redis.recent(&key, NEWEST).await?.map(|r| r.turns.len()),
                        What::List => Some(list.newest().await?),
                        What::Ledger => {
                            let recent = engine.turns.recent(&caller, &id, &newest()).await?;
                            recent.map(|r| black_box(r).turns.len())
                        }
                        What::Memory => memory.recent(&key, NEWEST).await?.map(|r| r.turns.len()),
                    };
                    latencies.push(micros(call));
                    ensure!(found == Some(NEWEST), "{found:?} turns");
                }
                Ok(latencies)
            }));
        }
        let mut latencies = Vec::new();
        for task in running {
            latencies.extend(task.await??);
        }
        Ok(Leg::new(latencies, start.elapsed()))
    }

    pub(super) fn notes(&self) -> Vec<String> {
        vec![format!(
            "newest turns: {NEWEST} of a session, {} kB, 32 sessions; one connection each for RedisHot and for LRANGE, multiplexed by the same client; loopback TCP",
            self.bytes / 1000
        )]
    }

    pub(super) async fn close(self) {
        self.product.close().await;
    }
}

/// A plain list.
struct Listed {
    connection: MultiplexedConnection,
    key: String,
}

impl Listed {
    fn new(connection: &MultiplexedConnection, session: &SessionId) -> Self {
        Self {
            connection: connection.clone(),
            key: list(session),
        }
    }

    async fn newest(&mut self) -> Result<usize> {
        let mut command = redis::cmd("LRANGE");
        command.arg(&self.key).arg(-(NEWEST as i64)).arg(-1);
        let found: Vec<Vec<u8>> = command.query_async(&mut self.connection).await?;
        Ok(black_box(found).len())
    }
}

impl NewestMeasured {
    pub(super) fn lines(&self) -> Vec<Line> {
        let at = |what: What| WHATS.iter().position(|(w, _)| *w == what).unwrap_or(0);
        let rate = |name: &str, series: &[Series], what: What, target: Target| {
            let pair = (&series[at(what)], &series[at(What::List)]);
            Line::series(name, pair, |l| l.per_s, target, "/s")
        };
        vec![
            rate(
                "newest 20 turns a second, 32 tasks",
                &self.many,
                What::Hot,
                Target::AtLeast(0.6),
            ),
            rate(
                "newest 20 turns a second, 1 task",
                &self.one,
                What::Hot,
                Target::AtLeast(0.6),
            ),
            rate(
                "the same, known to be the ledger's, 32 tasks",
                &self.many,
                What::Ledger,
                Target::Shown,
            ),
            rate(
                "the same, known to be the ledger's, 1 task",
                &self.one,
                What::Ledger,
                Target::Shown,
            ),
            rate(
                "the same from memory, 32 tasks",
                &self.many,
                What::Memory,
                Target::Shown,
            ),
            rate(
                "the same from memory, 1 task",
                &self.one,
                What::Memory,
                Target::Shown,
            ),
        ]
    }

    pub(super) fn series(&self) -> Vec<Series> {
        [self.many.clone(), self.one.clone()].concat()
    }
}
