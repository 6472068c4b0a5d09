//! `filrouge sessions tail ID [--after N]`: items as they come, until Ctrl-C.

use std::io::Write;
use std::process::ExitCode;

use filrouge_engine::live::Live;
use filrouge_store::Scope;
use filrouge_types::{IdError, Item, SessionId};

use super::sessions_show::line;
use crate::config::Config;
use crate::exit::Usage;
use crate::open::{Need, Opened, open, operator};
use crate::output::stdout;

/// Items read at once.
const PAGE: usize = 500;

pub(super) async fn run(config: &Config, id: &str, after: Option<u64>) -> anyhow::Result<ExitCode> {
    let id: SessionId = id.parse().map_err(|e: IdError| Usage::new(e.to_string()))?;
    let opened = open(config, Need::Existing).await?;
    let live = Live::start(opened.ledger.clone());
    let followed = tokio::select! {
        ended = follow(config, &opened, &live, &id, after) => ended,
        stopped = tokio::signal::ctrl_c() => stopped.map_err(Into::into),
    };
    drop(live);
    opened.close().await;
    followed?;
    Ok(ExitCode::SUCCESS)
}

/// Shows items behind `after`, or from now on, until something fails.
async fn follow(
    config: &Config,
    opened: &Opened,
    live: &Live,
    id: &SessionId,
    after: Option<u64>,
) -> anyhow::Result<()> {
    let scope = operator(config);
    let ledger = opened.ledger.as_ref();
    let mut follower = live.follow(ledger, &scope, id).await?;
    let mut after = match after {
        Some(after) => after,
        None => ledger.session(&scope, id).await?.last_seq,
    };
    loop {
        after = show(config, opened, &scope, id, after).await?;
        follower.changed().await;
    }
}

/// Shows the items behind `after`; the seq of the last one.
async fn show(
    config: &Config,
    opened: &Opened,
    scope: &Scope,
    id: &SessionId,
    mut after: u64,
) -> anyhow::Result<u64> {
    loop {
        let (items, next) = opened.ledger.items(scope, id, after, PAGE).await?;
        after = items.last().map_or(after, |i| i.seq);
        write(config, &items)?;
        if next.is_none() {
            return Ok(after);
        }
    }
}

fn write(config: &Config, items: &[Item]) -> anyhow::Result<()> {
    let mut out = stdout();
    for item in items {
        if config.json {
            serde_json::to_writer(&mut out, item).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{}", line(item))?;
        }
    }
    out.flush()?;
    Ok(())
}
