//! Third-party clients in the build folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::node::{NODE, node, npm};
use crate::not_tested::{Unavailable, installed, npm_install, run};

/// The official Python client: a version that supports protocol 2026-07-28, and the last version that does not.
const PYTHON: [(&str, &str); 2] = [("newest", "mcp==2.3.0"), ("older", "mcp==1.30.0")];
const INSPECTOR: &str = "@modelcontextprotocol/inspector@2.12.0";
const CONFORMANCE: &str = "@modelcontextprotocol/conformance@0.1.16";

/// The folder that contains the clients.
pub(super) struct Installed {
    folder: PathBuf,
}

impl Installed {
    /// Installs the clients unless the build folder contains these versions.
    pub(super) fn install_if_missing() -> Result<Self, Unavailable> {
        let all = [NODE, PYTHON[0].1, PYTHON[1].1, INSPECTOR, CONFORMANCE].join("\n");
        let install = |folder: &Path| {
            let folder = folder.to_owned();
            Self { folder }.install()
        };
        let folder = installed("mcp-clients", &all, install)?;
        Ok(Self { folder })
    }

    fn install(&self) -> Result<(), Unavailable> {
        for (name, package) in PYTHON {
            let venv = self.folder.join(name);
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
            let mut packages = vec![package];
            packages.extend((name == "newest").then_some(NODE));
            let pip = ["-m", "pip", "install", "--quiet"];
            run(Command::new(self.python(name)).args(pip).args(packages))?;
        }
        let folder = self.folder.join("node");
        let npm = &mut npm(&self.venv_with_node(), &self.folder);
        npm_install(npm, &folder, &[INSPECTOR, CONFORMANCE])
    }

    /// The Python with the `newest` or `older` client.
    pub(super) fn python(&self, name: &str) -> PathBuf {
        self.folder.join(name).join("bin/python")
    }

    fn venv_with_node(&self) -> PathBuf {
        self.folder.join("newest")
    }

    /// A command that runs a script in Node.js; its home is the build folder.
    fn node(&self, script: &Path) -> Command {
        node(&self.venv_with_node(), &self.folder, script)
    }

    /// `npx @modelcontextprotocol/inspector --cli`.
    pub(super) fn inspector(&self) -> Command {
        let mut command = self.node(&self.folder.join("node/node_modules/.bin/mcp-inspector"));
        command.arg("--cli");
        command
    }

    /// `npx @modelcontextprotocol/conformance`.
    pub(super) fn conformance(&self) -> Command {
        self.node(&self.folder.join("node/node_modules/.bin/conformance"))
    }
}
