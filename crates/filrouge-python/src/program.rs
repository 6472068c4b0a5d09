//! The program `filrouge`, of which the package has one copy: this module.

use std::ffi::OsString;
use std::io::{self, Write};

use pyo3::prelude::*;

/// Runs the program `filrouge` with these arguments, of which the first is the path of the script, and returns its exit
/// code.
///
/// Ctrl-C ends the process, as in the program itself. Must be called in the main thread.
#[pyfunction]
pub(crate) fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    // Python's own handler would run only after the command has ended.
    let signal = py.import("signal")?;
    signal.call_method1(
        "signal",
        (signal.getattr("SIGINT")?, signal.getattr("SIG_DFL")?),
    )?;
    let script = arguments.first().map(std::path::absolute).transpose()?;
    let code = py.detach(|| filrouge::run(arguments, script));
    io::stdout().flush()?;
    Ok(code.number())
}

/// The version of filrouge.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
