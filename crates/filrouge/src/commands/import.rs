//! `filrouge import opencode|claude-code|codex [PATH]`

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use filrouge_engine::Caller;
use filrouge_engine::{CreateSession, Engine, ImportedTurn, RecordedTurn};
use filrouge_sources::{
    ForeignSession, ForeignTurn, Header, ReadError, SkipReason, Skipped, Source, count_by_reason,
};
use filrouge_types::{Failure, RawJson, RequestId, SessionId, merge_objects};
use serde::Serialize;

use crate::config::{Config, Program, SourceName, sources::histories};
use crate::exit::Usage;
use crate::open::{Need, with};
use crate::output::{bar, printable, show};

#[derive(Default, Serialize)]
struct Summary {
    sessions: u64,
    sessions_added: u64,
    /// Those that were deleted while the import was going on.
    sessions_gone: u64,
    turns_added: u64,
    turns_known: u64,
    turns_replaced: u64,
    items: u64,
    credentials_masked: u64,
    skipped: Vec<Skipped>,
    refused: Vec<Refused>,
}

/// What the source gave and the journal does not take: too large, say.
#[derive(Serialize)]
struct Refused {
    session_id: SessionId,
    /// `None` when the session as a whole is meant.
    request_id: Option<RequestId>,
    code: &'static str,
    detail: String,
}

impl Summary {
    /// Takes note of a refusal, which costs what was refused; any other failure ends the import.
    fn refuse(
        &mut self,
        session: &SessionId,
        request: Option<RequestId>,
        failure: Failure,
    ) -> Result<(), Failure> {
        if failure.code.status() >= 500 {
            return Err(failure);
        }
        self.refused.push(Refused {
            session_id: session.clone(),
            request_id: request,
            code: failure.code.as_str(),
            detail: failure.detail,
        });
        Ok(())
    }
}

pub(super) async fn run(
    config: &Config,
    program: Program,
    path: Option<PathBuf>,
) -> anyhow::Result<()> {
    let found = histories(config, &[SourceName::new(program, path)])?;
    let mut summary = Summary::default();
    let imported = with(config, Need::Any, async |opened, caller| {
        import(&found.sources, &opened.engine, caller, &mut summary).await
    });
    imported.await?;
    show(config.json, &summary, |out| write(out, &summary))
}

/// A session that is brought in, and the source that has it.
struct Wanted<'a> {
    source: &'a dyn Source,
    header: Arc<Header>,
}

/// The sessions of all sources, each id once, of the source that comes first; and what the listings left out.
fn wanted(sources: &[Arc<dyn Source>]) -> anyhow::Result<(Vec<Wanted<'_>>, Vec<Skipped>)> {
    let (mut all, mut skipped) = (Vec::<Wanted<'_>>::new(), Vec::new());
    let mut seen = std::collections::HashMap::new();
    for source in sources {
        let listing = source.list().map_err(usage)?;
        skipped.extend_from_slice(&listing.skipped);
        for header in listing.headers.iter().cloned() {
            let id = header.id.clone();
            match seen.get(&id) {
                Some(generation) => skipped.push(Skipped {
                    path: format!("{id} in {}", header.generation).into(),
                    reason: SkipReason::Shadowed,
                    detail: format!("read from {generation}"),
                }),
                None => {
                    seen.insert(id, header.generation);
                    all.push(Wanted {
                        source: source.as_ref(),
                        header,
                    });
                }
            }
        }
    }
    all.sort_by(|a, b| a.header.place().cmp(&b.header.place()));
    Ok((parents_first(all), skipped))
}

/// Each session behind its parent, as far as that is here; those that lead round in a circle come last.
fn parents_first(mut waiting: Vec<Wanted<'_>>) -> Vec<Wanted<'_>> {
    let mut sorted = Vec::with_capacity(waiting.len());
    let mut missing: BTreeSet<Box<str>> = waiting.iter().map(|w| w.header.id.clone()).collect();
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut left = Vec::new();
        for wanted in waiting {
            let parent = wanted.header.parent_id.as_ref();
            if parent.is_some_and(|parent| missing.contains(parent)) {
                left.push(wanted);
            } else {
                missing.remove(&wanted.header.id);
                sorted.push(wanted);
            }
        }
        if left.len() == before {
            sorted.append(&mut left);
        }
        waiting = left;
    }
    sorted
}

fn usage(error: filrouge_sources::SourceError) -> anyhow::Error {
    let hint = error.hint();
    Usage::new(error.to_string()).with_hint(hint).into()
}

async fn import(
    sources: &[Arc<dyn Source>],
    engine: &Engine,
    caller: &Caller,
    summary: &mut Summary,
) -> anyhow::Result<()> {
    let (sessions, skipped) = wanted(sources)?;
    let progress = bar("{bar:40} {pos}/{len} sessions  {msg}");
    progress.set_length(sessions.len() as u64);
    for Wanted { source, header } in &sessions {
        progress.set_message(header.id.to_string());
        match source.load(&header.id) {
            // It was deleted since it was listed.
            Err(ReadError::Gone) => summary.sessions_gone += 1,
            Err(ReadError::Skipped(skipped)) => summary.skipped.push(skipped),
            Err(why @ ReadError::Unavailable(_)) => return Err(why.into()),
            Ok(loaded) => {
                summary.skipped.extend(loaded.skipped);
                let (session, program) = (&loaded.session, source.name());
                if import_session(engine, caller, session, program, summary).await? {
                    for turn in loaded.turns {
                        import_turn(engine, caller, session, turn, summary).await?;
                    }
                }
            }
        }
        progress.inc(1);
    }
    summary.skipped.extend(skipped);
    for source in sources {
        summary.skipped.extend(source.strays().map_err(usage)?);
    }
    progress.finish_and_clear();
    Ok(())
}

/// What the journal has no field for, so that nothing is lost.
fn origin(session: &ForeignSession, source: &str) -> anyhow::Result<RawJson> {
    let origin = serde_json::json!({
        "origin": {
            "source": source,
            "created": session.created,
            "updated": session.updated,
            "archived": session.archived,
            "directory": session.directory,
            "project_name": session.project_name,
            "worktree": session.worktree,
            "agent": session.agent,
            "version": session.version,
        }
    });
    Ok(merge_objects(&RawJson::write(&origin)?, &session.metadata))
}

/// Whether the journal has the session now.
async fn import_session(
    engine: &Engine,
    caller: &Caller,
    session: &ForeignSession,
    program: &str,
    summary: &mut Summary,
) -> anyhow::Result<bool> {
    let request = CreateSession {
        session_id: Some(session.id.clone()),
        title: session.title.clone(),
        project_id: session.project_id.clone(),
        team_id: None,
        parent_session_id: session.parent_id.clone(),
        metadata: Some(origin(session, program)?),
    };
    match engine.sessions.create(caller, request).await {
        Ok(session) => {
            summary.sessions += 1;
            summary.sessions_added += u64::from(!session.replayed);
            Ok(true)
        }
        Err(failure) => {
            summary.refuse(&session.id, None, failure)?;
            Ok(false)
        }
    }
}

async fn import_turn(
    engine: &Engine,
    caller: &Caller,
    session: &ForeignSession,
    turn: ForeignTurn,
    summary: &mut Summary,
) -> anyhow::Result<()> {
    let items: Vec<_> = turn.question.into_iter().chain(turn.items).collect();
    let count = items.len() as u64;
    let imported = ImportedTurn {
        request_id: turn.request_id.clone(),
        items,
        status: turn.outcome,
        metadata: Some(turn.metadata),
    };
    match engine.turns.record(caller, &session.id, imported).await {
        Err(failure) => summary.refuse(&session.id, Some(turn.request_id), failure)?,
        Ok(recorded) => {
            match recorded.value {
                RecordedTurn::Known => summary.turns_known += 1,
                RecordedTurn::Added => summary.turns_added += 1,
                RecordedTurn::Replaced => summary.turns_replaced += 1,
            }
            if recorded.value != RecordedTurn::Known {
                summary.items += count;
                summary.credentials_masked += recorded.masked;
            }
        }
    }
    Ok(())
}

fn write(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    writeln!(
        out,
        "{} sessions ({} new), {} turns added, {} known, {} replaced, {} items written",
        summary.sessions,
        summary.sessions_added,
        summary.turns_added,
        summary.turns_known,
        summary.turns_replaced,
        summary.items
    )?;
    if summary.credentials_masked > 0 {
        let (masked, page) = (summary.credentials_masked, "docs/secrets.md");
        let plural = if masked == 1 { "" } else { "s" };
        writeln!(out, "masked {masked} credential{plural} ({page})")?;
    }
    if summary.sessions_gone > 0 {
        writeln!(out, "deleted meanwhile: {}", summary.sessions_gone)?;
    }
    for (reason, count) in count_by_reason(&summary.skipped) {
        writeln!(out, "skipped {count} ({reason}):")?;
        for skipped in summary.skipped.iter().filter(|s| s.reason == reason) {
            writeln!(
                out,
                "  {}: {}",
                printable(&skipped.path.to_string_lossy()),
                printable(&skipped.detail)
            )?;
        }
    }
    if !summary.refused.is_empty() {
        writeln!(out, "refused {}:", summary.refused.len())?;
    }
    for refused in &summary.refused {
        let turn = refused
            .request_id
            .as_ref()
            .map_or_else(String::new, |id| format!(" turn {id}"));
        let (id, code) = (&refused.session_id, refused.code);
        writeln!(out, "  {id}{turn}: {code}: {}", printable(&refused.detail))?;
    }
    Ok(())
}
