//! `filrouge completions SHELL`

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::output::stdout;

pub(super) fn run(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    clap_complete::generate(shell, &mut Cli::command(), "filrouge", &mut stdout());
    Ok(ExitCode::SUCCESS)
}
