//! What sessions amount to: `get_session_stats`, `filrouge stats`.

mod count;
mod overview;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::forks;
use super::lineage::Family;
use super::list::Row;
pub use super::sums::{ModelUse, Sums, ToolUse};
use super::{Library, LibraryError, clean, notices};
use crate::{Changes, TokenRule, Tokens};
use count::{Count, Counted};
pub use overview::overview;

/// Where the numbers of changes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangesFrom {
    /// The program's own summary of the session.
    Summary,
    /// Summed up over tool calls and patches, as the program has no summary, or one of zeros.
    ToolCalls,
}

/// Statistics of one session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionStats {
    /// The session.
    pub session: Row,
    /// Milliseconds from its making to its last change.
    pub duration: i64,
    /// Its agents.
    pub agents: Vec<String>,
    /// Its own tokens.
    pub tokens: Tokens,
    /// What it changed.
    pub changes: Changes,
    /// Where that is known from.
    pub changes_from: ChangesFrom,
    /// Its own messages.
    pub message_count: u64,
    /// Its own parts.
    pub part_count: u64,
    /// The session alone.
    pub own: Sums,
    /// With all it has started.
    pub with_descendants: Sums,
    /// With all it has started, without messages that were copied from elsewhere.
    pub without_copied: Sums,
    /// How tokens were read.
    pub token_rules: Vec<TokenRule>,
    /// What was left out, in words.
    pub notices: Vec<String>,
}

/// A day's share, in UTC.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Day {
    /// `2026-11-21`.
    pub date: String,
    /// Messages.
    pub messages: u64,
    /// Tokens.
    pub tokens: Tokens,
    /// Cost in US dollars.
    pub cost: f64,
}

/// Statistics of many sessions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// All of them.
    pub all: Sums,
    /// All of them, without messages that were copied from elsewhere.
    pub without_copied: Sums,
    /// By program, with copies.
    pub by_source: BTreeMap<String, Sums>,
    /// By project, the one with the most tokens first. Projects of one name are apart.
    pub by_project: Vec<(String, Sums)>,
    /// Day by day, of originals alone.
    pub days: Vec<Day>,
    /// How tokens were read.
    pub token_rules: Vec<TokenRule>,
    /// What was left out, in words.
    pub notices: Vec<String>,
}

/// Statistics of one session and what it has started.
///
/// Tokens and cost are those of messages, as their program reckons. A message is a copy if the program calls it so, or
/// if it is older than its session and an earlier session of the project has the same one. Changes without copies are
/// those of the tool calls that are left.
///
/// # Errors
/// [`LibraryError`]: no such session, or it cannot be read.
pub fn session(library: &Library, session_id: &str) -> Result<SessionStats, LibraryError> {
    shown_as(library, session_id, true)
}

/// As [`session`]; `mask` says whether what has the form of a credential is masked.
///
/// # Errors
/// As [`session`].
pub fn shown_as(
    library: &Library,
    session_id: &str,
    mask: bool,
) -> Result<SessionStats, LibraryError> {
    let library = &library.of_question();
    let catalog = library.catalog();
    let entry = catalog.get(session_id)?;
    let facts = library.facts(entry)?;
    let family = Family::of(&catalog);
    let below = family.descendants(entry).into_iter();
    let all: Vec<_> = std::iter::once(entry)
        .chain(below.map(|(_, child)| child))
        .collect();
    let (tree, unread) = forks::look_at(library, &all);
    let copies = forks::copies(library, &catalog, &tree);
    let tree = tree.into_iter().zip(copies);
    let tree: Vec<_> = tree
        .map(|(seen, copies)| Counted::of(library, seen, copies))
        .collect();
    library.go_on()?;
    let mut own = Count::default();
    let mut whole = Count::default();
    tree.iter().take(1).for_each(|one| own.add(one));
    tree.iter().for_each(|one| whole.add(one));
    let own = own.all().masked(mask);
    let (changes, changes_from) = count::changes(&entry.header, &facts);
    let mut notices = notices::of_catalog(&catalog);
    notices.extend(unread_notice(unread));
    notices.extend(skipped_notice(
        tree.iter().map(|one| one.seen.facts.skipped).sum(),
    ));
    Ok(SessionStats {
        session: Row::of(&entry.header).masked(mask),
        duration: entry
            .header
            .updated
            .saturating_sub(entry.header.created)
            .max(0),
        agents: agents(&own, clean::some(entry.header.agent.as_deref(), mask)),
        tokens: own.tokens,
        changes,
        changes_from,
        message_count: own.message_count,
        part_count: own.part_count,
        own,
        with_descendants: whole.all().masked(mask),
        without_copied: whole.without_copied().masked(mask),
        token_rules: token_rules(tree.iter()),
        notices,
    })
}

/// Those that wrote something; where nothing is written yet, the one that was asked.
fn agents(own: &Sums, asked: Option<String>) -> Vec<String> {
    let wrote: Vec<String> = own.agents.keys().cloned().collect();
    match asked {
        Some(asked) if wrote.is_empty() => vec![asked],
        _ => wrote,
    }
}

fn token_rules<'a>(counted: impl Iterator<Item = &'a Counted<'a>>) -> Vec<TokenRule> {
    let rules: BTreeSet<_> = counted.map(|one| one.seen.facts.rule).collect();
    rules.into_iter().collect()
}

fn unread_notice(unread: usize) -> Option<String> {
    match unread {
        0 => None,
        1 => Some("1 session cannot be read and is not counted".to_owned()),
        n => Some(format!("{n} sessions cannot be read and are not counted")),
    }
}

fn skipped_notice(skipped: usize) -> Option<String> {
    match skipped {
        0 => None,
        1 => Some("1 record cannot be read and is not counted".to_owned()),
        n => Some(format!("{n} records cannot be read and are not counted")),
    }
}

#[cfg(test)]
mod tests;
