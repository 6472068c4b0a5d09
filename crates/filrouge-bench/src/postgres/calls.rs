//! One leg of the product.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use filrouge_engine::{AppendItems, FinalizeTurn, StartTurn};
use tokio::sync::Barrier;

use super::bed::NAMED_FROM;
use crate::product::Product;
use crate::stats::{Leg, micros};
use crate::workload::{Turns, requests, session};

/// The calls that write a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// All in one call.
    Whole,
    /// In three durable calls: start the turn, append two items, finalize it.
    Steps,
}

/// Sessions spread over `products`, each a closed loop; the latencies are those of turns.
pub(crate) async fn run(
    products: &[Product],
    sessions: usize,
    turns: usize,
    way: Way,
) -> Result<Leg> {
    let barrier = Arc::new(Barrier::new(sessions + 1));
    let mut tasks = Vec::new();
    for (n, product) in (0..sessions).zip(products.iter().cycle()) {
        let (engine, caller) = (product.engine.clone(), product.caller.clone());
        let barrier = barrier.clone();
        let id = session(NAMED_FROM + n)?;
        let requests = requests(&Turns::new(1000 + n as u64).many(turns))?;
        tasks.push(tokio::spawn(async move {
            barrier.wait().await;
            let mut latencies = Vec::with_capacity(requests.len());
            for request in requests {
                let call = Instant::now();
                match way {
                    Way::Whole => drop(engine.turns.start(&caller, id.clone(), request).await?),
                    Way::Steps => {
                        let (start, append, finalize) = steps(request);
                        let turn = engine.turns.start(&caller, id.clone(), start).await?;
                        let turn = turn.value.turn_id;
                        engine
                            .turns
                            .append(&caller, id.clone(), turn, append)
                            .await?;
                        engine
                            .turns
                            .finalize(&caller, id.clone(), turn, finalize)
                            .await?;
                    }
                }
                latencies.push(micros(call));
            }
            Ok::<_, anyhow::Error>(latencies)
        }));
    }
    barrier.wait().await;
    let start = Instant::now();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    Ok(Leg::new(latencies, start.elapsed()))
}

fn steps(mut whole: StartTurn) -> (StartTurn, AppendItems, FinalizeTurn) {
    let append = AppendItems {
        items: std::mem::take(&mut whole.items),
        expected_seq: None,
        fence: None,
        release: false,
    };
    let finalize = FinalizeTurn {
        answer_neutral: whole.answer_neutral.take(),
        ..FinalizeTurn::default()
    };
    (whole, append, finalize)
}
