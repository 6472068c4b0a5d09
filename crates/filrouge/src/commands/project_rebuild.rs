//! `filrouge project rebuild NAME`

use std::io::Write;

use filrouge_projections::begin_rebuild;
use filrouge_types::{Clock, SystemClock};
use serde_json::json;

use crate::config::Config;
use crate::exit::NotFound;
use crate::open::{IfMissing, refuse_unverified, with};
use crate::output::show;
use crate::projections::named;

pub(super) async fn run(config: &Config, name: &str) -> anyhow::Result<()> {
    refuse_unverified(config)?;
    let projection = &named(config, name)?.name;
    with(config, IfMissing::Fail, async |opened, _| {
        let begun = begin_rebuild(&opened.engine, projection, SystemClock.now()).await;
        begun.map_err(NotFound::if_invalid)
    })
    .await?;
    let output = json!({ "name": name, "rebuilding": true });
    show(config.json, &output, |out| {
        writeln!(
            out,
            "{name}: a new generation is filled by the server that runs, or by `filrouge project run`"
        )
    })
}
