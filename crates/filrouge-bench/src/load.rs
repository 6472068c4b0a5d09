//! A fast HTTP/1.1 client: fixed requests, keep-alive, responses delimited by their content-length.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stats::{Leg, micros};
use crate::workload::Turns;

/// Reads one response into `buffer`; returns its status.
pub(crate) async fn read_response(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<u16> {
    buffer.clear();
    let end = loop {
        ensure!(
            stream.read_buf(buffer).await? > 0,
            "the server closed the connection"
        );
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let head = std::str::from_utf8(&buffer[..end])?.to_ascii_lowercase();
    let length: usize = head
        .lines()
        .find_map(|l| l.strip_prefix("content-length:"))
        .context("a response without content-length")?
        .trim()
        .parse()?;
    while buffer.len() < end + length {
        ensure!(
            stream.read_buf(buffer).await? > 0,
            "the server closed the connection"
        );
    }
    head.split(' ')
        .nth(1)
        .context("a response without a status")?
        .parse()
        .context("a response without a status")
}

/// Posts turns over one connection; returns the latency of each in µs.
async fn post_turns(address: String, session: String, bodies: Vec<String>) -> Result<Vec<f64>> {
    let mut stream = TcpStream::connect(&address).await?;
    stream.set_nodelay(true)?;
    let requests: Vec<String> = bodies
        .iter()
        .map(|body| {
            format!(
                "POST /api/v1/sessions/{session}/turns HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        })
        .collect();
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut latencies = Vec::with_capacity(requests.len());
    for request in requests {
        let call_start = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        let status = read_response(&mut stream, &mut buffer).await?;
        latencies.push(micros(call_start));
        ensure!(
            status == 201,
            "status {status}: {}",
            String::from_utf8_lossy(&buffer)
        );
    }
    Ok(latencies)
}

/// Writes `turns` turns on each of `connections` connections, with one session per connection.
pub(crate) fn load(address: &str, connections: usize, turns: usize) -> Result<Leg> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let work: Vec<(String, Vec<String>)> = (0..connections)
            .map(|n| {
                let bodies = Turns::new(n as u64)
                    .next_turns(turns)
                    .iter()
                    .map(|t| t.body())
                    .collect();
                (format!("load-{connections}-{n:04}"), bodies)
            })
            .collect();
        let start = Instant::now();
        let tasks: Vec<_> = work
            .into_iter()
            .map(|(session, bodies)| tokio::spawn(post_turns(address.to_owned(), session, bodies)))
            .collect();
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await??);
        }
        Ok(Leg::new(latencies, start.elapsed()))
    })
}
