//! The projector, its cleaning and its comparison, with a target in memory; from a ledger, and from a history.

mod cleaning;
mod filling;
mod history;
mod interrupted;
mod memory;
mod rebuilding;
mod verifying;
mod world;

use memory::MemoryTarget;

#[tokio::test]
async fn the_target_in_memory_passes_the_suite() {
    crate::contract::run(|| async { MemoryTarget::default() }).await;
}
