//! What one process has read of a database to list it, for others: while nobody has written to the database, its sessions
//! need not be read again.
//!
//! Each generation in it is a source with notes of its own. The notes of each hold the headers of all: of a database in
//! which one has no sessions, nothing is read to find that out.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use super::database::Database;
use super::notes::{Head, In, Out};
use super::stored::Kind;
use super::tree::lock;
use crate::{Header, Stamp};

/// The head of this version's notes.
const HEAD: Head = *b"rows0001";
/// Fewer sessions than this are sooner read again by each process than noted again and again.
const SESSIONS_MIN: usize = 32;

/// The headers of a database that nobody has written to for a while.
#[derive(Debug)]
pub(super) struct Noted {
    /// [`Database::whole`] as they were read.
    of: Stamp,
    headers: HashMap<Kind, Vec<Arc<Header>>>,
}

impl Noted {
    fn of(of: Stamp) -> Self {
        let headers = HashMap::new();
        Self { of, headers }
    }
}

/// What each generation has noted.
pub(super) type NotedByKind = Mutex<HashMap<Kind, Arc<Noted>>>;

impl Database {
    /// [`crate::Source::recall`].
    pub(super) fn recall(&self, kind: Kind, notes: &[u8]) {
        if let Some(noted) = read(notes, &self.named(), kind.name()) {
            lock(&self.noted).insert(kind, Arc::new(noted));
        }
    }

    /// The headers of a generation, if they were noted of the database as it is now.
    pub(super) fn noted_headers(&self, kind: Kind) -> Option<Vec<Arc<Header>>> {
        let all: Vec<_> = lock(&self.noted).values().cloned().collect();
        if all.is_empty() {
            return None;
        }
        let whole = self.whole()?;
        let noted = all.into_iter().find(|noted| noted.of == whole)?;
        Some(noted.headers.get(&kind).cloned().unwrap_or_default())
    }

    /// [`crate::Source::notes`].
    pub(super) fn notes(&self, kind: Kind) -> Option<Vec<u8>> {
        let whole = self.whole();
        let old = lock(&self.noted).get(&kind).cloned();
        if old.as_ref().is_some_and(|old| Some(old.of) == whole) {
            return None;
        }
        let new = whole.and_then(|of| self.read_as(of));
        // What was noted once goes, even while nothing else can be noted: titles of sessions that are no longer there.
        if old.is_none() && new.is_none() {
            return None;
        }
        let notes = write(new.as_ref(), &self.named(), kind.name());
        let mut noted = lock(&self.noted);
        match new {
            Some(new) => noted.insert(kind, Arc::new(new)),
            None => noted.remove(&kind),
        };
        Some(notes)
    }

    /// The headers that were read here of the database as it is now, if nothing was left out.
    fn read_as(&self, of: Stamp) -> Option<Noted> {
        let (_, listed) = lock(&self.listed).clone()?;
        let is_all = listed.whole == Some(of) && listed.skipped.is_empty();
        if !is_all || listed.rows.len() < SESSIONS_MIN {
            return None;
        }
        let mut noted = Noted::of(of);
        let mut seen = HashSet::new();
        for (kind, row) in &listed.rows {
            if !seen.insert((kind, &*row.session.id)) {
                return None;
            }
            let header = self.headers.of(*kind, row).ok()?;
            noted.headers.entry(*kind).or_default().push(header);
        }
        Some(noted)
    }

    fn named(&self) -> String {
        self.foreign.path().display().to_string()
    }
}

fn write(noted: Option<&Noted>, place: &str, generation: &str) -> Vec<u8> {
    let mut out = Out::new(HEAD, place, generation);
    let Some(noted) = noted else {
        return out.finish();
    };
    out.number(noted.of.0);
    out.number(noted.of.1);
    for kind in Kind::ALL {
        let headers = noted.headers.get(&kind).map_or(&[][..], Vec::as_slice);
        out.length(headers.len());
        for header in headers {
            out.text(header.project_id.as_deref().unwrap_or_default());
            out.text(&header.id);
            out.maybe(header.project_name.as_deref());
            out.maybe(header.fork_of.as_deref());
            out.header(header);
        }
    }
    out.finish()
}

/// What [`write`] noted of the database at `place`; `None` for anything else.
fn read(bytes: &[u8], place: &str, generation: &str) -> Option<Noted> {
    let mut rest = In::of(bytes, HEAD, place, generation)?;
    let mut noted = Noted::of(Stamp(rest.number()?, rest.number()?));
    for kind in Kind::ALL {
        let count = rest.length()?;
        let mut headers = Vec::new();
        for _ in 0..count {
            let (folder, id) = (rest.text()?, rest.text()?);
            let (name, origin) = (rest.maybe()?.map(Box::from), rest.maybe()?.map(Box::from));
            let mut header = rest.header(folder, id, kind.name())?;
            (header.project_name, header.fork_of) = (name, origin);
            headers.push(Arc::new(header));
        }
        noted.headers.insert(kind, headers);
    }
    rest.is_empty().then_some(noted)
}
