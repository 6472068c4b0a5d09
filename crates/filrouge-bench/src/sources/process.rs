//! The built program: the time from its start to its first answer, and its memory.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::GeneratedHistory;
use crate::Setup;
use crate::http::binary;
use crate::report::{Line, Section, Target};
use crate::stats::{median, micros};

/// `filrouge mcp` over a history, driven through its pipes.
struct McpProcess {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    id: u64,
}

impl McpProcess {
    fn start(setup: &Setup, history: &GeneratedHistory) -> Result<Self> {
        let source = format!("opencode:{}", history.root.display());
        let mut child = Command::new(binary(setup)?)
            .args(["mcp", "--source", &source])
            .env("HOME", &history.root)
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("stdout")?;
        let mut mcp = Self {
            child,
            stdout: BufReader::new(out),
            id: 0,
        };
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "filrouge-bench", "version": "1"},
        });
        mcp.request("initialize", &params)?;
        mcp.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(mcp)
    }

    fn send(&mut self, message: &serde_json::Value) -> Result<()> {
        let pipe = self.child.stdin.as_mut().context("stdin")?;
        writeln!(pipe, "{message}")?;
        Ok(pipe.flush()?)
    }

    /// Sends a request and waits for its result.
    fn request(&mut self, method: &str, params: &serde_json::Value) -> Result<serde_json::Value> {
        self.id += 1;
        let id = self.id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let mut line = String::new();
        loop {
            line.clear();
            ensure!(
                self.stdout.read_line(&mut line)? > 0,
                "filrouge mcp has ended"
            );
            let answer: serde_json::Value = serde_json::from_str(&line)?;
            if answer["id"] == id {
                ensure!(answer["error"].is_null(), "{answer}");
                return Ok(answer["result"].clone());
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &serde_json::Value) -> Result<serde_json::Value> {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = self.request("tools/call", &params)?;
        ensure!(answer["isError"] != json!(true), "{answer}");
        Ok(answer["structuredContent"].clone())
    }

    /// The peak memory of the process, MiB.
    fn peak_mib(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.trim().strip_suffix("kB"));
        Ok(kib.context("VmHWM")?.trim().parse::<f64>()? / 1024.0)
    }
}

impl Drop for McpProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures the time from the start of a process to its first list.
pub(super) fn measure(
    setup: &Setup,
    history: &GeneratedHistory,
    section: &mut Section,
) -> Result<()> {
    let mut durations = Vec::new();
    for _ in 0..setup.size(3 * setup.pairs, 1) {
        let call_start = Instant::now();
        let mut mcp = McpProcess::start(setup, history)?;
        let listed = mcp.call("list_sessions", &json!({}))?;
        durations.push(micros(call_start) / 1000.0);
        ensure!(listed["total"] == history.truth.sessions, "{listed}");
    }
    let millis = median(durations);
    let label = format!("{}: process to its first list, ms", history.form);
    let shown = format!("{millis:.1} ms");
    let target = Target::AtMost(20.0);
    section
        .lines
        .push(Line::number(&label, millis, target, shown));
    Ok(())
}

/// Measures memory after every kind of query, on a history and on one five times as large.
pub(super) fn memory(
    setup: &Setup,
    history: &GeneratedHistory,
    larger: &GeneratedHistory,
    section: &mut Section,
) -> Result<()> {
    let peaks = [
        peak_after_queries(setup, history)?,
        peak_after_queries(setup, larger)?,
    ];
    let shown = format!("{:.0} MiB", peaks[1]);
    let label = format!(
        "{}: peak memory on five times the history, MiB",
        history.form
    );
    section.lines.push(Line::number(
        &label,
        peaks[1],
        Target::AtMost(150.0),
        shown.clone(),
    ));
    let label = format!(
        "{}: peak memory on five times the history / on the history",
        history.form
    );
    let limit = format!("{:.0} MiB", peaks[0]);
    let (larger, smaller) = (&peaks[1..], &peaks[..1]);
    section.lines.push(Line::pairs(
        &label,
        larger,
        smaller,
        Target::AtMost(2.0),
        (shown, limit),
    ));
    Ok(())
}

/// The peak memory of a process that has answered every kind of query, MiB.
fn peak_after_queries(setup: &Setup, history: &GeneratedHistory) -> Result<f64> {
    let mut mcp = McpProcess::start(setup, history)?;
    let all = mcp.call("list_sessions", &json!({"limit": 500}))?;
    let ids: Vec<_> = all["sessions"].as_array().context("sessions")?.clone();
    mcp.call(
        "search_sessions",
        &json!({"query": history.truth.common_word}),
    )?;
    for session in ids.iter().take(setup.size(200, 5)) {
        let id = &session["id"];
        mcp.call("get_session_history", &json!({"sessionID": id}))?;
        mcp.call("get_session_lineage", &json!({"sessionID": id}))?;
        mcp.call("get_session_stats", &json!({"sessionID": id}))?;
    }
    mcp.peak_mib()
}
