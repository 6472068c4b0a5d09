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
use crate::workload::{Turns, requests, session_id};

/// The number of turns requested.
const NEWEST: usize = 20;

fn newest_query() -> ListTurns {
    ListTurns {
        status: Some(TurnStatus::Finalized),
        limit: NEWEST,
        ..ListTurns::default()
    }
}

/// The origin of the turns that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The hot store in Redis.
    Hot,
    /// A plain Redis list, by LRANGE over one connection of the same client.
    List,
    /// The tiered ledger: the copy in Redis, after the ledger confirmed that it matches the history.
    Ledger,
    /// The hot store in memory.
    Memory,
}

const ORIGINS: [(Origin, &str); 4] = [
    (Origin::Hot, "RedisHot::recent"),
    (Origin::List, "LRANGE"),
    (Origin::Ledger, "TieredLedger::recent, over SQLite"),
    (Origin::Memory, "MemoryHot::recent"),
];

/// The legs with each of [`ORIGINS`], by one task and by many.
pub(super) struct NewestSeries {
    one: Vec<Series>,
    many: Vec<Series>,
}

impl Default for NewestSeries {
    fn default() -> Self {
        let series = |tasks: &str| {
            let named = |label: &str| Series::new(format!("{label}, {tasks}"));
            ORIGINS.iter().map(|(_, label)| named(label)).collect()
        };
        Self {
            one: series("1 task"),
            many: series("32 tasks"),
        }
    }
}

/// Sessions in the ledger, their copies in Redis and in memory, and plain lists of the same records.
pub(super) struct Copies {
    product: Product,
    tiered: Arc<TieredLedger>,
    redis: Arc<RedisHot>,
    memory: Arc<MemoryHot>,
    list: MultiplexedConnection,
    /// The size of the newest turns of a session.
    bytes: usize,
    _dir: TempDir,
}

fn key(product: &Product, session: &SessionId) -> HotKey {
    HotKey::new(product.ledger.store_id(), product.caller.tenant(), session)
}

fn list_key(session: &SessionId) -> String {
    format!("list:{}", session.as_str())
}

impl Copies {
    /// Writes the sessions and their copies.
    pub(super) async fn write(setup: &Setup, redis: &Redis) -> Result<Self> {
        let dir = setup.dir()?;
        let hot = super::open_hot_store(&redis.url(), Duration::from_secs(24 * 60 * 60))?;
        let (product, tiered) =
            Product::open_tiered(dir.path(), hot.clone(), DurablePolicy::All).await?;
        let client = redis::Client::open(redis.url())?;
        let memory = MemoryHot::new(HotBounds::default(), 1 << 30, Arc::new(SystemClock));
        let mut copies = Self {
            product,
            tiered,
            redis: hot,
            memory: Arc::new(memory),
            list: client.get_multiplexed_async_connection().await?,
            bytes: 0,
            _dir: dir,
        };
        let mut texts = Turns::new(5);
        for n in 0..TASKS {
            copies
                .add_session(n, &mut texts, setup.size(100, NEWEST + 1))
                .await?;
        }
        Ok(copies)
    }

    async fn add_session(&mut self, n: usize, texts: &mut Turns, turns: usize) -> Result<()> {
        let id = session_id(n)?;
        let product = &self.product;
        for request in requests(&texts.next_turns(turns))? {
            let written = product
                .engine
                .turns
                .start(&product.caller, id.clone(), request);
            written.await?;
        }
        self.tiered.flush().await;
        let key = key(product, &id);
        let Some(copy) = self.redis.recent(&key, turns).await? else {
            anyhow::bail!("a session has no copy in Redis");
        };
        ensure!(
            copy.all && copy.turns.len() == turns,
            "the copy of a session in Redis is incomplete"
        );
        for turn in &copy.turns {
            let mut push = redis::cmd("RPUSH");
            push.arg(list_key(&id)).arg(&turn.record);
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

    /// Runs one leg with each of [`ORIGINS`].
    pub(super) async fn run_pair(&self, setup: &Setup, series: &mut NewestSeries) -> Result<()> {
        for (n, (origin, _)) in ORIGINS.iter().enumerate() {
            let calls = setup.size(2000, 50);
            series.one[n]
                .legs
                .push(self.run_leg(*origin, 1, calls).await?);
            let calls = setup.size(500, 5);
            let leg = self.run_leg(*origin, TASKS, calls).await?;
            series.many[n].legs.push(leg);
        }
        Ok(())
    }

    /// Runs one leg of `tasks` tasks, each with its own session and `calls` calls.
    async fn run_leg(&self, origin: Origin, tasks: usize, calls: usize) -> Result<Leg> {
        let mut running = Vec::new();
        for n in 0..tasks {
            let id = session_id(n)?;
            let (product, redis, memory) = (&self.product, self.redis.clone(), self.memory.clone());
            let (engine, caller) = (product.engine.clone(), product.caller.clone());
            let (key, mut list) = (key(product, &id), PlainList::new(&self.list, &id));
            running.push(async move {
                let mut latencies = Vec::with_capacity(calls);
                for _ in 0..calls {
                    let call_start = Instant::now();
                    let found = match origin {
                        Origin::Hot => redis.recent(&key, NEWEST).await?.map(|r| r.turns.len()),
                        Origin::List => Some(list.newest_count().await?),
                        Origin::Ledger => {
                            let recent = engine.turns.recent(&caller, &id, &newest_query()).await?;
                            recent.map(|r| black_box(r).turns.len())
                        }
                        Origin::Memory => memory.recent(&key, NEWEST).await?.map(|r| r.turns.len()),
                    };
                    latencies.push(micros(call_start));
                    ensure!(found == Some(NEWEST), "{found:?} turns instead of {NEWEST}");
                }
                anyhow::Ok(latencies)
            });
        }
        Leg::of_tasks(running).await
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

/// A Redis list with the records of a session.
struct PlainList {
    connection: MultiplexedConnection,
    key: String,
}

impl PlainList {
    fn new(connection: &MultiplexedConnection, session: &SessionId) -> Self {
        Self {
            connection: connection.clone(),
            key: list_key(session),
        }
    }

    async fn newest_count(&mut self) -> Result<usize> {
        let mut command = redis::cmd("LRANGE");
        command.arg(&self.key).arg(-(NEWEST as i64)).arg(-1);
        let found: Vec<Vec<u8>> = command.query_async(&mut self.connection).await?;
        Ok(black_box(found).len())
    }
}

impl NewestSeries {
    pub(super) fn lines(&self) -> Vec<Line> {
        let at = |origin: Origin| ORIGINS.iter().position(|(o, _)| *o == origin).unwrap_or(0);
        let rate = |name: &str, series: &[Series], origin: Origin, target: Target| {
            let pair = (&series[at(origin)], &series[at(Origin::List)]);
            Line::rate(name, pair, target)
        };
        vec![
            rate(
                "newest 20 turns a second, 32 tasks",
                &self.many,
                Origin::Hot,
                Target::AtLeast(0.6),
            ),
            rate(
                "newest 20 turns a second, 1 task",
                &self.one,
                Origin::Hot,
                Target::AtLeast(0.6),
            ),
            rate(
                "the same, confirmed by the ledger, 32 tasks",
                &self.many,
                Origin::Ledger,
                Target::Shown,
            ),
            rate(
                "the same, confirmed by the ledger, 1 task",
                &self.one,
                Origin::Ledger,
                Target::Shown,
            ),
            rate(
                "the same from memory, 32 tasks",
                &self.many,
                Origin::Memory,
                Target::Shown,
            ),
            rate(
                "the same from memory, 1 task",
                &self.one,
                Origin::Memory,
                Target::Shown,
            ),
        ]
    }

    pub(super) fn series(&self) -> Vec<Series> {
        [self.many.clone(), self.one.clone()].concat()
    }
}
