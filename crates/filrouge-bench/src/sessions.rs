//! Writes turns through the library: to sessions that write concurrently, each its next turn after the answer to the
//! previous one.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use filrouge_engine::{AppendItems, Caller, Engine, FinalizeTurn, StartTurn};
use filrouge_types::SessionId;

use crate::stats::{Leg, micros};
use crate::workload::{Turns, requests, session_id};

/// The calls that write a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallsPerTurn {
    /// One call with the complete turn.
    One,
    /// Two durable calls: start the turn with its items, finalize it.
    Two,
    /// Three durable calls: start the turn, append two items, finalize it.
    Three,
}

/// An open engine, and the caller for whom it writes.
pub(crate) type Writer<'e> = (&'e Arc<Engine>, &'e Caller);

/// Writes `turns` turns to each of these sessions, which are spread over `writers`. The latencies are those of turns.
pub(crate) async fn write(
    writers: &[Writer<'_>],
    sessions: Range<usize>,
    turns: usize,
    calls: CallsPerTurn,
) -> Result<Leg> {
    let mut tasks = Vec::new();
    for (n, writer) in sessions.zip(writers.iter().cycle()) {
        tasks.push(SessionWriter::new(*writer, n, turns)?.write(calls));
    }
    Leg::of_tasks(tasks).await
}

/// A session, and the turns that will be written to it.
pub(crate) struct SessionWriter {
    engine: Arc<Engine>,
    caller: Caller,
    id: SessionId,
    requests: Vec<StartTurn>,
}

impl SessionWriter {
    /// Prepares `turns` turns of session number `n`; the number is the seed of their texts.
    pub(crate) fn new((engine, caller): Writer<'_>, n: usize, turns: usize) -> Result<Self> {
        Ok(Self {
            engine: engine.clone(),
            caller: caller.clone(),
            id: session_id(n)?,
            requests: requests(&Turns::new(n as u64).next_turns(turns))?,
        })
    }

    /// Writes the turns one after the other; returns the latency of each in µs.
    pub(crate) async fn write(self, calls: CallsPerTurn) -> Result<Vec<f64>> {
        let (turns, caller) = (&self.engine.turns, &self.caller);
        let mut latencies = Vec::with_capacity(self.requests.len());
        for mut request in self.requests {
            let call_start = Instant::now();
            let append = (calls == CallsPerTurn::Three).then(|| take_items(&mut request));
            let finalize = (calls != CallsPerTurn::One).then(|| take_answer(&mut request));
            let turn = turns.start(caller, self.id.clone(), request).await?;
            let (turn, id) = (turn.value.turn_id, &self.id);
            if let Some(append) = append {
                turns.append(caller, id.clone(), turn, append).await?;
            }
            if let Some(finalize) = finalize {
                turns.finalize(caller, id.clone(), turn, finalize).await?;
            }
            latencies.push(micros(call_start));
        }
        Ok(latencies)
    }
}

fn take_items(request: &mut StartTurn) -> AppendItems {
    AppendItems {
        items: std::mem::take(&mut request.items),
        expected_seq: None,
        fence: None,
        release: false,
    }
}

fn take_answer(request: &mut StartTurn) -> FinalizeTurn {
    FinalizeTurn {
        answer_neutral: request.answer_neutral.take(),
        ..FinalizeTurn::default()
    }
}
