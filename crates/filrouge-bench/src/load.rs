//! A fast HTTP/1.1 client: fixed requests, keep-alive, responses delimited by their content-length.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stats::{Leg, micros};
use crate::workload::Turns;

/// A client with one connection.
pub(crate) struct HttpClient {
    stream: TcpStream,
    address: String,
    /// The newest response.
    buffer: Vec<u8>,
    /// Where its body begins in `buffer`.
    body_start: usize,
}

impl HttpClient {
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            address: address.to_owned(),
            buffer: Vec::with_capacity(64 << 10),
            body_start: 0,
        })
    }

    /// A request as it is sent.
    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
    }

    /// Sends a request, and receives its response; returns the duration in µs.
    ///
    /// # Errors
    /// When the status is neither 200 nor 201.
    pub(crate) async fn send(&mut self, request: &str) -> Result<f64> {
        let call_start = Instant::now();
        self.stream.write_all(request.as_bytes()).await?;
        let status = self.receive().await?;
        let duration = micros(call_start);
        ensure!(
            matches!(status, 200 | 201),
            "{}: {}",
            request.lines().next().unwrap_or_default(),
            String::from_utf8_lossy(&self.buffer)
        );
        Ok(duration)
    }

    /// The body of the newest response.
    pub(crate) fn body(&self) -> &[u8] {
        self.buffer.get(self.body_start..).unwrap_or_default()
    }

    /// Receives a response; returns its status.
    async fn receive(&mut self) -> Result<u16> {
        self.buffer.clear();
        self.body_start = loop {
            self.receive_more().await?;
            if let Some(at) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let head = std::str::from_utf8(&self.buffer[..self.body_start])?.to_ascii_lowercase();
        let length: usize = head
            .lines()
            .find_map(|l| l.strip_prefix("content-length:"))
            .context("a response without content-length")?
            .trim()
            .parse()?;
        while self.buffer.len() < self.body_start + length {
            self.receive_more().await?;
        }
        let status = head.split(' ').nth(1);
        status
            .context("a response without a status")?
            .parse()
            .context("a response without a status")
    }

    async fn receive_more(&mut self) -> Result<()> {
        let length = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(length > 0, "the server closed the connection");
        Ok(())
    }
}

/// Posts turns over one connection; returns the latency of each in µs.
async fn post_turns(address: String, session: String, bodies: Vec<String>) -> Result<Vec<f64>> {
    let mut http = HttpClient::connect(&address).await?;
    let path = format!("/api/v1/sessions/{session}/turns");
    let requests: Vec<String> = bodies
        .iter()
        .map(|body| http.request("POST", &path, body))
        .collect();
    let mut latencies = Vec::with_capacity(requests.len());
    for request in requests {
        latencies.push(http.send(&request).await?);
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
