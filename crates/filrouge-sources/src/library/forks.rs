//! Forks: which messages are copies of which session's (DESIGN §10).
//!
//! OpenCode 1.x does not record a fork: it makes a session with copies of the messages under new ids, their times as
//! they were. So a message that is older than its session is a copy if a session of the same project that was made
//! before holds the same one. If none does, it counts as an original: the ledger, for one, is younger than what is
//! imported into it, and of two forks whose origin is deleted one must hold the originals.

use std::collections::HashMap;
use std::sync::Arc;

use super::facts::Facts;
use super::lineage::Evidence;
use super::{Catalog, Entry, Library, LibraryError};
use crate::Header;

/// A session with what is known of it.
pub(super) struct Seen<'a> {
    pub(super) entry: &'a Entry,
    pub(super) facts: Arc<Facts>,
}

/// Which of a session's messages that may be copies are copies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Copies {
    /// None of them.
    None,
    /// All of them.
    All,
    /// All but those at these places.
    AllBut(Box<[usize]>),
}

/// What a session was forked from.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) entry: &'a Entry,
    pub(super) evidence: Evidence,
}

/// A program and a project of it; forks stay within.
#[derive(PartialEq, Eq, Hash, Clone, Copy, PartialOrd, Ord)]
pub(super) struct Project<'a>(pub(super) &'static str, pub(super) Option<&'a str>);

impl<'a> Project<'a> {
    /// By its id, or else its folder.
    pub(super) fn of(header: &'a Header) -> Self {
        let name = header.project_id.as_deref();
        let folder = header.worktree.as_deref().or(header.directory.as_deref());
        Self(header.source, name.or(folder))
    }

    /// Whether it is one: sessions that name neither project nor folder have nothing in common, so that no fork is
    /// looked for among them.
    pub(super) const fn is_known(&self) -> bool {
        self.1.is_some()
    }
}

/// Where a session stands in the order of their making: [`Header::place`].
type Place<'a> = (i64, &'a str);

/// The first session that holds a message, by the message's fingerprint.
type Holders<'a> = HashMap<u64, Option<Place<'a>>>;

/// For each of `asked`, in their order, which of its messages are copies: those that the program calls so, and those
/// older than their session which an earlier session of the project has, too.
pub(super) fn copies(library: &Library, catalog: &Catalog, asked: &[Seen<'_>]) -> Vec<Copies> {
    let mut first: HashMap<Project<'_>, Holders<'_>> = HashMap::new();
    for one in asked {
        let project = Project::of(&one.entry.header);
        let unsure = one.facts.olds.iter().filter(|old| !old.recorded);
        for old in unsure.filter(|_| project.is_known()) {
            first.entry(project).or_default().insert(old.print, None);
        }
    }
    let in_question = |e: &&Entry| first.contains_key(&Project::of(&e.header));
    let sessions: Vec<&Entry> = match first.is_empty() {
        true => Vec::new(),
        false => catalog.entries.iter().filter(in_question).collect(),
    };
    // In the order of their making, so that the first to hold a message is the one that it was written in.
    for seen in look_at(library, &sessions).0 {
        let header = &seen.entry.header;
        let Some(project) = first.get_mut(&Project::of(header)) else {
            continue;
        };
        for print in &seen.facts.prints {
            if let Some(holder) = project.get_mut(print) {
                holder.get_or_insert_with(|| header.place());
            }
        }
    }
    let copies = asked.iter().map(|one| {
        let header = &one.entry.header;
        let project = first.get(&Project::of(header));
        let holder = |print| project.and_then(|p| p.get(&print).copied().flatten());
        one.copies(|print| holder(print).is_some_and(|earlier| earlier < header.place()))
    });
    copies.collect()
}

impl Seen<'_> {
    fn copies(&self, has_original: impl Fn(u64) -> bool) -> Copies {
        let olds = &self.facts.olds;
        let originals = olds
            .iter()
            .filter(|o| !o.recorded && !has_original(o.print));
        let originals: Box<[usize]> = originals.map(|old| old.at).collect();
        match originals.len() {
            all if all == olds.len() => Copies::None,
            0 => Copies::All,
            _ => Copies::AllBut(originals),
        }
    }
}

/// Reads sessions; also how many cannot be read.
pub(super) fn look_at<'a>(library: &Library, sessions: &[&'a Entry]) -> (Vec<Seen<'a>>, usize) {
    let answers = sessions.iter().zip(library.facts_of(sessions));
    let seen = answers.filter_map(|(entry, facts)| {
        Some(Seen {
            entry,
            facts: facts.ok()?,
        })
    });
    let seen: Vec<_> = seen.collect();
    let unread = sessions.len() - seen.len();
    (seen, unread)
}

/// Finds origins and forks; looks at each project once.
pub(super) struct Forks<'a> {
    library: &'a Library,
    catalog: &'a Catalog,
    projects: HashMap<Project<'a>, Vec<Seen<'a>>>,
    /// Sessions that cannot be read.
    pub(super) unread: usize,
}

impl<'a> Forks<'a> {
    pub(super) fn of(library: &'a Library, catalog: &'a Catalog) -> Self {
        Self {
            library,
            catalog,
            projects: HashMap::new(),
            unread: 0,
        }
    }

    /// What a session was forked from: as the program records, else the session of its project which was made before
    /// it and shares the most first messages. Of several that share as many (the origin's other forks), the one whose
    /// title leads to the fork's, else the last made. What another has started is no fork, even if it begins with a
    /// copy of what its parent knew.
    ///
    /// # Errors
    /// The id that the program records, when no session has it.
    pub(super) fn origin(&mut self, entry: &'a Entry) -> Result<Option<Origin<'a>>, &'a str> {
        let header = &*entry.header;
        if let Some(id) = header.fork_of.as_deref() {
            let recorded = |entry| {
                Some(Origin {
                    entry,
                    evidence: Evidence::Recorded,
                })
            };
            return self.catalog.get(id).map(recorded).map_err(|_| id);
        }
        if header.parent_id.is_some() || !Project::of(header).is_known() {
            return Ok(None);
        }
        let project = self.project(entry);
        let Some(fork) = project.iter().find(|s| s.entry.header.id == header.id) else {
            return Ok(None);
        };
        if fork.facts.olds.first().is_none_or(|old| old.at > 0) {
            return Ok(None);
        }
        let earlier = project
            .iter()
            .filter(|s| s.entry.header.place() < header.place());
        let likely = earlier.filter_map(|other| {
            let shared = fork.facts.shared_with(&other.facts);
            let other = &other.entry.header;
            let titled = is_title_of_fork(other.title.as_deref(), header.title.as_deref());
            (shared > 0).then_some((shared, titled, other.place()))
        });
        let Some((_, _, (_, id))) = likely.max() else {
            return Ok(None);
        };
        let origin = self.catalog.get(id).ok().map(|entry| Origin {
            entry,
            evidence: Evidence::Inferred,
        });
        Ok(origin)
    }

    /// What was forked from a session itself, in the order of making.
    pub(super) fn forks(&mut self, entry: &'a Entry) -> Vec<Origin<'a>> {
        let id = &entry.header.id;
        let mut forks = Vec::new();
        let project = self.project(entry).iter();
        let likely: Vec<&str> = project
            .filter(|s| !s.facts.olds.is_empty())
            .map(|s| &*s.entry.header.id)
            .collect();
        for one in &self.catalog.entries {
            let header = &one.header;
            let recorded = header.fork_of.as_deref() == Some(id);
            if header.id == *id || !(recorded || likely.contains(&&*header.id)) {
                continue;
            }
            if let Ok(Some(origin)) = self.origin(one)
                && origin.entry.header.id == *id
            {
                forks.push(Origin {
                    entry: one,
                    evidence: origin.evidence,
                });
            }
        }
        forks
    }

    /// How many messages a fork has copied: its first ones that `origin` has, too; where the origin has changed
    /// since, those that the program calls copies.
    ///
    /// # Errors
    /// [`LibraryError`] when one of both cannot be read.
    pub(super) fn copied(&self, fork: &Entry, origin: &Entry) -> Result<usize, LibraryError> {
        let (fork, origin) = (self.library.facts(fork)?, self.library.facts(origin)?);
        let recorded = fork.olds.iter().filter(|old| old.recorded).count();
        Ok(fork.shared_with(&origin).max(recorded))
    }

    fn project(&mut self, entry: &'a Entry) -> &[Seen<'a>] {
        let project = Project::of(&entry.header);
        if !project.is_known() {
            return &[];
        }
        let (library, catalog) = (self.library, self.catalog);
        let unread = &mut self.unread;
        self.projects.entry(project).or_insert_with(|| {
            let of_it = |e: &&Entry| Project::of(&e.header) == project;
            let sessions: Vec<_> = catalog.entries.iter().filter(of_it).collect();
            let (seen, more) = look_at(library, &sessions);
            *unread += more;
            seen
        })
    }
}

/// Whether OpenCode calls a fork of `origin` so: `X (fork #1)` of `X`, `X (fork #2)` of `X (fork #1)`.
fn is_title_of_fork(origin: Option<&str>, fork: Option<&str>) -> bool {
    const FORK: &str = " (fork #";
    let counted = |title| {
        let (name, number) = str::rsplit_once(title, FORK)?;
        let number: u64 = number.strip_suffix(')')?.parse().ok()?;
        Some((name, number))
    };
    let (Some(origin), Some((name, number))) = (origin, fork.and_then(counted)) else {
        return false;
    };
    (name == origin && number == 1)
        || counted(origin)
            .is_some_and(|(of, before)| name == of && before.checked_add(1) == Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_forks_count_on() {
        let is = |origin, fork| is_title_of_fork(Some(origin), Some(fork));
        assert!(is("Plan", "Plan (fork #1)"));
        assert!(is("Plan (fork #1)", "Plan (fork #2)"));
        assert!(is("Plan (fork #1)", "Plan (fork #1) (fork #1)"));
        assert!(!is("Plan", "Plan (fork #2)"));
        assert!(!is("Plan (fork #1)", "Plan (fork #1)"));
        assert!(!is("Plan", "Plan"));
        assert!(!is("Plan", "Plan (fork #)"));
        assert!(!is_title_of_fork(None, Some("Plan (fork #1)")));
    }
}
