//! Where coding agents have their configuration.

use std::env;
use std::path::{Path, PathBuf};

use crate::cli::{InstallScope, McpClient};
use crate::exit::Usage;

/// The file that is changed.
pub(super) fn of(client: McpClient, scope: InstallScope) -> Result<PathBuf, Usage> {
    match (client, scope) {
        (McpClient::Opencode, InstallScope::User) => {
            let own = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
            let base = own.map_or_else(|| home().map(|home| home.join(".config")), Ok)?;
            Ok(opencode(&base.join("opencode")))
        }
        (McpClient::Opencode, InstallScope::Project) => Ok(opencode(&here()?)),
        (McpClient::ClaudeCode, InstallScope::User) => match variable("CLAUDE_CONFIG_DIR") {
            Some(folder) => Ok(folder.join(".claude.json")),
            None => Ok(home()?.join(".claude.json")),
        },
        (McpClient::ClaudeCode, InstallScope::Project) => Ok(here()?.join(".mcp.json")),
        (McpClient::Codex, InstallScope::User) => match variable("CODEX_HOME") {
            Some(folder) => Ok(folder.join("config.toml")),
            None => Ok(home()?.join(".codex/config.toml")),
        },
        (McpClient::Codex, InstallScope::Project) => Err(Usage::new(
            "Codex takes servers from the user's configuration",
        )
        .with_hint("leave --scope project out")),
    }
}

/// OpenCode reads both files, the one with comments last.
fn opencode(folder: &Path) -> PathBuf {
    let with_comments = folder.join("opencode.jsonc");
    if with_comments.exists() {
        return with_comments;
    }
    folder.join("opencode.json")
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn home() -> Result<PathBuf, Usage> {
    let home = variable("HOME").filter(|home| home.is_absolute());
    home.ok_or_else(|| Usage::new("HOME is not set").with_hint("set HOME"))
}

fn here() -> Result<PathBuf, Usage> {
    env::current_dir().map_err(|e| Usage::new(format!("the current folder: {e}")))
}
