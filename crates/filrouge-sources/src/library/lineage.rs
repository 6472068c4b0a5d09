//! Where a session comes from and what it has started: `get_session_lineage`, `filrouge lineage`.

mod calls;
mod family;

use serde::Serialize;

use super::forks::{Forks, Project};
use super::list::Row;
use super::{Entry, Library, LibraryError, notices};
use calls::Calls;
use family::Ancestry;
pub(super) use family::Family;

/// How a relative is known to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// The program recorded it.
    Recorded,
    /// From messages that were copied: same roles, times and tokens.
    Inferred,
}

/// A relative.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Relative {
    /// The session.
    #[serde(flatten)]
    pub session: Row,
    /// Generations away: 1 for a parent or child, 0 for a sibling.
    pub depth: usize,
    /// The message whose tool call started it.
    #[serde(rename = "messageID", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// That tool call.
    #[serde(rename = "callID", skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

/// A fork: a session that begins with a copy of another's messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Fork {
    /// The other session.
    #[serde(flatten)]
    pub session: Row,
    /// How it is known.
    pub evidence: Evidence,
    /// How many messages were copied.
    pub copied_messages: usize,
}

/// The relatives of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// All it has started, and what those have: each behind its parent.
    pub child_sessions: Vec<Relative>,
    /// Others that its parent has started.
    pub siblings: Vec<Relative>,
    /// What it was forked from, the nearest first.
    pub forked_from: Vec<Fork>,
    /// What was forked from it itself.
    pub forks: Vec<Fork>,
    /// Parents and recorded origins that are named and not there.
    pub gaps: Vec<String>,
    /// Whether parents or origins lead round in a circle.
    pub cycle: bool,
    /// What was left out, in words.
    pub notices: Vec<String>,
}

/// The lineage of a session, without what has the form of a credential.
///
/// # Errors
/// [`LibraryError::NoSession`].
pub fn lineage(library: &Library, session_id: &str) -> Result<Lineage, LibraryError> {
    shown_as(library, session_id, true)
}

/// As [`lineage`]; `mask` says whether what has the form of a credential is masked.
///
/// # Errors
/// [`LibraryError::NoSession`].
pub fn shown_as(library: &Library, session_id: &str, mask: bool) -> Result<Lineage, LibraryError> {
    let library = &library.of_question();
    let catalog = library.catalog();
    let entry = catalog.get(session_id)?;
    let family = Family::of(&catalog);
    let mut calls = Calls::of(library, &catalog, mask);
    let parents = family.parents(entry);
    let up = (1..).zip(&parents.found);
    let parent_sessions = up.map(|(depth, one)| calls.relative(one, depth)).collect();
    let down = family.descendants(entry).into_iter();
    let child_sessions = down
        .map(|(depth, one)| calls.relative(one, depth))
        .collect();
    let parent = entry.header.parent_id.as_deref();
    let others = parent.map_or(&[][..], |parent| family.children(parent));
    let others = others.iter().filter(|one| one.header.id != entry.header.id);
    let siblings = others.map(|one| calls.relative(one, 0)).collect();
    let (message_id, call_id) = calls.start(entry).unzip();
    let lost = calls.lost(entry);
    let mut forks = Forks::of(library, &catalog);
    let ancestry = origins(&mut forks, entry, mask);
    let known = forks.forks(entry).into_iter();
    let known = known.map(|fork| {
        shown(
            &forks,
            (fork.entry, entry),
            row(fork.entry, mask),
            fork.evidence,
        )
    });
    let known = known.collect();
    let mut notices = notices::of_catalog(&catalog);
    notices.extend(told(calls.unread.len().max(forks.unread), lost));
    notices.extend(orphaned(library, entry, ancestry.found.is_empty()));
    library.go_on()?;
    Ok(Lineage {
        session: row(entry, mask),
        message_id,
        call_id,
        parent_sessions,
        child_sessions,
        siblings,
        forked_from: ancestry.found,
        forks: known,
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

fn row(entry: &Entry, mask: bool) -> Row {
    Row::of(&entry.header).masked(mask)
}

/// The origins of a fork.
fn origins<'a>(forks: &mut Forks<'a>, fork: &'a Entry, mask: bool) -> Ancestry<'a, Fork> {
    family::ancestry(fork, |one| {
        let Some(origin) = forks.origin(one)? else {
            return Ok(None);
        };
        let shown = shown(
            forks,
            (fork, origin.entry),
            row(origin.entry, mask),
            origin.evidence,
        );
        Ok(Some((origin.entry, shown)))
    })
}

/// `other` as one end of a fork. What cannot be read has no number of copies; that it is so is told in a notice.
fn shown(forks: &Forks<'_>, (fork, from): (&Entry, &Entry), other: Row, how: Evidence) -> Fork {
    Fork {
        session: other,
        evidence: how,
        copied_messages: forks.copied(fork, from).unwrap_or_default(),
    }
}

fn told(unread: usize, lost: usize) -> impl Iterator<Item = String> {
    let of = |n: usize, one: &str, many: &str| match n {
        0 => None,
        1 => Some(one.to_owned()),
        n => Some(format!("{n} {many}")),
    };
    let unread = of(
        unread,
        "1 related session cannot be read: calls and copies in it are not known",
        "related sessions cannot be read: calls and copies in them are not known",
    );
    let lost = of(
        lost,
        "1 tool call names a session that is not there",
        "tool calls name sessions that are not there",
    );
    unread.into_iter().chain(lost)
}

/// Tells of a session that looks like a fork of nothing there is.
fn orphaned(library: &Library, entry: &Entry, no_origin: bool) -> Option<String> {
    let header = &entry.header;
    let was_looked_for = header.parent_id.is_none() && Project::of(header).is_known();
    if !(no_origin && was_looked_for) {
        return None;
    }
    let facts = library.facts(entry).ok()?;
    let older = facts.olds.iter().filter(|old| !old.recorded).count();
    (older > 0).then(|| {
        format!(
            "{older} of its messages are older than itself, and no earlier session has them: \
             it is imported, or a fork of a session that is no longer there"
        )
    })
}

#[cfg(test)]
mod tests;
