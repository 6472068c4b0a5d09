//! The report of a finished copy.

use std::io::{self, Write};

use filrouge_store::copy::Copied;
use filrouge_store::verify::Verdict;
use serde_json::json;

use super::super::verify::write_findings;
use crate::config::{Config, StoreUrl};
use crate::exit::{ExitCode, code};
use crate::output::show;

/// Prints the report and returns the exit code: 1 when the source is not intact, because the copy lacks the damaged
/// sessions.
pub(super) fn print(
    config: &Config,
    (from, to): (&StoreUrl, &StoreUrl),
    copied: &Copied,
) -> anyhow::Result<ExitCode> {
    let verdict = copied.source.verdict();
    let report = &copied.copy;
    let output = json!({
        "from": from.to_string(), "to": to.to_string(), "store_id": copied.store_id,
        "commit": copied.position.commit_count(), "resumed": copied.resumed,
        "sessions_known": copied.sessions_unchanged, "sessions": report.sessions,
        "turns": report.turns, "items": report.items, "events": report.events,
        "notes": report.notes, "commits": report.commits,
        "source": { "status": verdict, "findings": copied.source.findings },
        "copy": { "status": report.verdict(), "findings": report.findings },
        "left_out": copied.left_out,
    });
    show(config.json, &output, |out| write(out, copied))?;
    Ok(code(verdict == Verdict::Intact))
}

fn write(out: &mut impl Write, copied: &Copied) -> io::Result<()> {
    let report = &copied.copy;
    writeln!(
        out,
        "copied up to commit {}: {} sessions, {} turns, {} items",
        copied.position.commit_count(),
        report.sessions,
        report.turns,
        report.items
    )?;
    if copied.resumed {
        let earlier = copied.sessions_unchanged;
        writeln!(out, "{earlier} sessions were copied by an earlier run")?;
    }
    match copied.source.verdict() {
        Verdict::Intact => writeln!(out, "intact: the copy equals the source")?,
        Verdict::Broken => writeln!(out, "BROKEN in the source; damaged sessions are left out:")?,
        Verdict::CannotTell => writeln!(out, "left out, because it cannot be verified:")?,
    }
    write_findings(out, &copied.source.findings)
}
