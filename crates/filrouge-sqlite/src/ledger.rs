//! The ledger over one SQLite file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::ledger::Inspect;
use filrouge_store::read::Sight;
use filrouge_store::record::Check;
use filrouge_store::verify::Suspects;
use filrouge_store::{
    About, Backend, Command, Durability, Health, Keyring, Ledger, Load, Position, Stored,
};
use filrouge_types::{ErrorCode, Failure};
use rusqlite::Connection;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::erasure::Erasure;
use crate::guard::{Guard, data_version, in_snapshot};
use crate::intake::refuse_unfinished;
use crate::migrate;
use crate::open::{self, Options};
use crate::presence::Presence;
use crate::rows::statements;
use crate::writer::{Request, Writer};

/// How often commits of other processes are looked for while somebody waits for them.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Most writes waiting for the writer; more wait in their callers.
const QUEUE_MAX: usize = 1024;

struct Shared {
    guard: Arc<Guard>,
    keyring: Arc<Keyring>,
    check: Check,
    path: PathBuf,
    busy_timeout: Duration,
    connect: fn(&Path, Duration) -> Result<Connection, Failure>,
    readers: Mutex<Vec<Connection>>,
}

/// A durable ledger in one SQLite file; may be open in several processes at once.
pub struct SqliteLedger {
    shared: Arc<Shared>,
    slots: Arc<Semaphore>,
    /// For the server's own questions.
    slot_apart: Arc<Semaphore>,
    requests: Mutex<Option<mpsc::Sender<Request>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    store_id: String,
    presence: Presence,
}

impl SqliteLedger {
    /// Opens the store, making or migrating it as needed, and compares its heads with its commit log.
    ///
    /// # Errors
    /// `invalid` for another program's file or a newer schema, `store_unavailable`, `integrity_error`.
    pub fn open(options: Options) -> Result<Self, Failure> {
        open::check_version()?;
        let (store_id, writing) = match options.only_read {
            false => migrated(&options).map(|(id, writing)| (id, Some(writing)))?,
            true => (looked_up(&options)?, None),
        };
        let presence = Presence::new(&options.path, options.entropy.clone());
        let connect = match options.only_read {
            false => open::reader,
            true => open::onlooker,
        };
        let reader = || connect(&options.path, options.busy_timeout);
        let guard = Arc::new(Guard::new(
            reader()?,
            options.keyring.clone(),
            options.clock.clone(),
            options.check,
        )?);
        let readers = (0..options.readers.max(1))
            .map(|_| reader())
            .collect::<Result<Vec<_>, Failure>>()?;
        let slots = Arc::new(Semaphore::new(readers.len()));
        let (sender, thread) = match writing {
            Some(writing) => start_writer(writing, &guard, &options)?,
            None => (None, None),
        };
        follow(&guard)?;
        Ok(Self {
            shared: Arc::new(Shared {
                guard,
                keyring: options.keyring,
                check: options.check,
                path: options.path,
                busy_timeout: options.busy_timeout,
                connect,
                readers: Mutex::new(readers),
            }),
            slots,
            slot_apart: Arc::new(Semaphore::new(1)),
            requests: Mutex::new(sender),
            writer: Mutex::new(thread),
            store_id,
            presence,
        })
    }

    /// Puts a question once one of `slots` is free.
    async fn put(&self, slots: Arc<Semaphore>, question: Inspect) -> Result<(), Failure> {
        let slot = slots.acquire_owned().await.map_err(|_| closed())?;
        let shared = self.shared.clone();
        let work = tokio::task::spawn_blocking(move || {
            let result = shared.inspect(question);
            drop(slot);
            result
        });
        work.await
            .map_err(|e| Failure::new(ErrorCode::Internal, format!("a read failed: {e}")))?
    }

    fn sender(&self) -> Option<mpsc::Sender<Request>> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn stop(&self) -> Option<JoinHandle<()>> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        self.writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

/// What the writer works with: its connection, what is left to erase, and the file's version by now.
type Writing = (Connection, Erasure, i64);

/// The store's name and what its writer works with, with the store made or migrated as needed.
fn migrated(options: &Options) -> Result<(String, Writing), Failure> {
    let mut conn = open::writer(&options.path, options.busy_timeout)?;
    let store_id = || filrouge_store::random_id(options.entropy.as_ref());
    migrate::migrate(&mut conn, &options.keyring, store_id)?;
    open::sync_directory(&options.path)?;
    refuse_unfinished(&conn, &options.path)?;
    let store_id = migrate::store_id(&conn)?;
    let erasure = Erasure::resume(&conn, options.busy_timeout)?;
    let seen = data_version(&conn)?;
    Ok((store_id, (conn, erasure, seen)))
}

/// The name of a store that is left as it is.
fn looked_up(options: &Options) -> Result<String, Failure> {
    let conn = open::onlooker(&options.path, options.busy_timeout)?;
    migrate::refuse_older(&conn)?;
    refuse_unfinished(&conn, &options.path)?;
    migrate::store_id(&conn)
}

type Requests = Option<mpsc::Sender<Request>>;

fn start_writer(
    (conn, erasure, seen): Writing,
    guard: &Arc<Guard>,
    options: &Options,
) -> Result<(Requests, Option<JoinHandle<()>>), Failure> {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    let writer = Writer {
        conn,
        erasure,
        seen,
        guard: guard.clone(),
        keyring: options.keyring.clone(),
        entropy: options.entropy.clone(),
        clock: options.clock.clone(),
    };
    let thread = std::thread::Builder::new()
        .name("filrouge-writer".to_owned())
        .spawn(move || writer.run(receiver))
        .map_err(|e| {
            let what = format!("no thread for the writer: {e}");
            Failure::new(ErrorCode::StoreUnavailable, what)
        })?;
    Ok((Some(sender), Some(thread)))
}

/// Looks for commits of other processes as long as the ledger is there; without a receiver nothing is looked for.
fn follow(guard: &Arc<Guard>) -> Result<(), Failure> {
    let guard = Arc::downgrade(guard);
    let work = move || {
        loop {
            std::thread::sleep(LOOK_EVERY);
            let Some(guard) = guard.upgrade() else { return };
            if guard.commits().receiver_count() == 0 {
                continue;
            }
            if let Err(error) = guard.look() {
                tracing::debug!(%error, "other processes' commits cannot be looked for");
            }
        }
    };
    let thread = std::thread::Builder::new().name("filrouge-follow".to_owned());
    thread.spawn(work).map(drop).map_err(|e| {
        let what = format!("no thread to follow other processes: {e}");
        Failure::new(ErrorCode::StoreUnavailable, what)
    })
}

fn closed() -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, "the store is closed")
        .with_hint("the server is stopping; try again soon")
}

impl Shared {
    /// Puts a question to one snapshot.
    fn inspect(&self, question: Inspect) -> Result<(), Failure> {
        // A reader whose question panicked was not given back.
        let reader = match self.pool().pop() {
            Some(reader) => reader,
            None => (self.connect)(&self.path, self.busy_timeout)?,
        };
        let result = in_snapshot(&reader, |rows| {
            self.guard.look()?;
            let suspects = self.guard.suspects();
            question(&Sight {
                view: rows,
                keyring: &self.keyring,
                check: self.check,
                suspects: &suspects,
            });
            Ok(())
        });
        if reader.is_autocommit() {
            self.pool().push(reader);
        }
        result
    }

    fn pool(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Ledger for SqliteLedger {
    async fn write(&self, command: Command) -> Result<Stored, Failure> {
        let (reply, answer) = oneshot::channel();
        let sender = self.sender().ok_or_else(closed)?;
        sender
            .send(Request { command, reply })
            .await
            .map_err(|_| closed())?;
        drop(sender);
        let outcome = answer.await.map_err(|_| {
            Failure::new(
                ErrorCode::StoreUnavailable,
                "the writer stopped before it answered",
            )
            .with_hint("retry with the same key: what was written is found again")
        })??;
        Ok(Stored {
            outcome,
            durability: Durability::Flushed,
        })
    }

    async fn inspect(&self, about: About<'_>, question: Inspect) -> Result<(), Failure> {
        let slots = match about {
            About::Apart => &self.slot_apart,
            About::Store | About::Session(..) => &self.slots,
        };
        self.put(slots.clone(), question).await
    }

    fn backend(&self) -> Backend {
        Backend {
            kind: "sqlite",
            version: Some(format!("SQLite {}", rusqlite::version())),
            durability: Durability::Flushed,
        }
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.shared.guard.commits().subscribe()
    }

    fn position(&self) -> Position {
        self.shared.guard.position()
    }

    fn writer(&self) -> String {
        self.presence.name()
    }

    fn is_gone(&self, writer: &str) -> bool {
        self.presence.is_gone(writer)
    }

    fn witnessed(&self) -> Position {
        self.shared.guard.witnessed()
    }

    fn store_id(&self) -> &str {
        &self.store_id
    }

    fn keyring(&self) -> &Keyring {
        &self.shared.keyring
    }

    fn health(&self) -> Health {
        let suspects = self.shared.guard.suspects();
        Health {
            read_only: self.shared.guard.takes_no_writes(),
            integrity: (!suspects.is_empty()).then(|| suspects.to_string()),
        }
    }

    fn load(&self) -> Load {
        let queued = self.sender().map_or(0, |s| QUEUE_MAX - s.capacity());
        Load {
            statements: statements(),
            queued_writes: queued as u64,
        }
    }

    fn distrust(&self, what: String) {
        self.shared.guard.suspect(Suspects::everything(what));
    }

    async fn close(&self) {
        self.slots.close();
        self.slot_apart.close();
        if let Some(thread) = self.stop() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the writer thread ended by a panic");
            }
        }
        self.shared.pool().clear();
        self.presence.leave();
    }
}

impl Drop for SqliteLedger {
    fn drop(&mut self) {
        if let Some(thread) = self.stop()
            && thread.join().is_err()
        {
            tracing::error!("the writer thread ended by a panic");
        }
    }
}
