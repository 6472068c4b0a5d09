//! [`SqliteLedger`]: the ledger in one SQLite file.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::ledger::SnapshotQuery;
use filrouge_store::read::VerifiedSnapshot;
use filrouge_store::record::MacCheck;
use filrouge_store::verify::Suspects;
use filrouge_store::write_queue::{WriteQueue, closed_failure};
use filrouge_store::{
    Backend, Command, CommittedWrite, Durability, FairSlots, Health, Keyring, Lanes, Ledger,
    Position, QuerySubject, SlotBounds, StoreLoad, WorkSize,
};
use filrouge_types::{ErrorCode, Failure, Result, lock};
use rusqlite::Connection;
use tokio::sync::watch;

use crate::copy_target::refuse_unfinished;
use crate::erasure::Erasure;
use crate::migrate;
use crate::open::{self, Options};
use crate::presence::Presence;
use crate::rows::statements;
use crate::store_state::{StoreState, data_version, in_snapshot};
use crate::writer::Writer;

/// How often the ledger checks for commits of other processes while a receiver waits for them.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// The part of a ledger that queries on other threads use too.
struct Shared {
    store_state: Arc<StoreState>,
    keyring: Arc<Keyring>,
    check: MacCheck,
    path: PathBuf,
    busy_timeout: Duration,
    /// Opens a connection for reading.
    connect: fn(&Path, Duration) -> Result<Connection>,
    /// The idle connections for reading.
    readers: Mutex<Vec<Connection>>,
}

/// A durable ledger in one SQLite file, which several processes may have open at once.
pub struct SqliteLedger {
    shared: Arc<Shared>,
    /// One slot for each query that may run at the same time.
    slots: FairSlots,
    /// One slot, reserved for the server's own queries.
    reserved_slot: FairSlots,
    writes: WriteQueue,
    store_id: String,
    presence: Arc<Presence>,
}

impl SqliteLedger {
    /// Opens the store, and compares its heads with its commit log. Creates or migrates the store if necessary, unless
    /// [`Options::only_read`] is set.
    ///
    /// # Errors
    /// `invalid` for another program's file or a newer schema, `store_unavailable`, `integrity_error`.
    pub fn open(mut options: Options) -> Result<Self> {
        open::check_version()?;
        let (store_id, writer_parts) = match options.only_read {
            false => open_for_writing(&options).map(|(id, parts)| (id, Some(parts)))?,
            true => (read_store_id(&options)?, None),
        };
        options.keyring = Arc::new(options.keyring.for_store(&store_id, Lanes::ONE));
        let presence = Arc::new(Presence::new(&options.path));
        let connect = match options.only_read {
            false => open::reader,
            true => open::passive_reader,
        };
        let reader = || connect(&options.path, options.busy_timeout);
        let store_state = Arc::new(StoreState::new(
            reader()?,
            options.keyring.clone(),
            options.clock.clone(),
            options.check,
        )?);
        let readers = (0..options.readers.max(1))
            .map(|_| reader())
            .collect::<Result<Vec<_>>>()?;
        let slots = FairSlots::new(SlotBounds::without_shares(readers.len()));
        let writes = match writer_parts {
            Some((conn, erasure, version)) => {
                let writer = Writer {
                    conn,
                    erasure,
                    checked_version: version,
                    cache: RefCell::default(),
                    store_state: store_state.clone(),
                    keyring: options.keyring.clone(),
                    entropy: options.entropy.clone(),
                    presence: presence.clone(),
                    clock: options.clock.clone(),
                    busy_timeout: options.busy_timeout,
                };
                WriteQueue::start(options.entropy.clone(), |requests| writer.run(requests))?
            }
            None => WriteQueue::refusing(),
        };
        start_change_checks(&store_state)?;
        Ok(Self {
            shared: Arc::new(Shared {
                store_state,
                keyring: options.keyring,
                check: options.check,
                path: options.path,
                busy_timeout: options.busy_timeout,
                connect,
                readers: Mutex::new(readers),
            }),
            slots,
            reserved_slot: FairSlots::new(SlotBounds::without_shares(1)),
            writes,
            store_id,
            presence,
        })
    }

    /// Runs a query once the caller gets one of `slots`.
    async fn run_query(
        &self,
        slots: &FairSlots,
        subject: QuerySubject<'_>,
        query: SnapshotQuery,
    ) -> Result<()> {
        let slot = slots.acquire(&subject.caller(), WorkSize::Small).await;
        let slot = slot.ok_or_else(closed_failure)?;
        let shared = self.shared.clone();
        let work = tokio::task::spawn_blocking(move || {
            let result = shared.run_in_snapshot(query);
            drop(slot);
            result
        });
        work.await
            .map_err(|e| Failure::new(ErrorCode::Internal, format!("a read failed: {e}")))?
    }
}

/// The writer's connection, its pending erasure, and the file's `data_version`.
type WriterParts = (Connection, Erasure, i64);

/// Creates or migrates the store if necessary; returns its id and the data that its writer needs.
fn open_for_writing(options: &Options) -> Result<(String, WriterParts)> {
    let mut conn = open::writer(&options.path, options.busy_timeout)?;
    let store_id = || filrouge_store::random_id(options.entropy.as_ref());
    migrate::migrate(&mut conn, store_id)?;
    open::sync_directory(&options.path)?;
    refuse_unfinished(&conn, &options.path)?;
    let store_id = migrate::store_id(&conn)?;
    let erasure = Erasure::resume(&conn, options.busy_timeout)?;
    let version = data_version(&conn)?;
    Ok((store_id, (conn, erasure, version)))
}

/// Reads the store's id without changing the store.
fn read_store_id(options: &Options) -> Result<String> {
    let conn = open::passive_reader(&options.path, options.busy_timeout)?;
    migrate::refuse_older(&conn)?;
    refuse_unfinished(&conn, &options.path)?;
    migrate::store_id(&conn)
}

/// Starts a thread that checks for commits of other processes as long as the ledger exists. It checks only while
/// `commits` has a receiver, that is, while a task waits for commits.
fn start_change_checks(store_state: &Arc<StoreState>) -> Result<()> {
    let store_state = Arc::downgrade(store_state);
    let work = move || {
        loop {
            std::thread::sleep(CHECK_EVERY);
            let Some(store_state) = store_state.upgrade() else {
                return;
            };
            if store_state.log.commits().receiver_count() == 0 {
                continue;
            }
            if let Err(error) = store_state.check_foreign_changes() {
                tracing::debug!(%error, "checking for other processes' commits failed");
            }
        }
    };
    let thread = std::thread::Builder::new().name("filrouge-follow".to_owned());
    thread.spawn(work).map(drop).map_err(|e| {
        ErrorCode::StoreUnavailable.failure(format!("no thread to follow other processes: {e}"))
    })
}

impl Shared {
    /// Runs a query in one snapshot.
    fn run_in_snapshot(&self, query: SnapshotQuery) -> Result<()> {
        // The pool can be empty: a connection whose query panicked was not returned to it.
        let reader = match lock(&self.readers).pop() {
            Some(reader) => reader,
            None => (self.connect)(&self.path, self.busy_timeout)?,
        };
        let result = in_snapshot(&reader, |rows| {
            self.store_state.check_foreign_changes()?;
            let suspects = self.store_state.log.suspects();
            query(&VerifiedSnapshot {
                view: rows,
                keyring: &self.keyring,
                check: self.check,
                suspects: &suspects,
                heads: self.store_state.log.head_check(),
            });
            self.store_state.add_found_suspects();
            Ok(())
        });
        if reader.is_autocommit() {
            lock(&self.readers).push(reader);
        }
        result
    }
}

#[async_trait]
impl Ledger for SqliteLedger {
    async fn write(&self, command: Command) -> Result<CommittedWrite> {
        Ok(CommittedWrite {
            outcome: self.writes.write(command).await?,
            durability: Durability::Flushed,
        })
    }

    async fn inspect(&self, subject: QuerySubject<'_>, query: SnapshotQuery) -> Result<()> {
        let slots = match subject {
            QuerySubject::ServerData => &self.reserved_slot,
            QuerySubject::Store | QuerySubject::Listed(_) | QuerySubject::Session(..) => {
                &self.slots
            }
        };
        self.run_query(slots, subject, query).await
    }

    fn backend(&self) -> Backend {
        Backend {
            kind: "sqlite",
            version: Some(format!("SQLite {}", rusqlite::version())),
            durability: Durability::Flushed,
            remains: None,
        }
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.shared.store_state.log.commits().subscribe()
    }

    fn lanes(&self) -> Lanes {
        Lanes::ONE
    }

    fn position(&self) -> Position {
        self.shared.store_state.log.position()
    }

    fn writer(&self) -> String {
        self.presence.name()
    }

    async fn has_exited(&self, writer: &str) -> bool {
        self.presence.has_exited(writer)
    }

    fn anchor_position(&self) -> Position {
        self.shared.store_state.log.anchor_position()
    }

    fn store_id(&self) -> &str {
        &self.store_id
    }

    fn keyring(&self) -> &Keyring {
        &self.shared.keyring
    }

    fn health(&self) -> Health {
        let suspects = self.shared.store_state.log.suspects();
        Health {
            read_only: self.shared.store_state.write_refusal_reason(),
            integrity: (!suspects.is_empty()).then(|| suspects.to_string()),
        }
    }

    fn load(&self) -> StoreLoad {
        StoreLoad {
            statements: statements(),
            queued_writes: self.writes.queued(),
        }
    }

    fn distrust(&self, reason: String) {
        let suspects = Suspects::entire_store(reason);
        self.shared.store_state.log.add_suspects(suspects);
    }

    async fn close(&self) {
        self.slots.close();
        self.reserved_slot.close();
        self.writes.close().await;
        lock(&self.shared.readers).clear();
        self.presence.release();
    }
}
