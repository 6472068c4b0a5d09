//! The section `[calls]`: leases, checkpoints and resuming live calls (DESIGN §6).

use filrouge_engine::CallSettings;

use super::layers::{Form, Layers, NONE, joined};
use crate::exit::Usage;

/// The longest lease, in milliseconds: if a holder crashes, its lease blocks the session for all others until it
/// expires.
const LEASE_TTL_MAX: u64 = 24 * 60 * 60 * 1000;
/// The longest wait for a lease, in milliseconds: it must end well before the HTTP response has to begin.
const LEASE_WAIT_MAX: u64 = 60_000;
/// The maximum of `checkpoints_kept`: a write may delete that many checkpoints, and a list shows all of them.
const CHECKPOINTS_MAX: u64 = 1000;
/// The maximum size of a checkpoint in bytes: each resume reads an entire checkpoint.
const CHECKPOINT_BYTES_MAX: u64 = 16 << 20;
/// The maximum number of items that a resume returns; it equals the maximum for lists of items.
const TAIL_ITEMS_MAX: u64 = 500;

/// Parses the states between commas; [`NONE`] stands for no state.
fn states(text: &str) -> Result<Vec<Box<str>>, String> {
    if text.is_empty() || text == NONE {
        return Ok(Vec::new());
    }
    let states = text.split(',').map(str::trim);
    let wrong = |state: &str| state.is_empty() || state == NONE;
    if states.clone().any(wrong) {
        return Err(format!("{text:?}: states between commas, or {NONE} alone"));
    }
    Ok(states.map(Into::into).collect())
}

/// Checks that the setting `name`, a default, does not exceed the maximum that is configured for requests.
fn check(name: &str, default: std::time::Duration, max: std::time::Duration) -> Result<(), Usage> {
    if default <= max {
        return Ok(());
    }
    let (default, max) = (default.as_millis(), max.as_millis());
    let what = format!("calls.{name}_ms is {default}, and calls.{name}_max_ms is {max}");
    Err(Usage::new(what).with_hint("set the second to at least as much as the first"))
}

pub(super) fn read(layers: &mut Layers<'_>) -> Result<CallSettings, Usage> {
    let usual = CallSettings::default();
    let (ttl, wait) = (1..=LEASE_TTL_MAX, 0..=LEASE_WAIT_MAX);
    let all = CallSettings {
        journal: layers.text("calls.journal", || Ok(usual.journal))?,
        lease_ttl: layers.millis("calls.lease_ttl_ms", ttl.clone(), usual.lease_ttl)?,
        lease_ttl_max: layers.millis("calls.lease_ttl_max_ms", ttl, usual.lease_ttl_max)?,
        lease_wait: layers.millis("calls.lease_wait_ms", wait.clone(), usual.lease_wait)?,
        lease_wait_max: layers.millis("calls.lease_wait_max_ms", wait, usual.lease_wait_max)?,
        checkpoints_kept: layers.number(
            "calls.checkpoints_kept",
            1..=CHECKPOINTS_MAX,
            usual.checkpoints_kept,
        )?,
        checkpoint_bytes: layers.number(
            "calls.checkpoint_bytes",
            2..=CHECKPOINT_BYTES_MAX,
            usual.checkpoint_bytes,
        )?,
        tail_items: layers.number("calls.tail_items", 1..=TAIL_ITEMS_MAX, usual.tail_items)?,
        terminal: layers.read(
            ("calls.terminal_states", Form::List),
            || Ok(usual.terminal),
            states,
            |states| joined(states),
        )?,
    };
    check("lease_ttl", all.lease_ttl, all.lease_ttl_max)?;
    check("lease_wait", all.lease_wait, all.lease_wait_max)?;
    Ok(all)
}
