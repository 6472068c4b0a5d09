//! Runs one leg of pgbench.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::script::Script;
use super::server::{DurableServer, Store};
use crate::Setup;
use crate::stats::Leg;

/// `PGOPTIONS` with the settings of the product's connections, which force index lookups by key.
const PGOPTIONS: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off";
/// The initial value of a script's turn counter, beyond the turns that the product wrote.
const FIRST_TURN: u64 = 100;

/// The path of the server's own version of pgbench.
fn program(server: &DurableServer) -> Result<PathBuf> {
    let folder = server.first_value(
        "postgres",
        "SELECT setting FROM pg_config WHERE name = 'BINDIR'",
    )?;
    Ok(PathBuf::from(folder).join("pgbench"))
}

/// Runs `script` on a fresh store, `turns` times per client.
pub(crate) fn run(
    setup: &Setup,
    store: &Store<'_>,
    script: &Script,
    clients: usize,
    turns: usize,
) -> Result<Leg> {
    let dir = setup.dir()?;
    let file = dir.path().join("script");
    std::fs::write(&file, &script.text)?;
    let mut pgbench = Command::new(program(store.server)?);
    pgbench
        .args(["-n", "-M", "prepared", "-l", "--log-prefix=calls"])
        .args(["-c", &clients.to_string(), "-t", &turns.to_string()])
        // Up to two threads, one per core, as in the product.
        .args(["-j", &clients.min(2).to_string()])
        .args(["-D", &format!("turn={FIRST_TURN}"), "-f"])
        .arg(&file)
        .current_dir(dir.path())
        .env("PGOPTIONS", PGOPTIONS);
    for (name, value) in &script.constants {
        pgbench.args(["-D", &format!("{name}={value}")]);
    }
    let out = pgbench.arg(store.url()).output().context("pgbench")?;
    let stdout = String::from_utf8_lossy(&out.stdout);
    let total = clients * turns;
    ensure!(
        out.status.success() && stdout.contains(&format!("actually processed: {total}/{total}")),
        "pgbench: {}\n{stdout}{}\n{}",
        out.status,
        String::from_utf8_lossy(&out.stderr),
        script.text
    );
    let per_s: f64 = stdout
        .lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
        .context("pgbench printed no tps")?;
    let mut latencies = Vec::with_capacity(total);
    for entry in std::fs::read_dir(dir.path())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("calls.") {
            // The columns are client, transaction, µs, script, time.
            let log = std::fs::read_to_string(entry.path())?;
            let calls = log
                .lines()
                .filter_map(|l| l.split(' ').nth(2)?.parse::<f64>().ok());
            latencies.extend(calls);
        }
    }
    ensure!(
        latencies.len() == total,
        "pgbench logged {} of {total} latencies",
        latencies.len()
    );
    Ok(Leg::new(
        latencies,
        Duration::from_secs_f64(total as f64 / per_s),
    ))
}
