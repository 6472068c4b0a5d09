//! The program `filrouge`: the command line. Commands write data to stdout and messages to stderr.

mod cli;
mod commands;
mod config;
mod exit;
mod http_form;
mod ledger_index;
mod moment;
mod open;
mod output;
mod pdf;
mod projections;
mod similar;
mod stop;
mod team;
#[cfg(feature = "otel")]
mod telemetry;

use std::pin::Pin;
use std::process::ExitCode;

use clap::Parser;

/// A turn over HTTP takes a sixth less processor time with it than with glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
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
