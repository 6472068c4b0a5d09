//! The in-memory ledger, for tests and for the store address `memory:`. Its rows are in maps, and nothing is durable.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use filrouge_types::{Checkpoint, Clock, Failure, SessionId, TenantId, Timestamp, TurnId, lock};
use tokio::sync::watch;

use crate::command::{Command, Outcome, Write};
use crate::keyring::{Entropy, Keyring};
use crate::lane::Lanes;
use crate::ledger::{
    Backend, CommittedWrite, Durability, Health, LanePosition, Ledger, Position, QuerySubject,
    SnapshotQuery,
};
use crate::read::{LedgerSnapshot, VerifiedSnapshot, session_not_found};
use crate::record::MacCheck;
use crate::rows::{
    CheckpointRow, HeadLease, HeadRow, NamedCheckpoint, SessionRow, TurnRow, Tx, View,
};
use crate::rules::{self, CommitGroup, RuleContext};
use crate::verify::{HeadCheck, Suspects};

pub(crate) mod rows;
#[cfg(test)]
mod tests;

use rows::Rows;

/// A ledger in memory.
pub struct MemoryLedger {
    rows: Mutex<Rows>,
    keyring: Arc<Keyring>,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
    suspects: Mutex<Suspects>,
    store_id: String,
    writer: String,
    commits: watch::Sender<u64>,
}

impl MemoryLedger {
    /// An empty ledger with the store id `memory`. A ledger that shares a hot store with others needs a unique id; see
    /// [`Self::with_store_id`].
    pub fn new(keyring: Arc<Keyring>, entropy: Arc<dyn Entropy>, clock: Arc<dyn Clock>) -> Self {
        let store_id = "memory";
        Self {
            rows: Mutex::default(),
            keyring: Arc::new(keyring.for_store(store_id, Lanes::ONE)),
            entropy,
            clock,
            suspects: Mutex::default(),
            store_id: store_id.to_owned(),
            writer: String::new(),
            commits: watch::Sender::new(0),
        }
    }

    /// Sets another store id, such as a [`crate::random_id`]. A hot store distinguishes the sessions of several ledgers
    /// by their store ids.
    #[must_use]
    pub fn with_store_id(mut self, store_id: impl Into<String>) -> Self {
        self.store_id = store_id.into();
        self.bind_keyring()
    }

    /// Sets the name of this process as a writer, by default empty.
    #[must_use]
    pub fn with_writer(mut self, writer: impl Into<String>) -> Self {
        self.writer = writer.into();
        self
    }

    /// Sets the number of lanes of this empty ledger.
    #[must_use]
    pub fn with_lanes(self, lanes: Lanes) -> Self {
        lock(&self.rows).lanes = lanes;
        self.bind_keyring()
    }

    fn bind_keyring(mut self) -> Self {
        let lanes = lock(&self.rows).lanes;
        self.keyring = Arc::new(self.keyring.for_store(&self.store_id, lanes));
        self
    }

    /// Executes one write at the time `now`.
    ///
    /// # Errors
    /// Those of the rules.
    pub fn apply(&self, command: &Command, now: Timestamp) -> Result<Outcome, Failure> {
        self.apply_at(command, (now, now))
    }

    /// Executes one write at the time `now`. `lease_now` is the time by which leases end.
    fn apply_at(
        &self,
        command: &Command,
        (now, lease_now): (Timestamp, Timestamp),
    ) -> Result<Outcome, Failure> {
        let mut rows = lock(&self.rows);
        let suspects = lock(&self.suspects).clone();
        let ctx = RuleContext {
            keyring: &self.keyring,
            entropy: self.entropy.as_ref(),
            now,
            lease_now,
            server: &|| self.writer.clone(),
            suspects: &suspects,
            known_heads: None,
        };
        let lane = command.lane(rows.lanes);
        let mut group = CommitGroup::begin(&*rows, lane, ctx.keyring)?;
        let outcome = rules::apply(&mut *rows, &mut group, &ctx, command)?;
        if group.finish(&mut *rows, &ctx)?.is_some() {
            self.commits.send_modify(|commits| *commits += 1);
        }
        Ok(outcome)
    }

    /// Runs `query` on a snapshot of the ledger.
    pub fn with_snapshot<T>(&self, query: impl for<'a> FnOnce(&LedgerSnapshot<'a>) -> T) -> T {
        let rows = lock(&self.rows);
        let suspects = lock(&self.suspects).clone();
        query(&VerifiedSnapshot {
            view: &*rows,
            keyring: &self.keyring,
            check: MacCheck::Keyed,
            suspects: &suspects,
            heads: HeadCheck::default(),
        })
    }

    /// Creates, in this ledger, a part of a session that another ledger stores. The part begins after the item at
    /// `last_seq`. Of the earlier data it has only the lease and the newest checkpoint.
    ///
    /// # Errors
    /// Those of the rows.
    pub fn create_partial_session(
        &self,
        row: &SessionRow,
        lease: HeadLease,
        last_seq: u64,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(), Failure> {
        let mut rows = lock(&self.rows);
        let pk = rows.insert_session(row)?;
        rows.first_seqs.insert(pk, last_seq + 1);
        if let Some(checkpoint) = checkpoint {
            let row = CheckpointRow::sealed(checkpoint.clone(), &self.keyring, pk);
            rows.put_checkpoint(pk, &row)?;
        }
        let mut head = HeadRow::empty(row.fingerprint(), row.created_at);
        head.last_seq = last_seq;
        head.lease = lease;
        let named = checkpoint.map(NamedCheckpoint::of);
        head.checkpoints.set(named.into_iter().collect());
        rows.put_head(pk, &head.sealed(&self.keyring, pk))
    }

    /// Adds an open turn to a session created by [`Self::create_partial_session`]. The turn has an id but no items
    /// here; items can be appended to it.
    ///
    /// # Errors
    /// `session_not_found`.
    pub fn add_open_turn(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        id: TurnId,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let mut rows = lock(&self.rows);
        let stored = rows.session(tenant, session, None)?;
        let (pk, mut head) = stored
            .and_then(|stored| Some((stored.pk, stored.head?)))
            .ok_or_else(|| session_not_found(session))?;
        let ordinal = head.turn_count + 1;
        let row = TurnRow::new(id, ordinal, 1, head.last_seq, now);
        rows.insert_turn(pk, &row.sealed(&self.keyring, pk))?;
        head.turn_count = ordinal;
        head.turn_rows += 1;
        head.open_turns += 1;
        rows.put_head(pk, &head.sealed(&self.keyring, pk))
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn write(&self, command: Command) -> Result<CommittedWrite, Failure> {
        let times = (self.clock.now(), self.clock.lease_now());
        // As the durable ledgers do, so that equal random numbers make equal ledgers.
        if let Write::Close(close) = &command.write {
            close.pack(self.entropy.as_ref())?;
        }
        let outcome = self.apply_at(&command, times)?;
        Ok(CommittedWrite {
            outcome,
            durability: Durability::Ephemeral,
        })
    }

    async fn inspect(&self, _: QuerySubject<'_>, query: SnapshotQuery) -> Result<(), Failure> {
        self.with_snapshot(|snapshot| query(snapshot));
        Ok(())
    }

    fn lanes(&self) -> Lanes {
        lock(&self.rows).lanes
    }

    fn position(&self) -> Position {
        let rows = lock(&self.rows);
        let lanes = rows.lanes.iter().map(|lane| {
            let mut log = rows.log.range((lane, 0)..=(lane, u64::MAX));
            LanePosition::of_commit(log.next_back().map(|(_, row)| row))
        });
        Position::new(lanes.collect())
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    fn backend(&self) -> Backend {
        Backend {
            kind: "memory",
            version: None,
            durability: Durability::Ephemeral,
            remains: None,
        }
    }

    fn writer(&self) -> String {
        self.writer.clone()
    }

    fn store_id(&self) -> &str {
        &self.store_id
    }

    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn health(&self) -> Health {
        let suspects = lock(&self.suspects);
        Health {
            read_only: None,
            integrity: (!suspects.is_empty()).then(|| suspects.to_string()),
        }
    }

    fn distrust(&self, reason: String) {
        let mut suspects = lock(&self.suspects);
        *suspects = suspects.merged_with(Suspects::entire_store(reason));
    }
}
