//! `filrouge mcp install`: adds this server to a coding agent's configuration
//!
//! The change is computed as an edit of the file's text, so that everything else in it, comments included, stays
//! unchanged. It is shown, confirmed, and written atomically with a backup. A file with an unsupported form is
//! refused.

mod diff;
mod file;
mod jsonc;
mod location;
mod toml_file;

use std::io::Write;
use std::path::Path;

use serde_json::json;

use crate::cli::{Install, McpClient, Options};
use crate::config::Config;
use crate::exit::Usage;
use crate::output::{ask_confirmation, print, print_json, print_stderr, printable};

/// The name of the server in every configuration.
const NAME: &str = "filrouge";

/// The new text of a file; `None` if the file already has the entry.
type Edit = Option<String>;

/// The reason why a file is not changed.
struct RefusedEdit {
    /// The fault in the file, and its position.
    reason: String,
    /// The lines to write by hand, when the file is valid but not of the expected form.
    by_hand: Option<String>,
}

pub(super) fn run(config: &Config, global_options: &Options, args: &Install) -> anyhow::Result<()> {
    refuse_global_options(global_options)?;
    let command = program_path(global_options)?;
    let path = location::config_file(args.client, args.scope)?;
    let old = file::read(&path)?;
    let text = old.as_deref().unwrap_or("");
    let edited = edit(args.client, text, &command);
    let Some(new) = edited.map_err(|refused| refusal_error(&path, refused))? else {
        return report(config, &path, "there", None, "");
    };
    // The diff quotes the user's file, which may contain credentials.
    let diff = diff::unified(&path, text, &new);
    let diff = filrouge_engine::mask_text(&diff, &mut Default::default()).unwrap_or(diff);
    if args.print {
        return report(config, &path, "shown", None, &diff);
    }
    if !args.yes {
        show(&diff)?;
        confirm(&path)?;
    }
    let backup = file::replace(&path, old.as_deref(), &new)?;
    report(config, &path, "written", backup.as_deref(), &diff)
}

/// Refuses global options: the agent will run plain `filrouge mcp`, without the options of this command.
fn refuse_global_options(global_options: &Options) -> Result<(), Usage> {
    let settings = [
        ("--store", global_options.store.is_some()),
        ("--hot", global_options.hot.is_some()),
        ("--tenant", global_options.tenant.is_some()),
        ("--config", global_options.config.is_some()),
        ("--unverified", global_options.unverified),
    ];
    let Some((option, _)) = settings.iter().find(|(_, is_given)| *is_given) else {
        return Ok(());
    };
    let detail = format!("{option} would be missing when the agent starts the server");
    Err(Usage::new(detail).with_hint(
        "put store, tenant and sources into filrouge's configuration file (docs/settings.md), \
         or write the option into the agent's by hand",
    ))
}

/// The path of this program, which the agent will run.
fn program_path(options: &Options) -> anyhow::Result<String> {
    let path = match &options.program {
        Some(path) => path.clone(),
        None => std::env::current_exe()?,
    };
    match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => Err(Usage::new(format!("{} is not UTF-8", path.display())).into()),
    }
}

fn edit(client: McpClient, text: &str, command: &str) -> Result<Edit, RefusedEdit> {
    let command_line = [command, "mcp"];
    let expected = match client {
        McpClient::Codex => return toml_file::edit(text, command),
        McpClient::Opencode => jsonc::ExpectedEntry {
            section: "mcp",
            command_line: &command_line,
            entry: json!({ "type": "local", "command": [command, "mcp"], "enabled": true }),
            allow_comments: true,
            first_member: Some(("$schema", json!("https://opencode.ai/config.json"))),
        },
        McpClient::ClaudeCode => jsonc::ExpectedEntry {
            section: "mcpServers",
            command_line: &command_line,
            entry: json!({ "type": "stdio", "command": command, "args": ["mcp"] }),
            allow_comments: false,
            first_member: None,
        },
    };
    jsonc::edit(text, &expected)
}

/// Keeps an existing entry that is enabled and runs this server, whatever else it contains. Refuses any other entry
/// with the reason.
fn existing_entry(name: &str, is_same: bool, is_disabled: bool) -> Result<Edit, String> {
    match (is_same, is_disabled) {
        (true, false) => Ok(None),
        (true, true) => Err(format!(
            "{name} already exists and is disabled: enabled is false"
        )),
        (false, _) => Err(format!("{name} already exists and differs")),
    }
}

fn refusal_error(path: &Path, refused: RefusedEdit) -> Usage {
    let usage = Usage::new(format!(
        "{}: {}; nothing was changed",
        path.display(),
        refused.reason
    ));
    match refused.by_hand {
        Some(lines) => usage.with_hint(format!("write it by hand:\n{lines}")),
        None => usage.with_hint("repair the file, then try again"),
    }
}

fn show(diff: &str) -> anyhow::Result<()> {
    print(|out| out.write_all(printable(diff).as_bytes()))
}

fn confirm(path: &Path) -> anyhow::Result<()> {
    let path = path.display();
    let no_terminal = format!("{path} was not changed: no terminal can ask for confirmation");
    if !ask_confirmation(&format!("Change {path}?"), &["yes", "y"], &no_terminal)? {
        anyhow::bail!("nothing was changed");
    }
    Ok(())
}

fn report(
    config: &Config,
    path: &Path,
    status: &str,
    backup: Option<&Path>,
    diff: &str,
) -> anyhow::Result<()> {
    if config.json {
        return print_json(&json!({
            "path": path.to_string_lossy(),
            "status": status,
            "backup": backup.map(|backup| backup.to_string_lossy()),
            "diff": diff,
        }));
    }
    match status {
        "there" => print_stderr(format_args!("{} has it already", path.display())),
        "shown" => show(diff)?,
        _ => print_stderr(format_args!("{} written", path.display())),
    }
    if let Some(backup) = backup {
        print_stderr(format_args!(
            "the previous version is in {}",
            backup.display()
        ));
    }
    Ok(())
}
