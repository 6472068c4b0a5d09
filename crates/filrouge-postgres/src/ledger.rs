//! The ledger in one PostgreSQL database.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use filrouge_store::ledger::SnapshotQuery;
use filrouge_store::random_id;
use filrouge_store::verify::Suspects;
use filrouge_store::{
    Backend, Command, CommittedWrite, Durability, Health, Keyring, Ledger, Position, QuerySubject,
    StoreLoad,
};
use filrouge_types::{Clock, ErrorCode, Failure};
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::DatabaseClock;
use crate::connect::Connector;
use crate::error::{failure, unavailable};
use crate::follow::Follow;
use crate::guard::Guard;
use crate::migrate;
use crate::options::Options;
use crate::readers::Readers;
use crate::rows::{ReadAhead, Rows, SessionLookup};
use crate::session::Driver;
use crate::target::Target;
use crate::transact::first_answer;
use crate::writer::{Request, Writer, statements};

/// The maximum number of writes in the queue of the writer thread; further callers wait for room in the queue.
const QUEUE_MAX: usize = 1024;

/// The number of connections reserved for reads of the filrouge server's own data, such as API keys.
const RESERVED: u32 = 1;

/// A durable ledger in one PostgreSQL database; several servers may have it open at once.
pub struct PostgresLedger {
    guard: Arc<Guard>,
    keyring: Arc<Keyring>,
    connector: Arc<Connector>,
    /// For reads of users' data.
    readers: Arc<Readers>,
    /// For reads of the server's own data.
    reserved: Arc<Readers>,
    /// The queue of the writer thread; `None` once the ledger is closed.
    requests: Mutex<Option<mpsc::Sender<Request>>>,
    /// The writer thread; `None` once the ledger is closed.
    writer: Mutex<Option<JoinHandle<()>>>,
    store_id: String,
    /// The random name of this process as a writer.
    name: String,
    clock: Arc<dyn Clock>,
    durability: Durability,
    version: String,
}

/// Facts about the store, determined while it was opened.
struct StoreFacts {
    store_id: String,
    durability: Durability,
    version: String,
}

impl PostgresLedger {
    /// Opens the store, creates or migrates its schema as needed, and compares its heads with its commit log.
    ///
    /// Blocks until all of this is done.
    ///
    /// # Errors
    /// `invalid` for another program's schema, a newer one or a server that is too old; `key_missing` when the store is
    /// written with another keyring; `store_unavailable`; `integrity_error`.
    pub fn open(options: Options) -> Result<Self, Failure> {
        let connector = Arc::new(Connector::new(options.server.clone(), options.lock_timeout));
        let guard = Arc::new(Guard::new(options.keyring.clone(), options.check));
        let database = options.clock.is_none().then(Arc::<DatabaseClock>::default);
        let clock: Arc<dyn Clock> = match (&options.clock, &database) {
            (Some(clock), _) => clock.clone(),
            (None, Some(database)) => database.clone(),
            (None, None) => Arc::new(DatabaseClock::default()),
        };
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let (opened, wait) = std::sync::mpsc::channel();
        let work = {
            let (connector, guard, clock) = (connector.clone(), guard.clone(), clock.clone());
            let (options, database) = (options.clone(), database.clone());
            move || {
                let result = open_writer(&options, connector, guard, clock, database.as_ref());
                match result {
                    Ok((writer, facts)) => {
                        // Cannot fail: the thread that opens the ledger waits for this message.
                        let _ = opened.send(Ok(facts));
                        writer.run(receiver);
                    }
                    Err(failure) => drop(opened.send(Err(failure))),
                }
            }
        };
        let thread = spawn("filrouge-writer", work)?;
        let facts = wait
            .recv()
            .map_err(|_| Failure::new(ErrorCode::Internal, "opening the store panicked"))??;
        follow(&options, &guard, database)?;
        let reading = Arc::new(connector.reading());
        let readers = |max_queries| {
            let (guard, keyring) = (guard.clone(), options.keyring.clone());
            let connector = reading.clone();
            let (check, timeout) = (options.check, first_answer(options.answer_timeout));
            Readers::new(connector, max_queries, guard, keyring, check, timeout).map(Arc::new)
        };
        Ok(Self {
            readers: readers(options.readers)?,
            reserved: readers(RESERVED)?,
            guard,
            keyring: options.keyring,
            connector,
            requests: Mutex::new(Some(sender)),
            writer: Mutex::new(Some(thread)),
            store_id: facts.store_id,
            name: random_id(options.entropy.as_ref())?,
            clock,
            durability: facts.durability,
            version: format!("PostgreSQL {}", facts.version),
        })
    }

    /// The store's clock: that of the database server, unless the options contain another one.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn sender(&self) -> Option<mpsc::Sender<Request>> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Closes the queue of writes, and returns the writer thread, which ends when the queue is empty. Returns `None` if
    /// the ledger is already closed.
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

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Failure> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|e| unavailable(format!("cannot start the thread {name}: {e}")))
}

/// Connects, migrates the schema, compares the store's heads with its commit log, and builds the writer. Runs on the
/// writer's thread. `database` is `None` if the options contain a clock.
fn open_writer(
    options: &Options,
    connector: Arc<Connector>,
    guard: Arc<Guard>,
    clock: Arc<dyn Clock>,
    database: Option<&Arc<DatabaseClock>>,
) -> Result<(Writer, StoreFacts), Failure> {
    let driver = Driver::on_current_thread()?;
    let mut connection = driver.wait(connector.connect(&[]))?;
    let client = connection.session.client();
    let store_id = driver.wait(migrate::migrate(client, options))?;
    driver.wait(migrate::refuse_unfinished(client))?;
    let (durability, version) = driver.wait(server(client))?;
    let rows = Rows {
        session: &connection.session,
        driver: &driver,
        read_ahead: ReadAhead::default(),
    };
    if let Some(database) = database {
        crate::follow::compare_clocks(&rows, database)?;
    }
    let run = |sql: &str| {
        let ran = driver.wait(connection.session.run(sql));
        ran.map_err(|e| failure(&e))
    };
    run(&format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY{}",
        connection.local
    ))?;
    guard.begin(&rows)?;
    run("ROLLBACK")?;
    if !connection.pooled {
        let prepared = driver.wait(connection.session.prepare(&statements()));
        prepared.map_err(|e| failure(&e))?;
    }
    connection
        .session
        .set_answer_timeout(options.answer_timeout);
    let writer = Writer {
        driver,
        connector,
        connection: Some(connection),
        guard,
        keyring: options.keyring.clone(),
        entropy: options.entropy.clone(),
        clock,
        uses_database_time: database.is_some(),
        lock: writer_lock_key(&store_id),
        answer_timeout: options.answer_timeout,
        settle_timeout: options.settle_timeout,
    };
    Ok((
        writer,
        StoreFacts {
            store_id,
            durability,
            version,
        },
    ))
}

/// Reads the durability of a commit under the database server's settings, and the server's version.
async fn server(client: &tokio_postgres::Client) -> Result<(Durability, String), Failure> {
    let sql = "SELECT current_setting('fsync')::bool, current_setting('server_version')";
    let row = client.query_typed_one(sql, &[]).await;
    let row = row.map_err(|e| failure(&e))?;
    let durability = match row.get(0) {
        true => Durability::Flushed,
        false => Durability::Buffered,
    };
    Ok((durability, row.get(1)))
}

/// The key of the advisory lock of a store's writers. The transaction that holds this lock is the store's only writer.
pub(crate) fn writer_lock_key(store_id: &str) -> i64 {
    let hash = filrouge_store::chain::fingerprint(&[b"writers", store_id.as_bytes()]);
    let mut half = [0; 8];
    half.copy_from_slice(&hash[..8]);
    i64::from_be_bytes(half)
}

/// Starts the thread that watches for commits of other servers until the ledger is dropped.
fn follow(
    options: &Options,
    guard: &Arc<Guard>,
    clock: Option<Arc<DatabaseClock>>,
) -> Result<(), Failure> {
    let to = |target: &Target| Arc::new(Connector::new(target.clone(), options.lock_timeout));
    let server = to(&options.server);
    let (connector, fallback) = match &options.direct {
        Some(direct) => (to(direct), Some(server)),
        None => (server, None),
    };
    let follow = Follow {
        driver: Driver::on_current_thread()?,
        connector,
        fallback,
        guard: Arc::downgrade(guard),
        erasure: guard.erasure().clone(),
        clock,
        answer_timeout: options.answer_timeout,
    };
    spawn("filrouge-follow", move || follow.run()).map(drop)
}

fn closed() -> Failure {
    unavailable("the store is closed").with_hint("the server is stopping; try again soon")
}

#[async_trait]
impl Ledger for PostgresLedger {
    async fn write(&self, command: Command) -> Result<CommittedWrite, Failure> {
        let (reply, answer) = oneshot::channel();
        let sender = self.sender().ok_or_else(closed)?;
        sender
            .send(Request { command, reply })
            .await
            .map_err(|_| closed())?;
        drop(sender);
        let outcome = answer.await.map_err(|_| {
            unavailable("the writer stopped before it answered")
                .with_hint("retry with the same key: a committed write is not repeated")
        })??;
        Ok(CommittedWrite {
            outcome,
            durability: self.durability,
        })
    }

    async fn inspect(&self, about: QuerySubject<'_>, query: SnapshotQuery) -> Result<(), Failure> {
        match about {
            QuerySubject::Store => self.readers.inspect(None, query).await,
            QuerySubject::ServerData => self.reserved.inspect(None, query).await,
            QuerySubject::Session(scope, session) => {
                let about = SessionLookup::by(&scope.tenant, session, Some(scope));
                self.readers.inspect(Some(about), query).await
            }
        }
    }

    fn backend(&self) -> Backend {
        Backend {
            kind: "pg",
            version: Some(self.version.clone()),
            durability: self.durability,
        }
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.guard.commits().subscribe()
    }

    fn position(&self) -> Position {
        self.guard.position()
    }

    fn anchor_position(&self) -> Position {
        self.guard.anchor_position()
    }

    fn writer(&self) -> String {
        self.name.clone()
    }

    /// Always false: this process cannot know whether a process on another machine has exited.
    fn has_exited(&self, _: &str) -> bool {
        false
    }

    fn store_id(&self) -> &str {
        &self.store_id
    }

    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn health(&self) -> Health {
        let suspects = self.guard.suspects();
        let outdated = self.guard.outdated().map(|failure| failure.detail);
        Health {
            read_only: outdated.or_else(|| self.guard.refused()),
            integrity: (!suspects.is_empty()).then(|| suspects.to_string()),
        }
    }

    fn load(&self) -> StoreLoad {
        let queued = self.sender().map_or(0, |s| QUEUE_MAX - s.capacity());
        StoreLoad {
            statements: self.connector.statements_sent(),
            queued_writes: queued as u64,
        }
    }

    fn distrust(&self, what: String) {
        self.guard.suspect(Suspects::everything(what));
    }

    async fn close(&self) {
        self.readers.close().await;
        self.reserved.close().await;
        if let Some(thread) = self.stop() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the writer thread ended by a panic");
            }
        }
        self.guard.erasure().finish().await;
    }
}

impl Drop for PostgresLedger {
    fn drop(&mut self) {
        if let Some(thread) = self.stop()
            && thread.join().is_err()
        {
            tracing::error!("the writer thread ended by a panic");
        }
    }
}
