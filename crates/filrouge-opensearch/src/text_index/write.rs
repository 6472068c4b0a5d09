//! Changes under the lock of the index.
//!
//! 1. Plan: read the state and the rows that the change replaces.
//! 2. Lock: replace the state that was read by one with a lock, which names what will be written. If another process
//!    has replaced the state meanwhile, plan again.
//! 3. Write the rows, each with the number of the change as its external version. Refresh: they become visible at once.
//! 4. Publish: replace the state by the new one, without a lock.
//!
//! A lock that does not change for longer than a request may take is taken over. The new holder has a greater number. With it, it writes or
//! deletes every row that the lock names, so that OpenSearch refuses what the old holder may still send. Sessions that
//! the old holder was changing are forgotten, and read again by the feed.

use std::thread;
use std::time::{Duration, Instant};

use filrouge_store::text_index::SessionNo;
use filrouge_types::{Failure, lock};
use reqwest::Method;
use serde_json::{Value, json};

use super::OpenSearchIndex;
use super::meta::{self, FORMAT, Lock, Meta, Place, StoredMeta, Work};
use super::rows::{self, Action, DOCUMENT, VECTOR};
use super::{errors, mapping};
use crate::client::Body;

/// The time for which the lock of another process must stay unchanged before it is taken over, besides the time limit of
/// a request: a holder that works renews its lock between two requests.
const LEASE_MARGIN: Duration = Duration::from_secs(10);
/// The time after which a holder renews its lock, between two requests.
const RENEWAL: Duration = Duration::from_secs(3);
/// The time between two looks at a lock of another process.
const POLL: Duration = Duration::from_millis(20);

/// The time for which a search waits for another process that changes the index.
const SHORT_WAIT: Duration = Duration::from_millis(250);
/// The time for which anybody waits for another process that creates the index: a busy server takes seconds.
const CREATION_WAIT: Duration = Duration::from_secs(10);

/// The number of bytes after which a request with rows is sent: a busy server indexes some megabytes per second.
const BULK_BYTES: usize = 1 << 20;
/// The maximum number of rows of a request.
const BULK_ACTIONS: usize = 2_000;
/// The number of rows that a query for ids returns at once.
const IDS_PER_PAGE: usize = 10_000;

/// For how long a change waits for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as a search waits for the index.
    Short,
    /// Until another process has created the index.
    Creation,
    /// Until the lock of an ended process is taken over, and longer.
    Long,
}

/// A planned change.
#[derive(Debug)]
pub(super) struct Plan {
    /// The state after the change.
    pub(super) next: Meta,
    pub(super) work: Work,
    pub(super) actions: Vec<Action>,
}

impl Plan {
    /// A change of an index with this state that writes no rows yet.
    pub(super) fn new(meta: &Meta) -> Self {
        let (mut next, last) = (meta.clone(), meta.last_document);
        next.changes += 1;
        Self {
            next,
            work: Work::Rows {
                sessions: Vec::new(),
                documents: (last, last),
                vectors: Vec::new(),
            },
            actions: Vec::new(),
        }
    }
}

/// The result of planning.
pub(super) enum Step<T> {
    /// There is nothing to change.
    Nothing(T),
    /// The change, and the result once it is made.
    Change(Box<Plan>, T),
}

/// The lock, as its holder wrote it last.
struct Held {
    stored: StoredMeta,
    renewed: Instant,
}

impl OpenSearchIndex {
    /// Plans a change and makes it, alone of all processes; `None` if the lock was not free in time. `plan` may be
    /// called several times.
    pub(super) fn locked<T>(
        &self,
        patience: Patience,
        plan: &mut dyn FnMut(&Meta) -> Result<Step<T>, Failure>,
    ) -> Result<Option<T>, Failure> {
        let _changing = lock(&self.changing);
        let began = Instant::now();
        loop {
            let stored = self.read_meta()?;
            if let Some(held) = &stored.meta.lock {
                if held.holder == self.holder || self.is_left(stored.place) {
                    self.recover(stored)?;
                } else if began.elapsed() >= self.time_to_wait(patience) {
                    return Ok(None);
                } else {
                    thread::sleep(POLL);
                }
                continue;
            }
            match plan(&stored.meta)? {
                Step::Nothing(value) => return Ok(Some(value)),
                Step::Change(plan, value) => {
                    if self.make(&stored, *plan)? {
                        return Ok(Some(value));
                    }
                }
            }
        }
    }

    /// The time for which the lock of another process must stay unchanged before it is taken over, measured by this
    /// process.
    fn lease(&self) -> Duration {
        self.request_timeout + LEASE_MARGIN
    }

    fn time_to_wait(&self, patience: Patience) -> Duration {
        match patience {
            Patience::Short => SHORT_WAIT,
            Patience::Creation => CREATION_WAIT,
            Patience::Long => 2 * self.lease(),
        }
    }

    /// Whether a lock of another process was left.
    fn is_left(&self, place: Place) -> bool {
        let mut observed = lock(&self.other_lock);
        match *observed {
            Some((same, since)) if same == place => since.elapsed() >= self.lease(),
            _ => {
                *observed = Some((place, Instant::now()));
                false
            }
        }
    }

    /// Makes a planned change of the state `stored`. Returns false, and changes nothing, if this is no longer the state.
    /// After an error, the next change of this value recovers.
    fn make(&self, stored: &StoredMeta, plan: Plan) -> Result<bool, Failure> {
        let Plan {
            next,
            work,
            actions,
        } = plan;
        let creates = work == Work::Create;
        if actions.is_empty() && !creates {
            return Ok(self.replace_meta(stored.place, &next)?.is_some());
        }
        // The version stays until the end: who reads the new rows with it cannot write what follows from them.
        let meta = Meta {
            generation: next.generation,
            changes: next.changes,
            last_session: next.last_session,
            last_document: next.last_document,
            lock: Some(self.new_lock(work)),
            ..stored.meta.clone()
        };
        let Some(place) = self.replace_meta(stored.place, &meta)? else {
            return Ok(false);
        };
        let mut held = Held::new(StoredMeta { meta, place });
        if creates {
            self.create_generation(next.generation)?;
        }
        self.write(&actions, &mut held)?;
        self.publish(&held, &next)?;
        Ok(true)
    }

    fn publish(&self, held: &Held, next: &Meta) -> Result<(), Failure> {
        let published = self.replace_meta(held.stored.place, next)?;
        published.map(drop).ok_or_else(errors::busy)
    }

    /// Takes over a lock, and undoes the work of its holder. Does nothing if the state has changed.
    pub(super) fn recover(&self, stored: StoredMeta) -> Result<(), Failure> {
        let StoredMeta { mut meta, place } = stored;
        let Some(Lock { work, .. }) = meta.lock.take() else {
            return Ok(());
        };
        let work = match work {
            Work::Rows { .. } if !self.has_alias(&meta)? => Work::Create,
            work => work,
        };
        meta.changes += 1;
        if work == Work::Create {
            // The old holder may still be creating its generation.
            meta.generation += 1;
        }
        let mut next = meta.clone();
        if work == Work::Create {
            next.format = FORMAT;
            next.needs_merge = false;
            next.set_position(None);
        }
        meta.lock = Some(self.new_lock(work.clone()));
        let Some(place) = self.replace_meta(place, &meta)? else {
            return Ok(());
        };
        let mut held = Held::new(StoredMeta { meta, place });
        match work {
            Work::Create => self.create_generation(next.generation)?,
            Work::Rows {
                sessions,
                documents,
                vectors,
            } => {
                // Rows that the old holder wrote are found only after a refresh.
                self.refresh()?;
                next.needs_merge = true;
                let mut actions = self.forget_all(&sessions)?;
                let new = meta::document_ids(documents).chain(vectors);
                actions.extend(new.map(Action::Delete));
                self.write(&actions, &mut held)?;
            }
        }
        // What others have read is obsolete.
        next.forgotten += 1;
        self.publish(&held, &next)
    }

    /// The actions that forget sessions, and delete those that do not exist.
    fn forget_all(&self, sessions: &[SessionNo]) -> Result<Vec<Action>, Failure> {
        let mut actions = self.deletions(&json!({ "terms": { "session": sessions } }))?;
        let mut missing: Vec<SessionNo> = sessions.to_vec();
        for mut session in self.sessions_where(json!({ "terms": { "no": sessions } }))? {
            session.entry.stamp = [0, 0];
            missing.retain(|no| *no != session.no);
            actions.push(rows::write_session(&session));
        }
        let ids = missing.into_iter().map(rows::session_id);
        actions.extend(ids.map(Action::Delete));
        Ok(actions)
    }

    /// The deletions of all documents and vectors that meet a condition.
    pub(super) fn deletions(&self, condition: &Value) -> Result<Vec<Action>, Failure> {
        let search = json!({
            "query": { "bool": { "filter": [
                { "terms": { "row": [DOCUMENT, VECTOR] } },
                condition,
            ] } },
            "sort": [{ "no": "desc" }, { "row": "asc" }, { "embedder": { "order": "asc", "missing": "_first" } }],
            "_source": false,
        });
        let mut actions = Vec::new();
        self.hits(search, (IDS_PER_PAGE, usize::MAX), &mut |hit| {
            let id = hit["_id"].as_str().ok_or_else(errors::malformed)?;
            actions.push(Action::Delete(id.to_owned()));
            Ok(())
        })?;
        Ok(actions)
    }

    /// Sends actions with the number of the change, and makes them visible.
    fn write(&self, actions: &[Action], held: &mut Held) -> Result<(), Failure> {
        let (mut lines, mut count) = (String::new(), 0);
        for action in actions {
            action.add_to(&mut lines, held.stored.meta.changes);
            count += 1;
            if lines.len() >= BULK_BYTES || count == BULK_ACTIONS {
                self.send_actions(std::mem::take(&mut lines), held)?;
                count = 0;
            }
        }
        if count > 0 {
            self.send_actions(lines, held)?;
        }
        if actions.is_empty() {
            return Ok(());
        }
        self.renew(held)?;
        self.refresh()
    }

    /// Renews the lock, unless this was done a short time ago.
    fn renew(&self, held: &mut Held) -> Result<(), Failure> {
        if held.renewed.elapsed() < RENEWAL {
            return Ok(());
        }
        let meta = &mut held.stored.meta;
        if let Some(lock) = &mut meta.lock {
            lock.renewals += 1;
        }
        let renewed = self.replace_meta(held.stored.place, meta)?;
        held.stored.place = renewed.ok_or_else(errors::busy)?;
        held.renewed = Instant::now();
        Ok(())
    }

    fn send_actions(&self, lines: String, held: &mut Held) -> Result<(), Failure> {
        self.renew(held)?;
        let alias = self.write_alias(held.stored.meta.generation);
        let shown = "items.*.status,items.*.error.type,error.type";
        let path = format!("{alias}/_bulk?require_alias=true&filter_path={shown}");
        let answer = self.request(Method::POST, &path, Body::Lines(lines))?;
        let results = answer["items"].as_array().ok_or_else(errors::malformed)?;
        results.iter().try_for_each(|result| self.check(result))
    }

    /// Fails if an action was refused.
    fn check(&self, result: &Value) -> Result<(), Failure> {
        let result = result.as_object().and_then(|result| result.values().next());
        let result = result.unwrap_or(&Value::Null);
        let error = result["error"]["type"].as_str();
        match (result["status"].as_u64(), error) {
            // The row to delete does not exist.
            (Some(200 | 201 | 404), None) => Ok(()),
            // The lock was taken over.
            (Some(409), _) => Err(errors::busy()),
            (_, Some(kind)) => Err(self.lost(kind)),
            (_, None) => Err(errors::malformed()),
        }
    }

    /// Empties the index if `is_needed` says so for its state under the lock: another process may have emptied it since
    /// the caller read the state.
    pub(super) fn empty(
        &self,
        is_needed: impl Fn(&Meta) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let emptied = self.locked(Patience::Long, &mut |meta| {
            if !is_needed(meta)? {
                return Ok(Step::Nothing(()));
            }
            let mut plan = Plan::new(meta);
            plan.next.format = FORMAT;
            plan.next.generation += 1;
            plan.next.forgotten += 1;
            plan.next.needs_merge = false;
            plan.next.set_position(None);
            plan.work = Work::Create;
            Ok(Step::Change(Box::new(plan), ()))
        })?;
        emptied.ok_or_else(errors::busy)
    }

    /// Creates a generation, makes queries read it, and deletes the older ones.
    fn create_generation(&self, generation: u64) -> Result<(), Failure> {
        let index = self.index(generation);
        let body = mapping::documents(&self.write_alias(generation));
        let created = self.send(Method::PUT, &index, Body::Json(body))?;
        if !created.status.is_success() {
            return Err(self.unexpected(&created));
        }
        let path = format!("{}*/_alias", self.index_prefix());
        let found = self.request(Method::GET, &path, Body::None)?;
        let all = found
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name);
        let older = all.filter(|name| self.generation_of(name).is_some_and(|n| n < generation));
        let mut actions: Vec<Value> = older
            .map(|other| json!({ "remove_index": { "index": other } }))
            .collect();
        actions.push(json!({ "add": { "index": index, "alias": self.alias() } }));
        let body = Body::Json(json!({ "actions": actions }));
        self.request(Method::POST, "_aliases", body).map(drop)
    }

    /// The generation of an index; `None` for another index.
    fn generation_of(&self, name: &str) -> Option<u64> {
        let number = name.strip_prefix(self.index_prefix().as_str())?;
        let generation = number.parse().ok()?;
        (self.index(generation) == name).then_some(generation)
    }
}

impl Held {
    fn new(stored: StoredMeta) -> Self {
        Self {
            stored,
            renewed: Instant::now(),
        }
    }
}
