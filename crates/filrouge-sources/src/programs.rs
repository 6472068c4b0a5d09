//! The programs whose histories are read, one line for each. Everything specific to a program is in its folder.

use crate::program::Program;
use crate::{claude_code, codex, opencode};

/// All programs, in the order in which their histories are queried.
pub static PROGRAMS: [&Program; 3] = [&opencode::PROGRAM, &claude_code::PROGRAM, &codex::PROGRAM];

/// The name of the ledger where a program's name is expected.
pub const LEDGER: &str = "ledger";

/// The program with this name.
pub fn named(name: &str) -> Option<&'static Program> {
    PROGRAMS.into_iter().find(|program| program.name == name)
}

/// The names of all histories that can be queried: the programs and the ledger.
pub fn sources() -> impl Iterator<Item = &'static str> {
    let names = PROGRAMS.into_iter().map(|program| program.name);
    names.chain([LEDGER])
}
