//! `context`: a restored conversation in every format, compared with reading and parsing its rows.

use std::hint::black_box;

use anyhow::{Result, ensure};
use filrouge_engine::restore::{RestoreQuery, Selection};
use filrouge_transcode::{Format, restore};

use crate::Setup;
use crate::raw::LAYOUTS;
use crate::reads::{Stores, time_calls, write_stores};
use crate::report::{Line, Section, Target, load_average};
use crate::stats::Series;

/// Restores a context of the `last` turns, or of all, and renders it.
async fn restore_context(stores: &Stores, format: Format, last: Option<usize>) -> Result<()> {
    let query = RestoreQuery {
        selection: match format {
            Format::Pairs => Selection::Pairs,
            _ => Selection::Messages,
        },
        last_turns: last,
        ..RestoreQuery::default()
    };
    let (product, session) = (&stores.product, &stores.session);
    let context = restore(&product.engine, &product.caller, session, format, query).await?;
    let turns = last.unwrap_or(stores.turns);
    ensure!(
        context.report.window.turns == turns,
        "{} turns instead of {turns}",
        context.report.window.turns
    );
    black_box(context);
    Ok(())
}

/// Plans a context of all turns without rendering it.
async fn plan_context(stores: &Stores) -> Result<()> {
    let (product, session) = (&stores.product, &stores.session);
    let query = RestoreQuery::default();
    let plan = product
        .engine
        .context
        .restore(&product.caller, session, query)
        .await?;
    ensure!(
        plan.turns.len() == stores.turns,
        "{} turns instead of {}",
        plan.turns.len(),
        stores.turns
    );
    black_box(plan);
    Ok(())
}

/// Reads all items without planning.
async fn read_items(stores: &Stores) -> Result<()> {
    let (product, session) = (&stores.product, &stores.session);
    let conversation = product
        .engine
        .context
        .conversation(&product.caller, session)
        .await?;
    black_box(conversation);
    Ok(())
}

/// `context`.
pub(crate) async fn context(setup: &Setup) -> Result<Section> {
    let before = load_average();
    let long = write_stores(setup, setup.size(5000, 60)).await?;
    let short = write_stores(setup, setup.size(500, 30)).await?;
    let mut limits: Vec<Series> = LAYOUTS
        .iter()
        .map(|l| Series::new(format!("{}, parsed", l.name())))
        .collect();
    let mut complete: Vec<Series> = Format::ALL
        .iter()
        .map(|f| Series::new(format!("all turns, {f}")))
        .collect();
    let mut plan = Series::new("all turns, planned and not rendered");
    let mut items = Series::new("all turns and items read, not planned");
    let mut newest = Series::new("last 20 of the long session, anthropic");
    let mut newest_short = Series::new("last 20 of the short session, anthropic");
    let calls = setup.size(200, 5);
    for _ in 0..setup.pairs {
        for (series, raw) in limits.iter_mut().zip(&long.raw_stores) {
            let call = || async {
                black_box(raw.parsed()?);
                Ok(())
            };
            series.legs.push(time_calls(3, call).await?);
        }
        for (series, format) in complete.iter_mut().zip(Format::ALL) {
            let call = || restore_context(&long, format, None);
            series.legs.push(time_calls(3, call).await?);
        }
        plan.legs.push(time_calls(3, || plan_context(&long)).await?);
        items.legs.push(time_calls(3, || read_items(&long)).await?);
        let last = |stores| restore_context(stores, Format::Anthropic, Some(20));
        newest.legs.push(time_calls(calls, || last(&long)).await?);
        newest_short
            .legs
            .push(time_calls(calls, || last(&short)).await?);
    }
    let limit = limits
        .iter()
        .min_by(|a, b| a.median(|l| l.p50).total_cmp(&b.median(|l| l.p50)))
        .unwrap_or(&limits[0]);
    let line = |series: &Series, name: String| {
        Line::series(&name, (series, limit), |l| l.p50, Target::AtMost(1.5), "µs")
    };
    let mut lines: Vec<Line> = complete
        .iter()
        .zip(Format::ALL)
        .map(|(series, format)| line(series, format!("all turns, {format}")))
        .collect();
    lines.push(Line::series(
        "last 20 turns, long session / short session",
        (&newest, &newest_short),
        |l| l.p50,
        Target::AtMost(1.2),
        "µs",
    ));
    let notes = vec![format!(
        "{} turns, and {} in the short session; every item verified, planned and rendered; limit: one thread reads the rows, parses each to serde_json::Value and keeps all",
        long.turns, short.turns
    )];
    let load = (before, load_average());
    long.product.close().await;
    short.product.close().await;
    complete.extend([plan, items, newest, newest_short]);
    Ok(Section {
        name: "context",
        lines,
        series: [complete, limits].concat(),
        notes,
        load,
    })
}
