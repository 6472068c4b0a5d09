//! A client that can choose among several servers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{WriteStep, Writer};
use crate::http::CrashClient;
use crate::op::{Op, Outcome};
use crate::world::Clock;

/// How long a write may be refused or unanswered before it counts as hung.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

impl Writer {
    /// Writes until it must stop, to the server that `at` names: a write that is refused or not answered is retried
    /// there or at another server until it is settled.
    pub(crate) fn write_anywhere(
        &mut self,
        at: &(dyn Fn() -> CrashClient + Sync),
        clock: &Clock,
        ending: &AtomicBool,
    ) {
        while !ending.load(Ordering::SeqCst) {
            let client = at();
            let settled = |_: &u8| matches!(self.step(&client, clock), Ok(WriteStep::Settled));
            (0..20).take_while(settled).for_each(drop);
            let begun = Instant::now();
            let unknown = |op: &Op| op.outcome == Outcome::Unknown;
            while let Some(op) = self.ops.iter().position(unknown) {
                let late = begun.elapsed() > SETTLED_WITHIN;
                assert!(!late, "the write was never settled: {:?}", self.ops[op]);
                if !matches!(self.send(op, &at(), clock), Ok(WriteStep::Settled)) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}
