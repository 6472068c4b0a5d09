//! `/search`: searches a team's sessions.

use std::sync::Arc;

use filrouge_search::{Hit, SearchRequest, Searcher, Zone};
use filrouge_sources::Library;
use filrouge_sources::ledger::LedgerSource;
use filrouge_team::team::Team;
use tokio::runtime::Handle;

use super::deployment::Deployment;
use crate::output::printable;

/// The maximum number of sessions that are shown.
const SESSIONS_MAX: usize = 10;
/// The maximum size in bytes of the cache of conversations during one query.
const CACHE_BYTES: usize = 16 << 20;

/// Searches the team's sessions. Returns the lines to show for the matches of `query_text`, newest session first.
///
/// # Errors
/// Errors of the ledger; a malformed query.
pub(super) async fn find(
    deployment: &Deployment<'_>,
    team: &Team,
    query_text: &str,
) -> anyhow::Result<Vec<String>> {
    let sessions = deployment.sessions(team).await?;
    let runtime = Handle::current();
    let ledger = LedgerSource::new(
        deployment.opened.engine.clone(),
        deployment.caller.clone(),
        runtime,
    );
    let searcher = Searcher::new(Library::new(vec![Arc::new(ledger)], CACHE_BYTES));
    let (query, zone) = (query_text.to_owned(), deployment.zone.clone());
    let hits = tokio::task::spawn_blocking(move || {
        let mut hits: Vec<Hit> = Vec::new();
        for session in sessions {
            let request = SearchRequest {
                query: query.clone(),
                zone: Zone::Of(zone.clone()),
                session_id: Some(session.session_id.into()),
                ..SearchRequest::default()
            };
            hits.extend(searcher.search(&request, &|| false)?.sessions);
            if hits.len() >= SESSIONS_MAX {
                break;
            }
        }
        Ok::<_, filrouge_sources::LibraryError>(hits)
    });
    Ok(hits.await??.iter().flat_map(hit_lines).collect())
}

fn hit_lines(hit: &Hit) -> Vec<String> {
    let mut lines = vec![printable(&hit.session.id)];
    for excerpt in &hit.excerpts {
        let text = printable(&excerpt.text).replace(['\n', '\t'], " ");
        let id = excerpt.part_id.as_ref().or(excerpt.message_id.as_ref());
        let id = id.map_or("", |id| id);
        lines.push(format!("  {} {text}", printable(id)));
    }
    lines
}
