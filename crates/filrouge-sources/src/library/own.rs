//! Which session is the caller's own (DESIGN §12 MCP).

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::path::Path;

use super::{Entry, Library, LibraryError};
use crate::{Conversation, Header, PartKind, Role};

/// How many sessions of a folder are looked into, the last changed first. One in which a call is running has changed
/// lately, but programs may note it late.
const LOOKED_INTO: usize = 20;

/// Calls that began within so many milliseconds of each other may both be running still.
const AT_ONCE: i64 = 2_000;

/// How long a session without a running call counts as going on, in milliseconds.
const GOING_ON: i64 = 10 * 60 * 1_000;

/// How many candidates a refusal names.
const NAMED: usize = 5;

/// What is known of the caller.
#[derive(Debug, Clone, Default)]
pub struct Caller<'a> {
    /// The session named in the call.
    pub named: Option<&'a str>,
    /// `FILROUGE_SESSION_ID`.
    pub from_environment: Option<&'a str>,
    /// The folder the caller works in, canonical.
    pub folder: Option<&'a Path>,
    /// The tool that is running now, as agents see it: most often `filrouge_get_compacted_context`.
    pub tool: Option<&'a str>,
    /// The time now, milliseconds since 1970. Without it a session counts as the caller's only with a running call.
    pub now: Option<i64>,
}

/// The caller's own session: the named one, else that of the environment, else the session of this folder in which a
/// call of our tool is running now, as the last thing that its agent has said. Of several, the one whose call began
/// last, unless they began at the same time. Where no call is seen, as programs may write it down late: the one session
/// of the folder that has changed within the last ten minutes.
///
/// The named session need not exist: who asks for it next is told.
///
/// # Errors
/// [`LibraryError::Invalid`] when none or several could be meant; it names them by their ids.
pub fn own_session(library: &Library, caller: &Caller<'_>) -> Result<String, LibraryError> {
    let told = |id: &&str| !id.trim().is_empty();
    if let Some(id) = caller
        .named
        .filter(told)
        .or(caller.from_environment.filter(told))
    {
        return Ok(id.to_owned());
    }
    let Some(folder) = caller.folder else {
        return Err(unknown("the folder of the caller is not known", &[]));
    };
    let catalog = library.catalog();
    let is_here = |e: &&Entry| is_of(&e.header, folder);
    let mut here: Vec<&Entry> = catalog.entries.iter().filter(is_here).collect();
    here.sort_by_key(|e| std::cmp::Reverse(e.header.updated));
    here.truncate(LOOKED_INTO);
    if let Some(tool) = caller.tool {
        let calling = calling(library, &here, tool);
        match calling.as_slice() {
            [] => {}
            [(_, only)] => return Ok(only.header.id.to_string()),
            [(last, newest), (before, _), ..] if last - before > AT_ONCE => {
                return Ok(newest.header.id.to_string());
            }
            several => {
                let several: Vec<_> = several.iter().map(|(_, e)| *e).collect();
                return Err(unknown("several sessions call this tool now", &several));
            }
        }
    }
    let since = caller.now.map_or(i64::MAX, |now| now - GOING_ON);
    let going_on = here.iter().filter(|e| e.header.updated >= since);
    match going_on.collect::<Vec<_>>().as_slice() {
        [only] => Ok(only.header.id.to_string()),
        _ => Err(unknown("it cannot be told which session is yours", &here)),
    }
}

/// The sessions in which the tool is called now, with when the call began; the last one first.
fn calling<'a>(library: &Library, here: &[&'a Entry], tool: &str) -> Vec<(i64, &'a Entry)> {
    let running = here.iter().filter_map(|entry| {
        // One that cannot be read is none of those that could be meant.
        let conversation = library.conversation(entry).ok()?;
        Some((running_since(&conversation, tool)?, *entry))
    });
    let mut running: Vec<_> = running.collect();
    running.sort_by_key(|(began, _)| std::cmp::Reverse(*began));
    running
}

/// When a call of the tool began that is the last thing in a conversation and has no end.
fn running_since(of: &Conversation, tool: &str) -> Option<i64> {
    let mut newest = of.messages.iter().rev();
    let last = newest.find(|m| m.role != Role::System);
    let last = last.filter(|m| m.role == Role::Assistant)?;
    let calls = last.parts.iter().filter(|part| match &part.kind {
        PartKind::Tool(call) => call.status.is_open() && is_tool(&call.name, tool),
        _ => false,
    });
    calls.map(|part| part.start.unwrap_or(last.created)).max()
}

/// Whether a call is of the tool: programs put the server's name before it in their own ways, as `filrouge_search`,
/// `mcp__filrouge__search`.
fn is_tool(called: &str, tool: &str) -> bool {
    let bare = called.rsplit_once("__").map(|(_, bare)| bare);
    let of_server = tool.split_once('_').map(|(_, bare)| bare);
    called.ends_with(tool) || (bare.is_some() && bare == of_server)
}

/// Whether a session ran in the folder, in one above it, or its project lies there.
fn is_of(header: &Header, folder: &Path) -> bool {
    let paths = [&header.directory, &header.worktree];
    let mut paths = paths.into_iter().flatten().filter(|path| &***path != "/");
    paths.any(|path| folder.starts_with(Path::new(&**path)))
}

fn unknown(why: &str, candidates: &[&Entry]) -> LibraryError {
    let mut text = format!("{why}; name it as sessionID, or set FILROUGE_SESSION_ID");
    for (n, entry) in candidates.iter().take(NAMED).enumerate() {
        let before = if n == 0 {
            ". The last changed of this folder: "
        } else {
            ", "
        };
        // Ids alone: titles are foreign text.
        let _ = write!(text, "{before}{}", entry.header.id);
    }
    LibraryError::Invalid(text)
}
