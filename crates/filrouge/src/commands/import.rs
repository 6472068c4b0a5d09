//! `filrouge import PROGRAM [PATH]`

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use filrouge_engine::{Caller, CreateSession, Engine, ImportedTurn, RecordedTurn};
use filrouge_sources::library::Entry;
use filrouge_sources::{
    ForeignTurn, Library, LoadedSession, Program, ReadError, Skipped, count_by_reason,
};
use filrouge_types::{
    Clock, Failure, ProjectId, RawJson, RequestId, SessionId, SystemClock, Timestamp, merge_objects,
};
use serde::Serialize;

use crate::config::{Config, SourceName, sources::open};
use crate::exit::Usage;
use crate::open::{IfMissing, with};
use crate::output::{progress_bar, show};

#[derive(Default, Serialize)]
struct Summary {
    sessions: u64,
    sessions_added: u64,
    /// Sessions that their program deleted during the import.
    sessions_gone: u64,
    turns_added: u64,
    turns_known: u64,
    turns_replaced: u64,
    items: u64,
    credentials_masked: u64,
    skipped: Vec<Skipped>,
    refused: Vec<RefusedContent>,
}

/// Content of the source that the ledger refused, for example because it is too large.
#[derive(Serialize)]
struct RefusedContent {
    session_id: SessionId,
    /// `None` when the entire session was refused.
    request_id: Option<RequestId>,
    code: &'static str,
    detail: String,
}

impl Summary {
    /// Adds content that the ledger refused (a code with a status below 500) to the summary, so that the import
    /// continues. Returns any other failure, which ends the import.
    fn add_refused(
        &mut self,
        session: &SessionId,
        request: Option<RequestId>,
        failure: Failure,
    ) -> Result<(), Failure> {
        if failure.code.status() >= 500 {
            return Err(failure);
        }
        self.refused.push(RefusedContent {
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
    program: &'static Program,
    path: Option<PathBuf>,
) -> anyhow::Result<()> {
    let library = open(config, &[SourceName::Program(program, path)])?;
    let mut summary = Summary::default();
    let imported = with(config, IfMissing::Create, async |opened, caller| {
        import(&library, &opened.engine, caller, &mut summary).await
    });
    imported.await?;
    show(config.json, &summary, |out| write(out, &summary))
}

/// Sorts each session after its parent, if the parent is in the list. Sessions whose parents form a cycle are last.
fn parents_first(mut unsorted: Vec<&Entry>) -> Vec<&Entry> {
    let mut sorted = Vec::with_capacity(unsorted.len());
    let mut unsorted_ids: BTreeSet<&str> = unsorted.iter().map(|entry| &*entry.header.id).collect();
    while !unsorted.is_empty() {
        let count = unsorted.len();
        let mut deferred = Vec::new();
        for entry in unsorted {
            let parent = entry.header.parent_id.as_deref();
            if parent.is_some_and(|parent| unsorted_ids.contains(parent)) {
                deferred.push(entry);
            } else {
                unsorted_ids.remove(&*entry.header.id);
                sorted.push(entry);
            }
        }
        if deferred.len() == count {
            sorted.append(&mut deferred);
        }
        unsorted = deferred;
    }
    sorted
}

async fn import(
    library: &Library,
    engine: &Engine,
    caller: &Caller,
    summary: &mut Summary,
) -> anyhow::Result<()> {
    let catalog = library.catalog();
    if !catalog.unavailable.is_empty() {
        return Err(Usage::new(catalog.unavailable.join("; ")).into());
    }
    // A damaged session is imported once its own record is repaired.
    let entries = catalog.entries.iter();
    let sessions = parents_first(entries.filter(|entry| !entry.header.damaged).collect());
    let progress = progress_bar("{bar:40} {pos}/{len} sessions  {msg}");
    progress.set_length(sessions.len() as u64);
    for entry in sessions {
        let id = &entry.header.id;
        progress.set_message(id.to_string());
        let source = library.sources().get(entry.source);
        match source.map_or(Err(ReadError::Gone), |source| source.load(id)) {
            // The session was deleted after it was listed.
            Err(ReadError::Gone) => summary.sessions_gone += 1,
            Err(ReadError::Skipped(skipped)) => summary.skipped.push(skipped),
            Err(error @ ReadError::Unavailable(_)) => return Err(error.into()),
            Ok(loaded) => {
                let loaded = loaded.with_broken_off_answers(SystemClock.now());
                let id = SessionId::new(&*loaded.session.id)?;
                summary.skipped.extend_from_slice(&loaded.skipped);
                if import_session(engine, caller, &id, &loaded, summary).await? {
                    for turn in loaded.turns {
                        import_turn(engine, caller, &id, turn, summary).await?;
                    }
                }
            }
        }
        progress.inc(1);
    }
    for skipped in [&catalog.skipped, &catalog.shadowed] {
        summary.skipped.extend_from_slice(skipped);
    }
    for source in library.sources() {
        let orphans = source.orphans();
        let orphans = orphans.map_err(|error| Usage::new(error.to_string()))?;
        summary.skipped.extend(orphans);
    }
    progress.finish_and_clear();
    Ok(())
}

/// The session's metadata with a member `origin`, which has those fields of the source's session that the ledger lacks.
fn metadata_with_origin(loaded: &LoadedSession) -> anyhow::Result<RawJson> {
    let origin = loaded.session.origin();
    Ok(merge_objects(&RawJson::write(&origin)?, &loaded.metadata))
}

/// Creates the session, unless the ledger has it already. Returns `false` if the ledger refused it.
async fn import_session(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
    loaded: &LoadedSession,
    summary: &mut Summary,
) -> anyhow::Result<bool> {
    let session = &loaded.session;
    let project = session.project_id.as_deref();
    let parent = session.parent_id.as_deref();
    let request = CreateSession {
        session_id: Some(id.clone()),
        title: session.title.clone(),
        project_id: project.and_then(|id| ProjectId::new(id).ok()),
        team_id: None,
        parent_session_id: parent.and_then(|id| SessionId::new(id).ok()),
        metadata: Some(metadata_with_origin(loaded)?),
    };
    let times = [session.created, session.updated].map(Timestamp::from_millis);
    let [created, updated] = times.map(|time| time.unwrap_or(Timestamp::from_micros(0)));
    match engine
        .sessions
        .import(caller, request, [created, updated])
        .await
    {
        Ok(session) => {
            summary.sessions += 1;
            summary.sessions_added += u64::from(!session.replayed);
            Ok(true)
        }
        Err(failure) => {
            summary.add_refused(id, None, failure)?;
            Ok(false)
        }
    }
}

async fn import_turn(
    engine: &Engine,
    caller: &Caller,
    session: &SessionId,
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
    match engine.turns.record(caller, session, imported).await {
        Err(failure) => summary.add_refused(session, Some(turn.request_id), failure)?,
        Ok(recorded) => {
            match recorded.value {
                RecordedTurn::Unchanged => summary.turns_known += 1,
                RecordedTurn::Added => summary.turns_added += 1,
                RecordedTurn::Replaced => summary.turns_replaced += 1,
            }
            if recorded.value != RecordedTurn::Unchanged {
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
            writeln!(out, "  {}: {}", skipped.path.display(), skipped.detail)?;
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
        writeln!(out, "  {id}{turn}: {code}: {}", refused.detail)?;
    }
    Ok(())
}
