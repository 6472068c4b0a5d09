//! Writers that choose among several servers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{WriteResult, Writer};
use crate::http::CrashClient;
use crate::op::{Op, Outcome};
use crate::world::Clock;

/// The longest time that a write may be refused or unanswered.
const OUTCOME_WITHIN: Duration = Duration::from_secs(60);

impl Writer {
    /// Writes until `ending` is set, each time to the server that `choose` returns. A write that is refused or not
    /// answered is retried, there or at another server, until its outcome is known.
    pub(crate) fn write_anywhere(
        &mut self,
        choose: &(dyn Fn() -> CrashClient + Sync),
        clock: &Clock,
        ending: &AtomicBool,
    ) {
        while !ending.load(Ordering::SeqCst) {
            let client = choose();
            let outcome_known =
                |_: &u8| matches!(self.step(&client, clock), Ok(WriteResult::OutcomeKnown));
            (0..20).take_while(outcome_known).for_each(drop);
            let begun = Instant::now();
            let unknown = |op: &Op| op.outcome == Outcome::Unknown;
            while let Some(op) = self.ops.iter().position(unknown) {
                let late = begun.elapsed() > OUTCOME_WITHIN;
                assert!(
                    !late,
                    "the outcome is unknown after {OUTCOME_WITHIN:?}: {:?}",
                    self.ops[op]
                );
                if !matches!(
                    self.send(op, &choose(), clock),
                    Ok(WriteResult::OutcomeKnown)
                ) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}
