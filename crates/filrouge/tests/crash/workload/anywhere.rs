//! A client that has several servers to turn to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Step, Writer};
use crate::http::Client;
use crate::op::{Op, Outcome};
use crate::world::Clock;

/// How long a write may be refused, or not answered, before it counts as hung.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

impl Writer {
    /// Writes until told to end, to whichever server `at` names: what is refused or not answered is sent again, there or
    /// elsewhere, until it is settled.
    pub(crate) fn write_anywhere(
        &mut self,
        at: &(dyn Fn() -> Client + Sync),
        clock: &Clock,
        ending: &AtomicBool,
    ) {
        while !ending.load(Ordering::SeqCst) {
            let client = at();
            let settled = |_: &u8| matches!(self.step(&client, clock), Ok(Step::Settled));
            (0..20).take_while(settled).for_each(drop);
            let begun = Instant::now();
            let unknown = |op: &Op| op.outcome == Outcome::Unknown;
            while let Some(op) = self.ops.iter().position(unknown) {
                let late = begun.elapsed() > SETTLED_WITHIN;
                assert!(!late, "never settled: {:?}", self.ops[op]);
                if !matches!(self.send(op, &at(), clock), Ok(Step::Settled)) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}
