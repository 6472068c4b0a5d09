//! Resuming a call over HTTP on PostgreSQL, compared with one read and one write of the same database.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use filrouge_types::SessionId;
use serde_json::Value;
use tokio_postgres::NoTls;
use tokio_postgres::types::ToSql;

use super::write_session;
use crate::Setup;
use crate::http::{Server, binary};
use crate::load::HttpClient;
use crate::postgres::server::DurableServer;
use crate::product::Product;
use crate::report::{Line, Section, Target};
use crate::stats::{Leg, Series, micros};

/// The measured operations, which alternate.
const OPERATIONS: [&str; 6] = [
    "HTTP on PostgreSQL: resume",
    "HTTP on PostgreSQL: release",
    "HTTP on PostgreSQL: lease alone (write)",
    "HTTP on PostgreSQL: newest checkpoint (read)",
    "SELECT of a session by its key, prepared, over the socket",
    "SELECT, then COMMIT of one updated row, over the socket",
];
/// The path of the call's session.
const SESSION_PATH: &str = "/api/v1/sessions/call-over-http";
// Positions in `OPERATIONS`.
const RESUME: usize = 0;
const WRITE: usize = 2;
const READ: usize = 3;
const SELECT: usize = 4;
const COMMIT: usize = 5;

/// Sends a request; returns its duration in µs, and the JSON of the response.
async fn call(http: &mut HttpClient, method: &str, path: &str, body: &str) -> Result<(f64, Value)> {
    let request = http.request(method, path, body);
    let duration = http.send(&request).await?;
    Ok((duration, serde_json::from_slice(http.body())?))
}

/// The number of SQL statements that the server has sent so far.
async fn statement_count(http: &mut HttpClient) -> Result<u64> {
    let request = http.request("GET", "/metrics", "");
    http.send(&request).await?;
    let line = std::str::from_utf8(http.body())?
        .lines()
        .find_map(|line| line.strip_prefix("filrouge_store_statements_total "));
    Ok(line
        .context("/metrics lacks filrouge_store_statements_total")?
        .trim()
        .parse()?)
}

pub(super) async fn measure(
    setup: &Setup,
    postgres: &DurableServer,
    section: &mut Section,
) -> Result<()> {
    let store = postgres.store();
    let dir = store.anchor_dir()?;
    let session = SessionId::new("call-over-http")?;
    let product = Product::open_postgres(&store.url(), dir.path()).await?;
    let last_seq = write_session(&product, &session, 100).await?;
    let tenant = product.caller.tenant().clone();
    let lane = product.ledger.lanes().of_session(&tenant, &session);
    product.close().await;
    let lane = i16::try_from(lane.number())?;
    let key: [&(dyn ToSql + Sync); 3] = [&lane, &tenant.as_str(), &session.as_str()];
    let server = Server::start_on(&binary(setup)?, dir, &store.url())?;
    let mut http = HttpClient::connect(&server.address).await?;
    let (client, connection) = tokio_postgres::connect(&store.url(), NoTls).await?;
    let connection = tokio::spawn(connection);
    client
        .batch_execute("CREATE TABLE written (pk bigint PRIMARY KEY, value bigint); INSERT INTO written VALUES (1, 0)")
        .await?;
    let read = client
        .prepare(
            "SELECT * FROM filrouge.session WHERE lane = $1 AND tenant_id = $2 AND session_id = $3",
        )
        .await?;
    let write = client
        .prepare("UPDATE written SET value = value + 1 WHERE pk = 1")
        .await?;
    let mut series = OPERATIONS.map(Series::new);
    for pair in 0..setup.pairs {
        let mut times: [Vec<f64>; OPERATIONS.len()] = Default::default();
        let start = Instant::now();
        for round in 0..setup.size(200, 5) {
            let holder = format!("holder-{pair}-{round}");
            let durations = call_routes(&mut http, &holder, last_seq).await?;
            for (times, duration) in times.iter_mut().zip(durations) {
                times.push(duration);
            }
            let call_start = Instant::now();
            let row = client.query_one(&read, &key).await?;
            times[SELECT].push(micros(call_start));
            ensure!(row.len() > 5, "{row:?}");
            let call_start = Instant::now();
            client.query_one(&read, &key).await?;
            client.execute(&write, &[]).await?;
            times[COMMIT].push(micros(call_start));
        }
        let wall_time = start.elapsed();
        for (series, times) in series.iter_mut().zip(times) {
            series.legs.push(Leg::new(times, wall_time));
        }
    }
    let statements = count_resume_statements(&mut http, last_seq).await?;
    drop(client);
    drop(server);
    connection.await.context("the connection's task")??;
    section.lines.extend(lines(&series));
    section.series.extend(series);
    section.notes.push(format!(
        "statements of a resume over HTTP: {statements}; BEGIN and COMMIT are not counted"
    ));
    section.notes.push(
        "over HTTP: one keep-alive connection, known_seq is the newest seq; the operations alternate call by call; SELECT, then an UPDATE that commits: tokio-postgres, one connection over the same socket".to_owned(),
    );
    Ok(())
}

/// The fewest statements of several resumes, because the server's background work adds some.
async fn count_resume_statements(http: &mut HttpClient, last_seq: u64) -> Result<u64> {
    let mut fewest = u64::MAX;
    for round in 0..5 {
        let holder = format!("counted-{round}");
        let body = format!(r#"{{"holder":"{holder}","known_seq":{last_seq}}}"#);
        let before = statement_count(http).await?;
        let (_, resumed) = call(http, "POST", &format!("{SESSION_PATH}/resume"), &body).await?;
        fewest = fewest.min(statement_count(http).await? - before);
        release(http, &holder, &resumed).await?;
    }
    Ok(fewest)
}

/// Releases the lease that an answer describes; returns the duration in µs.
async fn release(http: &mut HttpClient, holder: &str, lease: &Value) -> Result<f64> {
    let fence = lease["fence"].as_u64().context("no fence")?;
    let path = format!("{SESSION_PATH}/lease?holder={holder}&fence={fence}");
    Ok(call(http, "DELETE", &path, "").await?.0)
}

/// Sends one request to each route; returns their durations in µs, in the order of [`OPERATIONS`].
async fn call_routes(http: &mut HttpClient, holder: &str, last_seq: u64) -> Result<[f64; 4]> {
    let body = format!(r#"{{"holder":"{holder}","known_seq":{last_seq}}}"#);
    let (resume, resumed) = call(http, "POST", &format!("{SESSION_PATH}/resume"), &body).await?;
    ensure!(resumed["stale"] == false, "{resumed}");
    let released = release(http, holder, &resumed).await?;
    let body = format!(r#"{{"holder":"{holder}"}}"#);
    let (leased, granted) = call(http, "POST", &format!("{SESSION_PATH}/lease"), &body).await?;
    release(http, holder, &granted).await?;
    let (read, _) = call(
        http,
        "GET",
        &format!("{SESSION_PATH}/checkpoints/latest"),
        "",
    )
    .await?;
    Ok([resume, released, leased, read])
}

fn lines(series: &[Series]) -> Vec<Line> {
    let line = |label: &str, operation: usize, limit: usize, target: Target| {
        Line::p50(label, (&series[operation], &series[limit]), target)
    };
    vec![
        line(
            "resume over HTTP / SELECT, UPDATE and COMMIT, p50",
            RESUME,
            COMMIT,
            Target::AtMost(1.8),
        ),
        line(
            "its write (a lease) / SELECT, UPDATE and COMMIT, p50",
            WRITE,
            COMMIT,
            Target::Shown,
        ),
        line(
            "its read (the checkpoint) / SELECT, p50",
            READ,
            SELECT,
            Target::Shown,
        ),
    ]
}
