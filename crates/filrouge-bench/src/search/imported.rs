//! Imports a library into a ledger, as `filrouge import` does, without a process of its own.

use anyhow::{Context, Result};
use filrouge_engine::{Caller, CreateSession, ImportedTurn};
use filrouge_sources::{Library, LoadedSession};
use filrouge_types::{ProjectId, SessionId, TenantId, Timestamp};

use crate::product::Product;

/// The operator of the store, who may read everything.
pub(crate) fn operator() -> Caller {
    Caller::operator(TenantId::default_tenant())
}

/// Imports all sessions. What the ledger refuses, such as a turn that is too large, is left out.
pub(super) async fn import(product: &Product, library: &Library) -> Result<()> {
    for entry in &library.catalog().entries {
        let source = library.sources().get(entry.source).context("no source")?;
        let loaded = tokio::task::block_in_place(|| source.load(&entry.header.id))?;
        import_session(product, loaded).await?;
    }
    Ok(())
}

async fn import_session(product: &Product, loaded: LoadedSession) -> Result<()> {
    let (engine, caller) = (&product.engine, operator());
    let session = &loaded.session;
    let id = SessionId::new(&*session.id)?;
    let project = session.project_id.as_deref();
    let request = CreateSession {
        session_id: Some(id.clone()),
        title: session.title.clone(),
        project_id: project.and_then(|id| ProjectId::new(id).ok()),
        team_id: None,
        parent_session_id: None,
        metadata: None,
    };
    let times = [session.created, session.updated].map(Timestamp::from_millis);
    let times = times.map(|time| time.unwrap_or(Timestamp::from_micros(0)));
    engine.sessions.import(&caller, request, times).await?;
    for turn in loaded.turns {
        let imported = ImportedTurn {
            request_id: turn.request_id,
            items: turn.question.into_iter().chain(turn.items).collect(),
            status: turn.outcome,
            metadata: Some(turn.metadata),
        };
        match engine.turns.record(&caller, &id, imported).await {
            Err(failure) if failure.code.status() >= 500 => return Err(failure.into()),
            _ => {}
        }
    }
    Ok(())
}
