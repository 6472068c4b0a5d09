//! `filrouge doctor spool`: writes that wait for the ledger, and writes that the ledger refused (docs/spool.md).

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use filrouge_engine::spool::{ListedState, ListedWrite, SpoolAdmin};
use filrouge_store::OsEntropy;
use serde_json::json;

use crate::cli::DoctorSpool;
use crate::config::Config;
use crate::exit::ExitCode;
use crate::open::{IfMissing, OpenLedger, keyring, ledger, refuse_unverified};
use crate::output::{print_json, print_stderr, printable, show};

/// The argument that selects all dead letters.
const ALL: &str = "all";

/// Shows the spool, or requeues or drops dead letters. Exit code 1 when the spool is shown and contains dead letters.
///
/// # Errors
/// Errors of the store, which is opened because its id names the spool. An unknown dead letter. For a change of the
/// spool: a running server that uses the folder.
pub(super) fn run(config: &Config, args: &DoctorSpool) -> anyhow::Result<ExitCode> {
    refuse_unverified(config)?;
    let spool = open_spool(config)?;
    let selected_id = |id: &'_ str| (id != ALL).then(|| id.to_owned());
    if let Some(id) = &args.retry {
        let count = spool.retry(selected_id(id).as_deref())?;
        return print_count(config, "queued", count);
    }
    if let Some(id) = &args.drop {
        let count = spool.drop(selected_id(id).as_deref())?;
        return print_count(config, "dropped", count);
    }
    let lines = spool.list(args.show)?;
    let output = json!({ "directory": config.spool.directory, "entries": lines });
    show(config.json, &output, |out| table(out, &lines))?;
    let has_dead_letters = lines.iter().any(|line| line.state == ListedState::Dead);
    Ok(ExitCode::from(u8::from(has_dead_letters)))
}

/// The number of queued writes, and of dead letters.
///
/// # Errors
/// As [`run`].
pub(super) fn counts(config: &Config) -> anyhow::Result<(usize, usize)> {
    let lines = open_spool(config)?.list(false)?;
    let dead = lines.iter().filter(|line| line.state == ListedState::Dead);
    let dead = dead.count();
    Ok((lines.len() - dead, dead))
}

/// Opens the spool of the configured store.
fn open_spool(config: &Config) -> anyhow::Result<SpoolAdmin> {
    let directory = &config.spool.directory;
    let (keys, id) = match ledger(config, IfMissing::Fail) {
        Ok(OpenLedger { ledger, .. }) => (
            Arc::new(ledger.keyring().clone()),
            ledger.store_id().to_owned(),
        ),
        // The ledger may not answer. The spool is then read without it, if the folder contains only one spool.
        Err(error) => match only_store_id(directory) {
            Some(id) => (Arc::new(keyring(config, true)?), id),
            None => return Err(error),
        },
    };
    Ok(SpoolAdmin::new(directory, keys, &id, Arc::new(OsEntropy)))
}

/// The id of the store whose spool is the only one in the folder; `None` for several spools, or none.
fn only_store_id(directory: &Path) -> Option<String> {
    let mut names = std::fs::read_dir(directory).ok()?.map(|entry| {
        let name = entry.ok()?.file_name();
        name.into_string().ok()
    });
    let only_name = names.next()??;
    names.next().is_none().then_some(only_name)
}

fn print_count(config: &Config, action: &str, count: u64) -> anyhow::Result<ExitCode> {
    if config.json {
        print_json(&json!({ action: count }))?;
    } else {
        print_stderr(format_args!("{count} dead letters {action}"));
        if action == "queued" {
            print_stderr(format_args!("a server drains them when it starts"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(out: &mut impl Write, lines: &[ListedWrite]) -> io::Result<()> {
    for line in lines {
        let state = match line.state {
            ListedState::Queued => "queued",
            ListedState::Dead => "DEAD  ",
        };
        let printable_or_dash = |text: &Option<String>| printable(text.as_deref().unwrap_or("-"));
        let at = line.queued_at.map(|at| at.to_string());
        write!(
            out,
            "{state}  {}  {}  {}  {}/{}  {} bytes",
            line.id,
            printable_or_dash(&at),
            printable_or_dash(&line.what),
            printable_or_dash(&line.tenant),
            printable_or_dash(&line.session),
            line.bytes
        )?;
        if let Some(code) = &line.code {
            write!(out, "  {code}: {}", printable_or_dash(&line.detail))?;
        }
        writeln!(out)?;
        if let Some(shown) = &line.shown {
            for text in shown.lines() {
                writeln!(out, "    {}", printable(text))?;
            }
        }
    }
    let count = |state| lines.iter().filter(|line| line.state == state).count();
    let (queued, dead) = (count(ListedState::Queued), count(ListedState::Dead));
    writeln!(out, "{queued} queued, {dead} dead")
}
