//! The limit of `postgres`: a lean client that inserts the rows that the library writes for a turn. Each turn is a
//! transaction, sent in one round trip; each session has its own connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use anyhow::Result;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use super::server::{FIRST_SESSION, Store};
use crate::stats::{Leg, micros};
use crate::workload::{Rng, session_id};

/// Reads the rows of the only turn of a session, whose contents every written turn repeats.
const PATTERN: &str =
    "SELECT s.lane, s.pk, r.count, r.head, r.body, t.open, t.open_since, t.data, h.data, l.data
     FROM filrouge.session s
     JOIN filrouge.record r ON r.lane = s.lane AND r.session_pk = s.pk
     JOIN filrouge.turn t ON t.lane = s.lane AND t.session_pk = s.pk
     JOIN filrouge.head h ON h.lane = s.lane AND h.pk = s.pk
     CROSS JOIN LATERAL (SELECT data FROM filrouge.commit_log l WHERE l.lane = s.lane
         ORDER BY l.commit_no DESC LIMIT 1) l
     WHERE s.session_id = $1";
const RECORD: &str = "INSERT INTO filrouge.record (lane, session_pk, first_seq, count, head, body)
     VALUES ($1, $2, $3, $4, $5, $6)";
const TURN: &str =
    "INSERT INTO filrouge.turn (lane, session_pk, place, turn_id, open, open_since, data)
     VALUES ($1, $2, $3, $4::text::uuid, $5, $6, $7)";
const HEAD: &str = "UPDATE filrouge.head SET data = $3 WHERE lane = $1 AND pk = $2";
const COMMIT: &str = "INSERT INTO filrouge.commit_log (lane, commit_no, data) VALUES ($1, $2, $3)";

/// The number of the first commit, beyond those that the library has written.
const FIRST_COMMIT: i64 = 1_000_000;

type Param<'p> = &'p (dyn ToSql + Sync);

/// The values of the rows of one turn.
struct Pattern {
    lane: i16,
    pk: i64,
    /// The number of the turn's items.
    count: i64,
    record_head: Vec<u8>,
    record_body: Vec<u8>,
    open: bool,
    open_since: Option<i64>,
    turn: Vec<u8>,
    head: Vec<u8>,
    commit: Vec<u8>,
}

/// A session, and the connection that writes to it.
struct SessionWriter {
    client: Client,
    record: Statement,
    turn: Statement,
    head: Statement,
    commit: Statement,
    pattern: Pattern,
    /// The source of the turns' ids.
    rng: Rng,
}

impl SessionWriter {
    async fn connect(url: &str, session: usize) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        // An error of the connection also fails the statement that is waiting.
        tokio::spawn(connection);
        let id = session_id(session)?;
        let row = client.query_one(PATTERN, &[&id.as_str()]).await?;
        Ok(Self {
            record: client.prepare(RECORD).await?,
            turn: client.prepare(TURN).await?,
            head: client.prepare(HEAD).await?,
            commit: client.prepare(COMMIT).await?,
            client,
            pattern: Pattern {
                lane: row.try_get(0)?,
                pk: row.try_get(1)?,
                count: row.try_get(2)?,
                record_head: row.try_get(3)?,
                record_body: row.try_get(4)?,
                open: row.try_get(5)?,
                open_since: row.try_get(6)?,
                turn: row.try_get(7)?,
                head: row.try_get(8)?,
                commit: row.try_get(9)?,
            },
            rng: Rng::new(session as u64),
        })
    }

    /// Writes the `n`-th turn after the one that is repeated, in a transaction that ends with the statement `end`.
    async fn write_turn(&mut self, n: i64, commit_no: i64, end: &str) -> Result<()> {
        let turn_id = format!("{:016x}{:016x}", self.rng.next(), self.rng.next());
        let (client, p) = (&self.client, &self.pattern);
        let (first_seq, place) = (n * p.count + 1, (n + 1) << 8);
        let record: [Param<'_>; 6] = [
            &p.lane,
            &p.pk,
            &first_seq,
            &p.count,
            &p.record_head,
            &p.record_body,
        ];
        let turn: [Param<'_>; 7] = [
            &p.lane,
            &p.pk,
            &place,
            &turn_id,
            &p.open,
            &p.open_since,
            &p.turn,
        ];
        let head: [Param<'_>; 3] = [&p.lane, &p.pk, &p.head];
        let commit: [Param<'_>; 3] = [&p.lane, &commit_no, &p.commit];
        tokio::try_join!(
            biased;
            client.batch_execute("BEGIN"),
            client.execute(&self.record, &record),
            client.execute(&self.turn, &turn),
            client.execute(&self.head, &head),
            client.execute(&self.commit, &commit),
            client.batch_execute(end),
        )?;
        Ok(())
    }
}

/// Writes `turns` turns to each of the first `sessions` sessions.
pub(super) async fn run(store: &Store<'_>, sessions: usize, turns: usize) -> Result<Leg> {
    let commits = Arc::new(AtomicI64::new(FIRST_COMMIT));
    let mut tasks = Vec::new();
    for n in 0..sessions {
        let mut writer = SessionWriter::connect(&store.url(), FIRST_SESSION + n).await?;
        // The first transaction of a connection is slow. The library, too, has used its connection before.
        writer.write_turn(1, 0, "ROLLBACK").await?;
        let commits = commits.clone();
        tasks.push(async move {
            let mut latencies = Vec::with_capacity(turns);
            for n in (1..).take(turns) {
                let call_start = Instant::now();
                let commit_no = commits.fetch_add(1, Ordering::Relaxed);
                writer.write_turn(n, commit_no, "COMMIT").await?;
                latencies.push(micros(call_start));
            }
            anyhow::Ok(latencies)
        });
    }
    Leg::of_tasks(tasks).await
}
