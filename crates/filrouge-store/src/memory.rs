//! The in-memory ledger: the same rows in maps. Nothing is durable; for tests and `memory:`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use filrouge_types::{
    Clock, Failure, ItemId, RequestId, SessionId, TenantId, Timestamp, TurnId, TurnStatus,
};

use crate::command::{Command, Outcome, SessionFilter, Viewer};
use crate::keyring::{Entropy, Keyring};
use crate::ledger::{Durability, Health, Inspect, Ledger, Position};
use crate::read::Sight;
use crate::record::{Check, RecordRow};
use crate::rows::{
    HeadRow, LogRow, RECORDS_BYTES, SessionPk, SessionRow, Stored, TurnRow, Tx, View,
};
use crate::rules::{self, Context, Group};
use crate::verify::Suspects;

#[derive(Default)]
struct Rows {
    sessions: BTreeMap<SessionPk, SessionRow>,
    names: BTreeMap<(TenantId, SessionId), SessionPk>,
    heads: BTreeMap<SessionPk, HeadRow>,
    turns: BTreeMap<(SessionPk, u64), TurnRow>,
    turn_ids: BTreeMap<TurnId, (SessionPk, u64)>,
    records: BTreeMap<(SessionPk, u64), RecordRow>,
    keys: BTreeMap<(SessionPk, ItemId), u64>,
    requests: BTreeMap<(SessionPk, RequestId), u64>,
    log: BTreeMap<u64, LogRow>,
}

/// A ledger in memory.
pub struct MemoryLedger {
    rows: Mutex<Rows>,
    keyring: Arc<Keyring>,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
    suspects: Mutex<Suspects>,
    store_id: String,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Rows are put only after all checks have passed, so a panic leaves none half written.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryLedger {
    /// An empty ledger.
    #[must_use]
    pub fn new(keyring: Arc<Keyring>, entropy: Arc<dyn Entropy>, clock: Arc<dyn Clock>) -> Self {
        Self {
            rows: Mutex::default(),
            keyring,
            entropy,
            clock,
            suspects: Mutex::default(),
            store_id: "memory".to_owned(),
        }
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn write(&self, command: Command) -> Result<Outcome, Failure> {
        let mut rows = locked(&self.rows);
        let suspects = locked(&self.suspects).clone();
        let ctx = Context {
            keyring: &self.keyring,
            entropy: self.entropy.as_ref(),
            now: self.clock.now(),
            suspects: &suspects,
        };
        let mut group = Group::begin(&*rows)?;
        let outcome = rules::apply(&mut *rows, &mut group, &ctx, &command)?;
        group.finish(&mut *rows, &ctx)?;
        Ok(outcome)
    }

    async fn inspect(&self, question: Inspect) -> Result<(), Failure> {
        let rows = locked(&self.rows);
        let suspects = locked(&self.suspects).clone();
        question(&Sight {
            view: &*rows,
            keyring: &self.keyring,
            check: Check::Keyed,
            suspects: &suspects,
        });
        Ok(())
    }

    fn position(&self) -> Position {
        let rows = locked(&self.rows);
        rows.log.values().next_back().map_or(
            Position {
                commit_no: 0,
                link: [0; 16],
            },
            |row| Position {
                commit_no: row.commit_no,
                link: row.link,
            },
        )
    }

    fn durability(&self) -> Durability {
        Durability::Ephemeral
    }

    fn store_id(&self) -> &str {
        &self.store_id
    }

    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn health(&self) -> Health {
        let suspects = locked(&self.suspects);
        Health {
            read_only: None,
            integrity: (!suspects.is_empty()).then(|| suspects.to_string()),
        }
    }

    fn distrust(&self, what: String) {
        let mut suspects = locked(&self.suspects);
        *suspects = suspects.and(Suspects::everything(what));
    }

    async fn close(&self) {}
}

impl Rows {
    fn stored(&self, pk: SessionPk) -> Option<Stored> {
        let row = self.sessions.get(&pk)?.clone();
        Some(Stored {
            pk,
            row,
            head: self.heads.get(&pk).cloned(),
        })
    }
}

impl SessionFilter {
    /// Whether a session is to be shown.
    #[must_use]
    pub fn takes(&self, row: &SessionRow) -> bool {
        self.project_id
            .as_ref()
            .is_none_or(|p| row.project_id.as_ref() == Some(p))
            && self
                .identity_id
                .as_ref()
                .is_none_or(|i| row.identity_id.as_ref() == Some(i))
            && self.status.is_none_or(|s| row.status == s)
            && self.since.is_none_or(|t| row.created_at >= t)
            && self.until.is_none_or(|t| row.created_at < t)
    }
}

impl View for Rows {
    fn session(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        viewer: Option<&Viewer>,
    ) -> Result<Option<Stored>, Failure> {
        let pk = self.names.get(&(tenant.clone(), id.clone()));
        let stored = pk.and_then(|pk| self.stored(*pk));
        Ok(stored.filter(|s| viewer.is_none_or(|v| v.sees(s.row.identity_id.as_ref()))))
    }

    fn session_by_pk(&self, pk: SessionPk) -> Result<Option<Stored>, Failure> {
        Ok(self.stored(pk))
    }

    fn sessions(
        &self,
        tenant: &TenantId,
        viewer: &Viewer,
        filter: &SessionFilter,
        before: Option<SessionPk>,
        limit: usize,
    ) -> Result<Vec<Stored>, Failure> {
        let rows = self
            .sessions
            .range(..before.unwrap_or(SessionPk::MAX))
            .rev();
        let shown = rows.filter(|(_, row)| {
            let listed =
                *viewer == Viewer::Operator || row.identity_id.as_ref() == viewer.identity();
            row.tenant_id == *tenant && listed && filter.takes(row)
        });
        Ok(shown
            .take(limit)
            .filter_map(|(pk, _)| self.stored(*pk))
            .collect())
    }

    fn turn(&self, id: &TurnId) -> Result<Option<(SessionPk, TurnRow)>, Failure> {
        let place = self.turn_ids.get(id);
        Ok(place.and_then(|place| Some((place.0, self.turns.get(place)?.clone()))))
    }

    fn turns(
        &self,
        pk: SessionPk,
        from: u64,
        to: u64,
        descending: bool,
        limit: usize,
    ) -> Result<Vec<TurnRow>, Failure> {
        if from > to {
            return Ok(Vec::new());
        }
        let range = self
            .turns
            .range((pk, from)..=(pk, to))
            .map(|(_, row)| row.clone());
        Ok(if descending {
            range.rev().take(limit).collect()
        } else {
            range.take(limit).collect()
        })
    }

    fn turn_rows(&self, pk: SessionPk) -> Result<u64, Failure> {
        Ok(self.turns.range((pk, 0)..=(pk, u64::MAX)).count() as u64)
    }

    fn silent_turns(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(SessionPk, TurnRow)>, Failure> {
        let silent = |row: &TurnRow| row.status == TurnStatus::Open && row.touched_at < before;
        let mut rows: Vec<_> = self
            .turns
            .iter()
            .filter(|(_, row)| silent(row))
            .map(|((pk, _), row)| (*pk, row.clone()))
            .collect();
        rows.sort_by_key(|(_, row)| row.touched_at);
        rows.truncate(limit);
        Ok(rows)
    }

    fn records(&self, pk: SessionPk, seq: u64, limit: usize) -> Result<Vec<RecordRow>, Failure> {
        let first = self
            .records
            .range((pk, 0)..=(pk, seq))
            .next_back()
            .map_or(seq, |((_, first), _)| *first);
        let rows = self.records.range((pk, first)..=(pk, u64::MAX));
        let mut bytes = 0;
        let within = |row: &&RecordRow| {
            let before = bytes;
            bytes += row.body.len();
            before < RECORDS_BYTES
        };
        let rows = rows.map(|(_, row)| row).take(limit).take_while(within);
        Ok(rows.cloned().collect())
    }

    fn structure(&self) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }

    fn newest_seq(&self, pk: SessionPk) -> Result<u64, Failure> {
        Ok(self
            .records
            .range((pk, 0)..=(pk, u64::MAX))
            .next_back()
            .map_or(0, |(_, row)| row.last_seq()))
    }

    fn item_seq(&self, pk: SessionPk, id: &ItemId) -> Result<Option<u64>, Failure> {
        Ok(self.keys.get(&(pk, id.clone())).copied())
    }

    fn request_seq(&self, pk: SessionPk, id: &RequestId) -> Result<Option<u64>, Failure> {
        Ok(self.requests.get(&(pk, id.clone())).copied())
    }

    fn item_keys(&self, pk: SessionPk) -> Result<u64, Failure> {
        let items = self.keys.keys().filter(|(p, _)| *p == pk).count();
        let requests = self.requests.keys().filter(|(p, _)| *p == pk).count();
        Ok((items + requests) as u64)
    }

    fn log(&self, after: u64, limit: usize) -> Result<Vec<LogRow>, Failure> {
        Ok(self
            .log
            .range(after + 1..)
            .map(|(_, row)| row.clone())
            .take(limit)
            .collect())
    }

    fn newest_log(&self) -> Result<Option<LogRow>, Failure> {
        Ok(self.log.values().next_back().cloned())
    }

    fn each_session(&self, see: &mut dyn FnMut(SessionPk, Option<Stored>)) -> Result<(), Failure> {
        for pk in self.sessions.keys() {
            see(*pk, self.stored(*pk));
        }
        Ok(())
    }

    fn session_pks(&self) -> Result<Vec<SessionPk>, Failure> {
        Ok(self.sessions.keys().copied().collect())
    }
}

impl Tx for Rows {
    fn insert_session(&mut self, row: &SessionRow) -> Result<SessionPk, Failure> {
        let pk = self.sessions.keys().next_back().map_or(1, |pk| pk + 1);
        self.names
            .insert((row.tenant_id.clone(), row.session_id.clone()), pk);
        self.sessions.insert(pk, row.clone());
        Ok(pk)
    }

    fn put_head(&mut self, pk: SessionPk, head: &HeadRow) -> Result<(), Failure> {
        self.heads.insert(pk, head.clone());
        Ok(())
    }

    fn insert_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<(), Failure> {
        self.turn_ids.insert(row.turn_id, (pk, row.place()));
        self.turns.insert((pk, row.place()), row.clone());
        Ok(())
    }

    fn update_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<(), Failure> {
        self.turns.insert((pk, row.place()), row.clone());
        Ok(())
    }

    fn insert_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<(), Failure> {
        self.records.insert((pk, row.first_seq), row.clone());
        Ok(())
    }

    fn update_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<(), Failure> {
        self.records.insert((pk, row.first_seq), row.clone());
        Ok(())
    }

    fn insert_item_key(&mut self, pk: SessionPk, id: &ItemId, seq: u64) -> Result<(), Failure> {
        self.keys.insert((pk, id.clone()), seq);
        Ok(())
    }

    fn insert_request_key(
        &mut self,
        pk: SessionPk,
        id: &RequestId,
        seq: u64,
    ) -> Result<(), Failure> {
        self.requests.insert((pk, id.clone()), seq);
        Ok(())
    }

    fn insert_log(&mut self, row: &LogRow) -> Result<(), Failure> {
        self.log.insert(row.commit_no, row.clone());
        Ok(())
    }
}
