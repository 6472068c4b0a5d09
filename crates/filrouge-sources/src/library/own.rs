//! Finds the caller's own session: the one in which the agent that calls a tool is running (DESIGN §12 MCP).

#[cfg(test)]
mod tests;

use std::path::Path;

use super::{Entry, Library, LibraryError, Result};
use crate::{Conversation, Header, PartKind, Role};

/// The maximum number of a folder's sessions that are read to find a running call, the last changed first. The session
/// with the call has changed recently, but is not always the first, because its program may write the change late.
const SESSIONS_READ_MAX: usize = 20;

/// If two open calls began within this many milliseconds of each other, it is unknown which of them is the caller's.
const CONCURRENT_MS: i64 = 2_000;

/// A session without a running call counts as active for this time after its last change, in milliseconds.
const ACTIVE_MS: i64 = 10 * 60 * 1_000;

/// The maximum number of candidates that an error names.
const NAMED_MAX: usize = 5;

/// Facts about the caller.
#[derive(Debug, Clone, Default)]
pub struct Caller<'a> {
    /// The session id that the call names.
    pub named: Option<&'a str>,
    /// The value of the environment variable `FILROUGE_SESSION_ID`.
    pub from_environment: Option<&'a str>,
    /// The canonical folder in which the caller works.
    pub folder: Option<&'a Path>,
    /// The name of the tool that is running now, as agents see it, usually `filrouge_get_compacted_context`.
    pub tool: Option<&'a str>,
    /// The current time, in milliseconds since 1970. Without it, only a session with a running call is found.
    pub now: Option<i64>,
}

/// Finds the caller's own session: the one that the call names, or else the one that the environment names, or else the
/// session of the caller's folder whose last message contains a running call of `caller.tool`. If there are several, it
/// is the one whose call began last, if all others began more than two seconds before it. If no session contains such a
/// call (programs may write it late), it is the only session of the folder that has changed within the last ten
/// minutes.
///
/// A named session may be absent: the query that uses the id then reports it.
///
/// # Errors
/// [`LibraryError::Invalid`] when no session is found or the choice is ambiguous; the error lists ids of sessions of
/// the folder.
pub fn own_session(library: &Library, caller: &Caller<'_>) -> Result<String> {
    let is_set = |id: &&str| !id.trim().is_empty();
    let from_environment = caller.from_environment.filter(is_set);
    if let Some(id) = caller.named.filter(is_set).or(from_environment) {
        return Ok(id.to_owned());
    }
    let Some(folder) = caller.folder else {
        let why = "the folder of the caller is not known";
        return Err(unknown_session_error(why, &[]));
    };
    let catalog = library.catalog();
    let is_in_folder = |e: &&Entry| ran_in_folder(&e.header, folder);
    let mut candidates: Vec<&Entry> = catalog.entries.iter().filter(is_in_folder).collect();
    candidates.sort_by_key(|e| std::cmp::Reverse(e.header.updated));
    candidates.truncate(SESSIONS_READ_MAX);
    if let Some(tool) = caller.tool {
        let running = candidates.iter().filter_map(|entry| {
            // A session that cannot be read is not a candidate.
            let conversation = library.conversation(entry).ok()?;
            Some((running_since(&conversation, tool)?, *entry))
        });
        let mut running: Vec<_> = running.collect();
        running.sort_by_key(|(began, _)| std::cmp::Reverse(*began));
        match running.as_slice() {
            [] => {}
            [(_, only)] => return Ok(only.header.id.to_string()),
            [(last, newest), (before, _), ..] if last - before > CONCURRENT_MS => {
                return Ok(newest.header.id.to_string());
            }
            several => {
                let several: Vec<_> = several.iter().map(|(_, e)| *e).collect();
                let why = "several sessions call this tool now";
                return Err(unknown_session_error(why, &several));
            }
        }
    }
    let active_since = caller.now.map_or(i64::MAX, |now| now - ACTIVE_MS);
    let is_active = |e: &&&Entry| e.header.updated >= active_since;
    let why = "your own session is unknown";
    match *candidates.iter().filter(is_active).collect::<Vec<_>>() {
        [only] => Ok(only.header.id.to_string()),
        _ => Err(unknown_session_error(why, &candidates)),
    }
}

/// The time at which an open call of the tool began, if the conversation's last message contains one.
fn running_since(conversation: &Conversation, tool: &str) -> Option<i64> {
    let mut newest = conversation.messages.iter().rev();
    let last = newest.find(|m| m.role != Role::System);
    let last = last.filter(|m| m.role == Role::Assistant)?;
    let calls = last.parts.iter().filter(|part| match &part.kind {
        PartKind::Tool(call) => call.status.is_open() && is_tool(&call.name, tool),
        _ => false,
    });
    calls.map(|part| part.start.unwrap_or(last.created)).max()
}

/// Whether `called`, a name in a conversation, is the name of the tool. Programs put the server's name before it in
/// different ways: `filrouge_search`, `mcp__filrouge__search`.
fn is_tool(called: &str, tool: &str) -> bool {
    let called_suffix = called.rsplit_once("__").map(|(_, suffix)| suffix);
    let tool_suffix = tool.split_once('_').map(|(_, suffix)| suffix);
    called.ends_with(tool) || (called_suffix.is_some() && called_suffix == tool_suffix)
}

/// Whether the folder in which a session ran, or its project's main folder, is this folder or a folder above it. The
/// root folder does not count.
fn ran_in_folder(header: &Header, folder: &Path) -> bool {
    let paths = [&header.directory, &header.worktree];
    let mut paths = paths.into_iter().flatten().filter(|path| &***path != "/");
    paths.any(|path| folder.starts_with(Path::new(&**path)))
}

fn unknown_session_error(why: &str, candidates: &[&Entry]) -> LibraryError {
    let mut text = format!("{why}; name it as sessionID, or set FILROUGE_SESSION_ID");
    if !candidates.is_empty() {
        text.push_str(". Sessions of this folder, the last changed first: ");
    }
    // Only ids: titles are untrusted text.
    let ids = candidates.iter().map(|entry| &*entry.header.id);
    text.push_str(&ids.take(NAMED_MAX).collect::<Vec<_>>().join(", "));
    LibraryError::Invalid(text)
}
