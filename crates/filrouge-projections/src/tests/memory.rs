//! A target in memory, which can be away, refuse sessions, pause in a call, and lose its data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use filrouge_types::{FixedClock, lock};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, oneshot};

use crate::target::{
    Cleaned, Refused, Row, SessionKey, SessionUpdate, Stamp, Target, TargetError, Update,
};

type Table = BTreeMap<(SessionKey, &'static str, String), (u64, Row)>;

/// What the target stores.
#[derive(Clone, Default)]
pub(super) struct Contents {
    published: Option<u64>,
    generations: BTreeMap<u64, Table>,
    stamps: BTreeMap<u64, Stamp>,
}

#[derive(Default)]
struct Inner {
    contents: Contents,
    /// A generation that can be neither written nor cleaned.
    altered: Option<u64>,
    /// Whether queries see what is no generation, until the next publication.
    alias_is_altered: bool,
    is_away: bool,
    refused: BTreeSet<SessionKey>,
    /// The only generation that refuses them; `None` if each does.
    refused_in: Option<u64>,
    /// The maximum number of updates that a write has time for.
    largest_write: Option<usize>,
    calls: usize,
    /// The clock that each call moves forward, and by how many microseconds.
    slow: Option<(Arc<FixedClock>, i64)>,
    /// The number of the call that never returns, and whether it is executed.
    hangs_at: Option<(usize, bool)>,
    /// The next write reports here that it was called, and then waits for the other end.
    paused_write: Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>,
}

impl Inner {
    /// Whether a test has set that the update is refused, or a number has another type.
    fn refuses(&self, generation: u64, update: &Update) -> bool {
        let is_wrong = |row: &Row| row.content.get("last_seq").is_some_and(Value::is_string);
        let has_wrong = matches!(update, Update::Rows { rows, .. } if rows.iter().any(is_wrong));
        let is_here = self.refused_in.is_none_or(|refused| refused == generation);
        has_wrong || is_here && self.refused.contains(update.key())
    }
}

#[derive(Default)]
pub(super) struct MemoryTarget(Mutex<Inner>, Notify);

impl MemoryTarget {
    pub(super) fn set_away(&self, is_away: bool) {
        lock(&self.0).is_away = is_away;
    }

    pub(super) fn set_refused(&self, keys: impl IntoIterator<Item = SessionKey>) {
        lock(&self.0).refused = keys.into_iter().collect();
    }

    /// Makes only one generation refuse sessions.
    pub(super) fn set_refused_in(&self, generation: u64) {
        lock(&self.0).refused_in = Some(generation);
    }

    /// Makes writes with more updates than this take too long.
    pub(super) fn set_largest_write(&self, updates: usize) {
        lock(&self.0).largest_write = Some(updates);
    }

    pub(super) fn calls(&self) -> usize {
        lock(&self.0).calls
    }

    /// Makes each call take some microseconds of this clock.
    pub(super) fn set_slow(&self, clock: Arc<FixedClock>, micros: i64) {
        lock(&self.0).slow = Some((clock, micros));
    }

    /// Makes a call never return, after it was executed or before it.
    pub(super) fn hang_at(&self, call: usize, executes: bool) {
        let mut inner = lock(&self.0);
        inner.hangs_at = Some((inner.calls + call, executes));
    }

    /// Waits until a call hangs.
    pub(super) async fn hung(&self) {
        self.1.notified().await;
    }

    async fn hang(&self) {
        self.1.notify_one();
        std::future::pending::<()>().await;
    }

    /// Makes the next write wait. Returns what reports its call, and what lets it continue.
    pub(super) fn pause_write(&self) -> (oneshot::Receiver<()>, oneshot::Sender<()>) {
        let ((called, is_called), (go, goes)) = (oneshot::channel(), oneshot::channel());
        lock(&self.0).paused_write = Some((called, goes));
        (is_called, go)
    }

    pub(super) fn lose_everything(&self) {
        lock(&self.0).contents = Contents::default();
    }

    /// A copy of everything.
    pub(super) fn copy(&self) -> Contents {
        lock(&self.0).contents.clone()
    }

    /// Replaces everything by a copy.
    pub(super) fn put_back(&self, copy: &Contents) {
        lock(&self.0).contents = copy.clone();
    }

    /// Alters the structure of the generation that queries see.
    pub(super) fn alter(&self) {
        let mut inner = lock(&self.0);
        inner.altered = inner.contents.published;
    }

    /// Makes queries see what is no generation.
    pub(super) fn alter_alias(&self) {
        lock(&self.0).alias_is_altered = true;
    }

    pub(super) fn generations(&self) -> Vec<u64> {
        lock(&self.0).contents.generations.keys().copied().collect()
    }

    /// Everything that any generation holds, as text.
    pub(super) fn everything(&self) -> String {
        let inner = lock(&self.0);
        let tables = inner.contents.generations.values();
        let rows = tables.flat_map(|table| table.values());
        rows.map(|(version, row)| format!("{version} {row:?}\n"))
            .collect()
    }

    /// Changes the rows of the generation that queries see.
    pub(super) fn tamper(&self, change: impl Fn(&mut Table)) {
        let inner = &mut *lock(&self.0);
        let published = inner.contents.published.unwrap();
        change(inner.contents.generations.get_mut(&published).unwrap());
    }

    /// Begins a call: it fails while the target is away. Returns whether it hangs after it was executed.
    async fn begin(&self) -> Result<bool, TargetError> {
        let hangs = {
            let mut inner = lock(&self.0);
            if inner.is_away {
                return Err(TargetError::Unavailable("away".to_owned()));
            }
            inner.calls += 1;
            if let Some((clock, micros)) = &inner.slow {
                clock.advance(*micros);
            }
            let (call, hangs_at) = (inner.calls, inner.hangs_at);
            hangs_at.filter(|(at, _)| *at == call)
        };
        if hangs.is_some_and(|(_, executes)| !executes) {
            self.hang().await;
        }
        Ok(hangs.is_some())
    }

    async fn call<T>(
        &self,
        execute: impl FnOnce(&mut Inner) -> Result<T, TargetError>,
    ) -> Result<T, TargetError> {
        let hangs = self.begin().await?;
        let result = execute(&mut lock(&self.0));
        if hangs {
            self.hang().await;
        }
        result
    }
}

fn row(table: &'static str, id: String, content: Value) -> Row {
    let content = match content {
        Value::Object(content) => content,
        _ => Map::new(),
    };
    Row { table, id, content }
}

fn altered(generation: u64) -> TargetError {
    TargetError::Altered(format!("there is no generation {generation}"))
}

fn apply(table: &mut Table, update: Update) {
    let (key, version, is_entire, rows) = match update {
        Update::Rows {
            key,
            version,
            is_entire,
            rows,
        } => (key, version, is_entire, rows),
        Update::Removed { key, version } => {
            table.retain(|(of, _, _), (v, _)| *of != key || *v > version);
            return;
        }
    };
    let ids: BTreeSet<_> = rows.iter().map(|row| (row.table, row.id.clone())).collect();
    if is_entire {
        table.retain(|(of, table, id), (v, _)| {
            *of != key || *v >= version || ids.contains(&(*table, id.clone()))
        });
    }
    for row in rows {
        let at = (key.clone(), row.table, row.id.clone());
        let stored = table.get(&at).map(|(version, _)| *version);
        if stored.is_none_or(|stored| stored <= version) {
            table.insert(at, (version, row));
        }
    }
}

#[async_trait]
impl Target for MemoryTarget {
    fn rows(&self, update: &SessionUpdate) -> Vec<Row> {
        let recorded = &update.recorded;
        let (session, name) = (&recorded.session, &update.key.session);
        let content = json!({ "title": session.title, "last_seq": session.last_seq });
        let mut rows = vec![row("sessions", name.to_string(), content)];
        for (turn, items) in &recorded.turns {
            let content = json!({ "status": turn.status, "replaced_by": turn.replaced_by_turn_id });
            rows.push(row("turns", format!("{name}/{}", turn.turn_id), content));
            for item in items {
                let content = json!({ "item": item });
                rows.push(row("items", format!("{name}/{}", item.seq), content));
            }
        }
        for item in &recorded.loose {
            let content = json!({ "item": item });
            rows.push(row("items", format!("{name}/{}", item.seq), content));
        }
        for event in &update.events {
            let content = json!({ "event": event });
            rows.push(row("events", format!("{name}/{}", event.key), content));
        }
        for checkpoint in &update.checkpoints {
            let content = json!({ "checkpoint": checkpoint });
            rows.push(row(
                "checkpoints",
                format!("{name}/{}", checkpoint.seq),
                content,
            ));
        }
        rows
    }

    async fn published(&self) -> Result<Option<u64>, TargetError> {
        self.call(|inner| match inner.alias_is_altered {
            true => Err(TargetError::Altered("no generation".to_owned())),
            false => Ok(inner.contents.published),
        })
        .await
    }

    async fn create(&self, generation: u64) -> Result<(), TargetError> {
        self.call(|inner| {
            inner.contents.generations.entry(generation).or_default();
            Ok(())
        })
        .await
    }

    async fn write(
        &self,
        generation: u64,
        updates: Vec<Update>,
    ) -> Result<Vec<Refused>, TargetError> {
        let paused = lock(&self.0).paused_write.take();
        if let Some((called, goes)) = paused {
            called.send(()).unwrap();
            let _ = goes.await;
        }
        let written = self.call(|inner| {
            if inner.altered == Some(generation) {
                return Err(altered(generation));
            }
            if inner.largest_write.is_some_and(|max| updates.len() > max) {
                return Err(TargetError::Unavailable("no answer in time".to_owned()));
            }
            let (refused, accepted): (Vec<_>, Vec<_>) = updates
                .into_iter()
                .partition(|update| inner.refuses(generation, update));
            let table = inner.contents.generations.get_mut(&generation);
            let table = table.ok_or_else(|| altered(generation))?;
            accepted.into_iter().for_each(|update| apply(table, update));
            let refusals = refused.iter().map(|update| Refused {
                key: update.key().clone(),
                reason: "a field has another type".to_owned(),
            });
            Ok(refusals.collect())
        });
        written.await
    }

    async fn stamp(&self, generation: u64) -> Result<Option<Stamp>, TargetError> {
        self.call(|inner| Ok(inner.contents.stamps.get(&generation).cloned()))
            .await
    }

    async fn set_stamp(&self, generation: u64, stamp: &Stamp) -> Result<(), TargetError> {
        self.call(|inner| {
            if !inner.contents.generations.contains_key(&generation) {
                return Err(altered(generation));
            }
            let stamps = &mut inner.contents.stamps;
            let stored = stamps.entry(generation).or_insert_with(|| stamp.clone());
            if stored.commits <= stamp.commits {
                stored.clone_from(stamp);
            }
            Ok(())
        })
        .await
    }

    async fn publish(&self, generation: u64) -> Result<(), TargetError> {
        self.call(|inner| {
            if !inner.contents.generations.contains_key(&generation) {
                return Err(altered(generation));
            }
            (inner.contents.published, inner.alias_is_altered) = (Some(generation), false);
            let contents = &mut inner.contents;
            contents
                .generations
                .retain(|number, _| *number == generation);
            contents.stamps.retain(|number, _| *number == generation);
            Ok(())
        })
        .await
    }

    async fn clean(&self, key: &SessionKey, version: u64) -> Result<Cleaned, TargetError> {
        self.call(|inner| {
            let is_there = |generation: &u64| inner.contents.generations.contains_key(generation);
            if let Some(generation) = inner.altered.filter(is_there) {
                return Err(altered(generation));
            }
            for table in inner.contents.generations.values_mut() {
                table.retain(|(of, _, _), (v, _)| of != key || *v > version);
            }
            Ok(Cleaned { remains: None })
        })
        .await
    }

    async fn sessions(
        &self,
        generation: u64,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<SessionKey>, TargetError> {
        self.call(|inner| {
            let table = inner.contents.generations.get(&generation);
            let table = table.ok_or_else(|| altered(generation))?;
            let keys: BTreeSet<&SessionKey> = table.keys().map(|(key, _, _)| key).collect();
            let rest = keys
                .into_iter()
                .filter(|key| after.is_none_or(|after| *key > after));
            Ok(rest.take(limit).cloned().collect())
        })
        .await
    }

    async fn stored(&self, generation: u64, key: &SessionKey) -> Result<Vec<Row>, TargetError> {
        self.call(|inner| {
            let table = inner.contents.generations.get(&generation);
            let table = table.ok_or_else(|| altered(generation))?;
            let rows = table.iter().filter(|((of, _, _), _)| of == key);
            Ok(rows.map(|(_, (_, row))| row.clone()).collect())
        })
        .await
    }
}
