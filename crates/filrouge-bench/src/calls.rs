//! `calls`: live calls. Compares the resume of a long session with a short one, a resume over HTTP with one read and one
//! write of the database, and the commits of a webhook with and without lease and checkpoint; also computes key figures
//! of many events.

mod commits;
mod events;
mod resume;
mod wire;

use anyhow::Result;
use filrouge_engine::Caller;
use filrouge_engine::{AppendItems, FinalizeTurn, SaveCheckpoint, StartTurn};
use filrouge_types::{Channel, ItemBody, RawJson, Role, SessionId};

use crate::Setup;
use crate::postgres::server::DurableServer;
use crate::product::Product;
use crate::report::Section;

/// `calls`.
pub(crate) async fn calls(setup: &Setup) -> Result<Section> {
    let server = DurableServer::start(setup).await?;
    let mut section = Section::new("calls");
    let dir = setup.dir()?;
    let sqlite = Product::open(dir.path(), true).await?;
    measure_store(setup, &sqlite, "SQLite", &mut section).await?;
    sqlite.close().await;
    let leg_store = server.store();
    let dir = leg_store.anchor_dir()?;
    let postgres = Product::open_postgres(&leg_store.url(), dir.path()).await?;
    measure_store(setup, &postgres, "PostgreSQL", &mut section).await?;
    postgres.close().await;
    wire::measure(setup, &server, &mut section).await?;
    Ok(section)
}

/// Runs the measurements that apply to any store.
async fn measure_store(
    setup: &Setup,
    product: &Product,
    name: &str,
    section: &mut Section,
) -> Result<()> {
    resume::measure(setup, product, name, section).await?;
    commits::measure(product, name, section).await?;
    events::measure(setup, product, name, section).await
}

/// The number of items in a turn of a long session.
const TURN_ITEMS: usize = 100;

/// Creates a session of `items` items with a checkpoint that covers all of them; returns its newest seq.
async fn write_session(product: &Product, session: &SessionId, items: usize) -> Result<u64> {
    let (engine, caller) = (&product.engine, &product.caller);
    let mut remaining = items;
    while remaining > 0 {
        let count = remaining.min(TURN_ITEMS);
        remaining -= count;
        // Two items are the question and the answer.
        let thoughts =
            (2..count).map(|n| thought_item(&format!("sentence {n} of a call that continues")));
        let mut request = StartTurn {
            items: thoughts.collect(),
            ..short_turn(&format!("request-{remaining}"))?
        };
        request.answer_neutral = request.question_neutral.clone();
        engine.turns.start(caller, session.clone(), request).await?;
    }
    save_checkpoint(product, caller, session, None, false).await
}

fn thought_item(text: &str) -> ItemBody {
    let parts = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
    ItemBody::new(
        Role::Assistant,
        Channel::Thought,
        RawJson::from_checked(parts),
    )
}

/// A request to start a turn with a short question.
fn short_turn(request: &str) -> Result<StartTurn> {
    let json = format!(
        r#"{{"request_id":"{request}","question_neutral":"le deuxième, s'il vous plaît"}}"#
    );
    Ok(serde_json::from_str(&json)?)
}

/// Writes a checkpoint that covers all items; returns its seq.
async fn save_checkpoint(
    product: &Product,
    caller: &Caller,
    session: &SessionId,
    fence: Option<u64>,
    release: bool,
) -> Result<u64> {
    let state = r#"{"state":"WAIT_CONFIRM","slots":["9:00","10:30","14:00"],"name":"Martin","retries":{"slot":1}}"#;
    let request = SaveCheckpoint {
        seq: None,
        label: Some("WAIT_CONFIRM".into()),
        state: RawJson::from_checked(state),
        fence,
        release,
    };
    let engine = &product.engine;
    let saved = engine
        .calls
        .put_checkpoint(caller, session, request)
        .await?;
    Ok(saved.seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_measurements_of_a_store_run() {
        let setup = Setup::quick();
        let dir = setup.dir().unwrap();
        let product = Product::open(dir.path(), true).await.unwrap();
        let mut section = Section::new("calls");
        measure_store(&setup, &product, "SQLite", &mut section)
            .await
            .unwrap();
        product.close().await;
        for series in &section.series {
            let [leg] = series.legs.as_slice() else {
                panic!("{series:?}")
            };
            assert!(leg.per_s > 0.0 && leg.p50 > 0.0, "{series:?}");
        }
        for line in &section.lines {
            assert!(line.ratio > 0.0, "{line:?}");
        }
        let commits = section.lines.iter().find(|l| l.what.contains("commits"));
        assert_eq!(commits.unwrap().met, Some(true), "{commits:?}");
    }
}
