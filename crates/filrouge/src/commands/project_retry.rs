//! `filrouge project retry NAME`

use std::io::Write;

use filrouge_projections::retry_dead_letters;
use serde_json::json;

use crate::config::Config;
use crate::open::{IfMissing, refuse_unverified, with};
use crate::output::show;
use crate::projections::named;

pub(super) async fn run(config: &Config, name: &str) -> anyhow::Result<()> {
    refuse_unverified(config)?;
    let projection = &named(config, name)?.name;
    let count = with(config, IfMissing::Fail, async |opened, _| {
        Ok(retry_dead_letters(&opened.engine, projection).await?)
    });
    let count = count.await?;
    let output = json!({ "name": name, "dead_letters": count });
    show(config.json, &output, |out| match count {
        0 => writeln!(out, "{name}: there are no dead letters"),
        count => writeln!(
            out,
            "{name}: {count} dead letters are tried again by the server that runs, or by `filrouge project run`"
        ),
    })
}
