//! Forks: detects which messages are copies, and of which session (DESIGN §10).
//!
//! OpenCode 1.x does not record a fork: it creates a session with copies of the messages under new ids and with
//! unchanged times. So a message that is older than its session is a copy if an earlier session of the same project
//! contains the same message. If no earlier session contains it, it counts as an original. This has two reasons: an
//! imported message is older than the ledger's session, but not a copy; and if the origin of two forks was deleted, its
//! messages must count in one of the forks.

use std::collections::HashMap;
use std::sync::Arc;

use super::facts::Facts;
use super::lineage::Evidence;
use super::{Catalog, Entry, Library};
use crate::{Header, on_two_threads};

/// A session with its facts.
pub(super) struct SessionFacts<'a> {
    pub(super) entry: &'a Entry,
    pub(super) facts: Arc<Facts>,
}

/// The copies among a session's messages that may be copies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ForkCopies {
    /// None of them.
    None,
    /// All of them.
    All,
    /// All except those at these indexes.
    AllBut(Box<[usize]>),
}

/// The session that another one was forked from.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) entry: &'a Entry,
    pub(super) evidence: Evidence,
}

/// A program, and the id or folder of one of its projects. A fork belongs to the same project as its origin.
#[derive(PartialEq, Eq, Hash, Clone, Copy, PartialOrd, Ord)]
pub(super) struct ForkProject<'a>(pub(super) &'static str, pub(super) Option<&'a str>);

impl<'a> ForkProject<'a> {
    /// The project of a session: by its id, or else by its folder.
    pub(super) fn from_header(header: &'a Header) -> Self {
        let name = header.project_id.as_deref();
        let folder = header.worktree.as_deref().or(header.directory.as_deref());
        Self(header.source, name.or(folder))
    }

    /// Whether the session names a project or a folder. Sessions that name neither may be unrelated, so no forks are
    /// searched for among them.
    pub(super) const fn is_known(&self) -> bool {
        self.1.is_some()
    }
}

/// The position of a session in the order of creation: [`Header::sort_key`].
type CreationOrder<'a> = (i64, &'a str);

/// The first session that contains a message, by the message's fingerprint; `None` until a session is found.
type FirstSessions<'a> = HashMap<u64, Option<CreationOrder<'a>>>;

/// For each session of `queried`, in order, finds the messages that are copies: those that the program marks as copies,
/// and those older than their session that an earlier session of the project contains too.
pub(super) fn find_copies(
    library: &Library,
    catalog: &Catalog,
    queried: &[SessionFacts<'_>],
) -> Vec<ForkCopies> {
    let mut first_sessions: HashMap<ForkProject<'_>, FirstSessions<'_>> = HashMap::new();
    for session in queried {
        let project = ForkProject::from_header(&session.entry.header);
        let copies = session.facts.possible_copies.iter();
        for copy in copies.filter(|copy| !copy.recorded && project.is_known()) {
            let first_sessions = first_sessions.entry(project).or_default();
            first_sessions.insert(copy.fingerprint, None);
        }
    }
    let is_in_project =
        |e: &&Entry| first_sessions.contains_key(&ForkProject::from_header(&e.header));
    let sessions: Vec<&Entry> = match first_sessions.is_empty() {
        true => Vec::new(),
        false => catalog.entries.iter().filter(is_in_project).collect(),
    };
    // Sessions are scanned in the order of their creation, so the first session with a message is the one in which the
    // message was written.
    for session in read_facts(library, &sessions).0 {
        let header = &session.entry.header;
        let Some(project) = first_sessions.get_mut(&ForkProject::from_header(header)) else {
            continue;
        };
        for fingerprint in &session.facts.fingerprints {
            if let Some(first_session) = project.get_mut(fingerprint) {
                first_session.get_or_insert_with(|| header.sort_key());
            }
        }
    }
    let copies = queried.iter().map(|session| {
        let header = &session.entry.header;
        let project = first_sessions.get(&ForkProject::from_header(header));
        let first_session =
            |fingerprint| project.and_then(|p| p.get(&fingerprint).copied().flatten());
        session.copies(|fingerprint| {
            first_session(fingerprint).is_some_and(|earlier| earlier < header.sort_key())
        })
    });
    copies.collect()
}

impl SessionFacts<'_> {
    /// Decides which possible copies are copies: those that the program marks, and those for whose fingerprint
    /// `has_original` returns true.
    fn copies(&self, has_original: impl Fn(u64) -> bool) -> ForkCopies {
        let possible_copies = &self.facts.possible_copies;
        let originals = possible_copies
            .iter()
            .filter(|copy| !copy.recorded && !has_original(copy.fingerprint));
        let originals: Box<[usize]> = originals.map(|copy| copy.index).collect();
        match originals.len() {
            count if count == possible_copies.len() => ForkCopies::None,
            0 => ForkCopies::All,
            _ => ForkCopies::AllBut(originals),
        }
    }
}

/// Reads the facts of sessions. Returns those of all readable sessions, and the number of the others.
pub(super) fn read_facts<'a>(
    library: &Library,
    sessions: &[&'a Entry],
) -> (Vec<SessionFacts<'a>>, usize) {
    let facts = on_two_threads(sessions, 1, |entry| library.facts(entry));
    let results = sessions.iter().zip(facts);
    let readable = results.filter_map(|(entry, facts)| {
        Some(SessionFacts {
            entry,
            facts: facts.ok()?,
        })
    });
    let readable: Vec<_> = readable.collect();
    let unreadable = sessions.len() - readable.len();
    (readable, unreadable)
}

/// Finds origins and forks; reads each project once.
pub(super) struct Forks<'a> {
    library: &'a Library,
    catalog: &'a Catalog,
    projects: HashMap<ForkProject<'a>, Vec<SessionFacts<'a>>>,
    /// The number of sessions that cannot be read.
    pub(super) unreadable: usize,
}

impl<'a> Forks<'a> {
    pub(super) fn new(library: &'a Library, catalog: &'a Catalog) -> Self {
        Self {
            library,
            catalog,
            projects: HashMap::new(),
            unreadable: 0,
        }
    }

    /// The session from which `entry` was forked: the one that the program recorded, or else the earlier session of the
    /// same project that has the most first messages in common with `entry`. If several have equally many (the origin
    /// and its other forks), it is the one from whose title OpenCode would derive the title of `entry`, or else the
    /// newest one. A session that another session started is not a fork, even if it begins with a copy of its parent's
    /// messages.
    ///
    /// # Errors
    /// The recorded id, when no session has it.
    pub(super) fn origin(&mut self, entry: &'a Entry) -> Result<Option<Origin<'a>>, &'a str> {
        let header = &*entry.header;
        if let Some(id) = header.fork_of.as_deref() {
            let entry = self.catalog.get(id).map_err(|_| id)?;
            let evidence = Evidence::Recorded;
            return Ok(Some(Origin { entry, evidence }));
        }
        if header.parent_id.is_some() || !ForkProject::from_header(header).is_known() {
            return Ok(None);
        }
        let project = self.sessions_of_project(entry);
        let Some(fork) = project.iter().find(|s| s.entry.header.id == header.id) else {
            return Ok(None);
        };
        let first_copy = fork.facts.possible_copies.first();
        if first_copy.is_none_or(|copy| copy.index > 0) {
            return Ok(None);
        }
        let earlier = project
            .iter()
            .filter(|s| s.entry.header.sort_key() < header.sort_key());
        let candidates = earlier.filter_map(|other| {
            let shared = fork.facts.shared_with(&other.facts);
            let other = &other.entry.header;
            let titled = is_title_of_fork(other.title.as_deref(), header.title.as_deref());
            (shared > 0).then_some((shared, titled, other.sort_key()))
        });
        let Some((_, _, (_, id))) = candidates.max() else {
            return Ok(None);
        };
        let origin = self.catalog.get(id).ok().map(|entry| Origin {
            entry,
            evidence: Evidence::Inferred,
        });
        Ok(origin)
    }

    /// The direct forks of a session, in order of creation.
    pub(super) fn forks(&mut self, origin_entry: &'a Entry) -> Vec<Origin<'a>> {
        let id = &origin_entry.header.id;
        let mut forks = Vec::new();
        let project = self.sessions_of_project(origin_entry).iter();
        let candidates: Vec<&str> = project
            .filter(|s| !s.facts.possible_copies.is_empty())
            .map(|s| &*s.entry.header.id)
            .collect();
        for entry in &self.catalog.entries {
            let header = &entry.header;
            let recorded = header.fork_of.as_deref() == Some(id);
            if header.id == *id || !(recorded || candidates.contains(&&*header.id)) {
                continue;
            }
            if let Ok(Some(origin)) = self.origin(entry)
                && origin.entry.header.id == *id
            {
                forks.push(Origin {
                    entry,
                    evidence: origin.evidence,
                });
            }
        }
        forks
    }

    /// The number of messages that a fork copied: the number of its first messages that `origin` has too, or the number
    /// of messages that the program marks as copies, whichever is greater. (The origin may have changed since the
    /// fork.) If one of the two cannot be read, it is 0, and a notice reports it.
    pub(super) fn copied(&self, fork: &Entry, origin: &Entry) -> usize {
        let (Ok(fork), Ok(origin)) = (self.library.facts(fork), self.library.facts(origin)) else {
            return 0;
        };
        let copies = fork.possible_copies.iter();
        let recorded = copies.filter(|copy| copy.recorded).count();
        fork.shared_with(&origin).max(recorded)
    }

    /// The readable sessions in the project of `entry`, in order of creation; none if the project is unknown.
    fn sessions_of_project(&mut self, entry: &'a Entry) -> &[SessionFacts<'a>] {
        let project = ForkProject::from_header(&entry.header);
        if !project.is_known() {
            return &[];
        }
        let (library, catalog) = (self.library, self.catalog);
        let unreadable = &mut self.unreadable;
        self.projects.entry(project).or_insert_with(|| {
            let is_in_project = |e: &&Entry| ForkProject::from_header(&e.header) == project;
            let sessions: Vec<_> = catalog.entries.iter().filter(is_in_project).collect();
            let (readable, newly_unreadable) = read_facts(library, &sessions);
            *unreadable += newly_unreadable;
            readable
        })
    }
}

/// Whether `fork` is the title that OpenCode gives to a fork of a session with the title `origin`: `X (fork #1)` for
/// `X`, and `X (fork #2)` for `X (fork #1)`.
fn is_title_of_fork(origin: Option<&str>, fork: Option<&str>) -> bool {
    const FORK: &str = " (fork #";
    let split_title = |title| {
        let (name, number) = str::rsplit_once(title, FORK)?;
        let number: u64 = number.strip_suffix(')')?.parse().ok()?;
        Some((name, number))
    };
    let (Some(origin), Some((name, number))) = (origin, fork.and_then(split_title)) else {
        return false;
    };
    (name == origin && number == 1)
        || split_title(origin).is_some_and(|(origin_name, before)| {
            name == origin_name && before.checked_add(1) == Some(number)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_forks_are_numbered() {
        let is_fork_title = |origin, fork| is_title_of_fork(Some(origin), Some(fork));
        assert!(is_fork_title("Plan", "Plan (fork #1)"));
        assert!(is_fork_title("Plan (fork #1)", "Plan (fork #2)"));
        assert!(is_fork_title("Plan (fork #1)", "Plan (fork #1) (fork #1)"));
        assert!(!is_fork_title("Plan", "Plan (fork #2)"));
        assert!(!is_fork_title("Plan (fork #1)", "Plan (fork #1)"));
        assert!(!is_fork_title("Plan", "Plan"));
        assert!(!is_fork_title("Plan", "Plan (fork #)"));
        assert!(!is_title_of_fork(None, Some("Plan (fork #1)")));
    }
}
