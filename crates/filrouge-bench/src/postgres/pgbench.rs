//! One leg of pgbench.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::bed::{Bed, Store};
use super::script::Script;
use crate::Setup;
use crate::stats::Leg;

/// How the product's connections are set: what is looked up by a key is looked up by its index.
const SESSION: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off";
/// The first turn that a script writes: the product's own are before it.
const FIRST_TURN: u64 = 100;

/// pgbench of the server's own version.
fn program(bed: &Bed) -> Result<PathBuf> {
    let folder = bed.value(
        "postgres",
        "SELECT setting FROM pg_config WHERE name = 'BINDIR'",
    )?;
    Ok(PathBuf::from(folder).join("pgbench"))
}

/// Runs `script` on a fresh store, `turns` times for each client.
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
    let mut pgbench = Command::new(program(store.bed)?);
    pgbench
        .args(["-n", "-M", "prepared", "-l", "--log-prefix=calls"])
        .args(["-c", &clients.to_string(), "-t", &turns.to_string()])
        // One for each of two cores, as the product has.
        .args(["-j", &clients.min(2).to_string()])
        .args(["-D", &format!("turn={FIRST_TURN}"), "-f"])
        .arg(&file)
        .current_dir(dir.path())
        .env("PGOPTIONS", SESSION);
    for (name, value) in &script.constants {
        pgbench.args(["-D", &format!("{name}={value}")]);
    }
    let out = pgbench.arg(store.url()).output().context("pgbench")?;
    let said = String::from_utf8_lossy(&out.stdout);
    let all = clients * turns;
    ensure!(
        out.status.success() && said.contains(&format!("actually processed: {all}/{all}")),
        "pgbench: {}\n{said}{}\n{}",
        out.status,
        String::from_utf8_lossy(&out.stderr),
        script.text
    );
    let per_s: f64 = said
        .lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
        .context("pgbench tells no tps")?;
    let mut latencies = Vec::with_capacity(all);
    for entry in std::fs::read_dir(dir.path())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("calls.") {
            // client, transaction, µs, script, when
            let log = std::fs::read_to_string(entry.path())?;
            let calls = log
                .lines()
                .filter_map(|l| l.split(' ').nth(2)?.parse::<f64>().ok());
            latencies.extend(calls);
        }
    }
    ensure!(
        latencies.len() == all,
        "pgbench logged {} of {all}",
        latencies.len()
    );
    Ok(Leg::new(
        latencies,
        Duration::from_secs_f64(all as f64 / per_s),
    ))
}
