//! Paths of coding agents' configuration files.

use std::env;
use std::path::{Path, PathBuf};

use crate::cli::{InstallScope, McpClient};
use crate::config::{base_folder, env_path, home_folder};
use crate::exit::Usage;

/// The path of the configuration file to change, which may not exist.
pub(super) fn config_file(client: McpClient, scope: InstallScope) -> Result<PathBuf, Usage> {
    match (client, scope) {
        (McpClient::Opencode, InstallScope::User) => {
            let base = base_folder("XDG_CONFIG_HOME", ".config");
            let folder = base.map_or_else(|| in_home(".config"), Ok)?;
            Ok(opencode_file(&folder.join("opencode")))
        }
        (McpClient::Opencode, InstallScope::Project) => Ok(opencode_file(&current_folder()?)),
        (McpClient::ClaudeCode, InstallScope::User) => match env_path("CLAUDE_CONFIG_DIR") {
            Some(folder) => Ok(folder.join(".claude.json")),
            None => in_home(".claude.json"),
        },
        (McpClient::ClaudeCode, InstallScope::Project) => Ok(current_folder()?.join(".mcp.json")),
        (McpClient::Codex, InstallScope::User) => match env_path("CODEX_HOME") {
            Some(folder) => Ok(folder.join("config.toml")),
            None => in_home(".codex/config.toml"),
        },
        (McpClient::Codex, InstallScope::Project) => Err(Usage::new(
            "Codex takes servers from the user's configuration",
        )
        .with_hint("leave --scope project out")),
    }
}

/// The path of OpenCode's configuration in `folder`. OpenCode reads `opencode.json` and then `opencode.jsonc`, so the
/// latter is changed if it exists.
fn opencode_file(folder: &Path) -> PathBuf {
    let with_comments = folder.join("opencode.jsonc");
    if with_comments.exists() {
        return with_comments;
    }
    folder.join("opencode.json")
}

fn in_home(file: &str) -> Result<PathBuf, Usage> {
    let home = home_folder().ok_or_else(|| Usage::new("HOME is not set").with_hint("set HOME"));
    home.map(|home| home.join(file))
}

fn current_folder() -> Result<PathBuf, Usage> {
    env::current_dir().map_err(|e| Usage::new(format!("the current folder: {e}")))
}
