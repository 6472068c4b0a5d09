//! Finds the caller's own session (DESIGN §12 MCP).

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::path::Path;

use super::{Entry, Library, LibraryError};
use crate::{Conversation, Header, PartKind, Role};

/// The maximum number of sessions read from a folder, the last changed first. A session with a running call has changed
/// recently, but its program may write the change late.
const SESSIONS_READ_MAX: usize = 20;

/// Calls that began within this many milliseconds of each other may both still be running.
const CONCURRENT_MS: i64 = 2_000;

/// The time after its last change in which a session without a running call counts as active, in milliseconds.
const ACTIVE_MS: i64 = 10 * 60 * 1_000;

/// The maximum number of candidates that an error names.
const NAMED_MAX: usize = 5;

/// Facts about the caller.
#[derive(Debug, Clone, Default)]
pub struct Caller<'a> {
    /// The session named in the call.
    pub named: Option<&'a str>,
    /// `FILROUGE_SESSION_ID`.
    pub from_environment: Option<&'a str>,
    /// The canonical folder in which the caller works.
    pub folder: Option<&'a Path>,
    /// The tool that is running now, by the name that agents see, usually `filrouge_get_compacted_context`.
    pub tool: Option<&'a str>,
    /// The current time, in milliseconds since 1970. Without it only a session with a running call is accepted.
    pub now: Option<i64>,
}

/// Finds the caller's own session: the named one, or else that of the environment, or else the session of this folder
/// whose last message contains a running call of our tool. Of several, it is the one whose call began last, unless calls
/// began at the same time. Where no call is found (programs may write it late), it is the only session of the folder that
/// has changed within the last ten minutes.
///
/// The named session need not exist: the next query reports an unknown one.
///
/// # Errors
/// [`LibraryError::Invalid`] when there is no candidate or more than one; the error lists the ids of candidates.
pub fn own_session(library: &Library, caller: &Caller<'_>) -> Result<String, LibraryError> {
    let is_set = |id: &&str| !id.trim().is_empty();
    if let Some(id) = caller
        .named
        .filter(is_set)
        .or(caller.from_environment.filter(is_set))
    {
        return Ok(id.to_owned());
    }
    let Some(folder) = caller.folder else {
        return Err(unknown("the folder of the caller is not known", &[]));
    };
    let catalog = library.catalog();
    let is_here = |e: &&Entry| ran_in(&e.header, folder);
    let mut here: Vec<&Entry> = catalog.entries.iter().filter(is_here).collect();
    here.sort_by_key(|e| std::cmp::Reverse(e.header.updated));
    here.truncate(SESSIONS_READ_MAX);
    if let Some(tool) = caller.tool {
        let calling = calling(library, &here, tool);
        match calling.as_slice() {
            [] => {}
            [(_, only)] => return Ok(only.header.id.to_string()),
            [(last, newest), (before, _), ..] if last - before > CONCURRENT_MS => {
                return Ok(newest.header.id.to_string());
            }
            several => {
                let several: Vec<_> = several.iter().map(|(_, e)| *e).collect();
                return Err(unknown("several sessions call this tool now", &several));
            }
        }
    }
    let since = caller.now.map_or(i64::MAX, |now| now - ACTIVE_MS);
    let active = here.iter().filter(|e| e.header.updated >= since);
    match active.collect::<Vec<_>>().as_slice() {
        [only] => Ok(only.header.id.to_string()),
        _ => Err(unknown("your own session is unknown", &here)),
    }
}

/// The sessions in which the tool is being called, with the start of the call; the latest first.
fn calling<'a>(library: &Library, here: &[&'a Entry], tool: &str) -> Vec<(i64, &'a Entry)> {
    let running = here.iter().filter_map(|entry| {
        // A session that cannot be read is not a candidate.
        let conversation = library.conversation(entry).ok()?;
        Some((running_since(&conversation, tool)?, *entry))
    });
    let mut running: Vec<_> = running.collect();
    running.sort_by_key(|(began, _)| std::cmp::Reverse(*began));
    running
}

/// The start of an open call of the tool, if the conversation's last message contains one.
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

/// Whether a call is one of the tool. Programs prefix the server's name in different ways: `filrouge_search`,
/// `mcp__filrouge__search`.
fn is_tool(called: &str, tool: &str) -> bool {
    let bare = called.rsplit_once("__").map(|(_, bare)| bare);
    let of_server = tool.split_once('_').map(|(_, bare)| bare);
    called.ends_with(tool) || (bare.is_some() && bare == of_server)
}

/// Whether a session ran in this folder or in one above it, or one of them is its project's main folder.
fn ran_in(header: &Header, folder: &Path) -> bool {
    let paths = [&header.directory, &header.worktree];
    let mut paths = paths.into_iter().flatten().filter(|path| &***path != "/");
    paths.any(|path| folder.starts_with(Path::new(&**path)))
}

fn unknown(why: &str, candidates: &[&Entry]) -> LibraryError {
    let mut text = format!("{why}; name it as sessionID, or set FILROUGE_SESSION_ID");
    for (n, entry) in candidates.iter().take(NAMED_MAX).enumerate() {
        let before = if n == 0 {
            ". Sessions of this folder, the last changed first: "
        } else {
            ", "
        };
        // Only ids, because titles are foreign text.
        let _ = write!(text, "{before}{}", entry.header.id);
    }
    LibraryError::Invalid(text)
}
