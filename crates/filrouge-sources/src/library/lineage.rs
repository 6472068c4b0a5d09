//! The ancestors, descendants and forks of a session: `get_session_lineage`, `filrouge lineage`.

mod calls;
mod family;

use serde::Serialize;

use super::forks::{ForkProject, Forks, Origin};
use super::list::Row;
use super::{Entry, Library, Result, notices};
use calls::Calls;
use family::Ancestry;
pub(super) use family::Family;

/// The evidence for a relation between sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// The program recorded it.
    Recorded,
    /// Inferred from copied messages: same roles, times and tokens.
    Inferred,
}

/// A related session.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Relative {
    /// The session.
    #[serde(flatten)]
    pub session: Row,
    /// The distance in generations: 1 for a parent or child, 0 for a sibling.
    pub depth: usize,
    /// The message whose tool call started it.
    #[serde(rename = "messageID", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// That tool call.
    #[serde(rename = "callID", skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

/// A fork: a session that begins with a copy of another session's messages.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fork {
    /// The other session.
    #[serde(flatten)]
    pub session: Row,
    /// The evidence for the fork.
    pub evidence: Evidence,
    /// The number of copied messages.
    pub copied_messages: usize,
}

/// The relatives of a session.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lineage {
    /// The session itself.
    pub session: Row,
    /// The message of its parent whose tool call started it.
    #[serde(rename = "messageID", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// That tool call.
    #[serde(rename = "callID", skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Its parents up to the root, the nearest first.
    pub parent_sessions: Vec<Relative>,
    /// All sessions that it started, and those that they started: each after its parent.
    pub child_sessions: Vec<Relative>,
    /// Other sessions that its parent started.
    pub siblings: Vec<Relative>,
    /// The sessions it was forked from, the nearest first.
    pub forked_from: Vec<Fork>,
    /// Its direct forks.
    pub forks: Vec<Fork>,
    /// Recorded parents and origins that no source has.
    pub gaps: Vec<String>,
    /// Whether the parents or origins form a cycle.
    pub cycle: bool,
    /// Texts about what was left out.
    pub notices: Vec<String>,
}

/// The lineage of a session. Anything with the form of a credential is masked.
///
/// # Errors
/// [`LibraryError::NoSession`](crate::LibraryError::NoSession).
pub fn lineage(library: &Library, session_id: &str) -> Result<Lineage> {
    lineage_with_mask(library, session_id, true)
}

/// Like [`lineage`]; `mask` decides whether anything with the form of a credential is masked.
///
/// # Errors
/// [`LibraryError::NoSession`](crate::LibraryError::NoSession).
pub fn lineage_with_mask(library: &Library, session_id: &str, mask: bool) -> Result<Lineage> {
    let library = &library.for_query();
    let catalog = library.catalog();
    let entry = catalog.get(session_id)?;
    let family = Family::new(&catalog);
    let mut calls = Calls::new(library, &catalog, mask);
    let parents = family.parents(entry);
    let with_depth = (1..).zip(&parents.sessions);
    let parent_sessions = with_depth
        .map(|(depth, parent)| calls.relative(parent, depth))
        .collect();
    let descendants = family.descendants(entry).into_iter();
    let child_sessions = descendants
        .map(|(depth, child)| calls.relative(child, depth))
        .collect();
    let parent = entry.header.parent_id.as_deref();
    let others = parent.map_or(&[][..], |parent| family.children(parent));
    let others = others
        .iter()
        .filter(|other| other.header.id != entry.header.id);
    let siblings = others.map(|sibling| calls.relative(sibling, 0)).collect();
    let (message_id, call_id) = calls.starting_call(entry).unzip();
    let missing = calls.missing_children(entry);
    let mut forks = Forks::new(library, &catalog);
    let ancestry = origins(&mut forks, entry, mask);
    let direct_forks = forks.forks(entry).into_iter();
    let direct_forks =
        direct_forks.map(|fork| show_fork(fork, forks.copied(fork.entry, entry), mask));
    let direct_forks = direct_forks.collect();
    let mut notices = notices::of_catalog(&catalog);
    notices.extend(notices::of_count(
        calls.unreadable.len().max(forks.unreadable),
        "1 related session cannot be read: calls and copies in it are not known",
        "related sessions cannot be read: calls and copies in them are not known",
    ));
    notices.extend(notices::of_count(
        missing,
        "1 tool call names a session that is not there",
        "tool calls name sessions that are not there",
    ));
    if ancestry.sessions.is_empty() {
        notices.extend(unknown_origin_notice(library, entry));
    }
    library.check_cancelled()?;
    Ok(Lineage {
        session: masked_row(entry, mask),
        message_id,
        call_id,
        parent_sessions,
        child_sessions,
        siblings,
        forked_from: ancestry.sessions,
        forks: direct_forks,
        gaps: parents
            .gap
            .into_iter()
            .chain(ancestry.gap)
            .map(str::to_owned)
            .collect(),
        cycle: parents.cycle || ancestry.cycle,
        notices,
    })
}

fn masked_row(entry: &Entry, mask: bool) -> Row {
    Row::from_header(&entry.header).masked(mask)
}

/// The origins of a fork, the nearest first.
fn origins<'a>(forks: &mut Forks<'a>, fork: &'a Entry, mask: bool) -> Ancestry<'a, Fork> {
    family::ancestry(fork, |session| {
        let origin = forks.origin(session)?;
        Ok(origin.map(|origin| {
            let copied_messages = forks.copied(fork, origin.entry);
            (origin.entry, show_fork(origin, copied_messages, mask))
        }))
    })
}

/// Describes a fork or an origin, as a relative of the other session.
fn show_fork(other: Origin<'_>, copied_messages: usize, mask: bool) -> Fork {
    Fork {
        session: masked_row(other.entry, mask),
        evidence: other.evidence,
        copied_messages,
    }
}

/// A notice about a session without an origin that may be a fork of a session that no source has.
fn unknown_origin_notice(library: &Library, entry: &Entry) -> Option<String> {
    let header = &entry.header;
    if header.parent_id.is_some() || !ForkProject::from_header(header).is_known() {
        return None;
    }
    let facts = library.facts(entry).ok()?;
    let copies = facts.possible_copies.iter();
    let older = copies.filter(|copy| !copy.recorded).count();
    (older > 0).then(|| {
        format!(
            "{older} of its messages are older than the session, and no earlier session has them: \
             it is imported, or a fork of a session that is no longer there"
        )
    })
}

#[cfg(test)]
mod tests;
