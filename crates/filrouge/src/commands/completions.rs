//! `filrouge completions SHELL`

use std::io::Write;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::output::print;

pub(super) fn run(shell: clap_complete::Shell) -> anyhow::Result<()> {
    // Into memory first: clap panics when a write fails, as to a reader that has gone away.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "filrouge", &mut script);
    print(|out| out.write_all(&script))
}
