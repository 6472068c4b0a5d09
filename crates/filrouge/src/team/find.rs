//! `/search`: what was said in a team's sessions.

use std::sync::Arc;

use filrouge_search::{Ask, Hit, Searcher, Zone};
use filrouge_sources::Library;
use filrouge_sources::ledger::LedgerSource;
use filrouge_team::team::Team;
use tokio::runtime::Handle;

use super::desk::Desk;
use crate::output::printable;

/// Sessions shown at most.
const SESSIONS: usize = 10;
/// Bytes of conversations kept while one question is answered.
const CACHE_BYTES: usize = 16 << 20;

/// Lines that tell where `words` stand in the team's sessions, the newest first.
///
/// # Errors
/// The ledger's; a query that cannot be read.
pub(super) async fn find(desk: &Desk<'_>, team: &Team, words: &str) -> anyhow::Result<Vec<String>> {
    let sessions = desk.sessions(team).await?;
    let runtime = Handle::current();
    let ledger = LedgerSource::new(desk.opened.engine.clone(), desk.caller.clone(), runtime);
    let searcher = Searcher::new(Library::new(vec![Arc::new(ledger)], CACHE_BYTES));
    let (query, zone) = (words.to_owned(), desk.zone.clone());
    let found = tokio::task::spawn_blocking(move || {
        let mut found: Vec<Hit> = Vec::new();
        for session in sessions {
            let ask = Ask {
                query: query.clone(),
                zone: Zone::Of(zone.clone()),
                session_id: Some(session.session_id.into()),
                ..Ask::default()
            };
            found.extend(searcher.search(&ask, &|| false)?.sessions);
            if found.len() >= SESSIONS {
                break;
            }
        }
        Ok::<_, filrouge_sources::LibraryError>(found)
    });
    Ok(found.await??.iter().flat_map(lines).collect())
}

fn lines(hit: &Hit) -> Vec<String> {
    let mut lines = vec![printable(&hit.session.id)];
    for excerpt in &hit.excerpts {
        let text = printable(&excerpt.text).replace(['\n', '\t'], " ");
        let id = excerpt.part_id.as_ref().or(excerpt.message_id.as_ref());
        let id = id.map_or("", |id| id);
        lines.push(format!("  {} {text}", printable(id)));
    }
    lines
}
