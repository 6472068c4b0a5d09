//! An index in memory that scans everything: the reference with which tests compare the other indexes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Mutex;

use filrouge_types::{Failure, lock};

use super::{
    Candidate, CandidateFilter, CandidateQuery, DocumentNo, IndexState, IndexStatus, IndexUpdate,
    IndexVersion, IndexedDocument, IndexedSession, NewDocument, SessionNo, SessionSelection,
    SessionUpdate, TextIndex, product,
};

/// An index whose data is lost when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryIndex(Mutex<IndexData>);

/// The data of the index.
#[derive(Debug, Default)]
struct IndexData {
    version: IndexVersion,
    sessions: BTreeMap<SessionNo, IndexedSession>,
    documents: BTreeMap<DocumentNo, (SessionNo, NewDocument)>,
    vectors: BTreeMap<Box<str>, BTreeMap<DocumentNo, Vec<i8>>>,
    last_session_no: SessionNo,
    last_document_no: DocumentNo,
}

impl IndexData {
    fn session(&self, realm: &[u8], key: &str) -> Option<&IndexedSession> {
        let matches = |s: &&IndexedSession| *s.shard.realm == *realm && *s.entry.key == *key;
        self.sessions.values().find(matches)
    }

    /// Removes a session's documents; returns their number.
    fn remove_documents(&mut self, session: SessionNo) -> u64 {
        let numbers: Vec<DocumentNo> = self
            .documents
            .iter()
            .filter(|(_, (owner, _))| *owner == session)
            .map(|(no, _)| *no)
            .collect();
        numbers.iter().for_each(|no| self.remove_document(*no));
        numbers.len() as u64
    }

    fn remove_document(&mut self, no: DocumentNo) {
        self.documents.remove(&no);
        for vectors in self.vectors.values_mut() {
            vectors.remove(&no);
        }
    }

    fn update(&mut self, update: &SessionUpdate) {
        let existing_session = self.session(&update.shard.realm, &update.entry.key);
        let has_moved = existing_session.is_some_and(|s| s.shard != update.shard);
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
        if has_moved {
            self.remove_documents(no);
        }
        let stored = self.documents.iter().filter(|(_, (owner, _))| *owner == no);
        let stored: Vec<(DocumentNo, &NewDocument)> = stored.map(|(no, (_, d))| (*no, d)).collect();
        let existing = stored.iter().map(|(_, d)| (&*d.key, d.unit, d.digest));
        let (removed, added) = update.difference(existing);
        let removed: Vec<DocumentNo> = removed
            .iter()
            .filter_map(|position| Some(stored.get(*position)?.0))
            .collect();
        for no in removed {
            self.remove_document(no);
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
                IndexUpdate::Removed((realm, key)) => {
                    if let Some(no) = self.session(realm, key).map(|s| s.no) {
                        self.remove_documents(no);
                        self.sessions.remove(&no);
                    }
                }
                IndexUpdate::Vectors(embedder, vectors) => {
                    let stored = self.vectors.entry(embedder.clone()).or_default();
                    let is_stored = |(no, _): &&(u64, _)| self.documents.contains_key(no);
                    stored.extend(vectors.iter().filter(is_stored).cloned());
                }
            }
        }
        if let Some(position) = position {
            self.version.position = Some(position.into());
        }
    }

    /// The documents that pass the filters of a query: all conditions except its terms. Newest first.
    fn filtered<'a>(
        &'a self,
        query: &'a CandidateQuery<'_>,
    ) -> impl Iterator<Item = (Candidate, &'a str)> {
        let newest_first = self.documents.iter().rev();
        newest_first.filter_map(|(no, (session, document))| {
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
            let is_in_scope = matches!(query.wanted, CandidateFilter::WithoutVector(..))
                || query.reach.contains(shard);
            let is_accepted = is_in_scope && query.accepts(&candidate);
            is_accepted.then_some((candidate, document.folded.as_str()))
        })
    }

    /// The documents that meet the terms.
    fn meeting_terms(&self, query: &CandidateQuery<'_>) -> Vec<Candidate> {
        let (terms, is_any) = (query.wanted.terms(), query.wanted.is_any());
        let match_terms = |(candidate, folded): (Candidate, &str)| {
            let (bits, count) = met_terms(terms, folded);
            let is_met = match is_any {
                true => count > 0,
                false => count == terms.len(),
            };
            let candidate = Candidate {
                met: bits,
                ..candidate
            };
            is_met.then_some((count, candidate))
        };
        let mut candidates: Vec<(usize, Candidate)> =
            self.filtered(query).filter_map(match_terms).collect();
        if is_any {
            candidates.sort_by_key(|(count, _)| Reverse(*count));
        }
        candidates
            .into_iter()
            .map(|(_, candidate)| candidate)
            .collect()
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
        let with_product = |(candidate, _): (Candidate, &str)| {
            let near = product(vector, vectors.get(&candidate.document)?)?;
            Some(Candidate { near, ..candidate })
        };
        let mut candidates: Vec<Candidate> =
            self.filtered(query).filter_map(with_product).collect();
        candidates.sort_by_key(|candidate| Reverse(candidate.near));
        candidates.truncate(limit);
        candidates
    }
}

/// A bit for each of the first 64 terms that a text meets, and the number of all terms it meets.
fn met_terms(terms: &[Vec<String>], folded: &str) -> (u64, usize) {
    let (mut bits, mut count) = (0, 0);
    for (index, term) in terms.iter().enumerate() {
        if term.iter().any(|literal| folded.contains(literal.as_str())) {
            bits |= u32::try_from(index)
                .ok()
                .and_then(|index| 1_u64.checked_shl(index))
                .unwrap_or(0);
            count += 1;
        }
    }
    (bits, count)
}

impl TextIndex for MemoryIndex {
    fn state(&self, selection: SessionSelection<'_>) -> Result<IndexState, Failure> {
        let data = lock(&self.0);
        let is_selected = |s: &&IndexedSession| match selection {
            SessionSelection::Within(scope) => scope.contains(&s.shard),
            SessionSelection::Numbers(scope, numbers) => {
                scope.contains(&s.shard) && numbers.contains(&s.no)
            }
            SessionSelection::Named(keys) => {
                let mut keys = keys.iter();
                keys.any(|(realm, key)| *realm == s.shard.realm && *key == s.entry.key)
            }
            SessionSelection::Unread(_) => s.entry.stamp == [0, 0],
            SessionSelection::Stamped(second) => s.entry.stamp[1] == second,
        };
        let limit = match selection {
            SessionSelection::Unread(limit) => limit,
            _ => usize::MAX,
        };
        let sessions = data.sessions.values().filter(is_selected).take(limit);
        Ok(IndexState {
            sessions: sessions.cloned().collect(),
            seen: data.version.clone(),
        })
    }

    fn change(
        &self,
        expected: Option<&IndexVersion>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        let mut data = lock(&self.0);
        let is_current = expected.is_none_or(|expected| *expected == data.version);
        if is_current {
            data.apply(updates, position);
        }
        Ok(is_current)
    }

    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure> {
        let mut data = lock(&self.0);
        data.version.forgotten += 1;
        let Some(no) = data.session(realm, key).map(|s| s.no) else {
            return Ok(0);
        };
        let count = data.remove_documents(no);
        if let Some(session) = data.sessions.get_mut(&no) {
            session.entry.stamp = [0, 0];
        }
        Ok(count)
    }

    fn clear(&self) -> Result<(), Failure> {
        let mut data = lock(&self.0);
        *data = IndexData {
            version: IndexVersion {
                position: None,
                forgotten: data.version.forgotten + 1,
            },
            last_session_no: data.last_session_no,
            last_document_no: data.last_document_no,
            ..IndexData::default()
        };
        Ok(())
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        let data = lock(&self.0);
        Ok(match query.wanted {
            CandidateFilter::All(_) | CandidateFilter::Any(_) => data.meeting_terms(query),
            CandidateFilter::Nearest(embedder, vector, limit) => {
                data.nearest(query, (embedder, vector), limit)
            }
            CandidateFilter::WithoutVector(embedder, limit) => {
                let with_vector = data.vectors.get(embedder);
                let candidates = data.filtered(query).map(|(candidate, _)| candidate);
                let lacks_vector =
                    |c: &Candidate| with_vector.is_none_or(|with| !with.contains_key(&c.document));
                candidates.filter(lacks_vector).take(limit).collect()
            }
        })
    }

    fn documents(&self, numbers: &[DocumentNo]) -> Result<Vec<IndexedDocument>, Failure> {
        let data = lock(&self.0);
        let document = |no: &DocumentNo| {
            let (session, document) = data.documents.get(no)?;
            let session = data.sessions.get(session)?;
            Some(IndexedDocument {
                no: *no,
                session: (session.shard.realm.clone(), session.entry.key.clone()),
                key: document.key.clone(),
                unit: document.unit,
                digest: document.digest,
            })
        };
        Ok(numbers.iter().filter_map(document).collect())
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        visit: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        // Calls `visit` without the lock, because it may query the index.
        let bodies: Vec<(DocumentNo, Vec<u8>)> = {
            let data = lock(&self.0);
            let body = |no: &DocumentNo| Some((*no, data.documents.get(no)?.1.body.clone()));
            documents.iter().filter_map(body).collect()
        };
        for (no, body) in bodies {
            if !visit(no, &body) {
                break;
            }
        }
        Ok(())
    }

    fn tidy(&self) -> Result<bool, Failure> {
        Ok(false)
    }

    fn status(&self) -> Result<IndexStatus, Failure> {
        let data = lock(&self.0);
        let text = data.documents.values().map(|(_, d)| d.folded.len() as u64);
        let counts = data
            .vectors
            .iter()
            .filter(|(_, vectors)| !vectors.is_empty());
        Ok(IndexStatus {
            format: 1,
            sessions: data.sessions.len() as u64,
            documents: data.documents.len() as u64,
            text_bytes: text.sum(),
            bytes: 0,
            pending: data.documents.len() as u64,
            vectors: counts
                .map(|(name, vectors)| (name.clone(), vectors.len() as u64))
                .collect(),
        })
    }
}
