//! What a copy has come to.

use std::io::{self, Write};
use std::process::ExitCode;

use filrouge_store::copy::Copied;
use filrouge_store::verify::Verdict;
use serde_json::json;

use super::super::verify::write_findings;
use crate::config::{Config, StoreUrl};
use crate::exit::code;
use crate::output::show;

/// Tells it, and gives the exit code: a source that is not what was written is not hushed up by a good copy of it.
pub(super) fn end(
    config: &Config,
    (from, to): (&StoreUrl, &StoreUrl),
    copied: &Copied,
) -> anyhow::Result<ExitCode> {
    let verdict = copied.source.verdict();
    let report = &copied.copy;
    let shown = json!({
        "from": from.to_string(), "to": to.to_string(), "store_id": copied.store_id,
        "commit": copied.position.commit_no, "resumed": copied.resumed,
        "sessions_known": copied.sessions_known, "sessions": report.sessions,
        "turns": report.turns, "items": report.items, "events": report.events,
        "notes": report.notes, "commits": report.commits,
        "source": { "status": verdict, "findings": copied.source.findings },
        "copy": { "status": report.verdict(), "findings": report.findings },
        "left_out": copied.left_out,
    });
    show(config.json, &shown, |out| write(out, copied))?;
    Ok(code(verdict == Verdict::Intact))
}

fn write(out: &mut impl Write, copied: &Copied) -> io::Result<()> {
    let report = &copied.copy;
    writeln!(
        out,
        "copied up to commit {}: {} sessions, {} turns, {} items",
        copied.position.commit_no, report.sessions, report.turns, report.items
    )?;
    if copied.resumed {
        let known = copied.sessions_known;
        writeln!(out, "{known} sessions were copied by an earlier run")?;
    }
    match copied.source.verdict() {
        Verdict::Intact => writeln!(out, "intact: the copy is what the source is")?,
        Verdict::Broken => writeln!(out, "BROKEN in the source, and so in the copy:")?,
        Verdict::CannotTell => writeln!(out, "cannot tell, of the source as of the copy:")?,
    }
    write_findings(out, &copied.source.findings)?;
    if !copied.left_out.is_empty() {
        writeln!(
            out,
            "missing in the copy, for the source's rows cannot be read:"
        )?;
    }
    write_findings(out, &copied.left_out)
}
