//! `context`: a restored conversation in every format, compared with reading and parsing its rows.

use std::hint::black_box;

use anyhow::{Result, ensure};
use filrouge_engine::restore::{RestoreQuery, Selection};
use filrouge_transcode::{Format, restore};

use crate::Setup;
use crate::raw::Layout;
use crate::reads::{Stores, time_calls, write_stores};
use crate::report::{Line, Section, Target};
use crate::stats::{Series, fastest};

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
    let long = write_stores(setup, setup.size(5000, 60)).await?;
    let short = write_stores(setup, setup.size(500, 30)).await?;
    let mut limits = Layout::series(", parsed");
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
        long.parse_rows(&mut limits).await?;
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
    let limit = fastest(&limits)?;
    let line =
        |series: &Series, name: String| Line::p50(&name, (series, limit), Target::AtMost(1.5));
    let mut lines: Vec<Line> = complete
        .iter()
        .zip(Format::ALL)
        .map(|(series, format)| line(series, format!("all turns, {format}")))
        .collect();
    lines.push(Line::p50(
        "last 20 turns, long session / short session",
        (&newest, &newest_short),
        Target::AtMost(1.2),
    ));
    let notes = vec![format!(
        "{} turns, and {} in the short session; every item verified, planned and rendered; limit: one thread reads the rows, parses each to serde_json::Value and keeps all",
        long.turns, short.turns
    )];
    long.product.close().await;
    short.product.close().await;
    complete.extend([plan, items, newest, newest_short]);
    Ok(Section {
        name: "context",
        lines,
        series: [complete, limits].concat(),
        notes,
        ..Section::default()
    })
}
