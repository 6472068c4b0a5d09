//! An index in memory that scans everything: the reference with which tests compare the other indexes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use filrouge_types::Failure;

use super::{
    Candidate, CandidateFilter, CandidateQuery, DocumentNo, IndexState, IndexStatus, IndexUpdate,
    IndexVersion, IndexedSession, NewDocument, SessionNo, SessionSelection, SessionUpdate,
    TextIndex, product,
};

/// An index whose data is lost when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryIndex(Mutex<Held>);

/// The data of the index.
#[derive(Debug, Default)]
struct Held {
    seen: IndexVersion,
    sessions: BTreeMap<SessionNo, IndexedSession>,
    documents: BTreeMap<DocumentNo, (SessionNo, NewDocument)>,
    vectors: BTreeMap<Box<str>, BTreeMap<DocumentNo, Vec<i8>>>,
    last_session_no: SessionNo,
    last_document_no: DocumentNo,
}

impl Held {
    fn session(&self, realm: &[u8], key: &str) -> Option<&IndexedSession> {
        let matches = |s: &&IndexedSession| *s.shard.realm == *realm && *s.entry.key == *key;
        self.sessions.values().find(matches)
    }

    /// Removes a session's documents; returns their number.
    fn remove(&mut self, session: SessionNo) -> u64 {
        let own = self
            .documents
            .iter()
            .filter(|(_, (owner, _))| *owner == session);
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
        let existing_session = self.session(&update.shard.realm, &update.entry.key);
        let moved = existing_session.is_some_and(|s| s.shard != update.shard);
        let no = existing_session.map(|s| s.no).unwrap_or_else(|| {
            self.last_session_no += 1;
            self.last_session_no
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
        let own = self.documents.iter().filter(|(_, (owner, _))| *owner == no);
        let own: Vec<(DocumentNo, &NewDocument)> = own.map(|(no, (_, d))| (*no, d)).collect();
        let existing = own.iter().map(|(_, d)| (&*d.key, d.unit, d.digest));
        let (removed, added) = update.difference(existing);
        let removed: Vec<DocumentNo> = removed
            .iter()
            .filter_map(|at| Some(own.get(*at)?.0))
            .collect();
        for no in removed {
            self.remove_one(no);
        }
        for new in added {
            self.last_document_no += 1;
            self.documents
                .insert(self.last_document_no, (no, new.clone()));
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
                    let stored = self.vectors.entry(embedder.clone()).or_default();
                    let existing = |(no, _): &&(u64, _)| self.documents.contains_key(no);
                    stored.extend(vectors.iter().filter(existing).cloned());
                }
            }
        }
        if let Some(position) = position {
            self.seen.position = Some(position.into());
        }
    }

    /// The documents that pass the filters of a query: all conditions except its terms. Newest first.
    fn filtered<'a>(
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
                whole_words: false,
                near: 0,
            };
            let in_reach = matches!(query.wanted, CandidateFilter::WithoutVector(..))
                || query.reach.holds(shard);
            let passes = in_reach && query.accepts(&candidate);
            passes.then_some((candidate, document.folded.as_str()))
        })
    }

    /// The documents that meet the terms.
    fn meeting_terms(&self, query: &CandidateQuery<'_>) -> Vec<Candidate> {
        let (terms, any) = (query.wanted.terms(), query.wanted.is_any());
        let meets = |(candidate, folded): (Candidate, &str)| {
            let (bits, count) = met(terms, folded);
            let is_met = match any {
                true => count > 0,
                false => count == terms.len(),
            };
            let met = Candidate {
                met: bits,
                ..candidate
            };
            is_met.then_some((count, met))
        };
        let mut found: Vec<(usize, Candidate)> = self.filtered(query).filter_map(meets).collect();
        if any {
            found.sort_by_key(|(count, _)| Reverse(*count));
        }
        found.into_iter().map(|(_, candidate)| candidate).collect()
    }

    /// The documents whose vectors have the greatest products with `vector`, greatest first.
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
        let mut found: Vec<Candidate> = self.filtered(query).filter_map(measured).collect();
        found.sort_by_key(|candidate| Reverse(candidate.near));
        found.truncate(limit);
        found
    }
}

/// A bit for each of the first 64 terms that a text meets, and the number of all terms it meets.
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
        // The lock is not poisoned by a half-finished change, because no code under it panics midway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TextIndex for MemoryIndex {
    fn state(&self, which: SessionSelection<'_>) -> Result<IndexState, Failure> {
        let held = self.held();
        let is_selected = |s: &&IndexedSession| match which {
            SessionSelection::Within(reach) => reach.holds(&s.shard),
            SessionSelection::Numbers(reach, numbers) => {
                reach.holds(&s.shard) && numbers.contains(&s.no)
            }
            SessionSelection::Named(keys) => {
                let mut keys = keys.iter();
                keys.any(|(realm, key)| *realm == s.shard.realm && *key == s.entry.key)
            }
            SessionSelection::Unread(_) => s.entry.stamp == [0, 0],
        };
        let limit = match which {
            SessionSelection::Unread(limit) => limit,
            _ => usize::MAX,
        };
        let sessions = held.sessions.values().filter(is_selected).take(limit);
        Ok(IndexState {
            sessions: sessions.cloned().collect(),
            seen: held.seen.clone(),
        })
    }

    fn change(
        &self,
        expected: Option<&IndexVersion>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        let mut held = self.held();
        let is_current = expected.is_none_or(|expected| *expected == held.seen);
        if is_current {
            held.apply(updates, position);
        }
        Ok(is_current)
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
            seen: IndexVersion {
                position: None,
                forgotten: held.seen.forgotten + 1,
            },
            last_session_no: held.last_session_no,
            last_document_no: held.last_document_no,
            ..Held::default()
        };
        Ok(())
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        let held = self.held();
        Ok(match query.wanted {
            CandidateFilter::All(_) | CandidateFilter::Any(_) => held.meeting_terms(query),
            CandidateFilter::Nearest(embedder, vector, limit) => {
                held.nearest(query, (embedder, vector), limit)
            }
            CandidateFilter::WithoutVector(embedder, limit) => {
                let with = held.vectors.get(embedder);
                let found = held.filtered(query).map(|(candidate, _)| candidate);
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
        // Calls `each` without the lock, because it may query the index.
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
        let counts = held
            .vectors
            .iter()
            .filter(|(_, vectors)| !vectors.is_empty());
        Ok(IndexStatus {
            format: 1,
            sessions: held.sessions.len() as u64,
            documents: held.documents.len() as u64,
            text_bytes: text.sum(),
            bytes: 0,
            pending: held.documents.len() as u64,
            vectors: counts
                .map(|(name, vectors)| (name.clone(), vectors.len() as u64))
                .collect(),
        })
    }
}
