//! The spool: writes of calls are queued while the ledger does not answer, and are in the ledger once afterwards.

mod calls;
mod files;
mod poison;
mod random;
mod slow;
mod world;
