//! Plans changes: compares updates with the rows that the index has.

use std::collections::{HashMap, HashSet};

use filrouge_store::text_index::{
    Coverage, DocumentNo, IndexUpdate, IndexVersion, IndexedDocument, IndexedSession, SessionNo,
    SessionUpdate,
};
use filrouge_types::Failure;
use serde_json::{Value, json};

use super::OpenSearchIndex;
use super::meta::{Meta, Work};
use super::rows::{self, Action, DOCUMENT};
use super::write::{Plan, Step};

/// The maximum number of alternatives of a query; OpenSearch allows 1,024 conditions.
const ALTERNATIVES: usize = 100;
/// The number of documents that a query for stored documents returns at once.
const DOCUMENTS_PER_PAGE: usize = 5_000;

/// The stored documents that updates cover, by session.
type Covered = HashMap<SessionNo, Vec<IndexedDocument>>;

/// Divides updates into groups that can be planned at once: sessions that differ, or vectors. There is at least one
/// group, which may be empty.
pub(super) fn groups(updates: &[IndexUpdate]) -> Vec<&[IndexUpdate]> {
    let (mut groups, mut begin) = (Vec::new(), 0);
    let mut names: HashSet<Option<String>> = HashSet::new();
    for (at, update) in updates.iter().enumerate() {
        let name = name_of(update);
        let begins = name.is_none() || names.contains(&None) || names.contains(&name);
        if begins && at > begin {
            groups.push(&updates[begin..at]);
            begin = at;
            names.clear();
        }
        names.insert(name);
    }
    groups.push(&updates[begin..]);
    groups
}

/// The word of the session of an update; `None` for vectors.
fn name_of(update: &IndexUpdate) -> Option<String> {
    match update {
        IndexUpdate::Session(SessionUpdate { shard, entry, .. }) => {
            Some(rows::session_word(&shard.realm, &entry.key))
        }
        IndexUpdate::Removed((realm, key)) => Some(rows::session_word(realm, key)),
        IndexUpdate::Vectors(..) => None,
    }
}

/// What a change does to the sessions of its updates.
struct SessionChanges {
    plan: Plan,
    touched: Vec<SessionNo>,
    /// The sessions of which all documents are removed.
    emptied: Vec<SessionNo>,
    removed: Vec<DocumentNo>,
}

impl SessionChanges {
    /// Adds an update of a session. `old` is the session as stored, and `stored` has the documents that the update
    /// covers, unless the session's shard changes.
    fn update(
        &mut self,
        update: &SessionUpdate,
        old: Option<&IndexedSession>,
        stored: &[IndexedDocument],
    ) {
        let next = &mut self.plan.next;
        let no = match old {
            Some(old) => old.no,
            None => {
                next.last_session += 1;
                next.last_session
            }
        };
        let session = IndexedSession {
            no,
            shard: update.shard.clone(),
            entry: update.entry.clone(),
        };
        self.touched.push(no);
        if old.is_some_and(|old| old.shard != update.shard) {
            self.emptied.push(no);
        }
        let existing = stored.iter().map(|d| (&*d.key, d.unit, d.digest));
        let (removed, added) = update.difference(existing);
        let removed = removed.iter().filter_map(|at| Some(stored.get(*at)?.no));
        self.removed.extend(removed);
        for document in added {
            next.last_document += 1;
            let action = rows::write_document(next.last_document, &session, document);
            self.plan.actions.push(action);
        }
        self.plan.actions.push(rows::write_session(&session));
    }

    fn remove(&mut self, old: &IndexedSession) {
        self.touched.push(old.no);
        self.emptied.push(old.no);
        let id = rows::session_id(old.no);
        self.plan.actions.push(Action::Delete(id));
    }
}

impl OpenSearchIndex {
    /// Plans one of the [`groups`] of updates. The result is false if the index does not have the expected version.
    pub(super) fn plan_change(
        &self,
        meta: &Meta,
        expected: Option<&IndexVersion>,
        group: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<Step<bool>, Failure> {
        if expected.is_some_and(|expected| *expected != meta.version()) {
            return Ok(Step::Nothing(false));
        }
        let mut plan = match group {
            [] => Plan::new(meta),
            [IndexUpdate::Vectors(embedder, new)] => self.plan_vectors(meta, embedder, new)?,
            sessions => self.plan_sessions(meta, sessions)?,
        };
        if position.is_some() {
            plan.next.set_position(position);
        }
        if plan.actions.is_empty() && plan.next.version() == meta.version() {
            return Ok(Step::Nothing(true));
        }
        Ok(Step::Change(Box::new(plan), true))
    }

    fn plan_sessions(&self, meta: &Meta, updates: &[IndexUpdate]) -> Result<Plan, Failure> {
        let names: Vec<String> = updates.iter().filter_map(name_of).collect();
        let stored = self.sessions_where(json!({ "terms": { "name": names } }))?;
        let with_name = |s: IndexedSession| (rows::session_word(&s.shard.realm, &s.entry.key), s);
        let stored: HashMap<String, IndexedSession> = stored.into_iter().map(with_name).collect();
        let covered = self.covered_documents(updates, &stored)?;
        let mut changes = SessionChanges {
            plan: Plan::new(meta),
            touched: Vec::new(),
            emptied: Vec::new(),
            removed: Vec::new(),
        };
        for (update, name) in updates.iter().zip(&names) {
            match (update, stored.get(name)) {
                (IndexUpdate::Session(update), old) => {
                    let documents = old.and_then(|old| covered.get(&old.no));
                    changes.update(update, old, documents.map_or(&[], Vec::as_slice));
                }
                (IndexUpdate::Removed(_), Some(old)) => changes.remove(old),
                (IndexUpdate::Removed(_), None) | (IndexUpdate::Vectors(..), _) => {}
            }
        }
        let SessionChanges {
            mut plan,
            touched,
            emptied,
            removed,
        } = changes;
        if !emptied.is_empty() || !removed.is_empty() {
            let condition = json!({ "bool": { "should": [
                { "terms": { "session": emptied } },
                { "terms": { "no": removed } },
            ], "minimum_should_match": 1 } });
            plan.actions.extend(self.deletions(&condition)?);
        }
        plan.work = Work::Rows {
            sessions: touched,
            documents: (meta.last_document, plan.next.last_document),
            vectors: Vec::new(),
        };
        Ok(plan)
    }

    /// Reads the documents that updates cover of sessions that stay in their shard.
    fn covered_documents(
        &self,
        updates: &[IndexUpdate],
        stored: &HashMap<String, IndexedSession>,
    ) -> Result<Covered, Failure> {
        let conditions = updates.iter().filter_map(|update| {
            let old = stored.get(&name_of(update)?)?;
            let IndexUpdate::Session(update) = update else {
                return None;
            };
            (old.shard == update.shard).then(|| covers(old.no, update))
        });
        let conditions: Vec<Value> = conditions.collect();
        let mut covered = Covered::new();
        for alternatives in conditions.chunks(ALTERNATIVES) {
            let search = json!({
                "query": { "bool": { "filter": [
                    { "term": { "row": DOCUMENT } },
                    { "bool": { "should": alternatives, "minimum_should_match": 1 } },
                ] } },
                "sort": [{ "no": "asc" }],
                "_source": ["no", "session", "realm", "session_key", "key", "unit", "digest"],
            });
            self.hits(search, (DOCUMENTS_PER_PAGE, usize::MAX), &mut |hit| {
                let session = rows::number(&hit["_source"]["session"])?;
                let document = rows::read_document(hit)?;
                covered.entry(session).or_default().push(document);
                Ok(())
            })?;
        }
        Ok(covered)
    }

    /// Plans that the index forgets a session. The result is the number of its documents.
    pub(super) fn plan_forgetting(
        &self,
        meta: &Meta,
        realm: &[u8],
        key: &str,
    ) -> Result<Step<u64>, Failure> {
        let mut plan = Plan::new(meta);
        plan.next.forgotten += 1;
        let name = rows::session_word(realm, key);
        let stored = self.sessions_where(json!({ "term": { "name": name } }))?;
        let mut count = 0;
        if let Some(mut session) = stored.into_iter().next() {
            plan.actions = self.deletions(&json!({ "term": { "session": session.no } }))?;
            count = plan.actions.iter().filter(|a| a.is_of_document()).count() as u64;
            plan.next.needs_merge |= count > 0;
            session.entry.stamp = [0, 0];
            plan.actions.push(rows::write_session(&session));
            plan.work = Work::Rows {
                sessions: vec![session.no],
                documents: (meta.last_document, meta.last_document),
                vectors: Vec::new(),
            };
        }
        Ok(Step::Change(Box::new(plan), count))
    }
}

/// The condition that an update covers a document of its session.
fn covers(session: SessionNo, update: &SessionUpdate) -> Value {
    let of_session = json!({ "term": { "session": session } });
    match &update.coverage {
        Coverage::All => of_session,
        Coverage::Units(units) => {
            let units: Vec<String> = units.iter().map(u64::to_string).collect();
            let keys: Vec<&str> = update.documents.iter().map(|d| &*d.key).collect();
            json!({ "bool": { "filter": of_session, "should": [
                { "terms": { "unit": units } },
                { "terms": { "key": keys } },
            ], "minimum_should_match": 1 } })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_occurs_once_in_a_group_and_vectors_stand_alone() {
        let removed = |key: &str| IndexUpdate::Removed((Box::default(), key.into()));
        let vectors = || IndexUpdate::Vectors("m".into(), Vec::new());
        let updates = [
            removed("a"),
            removed("b"),
            removed("a"),
            vectors(),
            vectors(),
            removed("a"),
        ];
        let lengths: Vec<usize> = groups(&updates).iter().map(|g| g.len()).collect();
        assert_eq!(lengths, [2, 1, 1, 1, 1]);
        assert_eq!(groups(&[]), [&[] as &[IndexUpdate]]);
    }
}
