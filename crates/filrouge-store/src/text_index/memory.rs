//! An index in memory, which looks through everything: what others are compared with.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use filrouge_types::Failure;

use super::{
    Candidate, CandidateQuery, DocumentNo, Gone, IndexStatus, IndexUpdate, IndexedSession,
    KnownDocument, NewDocument, Reach, Seen, SessionNo, SessionUpdate, TITLE, TextIndex,
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

    /// Removes the documents that are asked for; how many there were.
    fn remove(&mut self, which: impl Fn(SessionNo, &NewDocument) -> bool) -> u64 {
        let gone: Vec<DocumentNo> = self
            .documents
            .iter()
            .filter(|(_, (session, document))| which(*session, document))
            .map(|(no, _)| *no)
            .collect();
        for no in &gone {
            self.documents.remove(no);
            for vectors in self.vectors.values_mut() {
                vectors.remove(no);
            }
        }
        gone.len() as u64
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
        self.remove(|session, document| {
            let named = match &update.gone {
                Gone::Keys(keys) => keys.contains(&document.key),
                Gone::Units(units) => units.contains(&document.unit),
                Gone::All => true,
            };
            session == no && (named || moved)
        });
        for new in &update.documents {
            self.remove(|session, document| session == no && document.key == new.key);
            self.documents_given += 1;
            self.documents
                .insert(self.documents_given, (no, new.clone()));
        }
    }

    fn apply(&mut self, updates: &[IndexUpdate], position: Option<&[u8]>) {
        for update in updates {
            match update {
                IndexUpdate::Session(update) => self.update(update),
                IndexUpdate::Gone(realm, key) => {
                    if let Some(no) = self.session(realm, key).map(|s| s.no) {
                        self.remove(|session, _| session == no);
                        self.sessions.remove(&no);
                    }
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
            };
            let passes = query.reach.holds(shard) && query.takes(&candidate);
            passes.then_some((candidate, document.folded.as_str()))
        })
    }
}

impl CandidateQuery<'_> {
    /// Whether a document passes everything that is asked but whose it is and the terms.
    #[must_use]
    pub fn takes(&self, candidate: &Candidate) -> bool {
        let bit = 1_u32.checked_shl(u32::from(candidate.kind)).unwrap_or(0);
        let title = candidate.kind == TITLE;
        self.kinds & bit != 0
            && (title || self.since.is_none_or(|since| candidate.created >= since))
            && (title || self.until.is_none_or(|until| candidate.created < until))
            && self
                .sessions
                .is_none_or(|sessions| sessions.contains(&candidate.session))
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
    fn position(&self) -> Result<Option<Box<[u8]>>, Failure> {
        Ok(self.held().seen.position.clone())
    }

    fn session(&self, realm: &[u8], key: &str) -> Result<Option<IndexedSession>, Failure> {
        Ok(self.held().session(realm, key).cloned())
    }

    fn sessions(&self, reach: &Reach) -> Result<Arc<Vec<IndexedSession>>, Failure> {
        let held = self.held();
        let within = held.sessions.values().filter(|s| reach.holds(&s.shard));
        Ok(Arc::new(within.cloned().collect()))
    }

    fn sessions_by_no(&self, numbers: &[SessionNo]) -> Result<Vec<IndexedSession>, Failure> {
        let held = self.held();
        let found = numbers.iter().filter_map(|no| held.sessions.get(no));
        Ok(found.cloned().collect())
    }

    fn documents(&self, session: SessionNo) -> Result<Vec<KnownDocument>, Failure> {
        let held = self.held();
        let of = held.documents.values().filter(|(s, _)| *s == session);
        Ok(of
            .map(|(_, document)| KnownDocument {
                key: document.key.clone(),
                unit: document.unit,
                digest: document.digest,
            })
            .collect())
    }

    fn apply(&self, updates: &[IndexUpdate], position: Option<&[u8]>) -> Result<(), Failure> {
        self.held().apply(updates, position);
        Ok(())
    }

    fn seen(&self) -> Result<Seen, Failure> {
        Ok(self.held().seen.clone())
    }

    fn apply_if(
        &self,
        seen: &Seen,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        let mut held = self.held();
        let same = held.seen == *seen;
        if same {
            held.apply(updates, position);
        }
        Ok(same)
    }

    fn unread(&self, limit: usize) -> Result<Vec<IndexedSession>, Failure> {
        let held = self.held();
        let unread = held.sessions.values().filter(|s| s.entry.stamp == [0, 0]);
        Ok(unread.take(limit).cloned().collect())
    }

    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure> {
        let mut held = self.held();
        held.seen.forgotten += 1;
        let Some(no) = held.session(realm, key).map(|s| s.no) else {
            return Ok(0);
        };
        let count = held.remove(|session, _| session == no);
        if let Some(session) = held.sessions.get_mut(&no) {
            session.entry.stamp = [0, 0];
        }
        Ok(count)
    }

    fn tidy(&self) -> Result<bool, Failure> {
        Ok(false)
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        let held = self.held();
        let mut found: Vec<(usize, Candidate)> = held
            .passing(query)
            .filter_map(|(candidate, folded)| {
                let (bits, count) = met(query.terms, folded);
                let enough = match query.any {
                    _ if query.terms.is_empty() => true,
                    true => count > 0,
                    false => count == query.terms.len(),
                };
                let candidate = Candidate {
                    met: bits,
                    ..candidate
                };
                enough.then_some((count, candidate))
            })
            .collect();
        if query.any {
            found.sort_by_key(|(count, _)| Reverse(*count));
        }
        Ok(found.into_iter().map(|(_, candidate)| candidate).collect())
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

    fn without_vector(
        &self,
        embedder: &str,
        kinds: u32,
        limit: usize,
    ) -> Result<Vec<DocumentNo>, Failure> {
        let held = self.held();
        let with = held.vectors.get(embedder);
        let asked = |kind: u8| kinds & 1_u32.checked_shl(u32::from(kind)).unwrap_or(0) != 0;
        let without = held.documents.iter().rev().filter(|(no, (_, document))| {
            asked(document.kind) && with.is_none_or(|with| !with.contains_key(no))
        });
        Ok(without.map(|(no, _)| *no).take(limit).collect())
    }

    fn put_vectors(
        &self,
        embedder: &str,
        vectors: &[(DocumentNo, Vec<i8>)],
    ) -> Result<(), Failure> {
        let mut held = self.held();
        let Held {
            documents,
            vectors: of,
            ..
        } = &mut *held;
        let of = of.entry(embedder.into()).or_default();
        let there = vectors.iter().filter(|(no, _)| documents.contains_key(no));
        of.extend(there.cloned());
        Ok(())
    }

    fn nearest(
        &self,
        embedder: &str,
        vector: &[i8],
        query: &CandidateQuery<'_>,
        limit: usize,
    ) -> Result<Vec<(Candidate, i32)>, Failure> {
        let held = self.held();
        let Some(vectors) = held.vectors.get(embedder) else {
            return Ok(Vec::new());
        };
        let mut found: Vec<(Candidate, i32)> = held
            .passing(query)
            .filter_map(|(candidate, _)| Some((candidate, vectors.get(&candidate.document)?)))
            .filter_map(|(candidate, of)| Some((candidate, product(vector, of)?)))
            .collect();
        found.sort_by_key(|(_, product)| Reverse(*product));
        found.truncate(limit);
        Ok(found)
    }

    fn keep_vectors_of(&self, embedder: Option<&str>) -> Result<(), Failure> {
        self.held()
            .vectors
            .retain(|name, _| embedder == Some(&**name));
        Ok(())
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

/// The product of two vectors of one length; there is none of others, nor of such without elements.
#[must_use]
pub fn product(a: &[i8], b: &[i8]) -> Option<i32> {
    if a.is_empty() || a.len() != b.len() {
        return None;
    }
    let each = a.iter().zip(b);
    Some(each.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum())
}
