//! `filrouge verify [ID]`: exit 0 intact, 1 broken, 2 cannot tell.

use std::io::Write;
use std::process::ExitCode;

use filrouge_engine::anchor::Standing;
use filrouge_store::verify::{Finding, Verdict};
use filrouge_types::{ErrorCode, Failure, SessionId};
use serde_json::json;

use crate::config::Config;
use crate::exit::{Usage, report as tell};
use crate::open::{Need, open, operator};
use crate::output::{document, printable, stdout};

pub(super) async fn run(config: &Config, id: Option<String>) -> anyhow::Result<ExitCode> {
    let only = id
        .map(|text| {
            text.parse::<SessionId>()
                .map_err(|e| Usage::new(e.to_string()))
        })
        .transpose()?;
    let opened = match open(config, Need::Existing).await {
        Ok(opened) => opened,
        Err(error) => return cannot_tell(config, &error),
    };
    let verified = match only {
        Some(id) => opened.engine.sessions.verify(&operator(config), id).await,
        None => opened.engine.upkeep.verify().await,
    };
    let mut report = match verified {
        Ok(report) => report,
        Err(failure) if failure.code == ErrorCode::SessionNotFound => return Err(failure.into()),
        Err(failure) => return cannot_tell(config, &failure.into()),
    };
    if let Some(Standing::Broken(what)) = &opened.standing
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
    if config.json {
        document(
            &json!({ "status": verdict, "sessions": report.sessions, "turns": report.turns,
            "items": report.items, "commits": report.commits, "findings": report.findings }),
        )?;
    } else {
        let mut out = stdout();
        let word = match verdict {
            Verdict::Intact => "intact",
            Verdict::Broken => "BROKEN",
            Verdict::CannotTell => "cannot tell",
        };
        writeln!(
            out,
            "{word}: {} sessions, {} turns, {} items, {} commits",
            report.sessions, report.turns, report.items, report.commits
        )?;
        for finding in &report.findings {
            writeln!(out, "  {}: {}", finding.code, printable(&finding.what))?;
        }
        out.flush()?;
    }
    Ok(match verdict {
        Verdict::Intact => ExitCode::SUCCESS,
        Verdict::Broken => ExitCode::FAILURE,
        Verdict::CannotTell => ExitCode::from(2),
    })
}

/// A store that cannot be opened: broken when it says so itself, otherwise nobody can tell.
fn cannot_tell(config: &Config, error: &anyhow::Error) -> anyhow::Result<ExitCode> {
    tell(error, config.json);
    let broken = error
        .downcast_ref::<Failure>()
        .is_some_and(|f| f.code == ErrorCode::IntegrityError);
    Ok(if broken {
        ExitCode::FAILURE
    } else {
        ExitCode::from(2)
    })
}
