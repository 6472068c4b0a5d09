//! `filrouge verify [ID]`: exit 0 intact, 1 broken, 2 cannot tell.

use std::io::{self, Write};
use std::process::ExitCode;

use filrouge_engine::anchor::AnchorState;
use filrouge_store::verify::{Finding, Verdict};
use filrouge_types::{ErrorCode, Failure, SessionId};
use serde_json::json;

use crate::config::Config;
use crate::exit::{parsed, report as report_error};
use crate::open::{Need, open, operator};
use crate::output::{printable, show};

pub(super) async fn run(config: &Config, id: Option<String>) -> anyhow::Result<ExitCode> {
    let only: Option<SessionId> = id.as_deref().map(parsed).transpose()?;
    let opened = match open(config, Need::Existing).await {
        Ok(opened) => opened,
        Err(error) => return report_unverified(config, &error),
    };
    let verified = match only {
        Some(id) => opened.engine.sessions.verify(&operator(config), id).await,
        None => opened.engine.upkeep.verify().await,
    };
    let mut report = match verified {
        Ok(report) => report,
        Err(failure) if failure.code == ErrorCode::SessionNotFound => return Err(failure.into()),
        Err(failure) => return report_unverified(config, &failure.into()),
    };
    if let Some(AnchorState::Broken(what)) = &opened.anchor_state
        && !report.findings.iter().any(|f| f.what == *what)
    {
        let finding = Finding {
            session_id: None,
            seq: None,
            code: ErrorCode::IntegrityError.as_str(),
            what: what.clone(),
        };
        report.findings.insert(0, finding);
    }
    let verdict = match report.verdict() {
        Verdict::Intact if config.unverified => Verdict::CannotTell,
        verdict => verdict,
    };
    opened.close().await;
    let shown = json!({
        "status": verdict, "sessions": report.sessions, "turns": report.turns, "items": report.items,
        "commits": report.commits, "findings": report.findings,
    });
    show(config.json, &shown, |out| {
        let (sessions, turns) = (report.sessions, report.turns);
        let (items, commits) = (report.items, report.commits);
        writeln!(
            out,
            "{}: {sessions} sessions, {turns} turns, {items} items, {commits} commits",
            word(verdict)
        )?;
        write_findings(out, &report.findings)
    })?;
    Ok(verdict_code(verdict))
}

/// The verdict as text.
pub(super) const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Intact => "intact",
        Verdict::Broken => "BROKEN",
        Verdict::CannotTell => "cannot tell",
    }
}

pub(super) fn verdict_code(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Intact => ExitCode::SUCCESS,
        Verdict::Broken => ExitCode::FAILURE,
        Verdict::CannotTell => ExitCode::from(2),
    }
}

/// Writes findings, one per line.
pub(super) fn write_findings(out: &mut impl Write, findings: &[Finding]) -> io::Result<()> {
    (findings.iter())
        .try_for_each(|finding| writeln!(out, "  {}: {}", finding.code, printable(&finding.what)))
}

/// Reports a store that cannot be opened: as broken when an integrity error prevents it, else as unknown.
fn report_unverified(config: &Config, error: &anyhow::Error) -> anyhow::Result<ExitCode> {
    report_error(error, config.json);
    let broken = error
        .downcast_ref::<Failure>()
        .is_some_and(|f| f.code == ErrorCode::IntegrityError);
    Ok(verdict_code(match broken {
        true => Verdict::Broken,
        false => Verdict::CannotTell,
    }))
}
