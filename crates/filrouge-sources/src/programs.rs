//! The programs whose histories are read: one line for each. What is particular to one is in its folder.

use crate::program::Program;
use crate::{claude_code, codex, opencode};

/// All programs, in the order in which their histories are asked.
pub static PROGRAMS: [&Program; 3] = [&opencode::PROGRAM, &claude_code::PROGRAM, &codex::PROGRAM];

/// The word for the ledger where a program's name may stand.
pub const LEDGER: &str = "ledger";

/// The program of a name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Program> {
    PROGRAMS.into_iter().find(|program| program.name == name)
}

/// The words for all histories that can be asked: the programs' names, and the ledger.
pub fn sources() -> impl Iterator<Item = &'static str> {
    let names = PROGRAMS.into_iter().map(|program| program.name);
    names.chain([LEDGER])
}
