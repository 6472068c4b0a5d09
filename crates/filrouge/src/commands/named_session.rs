//! The session that a command names: by its id, by the beginning of its id if no other id begins so, or as `@latest`.
//!
//! `erase` and `redact` need the whole id: an erased session's id could be the beginning of another one.

use filrouge_engine::{Caller, Engine};
use filrouge_sources::{Library, LibraryError};
use filrouge_store::command::SessionFilter;
use filrouge_types::{ErrorCode, SessionId};

use crate::exit::Usage;

/// The name of the newest session: the first one of a list.
const LATEST: &str = "@latest";

/// The number of sessions per page.
const PAGE_SESSIONS: usize = 500;
/// The maximum number of sessions whose ids are compared, the newest first.
const COMPARED_MAX: usize = 10_000;
/// The maximum number of ids that an error names.
const NAMED_MAX: usize = 5;

/// Finds the session `name` in the ledger. If there is none, returns the name as an id, so that the command reports it.
///
/// # Errors
/// [`Usage`] if several ids begin with the name, and the failures of the list.
pub(super) async fn in_ledger(
    engine: &Engine,
    caller: &Caller,
    name: SessionId,
) -> anyhow::Result<SessionId> {
    match engine.sessions.get(caller, &name).await {
        Err(failure) if failure.code == ErrorCode::SessionNotFound => {}
        _ => return Ok(name),
    }
    let limit = if name.as_str() == LATEST {
        1
    } else {
        PAGE_SESSIONS
    };
    let (mut compared, mut found, mut cursor) = (0, Vec::new(), None);
    loop {
        let filter = SessionFilter::default();
        let listed = engine
            .sessions
            .list_with_findings(caller, filter, cursor, limit);
        let ((page, next), _) = listed.await?;
        compared += page.len();
        let mut ids = page.into_iter().map(|session| session.session_id);
        if name.as_str() == LATEST {
            return Ok(ids.next().unwrap_or(name));
        }
        found.extend(ids.filter(|id| id.as_str().starts_with(name.as_str())));
        if next.is_none() || compared >= COMPARED_MAX {
            break;
        }
        cursor = next;
    }
    let only = only(name.as_str(), found).map_err(Usage::new)?;
    Ok(only.unwrap_or(name))
}

/// Finds the session `name` in a library. If there is none, returns the name, so that the query reports it.
///
/// # Errors
/// [`LibraryError::Invalid`] if several ids begin with the name.
pub(super) fn in_library(library: &Library, name: String) -> Result<String, LibraryError> {
    let catalog = library.catalog();
    if catalog.get(&name).is_ok() {
        return Ok(name);
    }
    let headers = catalog.entries.iter().map(|entry| &entry.header);
    let found: Vec<String> = match name.as_str() {
        LATEST => {
            let latest = headers.max_by_key(|header| header.updated);
            latest
                .into_iter()
                .map(|header| header.id.to_string())
                .collect()
        }
        name => {
            let matching = headers.filter(|header| header.id.starts_with(name));
            matching.map(|header| header.id.to_string()).collect()
        }
    };
    let only = only(&name, found).map_err(LibraryError::Invalid)?;
    Ok(only.unwrap_or(name))
}

/// Returns the only one of `found`; `None` if there is none.
///
/// # Errors
/// The text of an error if there are several.
fn only<T: ToString>(name: &str, mut found: Vec<T>) -> Result<Option<T>, String> {
    if found.len() <= 1 {
        return Ok(found.pop());
    }
    let ids = found.iter().take(NAMED_MAX).map(ToString::to_string);
    let ids: Vec<String> = ids.collect();
    let (count, ids) = (found.len(), ids.join(", "));
    Err(format!(
        "{count} sessions begin with {name:?}: {ids}{}; give more of the id",
        if count > NAMED_MAX { ", …" } else { "" }
    ))
}
