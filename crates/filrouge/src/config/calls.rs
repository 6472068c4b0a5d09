//! The section `[calls]`: leases, checkpoints and going on with live calls (DESIGN §6).

use filrouge_engine::CallSettings;

use super::layers::{Form, Layers, NONE, joined};
use crate::exit::Usage;

/// No lease lasts longer: a holder that is gone keeps a session from everybody for so long.
const LEASE_TTL_MOST: u64 = 24 * 60 * 60 * 1000;
/// What is waited for a lease must end well before an answer has to begin.
const LEASE_WAIT_MOST: u64 = 60_000;
/// What a write deletes at most, and a list shows.
const CHECKPOINTS_MOST: u64 = 1000;
/// A checkpoint is read whole at each resume.
const CHECKPOINT_BYTES_MOST: u64 = 16 << 20;
/// As for lists; each resume reads so many.
const TAIL_ITEMS_MOST: u64 = 500;

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

/// That a usual value is not above the most there may be.
fn check(name: &str, usual: std::time::Duration, most: std::time::Duration) -> Result<(), Usage> {
    if usual <= most {
        return Ok(());
    }
    let (usual, most) = (usual.as_millis(), most.as_millis());
    let what = format!("calls.{name}_ms is {usual}, and calls.{name}_max_ms is {most}");
    Err(Usage::new(what).with_hint("set the second to at least as much as the first"))
}

pub(super) fn read(layers: &mut Layers<'_>) -> Result<CallSettings, Usage> {
    let usual = CallSettings::default();
    let (ttl, wait) = (1..=LEASE_TTL_MOST, 0..=LEASE_WAIT_MOST);
    let all = CallSettings {
        journal: layers.text("calls.journal", || Ok(usual.journal))?,
        lease_ttl: layers.millis("calls.lease_ttl_ms", ttl.clone(), usual.lease_ttl)?,
        lease_ttl_max: layers.millis("calls.lease_ttl_max_ms", ttl, usual.lease_ttl_max)?,
        lease_wait: layers.millis("calls.lease_wait_ms", wait.clone(), usual.lease_wait)?,
        lease_wait_max: layers.millis("calls.lease_wait_max_ms", wait, usual.lease_wait_max)?,
        checkpoints_kept: layers.number(
            "calls.checkpoints_kept",
            1..=CHECKPOINTS_MOST,
            usual.checkpoints_kept,
        )?,
        checkpoint_bytes: layers.number(
            "calls.checkpoint_bytes",
            2..=CHECKPOINT_BYTES_MOST,
            usual.checkpoint_bytes,
        )?,
        tail_items: layers.number("calls.tail_items", 1..=TAIL_ITEMS_MOST, usual.tail_items)?,
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
