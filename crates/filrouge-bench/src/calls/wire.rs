//! Resuming a call over HTTP on PostgreSQL, compared with one indexed read from the same server.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use filrouge_types::SessionId;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_postgres::NoTls;

use super::fill;
use crate::Setup;
use crate::http::{Server, binary};
use crate::load::answer;
use crate::postgres::bed::DurableServer;
use crate::product::Product;
use crate::report::{Line, Section, Target};
use crate::stats::{Leg, Series, micros};

/// The measured operations, which alternate.
const LEGS: [&str; 7] = [
    "HTTP on PostgreSQL: resume",
    "HTTP on PostgreSQL: release",
    "HTTP on PostgreSQL: lease alone (write)",
    "HTTP on PostgreSQL: newest checkpoint (read)",
    "HTTP on PostgreSQL: session (one indexed read)",
    "SELECT of a session by its key, prepared, over the socket",
    "SELECT, then COMMIT of one updated row, over the socket",
];
/// The path of the call's session.
const AT: &str = "/api/v1/sessions/call-over-http";
const RESUME: usize = 0;
const WRITE: usize = 2;
const READ: usize = 3;
const SESSION: usize = 4;
const SELECT: usize = 5;
const COMMIT: usize = 6;

/// A keep-alive connection.
struct Wire {
    stream: TcpStream,
    address: String,
    buffer: Vec<u8>,
}

impl Wire {
    async fn to(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            address: address.to_owned(),
            buffer: Vec::with_capacity(64 << 10),
        })
    }

    /// Makes a request; returns how long it took, and the answer.
    async fn call(&mut self, method: &str, path: &str, body: &str) -> Result<(f64, Value)> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let call = Instant::now();
        self.stream.write_all(request.as_bytes()).await?;
        let status = answer(&mut self.stream, &mut self.buffer).await?;
        let took = micros(call);
        let text = String::from_utf8_lossy(&self.buffer);
        ensure!(status < 300, "{method} {path}: {text}");
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok((took, serde_json::from_str(body)?))
    }

    /// The number of statements that the server has sent so far.
    async fn statements(&mut self) -> Result<u64> {
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {}\r\n\r\n", self.address);
        self.stream.write_all(request.as_bytes()).await?;
        answer(&mut self.stream, &mut self.buffer).await?;
        let text = String::from_utf8_lossy(&self.buffer);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("filrouge_store_statements_total "));
        Ok(line.context("no count of statements")?.trim().parse()?)
    }
}

pub(super) async fn measure(
    setup: &Setup,
    bed: &DurableServer,
    section: &mut Section,
) -> Result<()> {
    let store = bed.store();
    let dir = store.anchored_in()?;
    let session = SessionId::new("call-over-http")?;
    let product = Product::open_postgres(&store.url(), dir.path()).await?;
    let last = fill(&product, &session, 100).await?;
    product.close().await;
    let server = Server::start_on(&binary(setup)?, None, dir, &store.url())?;
    let mut wire = Wire::to(&server.address).await?;
    let (client, connection) = tokio_postgres::connect(&store.url(), NoTls).await?;
    let connected = tokio::spawn(connection);
    client
        .batch_execute("CREATE TABLE written (pk bigint PRIMARY KEY, value bigint); INSERT INTO written VALUES (1, 0)")
        .await?;
    let read = client
        .prepare("SELECT * FROM filrouge.session WHERE tenant_id = $1 AND session_id = $2")
        .await?;
    let write = client
        .prepare("UPDATE written SET value = value + 1 WHERE pk = 1")
        .await?;
    let mut series = LEGS.map(Series::new);
    for pair in 0..setup.pairs {
        let mut times: [Vec<f64>; LEGS.len()] = Default::default();
        let begun = Instant::now();
        for round in 0..setup.size(200, 5) {
            let holder = format!("holder-{pair}-{round}");
            let durations = one(&mut wire, &holder, last).await?;
            for (times, took) in times.iter_mut().zip(durations) {
                times.push(took);
            }
            let call = Instant::now();
            let row = client
                .query_one(&read, &[&"default", &session.as_str()])
                .await?;
            times[SELECT].push(micros(call));
            ensure!(row.len() > 5, "{row:?}");
            let call = Instant::now();
            client
                .query_one(&read, &[&"default", &session.as_str()])
                .await?;
            client.execute(&write, &[]).await?;
            times[COMMIT].push(micros(call));
        }
        let wall = begun.elapsed();
        for (series, times) in series.iter_mut().zip(times) {
            series.legs.push(Leg::new(times, wall));
        }
    }
    let statements = statements(&mut wire, last).await?;
    drop(client);
    drop(server);
    connected.await.context("the connection")??;
    section.lines.extend(lines(&series));
    section.series.extend(series);
    section.notes.push(format!(
        "statements of a resume over HTTP: {statements}; BEGIN and COMMIT are not counted"
    ));
    section.notes.push(
        "over HTTP: one kept connection, known_seq is the newest; legs in turns, one call each; the SELECT is tokio-postgres, one connection over the same socket".to_owned(),
    );
    Ok(())
}

/// The fewest statements of several resumes, because the server's own work adds some.
async fn statements(wire: &mut Wire, last: u64) -> Result<u64> {
    let mut fewest = u64::MAX;
    for round in 0..5 {
        let holder = format!("counted-{round}");
        let body = format!(r#"{{"holder":"{holder}","known_seq":{last}}}"#);
        let before = wire.statements().await?;
        let (_, resumed) = wire.call("POST", &format!("{AT}/resume"), &body).await?;
        fewest = fewest.min(wire.statements().await? - before);
        release(wire, &holder, &resumed).await?;
    }
    Ok(fewest)
}

/// Releases the lease in an answer; returns how long it took.
async fn release(wire: &mut Wire, holder: &str, lease: &Value) -> Result<f64> {
    let fence = lease["fence"].as_u64().context("no fence")?;
    let path = format!("{AT}/lease?holder={holder}&fence={fence}");
    Ok(wire.call("DELETE", &path, "").await?.0)
}

/// One request per route; returns how long each took, in the order of [`LEGS`].
async fn one(wire: &mut Wire, holder: &str, last: u64) -> Result<[f64; 5]> {
    let body = format!(r#"{{"holder":"{holder}","known_seq":{last}}}"#);
    let (resume, resumed) = wire.call("POST", &format!("{AT}/resume"), &body).await?;
    ensure!(resumed["stale"] == false, "{resumed}");
    let released = release(wire, holder, &resumed).await?;
    let body = format!(r#"{{"holder":"{holder}"}}"#);
    let (leased, granted) = wire.call("POST", &format!("{AT}/lease"), &body).await?;
    release(wire, holder, &granted).await?;
    let (read, _) = wire
        .call("GET", &format!("{AT}/checkpoints/latest"), "")
        .await?;
    let (session, _) = wire.call("GET", AT, "").await?;
    Ok([resume, released, leased, read, session])
}

fn lines(series: &[Series]) -> Vec<Line> {
    let line = |what: &str, of: usize, limit: usize, target: Target| {
        Line::series(what, (&series[of], &series[limit]), |l| l.p50, target, "µs")
    };
    vec![
        line(
            "resume over HTTP / one indexed read, p50",
            RESUME,
            SELECT,
            Target::AtMost(2.0),
        ),
        line(
            "resume over HTTP / one indexed read over HTTP, p50",
            RESUME,
            SESSION,
            Target::Shown,
        ),
        line(
            "resume over HTTP / SELECT and COMMIT, p50",
            RESUME,
            COMMIT,
            Target::Shown,
        ),
        line(
            "its write (a lease) / SELECT and COMMIT, p50",
            WRITE,
            COMMIT,
            Target::Shown,
        ),
        line(
            "its read (the checkpoint) / one indexed read, p50",
            READ,
            SELECT,
            Target::Shown,
        ),
        line(
            "its read (the checkpoint) / one indexed read over HTTP, p50",
            READ,
            SESSION,
            Target::Shown,
        ),
    ]
}
