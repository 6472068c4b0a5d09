//! `filrouge mcp install`: adds this server to a coding agent's configuration
//!
//! The change is computed as an edit of the file's text, so that everything else in it, comments included, stays
//! unchanged. It is shown, confirmed, and written atomically with a backup. An unsupported form is refused, never
//! guessed.

mod diff;
mod file;
mod jsonc;
mod location;
mod toml_file;

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::{Install, McpClient, Options};
use crate::config::Config;
use crate::exit::Usage;
use crate::output::{confirmed, document, print, printable, say};

/// The name of the server in every configuration.
const NAME: &str = "filrouge";

/// The edit of a file.
enum Edit {
    /// No edit: the file already has the entry.
    Unchanged,
    /// The new text.
    Change(String),
}

/// The reason why a file is not changed.
struct Refused {
    /// The fault in the file, and its position.
    what: String,
    /// The lines to write by hand, when the file is valid but not of the expected form.
    by_hand: Option<String>,
}

pub(super) fn run(config: &Config, given: &Options, args: &Install) -> anyhow::Result<()> {
    refuse_settings(given)?;
    let command = own_path()?;
    let path = location::config_file(args.client, args.scope)?;
    let old = file::read(&path)?;
    let text = old.as_deref().unwrap_or("");
    let new = match edit(args.client, text, &command).map_err(|why| refusal(&path, why))? {
        Edit::Unchanged => return report(config, &path, "there", None, ""),
        Edit::Change(new) => new,
    };
    // The diff quotes the user's file, which may contain credentials.
    let diff = masked(diff::unified(&path, text, &new));
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
fn refuse_settings(given: &Options) -> Result<(), Usage> {
    let settings = [
        ("--store", given.store.is_some()),
        ("--hot", given.hot.is_some()),
        ("--tenant", given.tenant.is_some()),
        ("--config", given.config.is_some()),
        ("--unverified", given.unverified),
    ];
    let Some((option, _)) = settings.iter().find(|(_, is_given)| *is_given) else {
        return Ok(());
    };
    let what = format!("{option} would be missing when the agent starts the server");
    Err(Usage::new(what).with_hint(
        "put store, tenant and sources into filrouge's configuration file (docs/settings.md), \
         or write the option into the agent's by hand",
    ))
}

fn masked(diff: String) -> String {
    filrouge_engine::mask_text(&diff, &mut Default::default()).unwrap_or(diff)
}

/// The path of this program, which the agent will run.
fn own_path() -> anyhow::Result<String> {
    let path = std::env::current_exe()?;
    match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => Err(Usage::new(format!("{} is not UTF-8", path.display())).into()),
    }
}

fn edit(client: McpClient, text: &str, command: &str) -> Result<Edit, Refused> {
    match client {
        McpClient::Codex => toml_file::edit(text, command),
        McpClient::Opencode => jsonc::edit(
            text,
            &jsonc::Wanted {
                section: "mcp",
                runs: &[command, "mcp"],
                entry: opencode_entry(command),
                comments: true,
                head: Some(("$schema", json!("https://opencode.ai/config.json"))),
            },
        ),
        McpClient::ClaudeCode => jsonc::edit(
            text,
            &jsonc::Wanted {
                section: "mcpServers",
                runs: &[command, "mcp"],
                entry: json!({ "type": "stdio", "command": command, "args": ["mcp"] }),
                comments: false,
                head: None,
            },
        ),
    }
}

/// Decides about an entry that already exists. An enabled entry that runs this server is kept, whatever else it
/// contains. Any other entry is refused, with the reason.
fn existing_entry(name: &str, is_same: bool, is_off: bool) -> Result<Edit, String> {
    match (is_same, is_off) {
        (true, false) => Ok(Edit::Unchanged),
        (true, true) => Err(format!(
            "{name} already exists and is disabled: enabled is false"
        )),
        (false, _) => Err(format!("{name} already exists and differs")),
    }
}

fn opencode_entry(command: &str) -> Value {
    json!({ "type": "local", "command": [command, "mcp"], "enabled": true })
}

fn refusal(path: &Path, why: Refused) -> Usage {
    let usage = Usage::new(format!(
        "{}: {}; nothing was changed",
        path.display(),
        why.what
    ));
    match why.by_hand {
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
    if !confirmed(&format!("Change {path}?"), &["yes", "y"], &no_terminal)? {
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
        return document(&json!({
            "path": path.to_string_lossy(),
            "status": status,
            "backup": backup.map(|backup| backup.to_string_lossy()),
            "diff": diff,
        }));
    }
    match status {
        "there" => say(format_args!("{} has it already", path.display())),
        "shown" => show(diff)?,
        _ => say(format_args!("{} written", path.display())),
    }
    if let Some(backup) = backup {
        say(format_args!(
            "the previous version is in {}",
            backup.display()
        ));
    }
    Ok(())
}
