//! An index in memory, which looks through everything: what others are compared with.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use filrouge_types::Failure;

use super::{
    Candidate, CandidateQuery, DocumentNo, IndexStatus, IndexUpdate, IndexedSession, Known,
    NewDocument, Seen, SessionNo, SessionUpdate, TextIndex, Wanted, Which, product,
};

/// An index that is gone with the process.
#[derive(Debug, Default)]
pub struct MemoryIndex(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    seen: Seen,
    sessions: BTreeMap<SessionNo, IndexedSession>,
    documents: BTreeMap<DocumentNo, (SessionNo, NewDocument)>,
    vectors: BTreeMap<Box<str>, BTreeMap<DocumentNo, Vec<i8>>>,
    sessions_given: SessionNo,
    documents_given: DocumentNo,
}

impl Held {
    fn session(&self, realm: &[u8], key: &str) -> Option<&IndexedSession> {
        let of = |s: &&IndexedSession| *s.shard.realm == *realm && *s.entry.key == *key;
        self.sessions.values().find(of)
    }

    /// Removes a session's documents; how many there were.
    fn remove(&mut self, session: SessionNo) -> u64 {
        let own = self.documents.iter().filter(|(_, (of, _))| *of == session);
        let own: Vec<DocumentNo> = own.map(|(no, _)| *no).collect();
        own.iter().for_each(|no| self.remove_one(*no));
        own.len() as u64
    }

    fn remove_one(&mut self, no: DocumentNo) {
        self.documents.remove(&no);
        for vectors in self.vectors.values_mut() {
            vectors.remove(&no);
        }
    }

    fn update(&mut self, update: &SessionUpdate) {
        let known = self.session(&update.shard.realm, &update.entry.key);
        let moved = known.is_some_and(|s| s.shard != update.shard);
        let no = known.map(|s| s.no).unwrap_or_else(|| {
            self.sessions_given += 1;
            self.sessions_given
        });
        let session = IndexedSession {
            no,
            shard: update.shard.clone(),
            entry: update.entry.clone(),
        };
        self.sessions.insert(no, session);
        if moved {
            self.remove(no);
        }
        let own = self.documents.iter().filter(|(_, (of, _))| *of == no);
        let own: Vec<(DocumentNo, &NewDocument)> = own.map(|(no, (_, d))| (*no, d)).collect();
        let there = own.iter().map(|(_, d)| (&*d.key, d.unit, d.digest));
        let (going, coming) = update.difference(there);
        let going: Vec<DocumentNo> = going
            .iter()
            .filter_map(|at| Some(own.get(*at)?.0))
            .collect();
        for no in going {
            self.remove_one(no);
        }
        for new in coming {
            self.documents_given += 1;
            self.documents
                .insert(self.documents_given, (no, new.clone()));
        }
    }

    fn apply(&mut self, updates: &[IndexUpdate], position: Option<&[u8]>) {
        for update in updates {
            match update {
                IndexUpdate::Session(update) => self.update(update),
                IndexUpdate::Gone((realm, key)) => {
                    if let Some(no) = self.session(realm, key).map(|s| s.no) {
                        self.remove(no);
                        self.sessions.remove(&no);
                    }
                }
                IndexUpdate::Vectors(embedder, vectors) => {
                    let of = self.vectors.entry(embedder.clone()).or_default();
                    let there = |(no, _): &&(u64, _)| self.documents.contains_key(no);
                    of.extend(vectors.iter().filter(there).cloned());
                }
            }
        }
        if let Some(position) = position {
            self.seen.position = Some(position.into());
        }
    }

    /// The documents that pass everything in a question but its terms, the newest first.
    fn passing<'a>(
        &'a self,
        query: &'a CandidateQuery<'_>,
    ) -> impl Iterator<Item = (Candidate, &'a str)> {
        let found = self.documents.iter().rev();
        found.filter_map(|(no, (session, document))| {
            let shard = &self.sessions.get(session)?.shard;
            let candidate = Candidate {
                document: *no,
                session: *session,
                kind: document.kind,
                created: document.created,
                met: 0,
                whole: false,
                near: 0,
            };
            let whose =
                matches!(query.wanted, Wanted::WithoutVector(..)) || query.reach.holds(shard);
            let passes = whose && query.takes(&candidate);
            passes.then_some((candidate, document.folded.as_str()))
        })
    }

    /// The documents that meet terms.
    fn meeting(&self, query: &CandidateQuery<'_>) -> Vec<Candidate> {
        let (terms, any) = (query.wanted.terms(), query.wanted.is_any());
        let meets = |(candidate, folded): (Candidate, &str)| {
            let (bits, count) = met(terms, folded);
            let enough = match any {
                true => count > 0,
                false => count == terms.len(),
            };
            let met = Candidate {
                met: bits,
                ..candidate
            };
            enough.then_some((count, met))
        };
        let mut found: Vec<(usize, Candidate)> = self.passing(query).filter_map(meets).collect();
        if any {
            found.sort_by_key(|(count, _)| Reverse(*count));
        }
        found.into_iter().map(|(_, candidate)| candidate).collect()
    }

    fn nearest(
        &self,
        query: &CandidateQuery<'_>,
        (embedder, vector): (&str, &[i8]),
        limit: usize,
    ) -> Vec<Candidate> {
        let Some(vectors) = self.vectors.get(embedder) else {
            return Vec::new();
        };
        let measured = |(candidate, _): (Candidate, &str)| {
            let near = product(vector, vectors.get(&candidate.document)?)?;
            Some(Candidate { near, ..candidate })
        };
        let mut found: Vec<Candidate> = self.passing(query).filter_map(measured).collect();
        found.sort_by_key(|candidate| Reverse(candidate.near));
        found.truncate(limit);
        found
    }
}

/// A bit for each of the first 64 terms that a text meets, and how many of all it meets.
fn met(terms: &[Vec<String>], folded: &str) -> (u64, usize) {
    let (mut bits, mut count) = (0, 0);
    for (at, term) in terms.iter().enumerate() {
        if term.iter().any(|literal| folded.contains(literal.as_str())) {
            bits |= u32::try_from(at)
                .ok()
                .and_then(|at| 1_u64.checked_shl(at))
                .unwrap_or(0);
            count += 1;
        }
    }
    (bits, count)
}

impl MemoryIndex {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing in here panics half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TextIndex for MemoryIndex {
    fn known(&self, which: Which<'_>) -> Result<Known, Failure> {
        let held = self.held();
        let asked = |s: &&IndexedSession| match which {
            Which::Within(reach) => reach.holds(&s.shard),
            Which::Numbers(reach, numbers) => reach.holds(&s.shard) && numbers.contains(&s.no),
            Which::Named(keys) => {
                let mut keys = keys.iter();
                keys.any(|(realm, key)| *realm == s.shard.realm && *key == s.entry.key)
            }
            Which::Unread(_) => s.entry.stamp == [0, 0],
        };
        let most = match which {
            Which::Unread(most) => most,
            _ => usize::MAX,
        };
        let sessions = held.sessions.values().filter(asked).take(most);
        Ok(Known {
            sessions: sessions.cloned().collect(),
            seen: held.seen.clone(),
        })
    }

    fn change(
        &self,
        expected: Option<&Seen>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        let mut held = self.held();
        let is_so = expected.is_none_or(|expected| *expected == held.seen);
        if is_so {
            held.apply(updates, position);
        }
        Ok(is_so)
    }

    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure> {
        let mut held = self.held();
        held.seen.forgotten += 1;
        let Some(no) = held.session(realm, key).map(|s| s.no) else {
            return Ok(0);
        };
        let count = held.remove(no);
        if let Some(session) = held.sessions.get_mut(&no) {
            session.entry.stamp = [0, 0];
        }
        Ok(count)
    }

    fn clear(&self) -> Result<(), Failure> {
        let mut held = self.held();
        *held = Held {
            seen: Seen {
                position: None,
                forgotten: held.seen.forgotten + 1,
            },
            sessions_given: held.sessions_given,
            documents_given: held.documents_given,
            ..Held::default()
        };
        Ok(())
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        let held = self.held();
        Ok(match query.wanted {
            Wanted::All(_) | Wanted::Any(_) => held.meeting(query),
            Wanted::Nearest(embedder, vector, limit) => {
                held.nearest(query, (embedder, vector), limit)
            }
            Wanted::WithoutVector(embedder, limit) => {
                let with = held.vectors.get(embedder);
                let found = held.passing(query).map(|(candidate, _)| candidate);
                let lacks = |c: &Candidate| with.is_none_or(|with| !with.contains_key(&c.document));
                found.filter(lacks).take(limit).collect()
            }
        })
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        // Not under the lock: who is shown a body may ask again.
        let bodies: Vec<(DocumentNo, Vec<u8>)> = {
            let held = self.held();
            let body = |no: &DocumentNo| Some((*no, held.documents.get(no)?.1.body.clone()));
            documents.iter().filter_map(body).collect()
        };
        for (no, body) in bodies {
            if !each(no, &body) {
                break;
            }
        }
        Ok(())
    }

    fn tidy(&self) -> Result<bool, Failure> {
        Ok(false)
    }

    fn status(&self) -> Result<IndexStatus, Failure> {
        let held = self.held();
        let text = held.documents.values().map(|(_, d)| d.folded.len() as u64);
        let counts = held.vectors.iter().filter(|(_, of)| !of.is_empty());
        Ok(IndexStatus {
            format: 1,
            sessions: held.sessions.len() as u64,
            documents: held.documents.len() as u64,
            text_bytes: text.sum(),
            bytes: 0,
            pending: held.documents.len() as u64,
            vectors: counts
                .map(|(name, of)| (name.clone(), of.len() as u64))
                .collect(),
        })
    }
}
