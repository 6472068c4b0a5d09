//! `filrouge mcp install`: adds this server to a coding agent's configuration
//!
//! The change is worked out as text in the file as it is, so that everything else in it, comments too, stays as it was;
//! it is shown, asked for, and written in one step beside a backup. What is not understood is refused, never guessed.

mod file;
mod jsonc;
mod place;
mod shown;
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

/// What is to become of a file.
enum Edit {
    /// It has the entry already.
    There,
    /// It becomes this text.
    Change(String),
}

/// Why a file is left alone.
struct Refused {
    /// What is wrong with it, with the place.
    what: String,
    /// What to write by hand, when the file is sound but not of the expected form.
    by_hand: Option<String>,
}

pub(super) fn run(config: &Config, given: &Options, asked: &Install) -> anyhow::Result<()> {
    refuse_settings(given)?;
    let command = own_path()?;
    let path = place::of(asked.client, asked.scope)?;
    let old = file::read(&path)?;
    let text = old.as_deref().unwrap_or("");
    let new = match edit(asked.client, text, &command).map_err(|why| told(&path, why))? {
        Edit::There => return report(config, &path, "there", None, ""),
        Edit::Change(new) => new,
    };
    // What stands around the change is the user's own.
    let diff = masked(shown::diff(&path, text, &new));
    if asked.print {
        return report(config, &path, "shown", None, &diff);
    }
    if !asked.yes {
        show(&diff)?;
        ask(&path)?;
    }
    let backup = file::replace(&path, old.as_deref(), &new)?;
    report(config, &path, "written", backup.as_deref(), &diff)
}

/// The agent is to run `filrouge mcp` as it is: what was given for this call alone would be forgotten.
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
    let what = format!("{option} would not be there when the agent starts the server");
    Err(Usage::new(what).with_hint(
        "put store, tenant and sources into filrouge's configuration file (docs/settings.md), \
         or write the option into the agent's by hand",
    ))
}

fn masked(diff: String) -> String {
    filrouge_engine::mask_text(&diff, &mut Default::default()).unwrap_or(diff)
}

/// The command that an agent is to run: this very program.
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

/// What an entry that is there already is to us: this server, whatever else it says, is left as it is.
fn compared(place: &str, is_same: bool, is_off: bool) -> Result<Edit, String> {
    match (is_same, is_off) {
        (true, false) => Ok(Edit::There),
        (true, true) => Err(format!(
            "{place} is there and is switched off: enabled is false"
        )),
        (false, _) => Err(format!("{place} is there and is another one")),
    }
}

fn opencode_entry(command: &str) -> Value {
    json!({ "type": "local", "command": [command, "mcp"], "enabled": true })
}

fn told(path: &Path, why: Refused) -> Usage {
    let usage = Usage::new(format!(
        "{}: {}; nothing was changed",
        path.display(),
        why.what
    ));
    match why.by_hand {
        Some(lines) => usage.with_hint(format!("write it by hand:\n{lines}")),
        None => usage.with_hint("mend the file, then try again"),
    }
}

fn show(diff: &str) -> anyhow::Result<()> {
    print(|out| out.write_all(printable(diff).as_bytes()))
}

fn ask(path: &Path) -> anyhow::Result<()> {
    let path = path.display();
    let unasked = format!("{path} was not changed: nobody can be asked");
    if !confirmed(&format!("Change {path}?"), &["yes", "y"], &unasked)? {
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
        say(format_args!("what it was is in {}", backup.display()));
    }
    Ok(())
}
