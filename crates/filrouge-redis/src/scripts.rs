//! The Lua scripts, one file each. Every call contains the text of its script, so the script need not be in the cache
//! of Redis.

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
    /// Begins a call of the script for one key. The caller adds the arguments.
    pub(crate) fn call_on(&self, key: &str) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.0).arg(1).arg(key);
        command
    }
}

/// The name of a key in Redis. `suffix` is `e` for an ephemeral session, `r` for a copy of recent turns.
pub(crate) fn key_name(prefix: &str, key: &HotKey, suffix: char) -> String {
    format!("{prefix}:{{{key}}}:{suffix}")
}
