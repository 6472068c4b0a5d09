//! The extension module `filrouge._native`: the ledger in a Python process, a client for a server, and the program.
//!
//! Everything in Python is written over one class, `Connection`: a request is answered by the ledger in the process, or
//! by a server ([ADR 0046](../../../docs/adr/0046-python.md)).

mod connection;
mod delta;
mod download;
mod errors;
mod event_loop;
mod origin;
mod process;
mod program;
mod remote;
mod response;
mod upload;

use pyo3::prelude::*;

/// As in the program: a turn takes a sixth less processor time with it than with glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The ledger in this process, or a client for a server, behind one class: `Connection`.
///
/// This module is an implementation detail; use the package `filrouge`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<connection::Connection>()?;
    module.add_class::<response::Response>()?;
    module.add_class::<upload::Upload>()?;
    module.add_class::<download::Download>()?;
    module.add_function(wrap_pyfunction!(program::run_program, module)?)?;
    module.add_function(wrap_pyfunction!(program::version, module)?)?;
    module.add_function(wrap_pyfunction!(delta::delta, module)?)?;
    module.add_function(wrap_pyfunction!(delta::undelta, module)?)?;
    errors::add_to(module)
}
