//! `filrouge verify [ID] [--witness FILE]`: exit 0 intact, 1 broken, 2 undecided.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use filrouge_engine::anchor::{AnchorState, Statement};
use filrouge_store::Ledger;
use filrouge_store::read::LedgerSnapshot;
use filrouge_store::verify::{Finding, Verdict};
use filrouge_types::{ErrorCode, Failure, Result, SessionId};
use serde_json::json;

use super::named_session::in_ledger;
use crate::config::Config;
use crate::exit::{ExitCode, Usage, parse, report as report_error};
use crate::open::{IfMissing, Index, open, operator};
use crate::output::show;

pub(super) async fn run(
    config: &Config,
    id: Option<String>,
    witness: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let session_id: Option<SessionId> = id.as_deref().map(parse).transpose()?;
    let opened = match open(config, IfMissing::Fail, Index::Unused).await {
        Ok(opened) => opened,
        Err(error) => return report_unverified(config, &error),
    };
    let verified = match session_id {
        Some(id) => {
            let caller = operator(config);
            let id = in_ledger(&opened.engine, &caller, id).await?;
            opened.engine.sessions.verify(&caller, id).await
        }
        None => opened.engine.upkeep.verify().await,
    };
    let mut report = match verified {
        Ok(report) => report,
        Err(failure) if failure.code == ErrorCode::SessionNotFound => return Err(failure.into()),
        Err(failure) => return report_unverified(config, &failure.into()),
    };
    if let Some(AnchorState::Broken(reason)) = &opened.anchor_state
        && !report.findings.iter().any(|f| f.what == *reason)
    {
        report.findings.insert(0, store_finding(reason.clone()));
    }
    if let Some(path) = witness {
        let statements = read_statements(path, opened.ledger.store_id())?;
        let contradictions = contradictions(opened.ledger.as_ref(), statements).await?;
        report
            .findings
            .extend(contradictions.into_iter().map(store_finding));
    }
    let verdict = match report.verdict() {
        Verdict::Intact if config.unverified => Verdict::CannotTell,
        verdict => verdict,
    };
    opened.close().await;
    let output = json!({
        "status": verdict, "sessions": report.sessions, "turns": report.turns, "items": report.items,
        "commits": report.commits, "findings": report.findings,
    });
    show(config.json, &output, |out| {
        let (sessions, turns) = (report.sessions, report.turns);
        let (items, commits) = (report.items, report.commits);
        writeln!(
            out,
            "{}: {sessions} sessions, {turns} turns, {items} items, {commits} commits",
            verdict_text(verdict)
        )?;
        write_findings(out, &report.findings)
    })?;
    Ok(verdict_code(verdict))
}

/// The maximum number of contradicted statements that are listed; the others are counted.
const CONTRADICTIONS_SHOWN: usize = 10;

/// A finding about the whole store.
const fn store_finding(what: String) -> Finding {
    Finding {
        session_id: None,
        seq: None,
        code: ErrorCode::IntegrityError.as_str(),
        what,
    }
}

/// Reads a witness's statements about the store from the file at `path`; `-` is stdin. Fails if there is no statement
/// about this store, or if a line is not a statement.
fn read_statements(path: &Path, store_id: &str) -> anyhow::Result<Vec<Statement>> {
    let name = path.display();
    let input: Box<dyn BufRead> = match path == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => match File::open(path) {
            Ok(file) => Box::new(BufReader::new(file)),
            Err(e) => return Err(Usage::new(format!("--witness {name}: {e}")).into()),
        },
    };
    let mut statements = Vec::new();
    for (number, line) in (1..).zip(input.lines()) {
        let line = line.map_err(|e| Usage::new(format!("--witness {name}: {e}")))?;
        if line.trim().is_empty() {
            continue;
        }
        let statement = Statement::parse(&line).ok_or_else(|| {
            Usage::new(format!("--witness {name}: line {number} is no statement"))
                .with_hint("`filrouge anchor witness` prints one; remove lines that are incomplete")
        })?;
        if statement.store_id == store_id {
            statements.push(statement);
        }
    }
    if statements.is_empty() {
        let detail = format!("--witness {name} has no statement about the store {store_id}");
        return Err(Usage::new(detail).into());
    }
    Ok(statements)
}

/// Describes each statement that the store contradicts.
async fn contradictions(ledger: &dyn Ledger, statements: Vec<Statement>) -> Result<Vec<String>> {
    let compare = move |snapshot: &LedgerSnapshot<'_>| {
        let messages = statements.iter().map(|s| s.contradiction(snapshot.view));
        messages.filter_map(Result::transpose).collect()
    };
    let mut messages: Vec<String> = ledger.query(compare).await?;
    // A store that was rolled back contradicts every later statement.
    let more = messages.len().saturating_sub(CONTRADICTIONS_SHOWN);
    if more > 0 {
        messages.truncate(CONTRADICTIONS_SHOWN);
        messages.push(format!(
            "{more} more statements of the witness contradict the store"
        ));
    }
    Ok(messages)
}

/// The verdict as text.
pub(super) const fn verdict_text(verdict: Verdict) -> &'static str {
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
    (findings.iter()).try_for_each(|finding| writeln!(out, "  {}: {}", finding.code, finding.what))
}

/// Reports a store that cannot be opened or verified. The verdict is *broken* if an integrity error is the cause, else
/// [`Verdict::CannotTell`].
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
