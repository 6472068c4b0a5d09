//! The Lua scripts, one file each. Every call contains the text, so a script works even after Redis has dropped it
//! from its cache.

use filrouge_store::hot::HotKey;
use redis::Cmd;

pub(crate) const COMMIT: Script = Script(include_str!("scripts/commit.lua"));
pub(crate) const FORGET: Script = Script(include_str!("scripts/forget.lua"));
pub(crate) const ADVANCE: Script = Script(concat!(
    include_str!("scripts/copy.lua"),
    include_str!("scripts/advance.lua")
));
pub(crate) const FILL: Script = Script(concat!(
    include_str!("scripts/copy.lua"),
    include_str!("scripts/fill.lua")
));
pub(crate) const FORGET_RECENT: Script = Script(concat!(
    include_str!("scripts/copy.lua"),
    include_str!("scripts/forget_recent.lua")
));

/// The text of a script.
pub(crate) struct Script(&'static str);

impl Script {
    /// A call of the script for one key; the caller adds the arguments.
    pub(crate) fn on(&self, key: &str) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.0).arg(1).arg(key);
        command
    }
}

/// The name of a key: of an ephemeral session (`e`), or of a copy of recent turns (`r`).
pub(crate) fn name(prefix: &str, key: &HotKey, which: char) -> String {
    format!("{prefix}:{{{key}}}:{which}")
}
