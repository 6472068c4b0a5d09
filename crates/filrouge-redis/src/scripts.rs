//! The scripts: one file each. They run by their hash, and by their text where Redis does not know them.

use std::sync::LazyLock;

use filrouge_store::hot::HotKey;
use redis::{Arg, Cmd, Script};

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $($file:literal)+;)+) => {
        $($(#[$doc])* pub(crate) static $name: LazyLock<Text> =
            LazyLock::new(|| Text::new(concat!($(include_str!($file)),+)));)+
        static ALL: [&LazyLock<Text>; 5] = [$(&$name),+];
    };
}

scripts! {
    COMMIT = "scripts/commit.lua";
    FORGET = "scripts/forget.lua";
    ADVANCE = "scripts/copy.lua" "scripts/advance.lua";
    FILL = "scripts/copy.lua" "scripts/fill.lua";
    FORGET_RECENT = "scripts/copy.lua" "scripts/forget_recent.lua";
}

/// A script and its hash.
pub(crate) struct Text {
    text: &'static str,
    hash: String,
}

impl Text {
    fn new(text: &'static str) -> Self {
        let hash = Script::new(text).get_hash().to_owned();
        Self { text, hash }
    }

    /// A call of the script for one key, to which its arguments are added.
    pub(crate) fn on(&self, key: &str) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.hash).arg(1).arg(key);
        command
    }
}

/// The same call with the script's text; `None` for what is no call of ours.
pub(crate) fn with_text(call: &Cmd) -> Option<Cmd> {
    let mut words = call.args_iter().filter_map(|word| match word {
        Arg::Simple(word) => Some(word),
        _ => None,
    });
    words.next().filter(|name| *name == b"EVALSHA")?;
    let hash = words.next()?;
    let script = ALL.iter().find(|script| script.hash.as_bytes() == hash)?;
    let mut command = redis::cmd("EVAL");
    command.arg(script.text);
    for word in words {
        command.arg(word);
    }
    Some(command)
}

/// The name of a key: of an ephemeral session (`e`), or of a copy of recent turns (`r`).
pub(crate) fn name(prefix: &str, key: &HotKey, which: char) -> String {
    format!("{prefix}:{{{key}}}:{which}")
}
