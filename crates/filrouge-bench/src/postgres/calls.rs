//! Runs one leg of the product.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use filrouge_engine::{AppendItems, FinalizeTurn, StartTurn};
use tokio::sync::Barrier;

use super::server::FIRST_SESSION;
use crate::product::Product;
use crate::stats::{Leg, micros};
use crate::workload::{Turns, requests, session_id};

/// The calls that write a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallsPerTurn {
    /// One call with the complete turn.
    One,
    /// Three durable calls: start the turn, append two items, finalize it.
    Three,
}

/// Runs sessions spread over `products`; each writes its next turn after the answer to the previous one. The latencies
/// are those of turns.
pub(crate) async fn run(
    products: &[Product],
    sessions: usize,
    turns: usize,
    calls: CallsPerTurn,
) -> Result<Leg> {
    let barrier = Arc::new(Barrier::new(sessions + 1));
    let mut tasks = Vec::new();
    for (n, product) in (0..sessions).zip(products.iter().cycle()) {
        let (engine, caller) = (product.engine.clone(), product.caller.clone());
        let barrier = barrier.clone();
        let id = session_id(FIRST_SESSION + n)?;
        let requests = requests(&Turns::new(1000 + n as u64).next_turns(turns))?;
        tasks.push(tokio::spawn(async move {
            barrier.wait().await;
            let mut latencies = Vec::with_capacity(requests.len());
            for request in requests {
                let call_start = Instant::now();
                match calls {
                    CallsPerTurn::One => {
                        drop(engine.turns.start(&caller, id.clone(), request).await?);
                    }
                    CallsPerTurn::Three => {
                        let (start, append, finalize) = split_request(request);
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
                latencies.push(micros(call_start));
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

/// Splits the request for a complete turn into three requests.
fn split_request(mut request: StartTurn) -> (StartTurn, AppendItems, FinalizeTurn) {
    let append = AppendItems {
        items: std::mem::take(&mut request.items),
        expected_seq: None,
        fence: None,
        release: false,
    };
    let finalize = FinalizeTurn {
        answer_neutral: request.answer_neutral.take(),
        ..FinalizeTurn::default()
    };
    (request, append, finalize)
}
