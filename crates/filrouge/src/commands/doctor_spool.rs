//! `filrouge doctor spool`: writes that wait for the ledger, and writes that the ledger refused (docs/spool.md).

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use filrouge_engine::spool::{Letters, Line, LineState};
use filrouge_store::OsEntropy;
use serde_json::json;

use crate::cli::DoctorSpool;
use crate::config::Config;
use crate::open::{Need, keyring, ledger, refuse_unverified};
use crate::output::{document, printable, say, show};

/// The argument that selects all dead letters.
const ALL: &str = "all";

/// Shows the spool, or requeues or drops dead letters. Exit code 1 when the spool is shown and contains dead letters.
///
/// # Errors
/// Errors of the store, which is opened because its id names the spool. An unknown dead letter. For a change of the
/// spool: a running server that uses the folder.
pub(super) fn run(config: &Config, args: &DoctorSpool) -> anyhow::Result<ExitCode> {
    refuse_unverified(config)?;
    let letters = letters(config)?;
    let named = |id: &'_ str| (id != ALL).then(|| id.to_owned());
    if let Some(id) = &args.retry {
        let count = letters.retry(named(id).as_deref())?;
        return print_count(config, "queued", count);
    }
    if let Some(id) = &args.drop {
        let count = letters.drop(named(id).as_deref())?;
        return print_count(config, "dropped", count);
    }
    let lines = letters.list(args.show)?;
    let shown = json!({ "directory": config.spool.directory, "entries": lines });
    show(config.json, &shown, |out| table(out, &lines))?;
    let dead = lines.iter().any(|line| line.state == LineState::Dead);
    Ok(ExitCode::from(u8::from(dead)))
}

/// The number of queued writes, and of dead letters.
///
/// # Errors
/// As [`run`].
pub(super) fn counts(config: &Config) -> anyhow::Result<(usize, usize)> {
    let lines = letters(config)?.list(false)?;
    let dead = lines.iter().filter(|line| line.state == LineState::Dead);
    let dead = dead.count();
    Ok((lines.len() - dead, dead))
}

/// The spool of the configured store.
fn letters(config: &Config) -> anyhow::Result<Letters> {
    let directory = &config.spool.directory;
    let (keys, id) = match ledger(config, Need::Existing) {
        Ok(ready) => (ready.keyring.clone(), ready.ledger.store_id().to_owned()),
        // The ledger may not answer. The spool is then read without it, if the folder contains the spool of one store
        // only.
        Err(error) => match only_store(directory) {
            Some(id) => (Arc::new(keyring(config, true)?), id),
            None => return Err(error),
        },
    };
    Ok(Letters::new(directory, keys, &id, Arc::new(OsEntropy)))
}

/// The id of the store that the only spool in the folder belongs to; `None` when the folder contains several spools, or
/// none.
fn only_store(directory: &Path) -> Option<String> {
    let mut names = std::fs::read_dir(directory).ok()?.map(|entry| {
        let name = entry.ok()?.file_name();
        name.into_string().ok()
    });
    let only = names.next()??;
    names.next().is_none().then_some(only)
}

fn print_count(config: &Config, what: &str, count: u64) -> anyhow::Result<ExitCode> {
    if config.json {
        document(&json!({ what: count }))?;
    } else {
        say(format_args!("{count} dead letters {what}"));
        if what == "queued" {
            say(format_args!("a server drains them when it starts"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(out: &mut impl Write, lines: &[Line]) -> io::Result<()> {
    for line in lines {
        let state = match line.state {
            LineState::Queued => "queued",
            LineState::Dead => "DEAD  ",
        };
        let word = |text: &Option<String>| printable(text.as_deref().unwrap_or("-")).to_string();
        let at = line
            .queued_at
            .map_or_else(|| "-".to_owned(), |at| at.to_string());
        write!(
            out,
            "{state}  {}  {at}  {}  {}/{}  {} bytes",
            line.id,
            word(&line.what),
            word(&line.tenant),
            word(&line.session),
            line.bytes
        )?;
        if let Some(code) = &line.code {
            write!(out, "  {code}: {}", word(&line.detail))?;
        }
        writeln!(out)?;
        if let Some(shown) = &line.shown {
            for text in shown.lines() {
                writeln!(out, "    {}", printable(text))?;
            }
        }
    }
    let count = |state| lines.iter().filter(|line| line.state == state).count();
    let (queued, dead) = (count(LineState::Queued), count(LineState::Dead));
    writeln!(out, "{queued} queued, {dead} dead")
}
