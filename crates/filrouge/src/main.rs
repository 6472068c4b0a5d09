//! The program `filrouge`.

use std::process::ExitCode;

/// A turn over HTTP takes a sixth less processor time with it than with glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    filrouge::run(std::env::args_os(), None).into()
}
