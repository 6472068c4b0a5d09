//! The section `[calls]`: leases, checkpoints and resuming live calls (DESIGN §6).

use filrouge_engine::CallSettings;
use filrouge_types::LONGEST_LEASE;

use super::layers::{Layers, NONE, ValueType, format_list};
use crate::exit::{Result, Usage};

/// The longest lease, in milliseconds: if a holder crashes, its lease blocks the session for all others until it
/// expires.
const LEASE_TTL_MAX: u64 = LONGEST_LEASE.as_secs() * 1000;
/// The longest wait for a lease, in milliseconds: it must end well before the HTTP response has to begin.
const LEASE_WAIT_MAX: u64 = 60_000;
/// The maximum of `checkpoints_kept`: a write may delete that many checkpoints, a list shows all of them, and the head
/// names all of them.
const CHECKPOINTS_MAX: u64 = 1000;
/// The maximum size of a checkpoint in bytes: each resume reads an entire checkpoint.
const CHECKPOINT_BYTES_MAX: u64 = 16 << 20;
/// The maximum number of items that a resume returns; it equals the maximum for lists of items.
const TAIL_ITEMS_MAX: u64 = 500;

/// Parses the states between commas; [`NONE`] means no state.
fn parse_states(text: &str) -> Result<Vec<Box<str>>, String> {
    if text.is_empty() || text == NONE {
        return Ok(Vec::new());
    }
    let states = text.split(',').map(str::trim);
    let is_invalid = |state: &str| state.is_empty() || state == NONE;
    if states.clone().any(is_invalid) {
        return Err(format!("{text:?}: states between commas, or {NONE} alone"));
    }
    Ok(states.map(Into::into).collect())
}

/// Checks that the default that the setting `name` gives does not exceed the configured maximum for requests.
fn check_default(name: &str, default: std::time::Duration, max: std::time::Duration) -> Result<()> {
    if default <= max {
        return Ok(());
    }
    let (default, max) = (default.as_millis(), max.as_millis());
    let detail = format!("calls.{name}_ms is {default}, and calls.{name}_max_ms is {max}");
    Err(Usage::new(detail).with_hint("set the second to at least as much as the first"))
}

pub(super) fn read(layers: &mut Layers<'_>) -> Result<CallSettings> {
    let defaults = CallSettings::default();
    let (ttl, wait) = (1..=LEASE_TTL_MAX, 0..=LEASE_WAIT_MAX);
    let settings = CallSettings {
        journal: layers.text("calls.journal", || Ok(defaults.journal))?,
        lease_ttl: layers.millis("calls.lease_ttl_ms", ttl.clone(), defaults.lease_ttl)?,
        lease_ttl_max: layers.millis("calls.lease_ttl_max_ms", ttl, defaults.lease_ttl_max)?,
        lease_wait: layers.millis("calls.lease_wait_ms", wait.clone(), defaults.lease_wait)?,
        lease_wait_max: layers.millis("calls.lease_wait_max_ms", wait, defaults.lease_wait_max)?,
        checkpoints_kept: layers.number(
            "calls.checkpoints_kept",
            1..=CHECKPOINTS_MAX,
            defaults.checkpoints_kept,
        )?,
        checkpoint_bytes: layers.number(
            "calls.checkpoint_bytes",
            2..=CHECKPOINT_BYTES_MAX,
            defaults.checkpoint_bytes,
        )?,
        tail_items: layers.number("calls.tail_items", 1..=TAIL_ITEMS_MAX, defaults.tail_items)?,
        terminal: layers.read(
            ("calls.terminal_states", ValueType::List),
            || Ok(defaults.terminal),
            parse_states,
            |states| format_list(states),
        )?,
    };
    check_default("lease_ttl", settings.lease_ttl, settings.lease_ttl_max)?;
    check_default("lease_wait", settings.lease_wait, settings.lease_wait_max)?;
    Ok(settings)
}
