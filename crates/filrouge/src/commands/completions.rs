//! `filrouge completions SHELL`

use std::io::Write;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::output::print;

pub(super) fn run(shell: clap_complete::Shell) -> anyhow::Result<()> {
    // The script is rendered in memory first: clap panics when a write fails, for example when the reader closed the
    // pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "filrouge", &mut script);
    print(|out| out.write_all(&script))
}
