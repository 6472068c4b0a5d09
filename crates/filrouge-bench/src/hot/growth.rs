//! The memory of anonymous sessions, in Redis and in the process, while sessions begin and expire.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use filrouge_engine::history::History;
use filrouge_engine::scopes::DurablePolicy;
use filrouge_engine::{FinalizeTurn, StartTurn};
use filrouge_testbed::Redis;
use filrouge_types::{ErrorCode, Failure, JsonText, RequestId, SessionId};
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};

use super::TASKS;
use crate::Setup;
use crate::flat::resident_kb;
use crate::product::Product;
use crate::report::{Line, Target};
use crate::workload::{TurnText, Turns};

/// The number of turns in a session; then its task begins another session.
const TURNS_PER_SESSION: u64 = 20;
/// The time from the last write of a session until it expires.
const TTL: Duration = Duration::from_secs(10);
/// The number of turns after which a process holds as many sessions as it may (64 MiB of their rows).
const FULL_AFTER: u64 = 60_000;
/// The number of memory measurements.
const MARK_COUNT: u64 = 10;

/// Memory after this many turns.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Mark {
    turns: u64,
    seconds: f64,
    resident_kb: u64,
    pub(crate) redis_bytes: u64,
    redis_keys: u64,
}

/// The measurements.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Growth {
    pub(crate) marks: Vec<Mark>,
    /// Calls that were retried because the hot store had not answered.
    retried: u64,
}

/// Runs in a separate process, so that nothing else is counted. It reports its progress on stderr.
pub(super) fn measure(setup: &Setup, redis: &Redis, turns: u64) -> Result<Growth> {
    let turns = if setup.quick { turns.min(640) } else { turns };
    let mut child = Command::new(std::env::current_exe()?);
    child.args(["child-hot", "--url", &redis.url()]);
    child.args(["--turns", &turns.to_string(), "--dir"]);
    child.arg(&setup.root).stderr(Stdio::inherit());
    let out = child.output()?;
    ensure!(out.status.success(), "child-hot failed");
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// The state that all tasks share.
struct Tasks {
    history: History,
    turns: u64,
    started: AtomicU64,
    done: AtomicU64,
    retried: AtomicU64,
}

impl Tasks {
    /// The answer; `None` after a timeout of the hot store: the caller then retries the same call.
    async fn unless_unavailable<T>(&self, answer: Result<T, Failure>) -> Result<Option<T>> {
        match answer {
            Err(failure) if failure.code == ErrorCode::HotUnavailable => {
                self.retried.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100)).await;
                Ok(None)
            }
            answer => Ok(Some(answer?)),
        }
    }

    /// Writes one turn; reads the earlier ones, of which there must be `before`.
    async fn write_turn(&self, session: &SessionId, text: &TurnText, before: usize) -> Result<()> {
        let request_id = RequestId::new(text.request_id())?;
        let started = StartTurn {
            question_neutral: Some(JsonText::from_plain(&text.question)),
            ..StartTurn::new(request_id.clone())
        };
        let history = &self.history;
        let turn_id = loop {
            let answer = history.on_request_started(None, session.clone(), started.clone());
            if let Some(turn_id) = self.unless_unavailable(answer.await).await? {
                break turn_id;
            }
        };
        let conversation = loop {
            let answer = history.load_conversation_history(None, session, 20).await;
            if let Some(conversation) = self.unless_unavailable(answer).await? {
                break conversation;
            }
        };
        ensure!(
            conversation.len() == before,
            "{} of {before} earlier turns",
            conversation.len()
        );
        let finalized = FinalizeTurn {
            request_id: Some(request_id),
            answer_neutral: Some(JsonText::from_plain(&text.answer)),
            ..FinalizeTurn::default()
        };
        loop {
            let (session, request) = (session.clone(), finalized.clone());
            let answer = history.on_request_finalized(None, session, Some(turn_id), request, None);
            if self.unless_unavailable(answer.await).await?.is_some() {
                return Ok(());
            }
        }
    }

    /// Writes session after session, until all turns have been started.
    async fn write_sessions(&self, task: usize) -> Result<()> {
        let mut texts = Turns::new(task as u64);
        for n in 0_u64.. {
            let session = SessionId::new(format!("task-{task}-session-{n}"))?;
            for before in 0..TURNS_PER_SESSION {
                if self.started.fetch_add(1, Ordering::Relaxed) >= self.turns {
                    return Ok(());
                }
                self.write_turn(&session, &texts.next_turn(), before as usize)
                    .await?;
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// Measures memory now, and prints it.
async fn measure_mark(
    connection: &mut MultiplexedConnection,
    turns: u64,
    start: Instant,
) -> Result<Mark> {
    let info: String = redis::cmd("INFO")
        .arg("memory")
        .query_async(connection)
        .await?;
    let used = info.lines().find_map(|l| l.strip_prefix("used_memory:"));
    let mark = Mark {
        turns,
        seconds: start.elapsed().as_secs_f64(),
        resident_kb: resident_kb()?,
        redis_bytes: used.context("no used_memory in INFO")?.trim().parse()?,
        redis_keys: redis::cmd("DBSIZE").query_async(connection).await?,
    };
    let mut err = std::io::stderr().lock();
    writeln!(
        err,
        "{:>9} turns {:>7.1} s  process {:>6.1} MB  Redis {:>6.1} MB, {} keys",
        mark.turns,
        mark.seconds,
        mark.resident_kb as f64 / 1e3,
        mark.redis_bytes as f64 / 1e6,
        mark.redis_keys,
    )?;
    Ok(mark)
}

/// Writes the turns with tasks that check the earlier turns before each one.
pub(crate) async fn child(setup: &Setup, url: &str, turns: u64) -> Result<Growth> {
    let dir = setup.dir()?;
    let hot = super::open_hot_store(url, TTL)?;
    let (product, tiered) =
        Product::open_tiered(dir.path(), hot, DurablePolicy::Authenticated).await?;
    let tenant = product.caller.tenant().clone();
    let tasks = Arc::new(Tasks {
        history: History::new(product.engine.clone(), tenant),
        turns,
        started: AtomicU64::new(0),
        done: AtomicU64::new(0),
        retried: AtomicU64::new(0),
    });
    let client = redis::Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let start = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let tasks = tasks.clone();
        running.spawn(async move { tasks.write_sessions(task).await });
    }
    let mut marks = Vec::new();
    for n in 1..=MARK_COUNT {
        while tasks.done.load(Ordering::Relaxed) < turns * n / MARK_COUNT {
            let wait = tokio::time::sleep(Duration::from_millis(20));
            tokio::select! {
                () = wait => {}
                Some(ended) = running.join_next() => ended??,
            }
        }
        marks.push(measure_mark(&mut connection, turns * n / MARK_COUNT, start).await?);
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    drop(tiered);
    product.close().await;
    Ok(Growth {
        marks,
        retried: tasks.retried.load(Ordering::Relaxed),
    })
}

impl Growth {
    /// The first mark at which sessions expire as fast as new ones begin and the process holds its maximum, or else the
    /// first mark; and whether there is such a mark.
    fn first_settled_mark(&self) -> (Option<&Mark>, bool) {
        let is_late = |m: &&Mark| m.seconds >= 2.0 * TTL.as_secs_f64() && m.turns >= FULL_AFTER;
        let (_, before_last) = self.marks.split_last().unzip();
        let settled = before_last.and_then(|marks: &[Mark]| marks.iter().find(is_late));
        (settled.or(self.marks.first()), settled.is_some())
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let ((Some(first), is_settled), Some(last)) =
            (self.first_settled_mark(), self.marks.last())
        else {
            return Vec::new();
        };
        let target = match is_settled {
            true => Target::AtMost(1.2),
            false => Target::Shown,
        };
        let line = |label: &str, metric: fn(&Mark) -> f64, target: Target, unit: &str| {
            let label = format!("{label}, turn {} / turn {}", last.turns, first.turns);
            let (first, last) = (metric(first), metric(last));
            let shown = format!("{last:.1} {unit}, {first:.1} before");
            Line::number(&label, last / first, target, shown)
        };
        vec![
            line(
                "resident memory",
                |m| m.resident_kb as f64 / 1e3,
                target,
                "MB",
            ),
            line(
                "memory of Redis for a session that it holds",
                |m| m.redis_bytes as f64 / 1e3 / m.redis_keys.max(1) as f64,
                target,
                "kB",
            ),
            // The number of live sessions grows with the write rate.
            line(
                "memory of Redis",
                |m| m.redis_bytes as f64 / 1e6,
                Target::Shown,
                "MB",
            ),
        ]
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let last = self.marks.last();
        let rate = last.map_or(0.0, |m| m.turns as f64 / m.seconds);
        let points = self.marks.iter().map(|m| {
            format!(
                "{} {:.0}/{:.0}/{}",
                m.turns,
                m.resident_kb as f64 / 1e3,
                m.redis_bytes as f64 / 1e6,
                m.redis_keys
            )
        });
        vec![
            format!(
                "anonymous sessions: {TURNS_PER_SESSION} turns each, kept {} s, 32 tasks; a turn is on_request_started, the newest 20, on_request_finalized; {rate:.0} turns/s; {} calls retried",
                TTL.as_secs(),
                self.retried
            ),
            format!(
                "turns, MB of the process / MB of Redis / sessions in Redis: {}",
                points.collect::<Vec<_>>().join(", ")
            ),
        ]
    }
}
