//! The section `[spool]`: the spool, to which live calls write while the ledger does not answer (DESIGN §6,
//! docs/spool.md).

use filrouge_engine::spool::SpoolOptions;

use super::layers::{Layers, xdg_folder};
use crate::exit::Result;

/// The maximum of `after_ms`, the time until a write goes to the spool: a caller on a phone does not wait longer.
const AFTER_MS_MAX: u64 = 60_000;

pub(super) fn read(layers: &mut Layers<'_>) -> Result<SpoolOptions> {
    let default_dir = || Ok(xdg_folder("XDG_STATE_HOME", ".local/state")?.join("spool"));
    let defaults = SpoolOptions::new(layers.path("spool.dir", default_dir)?);
    Ok(SpoolOptions {
        after: layers.millis("spool.after_ms", 1..=AFTER_MS_MAX, defaults.after)?,
        bytes: layers.number("spool.bytes", 0..=u64::MAX, defaults.bytes)?,
        session_entries: layers.number(
            "spool.session_entries",
            1..=u64::MAX,
            defaults.session_entries,
        )?,
        ..defaults
    })
}
