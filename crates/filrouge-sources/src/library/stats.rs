//! Statistics of sessions: `get_session_stats`, `filrouge stats`.

mod count;
mod overview;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::forks;
use super::lineage::Family;
use super::list::Row;
pub use super::sums::{ModelUse, Sums, ToolUse};
use super::{Catalog, Entry, Library, Result, clean, notices};
use crate::{Changes, TokenRule, Tokens};
use count::{Count, Counted};
pub use overview::overview;

/// The origin of the numbers of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangesFrom {
    /// The program's own summary of the session.
    Summary,
    /// The sum over tool calls and patches, when the program has no summary or one of zeros.
    ToolCalls,
}

/// Statistics of one session.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionStats {
    /// The session.
    pub session: Row,
    /// Milliseconds from its creation to its last change.
    pub duration: i64,
    /// Its agents.
    pub agents: Vec<String>,
    /// Its own tokens.
    pub tokens: Tokens,
    /// The changes it made.
    pub changes: Changes,
    /// The origin of these numbers.
    pub changes_from: ChangesFrom,
    /// The number of its own messages.
    pub message_count: u64,
    /// The number of its own parts.
    pub part_count: u64,
    /// Sums over the session alone.
    pub own: Sums,
    /// Sums over the session and all its descendants.
    pub with_descendants: Sums,
    /// Sums over the session and all its descendants, without messages that were copied from elsewhere.
    pub without_copied: Sums,
    /// The rules by which tokens were converted.
    pub token_rules: Vec<TokenRule>,
    /// Texts about what was left out.
    pub notices: Vec<String>,
}

/// The sums of one day, in UTC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Day {
    /// `2026-11-21`.
    pub date: String,
    /// The number of messages.
    pub messages: u64,
    /// Tokens.
    pub tokens: Tokens,
    /// Cost in US dollars.
    pub cost: f64,
}

/// Statistics of many sessions.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Sums over all of them.
    pub all: Sums,
    /// Sums over all of them, without messages that were copied from elsewhere.
    pub without_copied: Sums,
    /// Sums by program, with copies.
    pub by_source: BTreeMap<String, Sums>,
    /// Sums by project, the one with the most tokens first. Different projects of one name are listed separately.
    pub by_project: Vec<(String, Sums)>,
    /// Sums by day, without copies.
    pub days: Vec<Day>,
    /// The rules by which tokens were converted.
    pub token_rules: Vec<TokenRule>,
    /// Texts about what was left out.
    pub notices: Vec<String>,
}

/// Statistics of one session and its descendants.
///
/// Tokens and cost are the sums over messages, as their program calculated them. A message is a copy if the program
/// marks it as one, or if it is older than its session and an earlier session of the project has the same message. If a
/// session contains copies, its changes without copies are those that the other messages' tool calls and patches
/// report.
///
/// # Errors
/// [`LibraryError`](crate::LibraryError): no such session, or it cannot be read.
pub fn session(library: &Library, session_id: &str) -> Result<SessionStats> {
    session_with_mask(library, session_id, true)
}

/// Like [`session`]; `mask` decides whether anything with the form of a credential is masked.
///
/// # Errors
/// As [`session`].
pub fn session_with_mask(library: &Library, session_id: &str, mask: bool) -> Result<SessionStats> {
    let library = &library.for_query();
    let catalog = library.catalog();
    let entry = catalog.get(session_id)?;
    let facts = library.facts(entry)?;
    let family = Family::new(&catalog);
    let descendants = family.descendants(entry).into_iter();
    let sessions: Vec<_> = std::iter::once(entry)
        .chain(descendants.map(|(_, child)| child))
        .collect();
    let (tree, notices) = count_sessions(library, &catalog, &sessions)?;
    let mut own = Count::default();
    let mut total = Count::default();
    tree.iter().take(1).for_each(|session| own.add(session));
    tree.iter().for_each(|session| total.add(session));
    let own = own.all.sums().masked(mask);
    let (changes, changes_from) = count::changes(&entry.header, &facts);
    Ok(SessionStats {
        session: Row::from_header(&entry.header).masked(mask),
        duration: entry
            .header
            .updated
            .saturating_sub(entry.header.created)
            .max(0),
        agents: agents(
            &own,
            clean::optional_text(entry.header.agent.as_deref(), mask),
        ),
        tokens: own.tokens,
        changes,
        changes_from,
        message_count: own.message_count,
        part_count: own.part_count,
        own,
        with_descendants: total.all.sums().masked(mask),
        without_copied: total.originals.sums().masked(mask),
        token_rules: token_rules(tree.iter()),
        notices,
    })
}

/// Prepares sessions for counting; also returns the notices about what is not counted.
fn count_sessions<'a>(
    library: &Library,
    catalog: &Catalog,
    sessions: &[&'a Entry],
) -> Result<(Vec<Counted<'a>>, Vec<String>)> {
    let (readable, unreadable) = forks::read_facts(library, sessions);
    let copies = forks::find_copies(library, catalog, &readable);
    let counted: Vec<_> = readable
        .into_iter()
        .zip(copies)
        .map(|(session, copies)| Counted::new(library, session, copies))
        .collect();
    library.check_cancelled()?;
    let mut notices = notices::of_catalog(catalog);
    notices.extend(notices::of_count(
        unreadable,
        "1 session cannot be read and is not counted",
        "sessions cannot be read and are not counted",
    ));
    let skipped = counted.iter().map(|one| one.session.facts.skipped);
    notices.extend(notices::of_count(
        skipped.sum(),
        "1 record cannot be read and is not counted",
        "records cannot be read and are not counted",
    ));
    Ok((counted, notices))
}

/// The agents that wrote messages; if no message names one, the agent that the session's header names.
fn agents(own: &Sums, header_agent: Option<String>) -> Vec<String> {
    let agents: Vec<String> = own.agents.keys().cloned().collect();
    match header_agent {
        Some(agent) if agents.is_empty() => vec![agent],
        _ => agents,
    }
}

fn token_rules<'a>(counted: impl Iterator<Item = &'a Counted<'a>>) -> Vec<TokenRule> {
    let rules: BTreeSet<_> = counted.map(|session| session.session.facts.rule).collect();
    rules.into_iter().collect()
}

#[cfg(test)]
mod tests;
