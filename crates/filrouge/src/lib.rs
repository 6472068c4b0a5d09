//! The program `filrouge` as a library, and the ledger within another program ([`embedded`]).
//!
//! Commands write data to stdout and messages to stderr.

mod cli;
mod commands;
mod config;
pub mod embedded;
mod exit;
mod http_form;
mod indexes;
mod ledger_index;
mod moment;
mod open;
mod output;
mod pdf;
mod projections;
mod service;
mod similar;
mod stop;
mod team;
#[cfg(feature = "otel")]
mod telemetry;

use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::Pin;

use clap::Parser;

pub use exit::ExitCode;

/// Runs the program with these arguments, of which the first is its name, and returns its exit code. `program` is the
/// path that runs this program again; `None`: the executable of this process.
pub fn run(arguments: impl IntoIterator<Item = OsString>, program: Option<PathBuf>) -> ExitCode {
    let mut cli = match cli::Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // A failed write to stdout or stderr cannot be reported.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    cli.options.program = program;
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => return exit::report(&anyhow::Error::new(e).context("no runtime"), false),
    };
    let json = cli.options.json;
    // Boxed to shorten compilation: otherwise the compiler generates the code of all commands once for each of the
    // runtime's schedulers.
    let run: Pin<Box<dyn Future<Output = _>>> = Box::pin(commands::run(cli));
    let result = runtime.block_on(run);
    result.unwrap_or_else(|error| exit::report(&error, json))
}
