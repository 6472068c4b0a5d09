//! `filrouge project run [NAME] [--once]`

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::Engine;
use filrouge_projections::{Projection, Projector};
use filrouge_store::OsEntropy;
use filrouge_types::{Failure, SystemClock};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cli::RunProjections;
use crate::config::Config;
use crate::exit::{ExitCode, code};
use crate::open::{IfMissing, OpenStore, refuse_unverified, with};
use crate::output::show;
use crate::projections::{install, named};
use crate::stop::StopSignals;

/// How long `--once` tries again after a failure.
const RETRY_TIME: Duration = Duration::from_secs(30);

pub(super) async fn run(config: &Config, args: &RunProjections) -> anyhow::Result<ExitCode> {
    refuse_unverified(config)?;
    if let Some(name) = &args.name {
        named(config, name)?;
    }
    with(config, IfMissing::Fail, async |opened, _| {
        let mut projections = install(config, &opened.engine)?;
        projections.retain(|p| {
            args.name
                .as_ref()
                .is_none_or(|name| name == p.name.as_str())
        });
        match args.once {
            true => catch_up(config, opened, projections).await,
            false => follow(opened, projections).await,
        }
    })
    .await
}

fn projector(engine: &Arc<Engine>, projection: Arc<Projection>) -> Result<Projector, Failure> {
    let (clock, entropy) = (Arc::new(SystemClock), Arc::new(OsEntropy));
    Projector::new(projection, engine.clone(), clock, entropy)
}

/// Keeps the projections up to date until a signal.
async fn follow(opened: &OpenStore, projections: Vec<Arc<Projection>>) -> anyhow::Result<ExitCode> {
    let mut signals = StopSignals::install()?;
    let (stop, stopping) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for projection in projections {
        let projector = projector(&opened.engine, projection)?;
        tasks.spawn(projector.run(stopping.clone()));
    }
    signals.requested().await;
    stop.send_replace(true);
    while tasks.join_next().await.is_some() {}
    Ok(ExitCode::SUCCESS)
}

/// Brings the projections up to date, one after the other.
async fn catch_up(
    config: &Config,
    opened: &OpenStore,
    projections: Vec<Arc<Projection>>,
) -> anyhow::Result<ExitCode> {
    let mut results = Vec::with_capacity(projections.len());
    for projection in projections {
        let name = projection.name.to_string();
        let caught_up = projector(&opened.engine, projection)?.catch_up(RETRY_TIME);
        results.push((name, caught_up.await?));
    }
    let rows = results.iter();
    let rows: Vec<_> = rows
        .map(|(name, reason)| json!({ "name": name, "error": reason }))
        .collect();
    show(config.json, &json!({ "projections": rows }), |out| {
        for (name, reason) in &results {
            match reason {
                None => writeln!(out, "{name}: up to date")?,
                Some(reason) => writeln!(
                    out,
                    "{name}: not up to date: {reason}; no attempt within {} s succeeded",
                    RETRY_TIME.as_secs()
                )?,
            }
        }
        Ok(())
    })?;
    Ok(code(results.iter().all(|(_, reason)| reason.is_none())))
}
