//! The ledger over one PostgreSQL database.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use filrouge_store::ledger::Inspect;
use filrouge_store::random_id;
use filrouge_store::verify::Suspects;
use filrouge_store::{
    About, Backend, Command, Durability, Health, Keyring, Ledger, Load, Position, Stored,
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
use crate::rows::{Asked, Rows, Seen};
use crate::session::Driver;
use crate::target::Target;
use crate::transact::first_answer;
use crate::writer::{Request, Writer, statements};

/// Most writes waiting for the writer; more wait in their callers.
const QUEUE_MAX: usize = 1024;

/// Connections for the server's own questions.
const APART: u32 = 1;

/// A durable ledger in one PostgreSQL database; several servers may have it open at once.
pub struct PostgresLedger {
    guard: Arc<Guard>,
    keyring: Arc<Keyring>,
    connector: Arc<Connector>,
    readers: Arc<Readers>,
    apart: Arc<Readers>,
    requests: Mutex<Option<mpsc::Sender<Request>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    store_id: String,
    name: String,
    clock: Arc<dyn Clock>,
    durability: Durability,
    version: String,
}

/// What opening found out.
struct Found {
    store_id: String,
    durability: Durability,
    version: String,
}

impl PostgresLedger {
    /// Opens the store, making or migrating its schema as needed, and compares its heads with its commit log.
    ///
    /// It blocks until that is done.
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
                let made = open_writer(&options, connector, guard, clock, database.as_ref());
                match made {
                    Ok((writer, found)) => {
                        // Whoever opens waits for it.
                        let _ = opened.send(Ok(found));
                        writer.run(receiver);
                    }
                    Err(failure) => drop(opened.send(Err(failure))),
                }
            }
        };
        let thread = spawn("filrouge-writer", work)?;
        let found = wait.recv().map_err(|_| {
            Failure::new(
                ErrorCode::Internal,
                "opening the store failed within the program",
            )
        })??;
        follow(&options, &guard, database)?;
        let reading = Arc::new(connector.reading());
        let readers = |most| {
            let (guard, keyring) = (guard.clone(), options.keyring.clone());
            let connector = reading.clone();
            let (check, patience) = (options.check, first_answer(options.answer_timeout));
            Readers::new(connector, most, guard, keyring, check, patience).map(Arc::new)
        };
        Ok(Self {
            readers: readers(options.readers)?,
            apart: readers(APART)?,
            guard,
            keyring: options.keyring,
            connector,
            requests: Mutex::new(Some(sender)),
            writer: Mutex::new(Some(thread)),
            store_id: found.store_id,
            name: random_id(options.entropy.as_ref())?,
            clock,
            durability: found.durability,
            version: format!("PostgreSQL {}", found.version),
        })
    }

    /// The store's clock: the database server's, unless another one was given.
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
        .map_err(|e| unavailable(format!("no thread {name}: {e}")))
}

/// Connects, migrates, looks at the store, and makes its writer.
fn open_writer(
    options: &Options,
    connector: Arc<Connector>,
    guard: Arc<Guard>,
    clock: Arc<dyn Clock>,
    database: Option<&Arc<DatabaseClock>>,
) -> Result<(Writer, Found), Failure> {
    let driver = Driver::own()?;
    let mut linked = driver.wait(connector.connect(&[]))?;
    let client = linked.session.client();
    let store_id = driver.wait(migrate::migrate(client, options))?;
    driver.wait(migrate::refuse_unfinished(client))?;
    let (durability, version) = driver.wait(server(client))?;
    let rows = Rows {
        session: &linked.session,
        driver: &driver,
        seen: Seen::default(),
    };
    if let Some(database) = database {
        crate::follow::compare_clocks(&rows, database)?;
    }
    let run = |sql: &str| {
        let ran = driver.wait(linked.session.run(sql));
        ran.map_err(|e| failure(&e))
    };
    run(&format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY{}",
        linked.local
    ))?;
    guard.begin(&rows)?;
    run("ROLLBACK")?;
    if !linked.pooled {
        let prepared = driver.wait(linked.session.prepare(&statements()));
        prepared.map_err(|e| failure(&e))?;
    }
    linked.session.bound(options.answer_timeout);
    let writer = Writer {
        driver,
        connector,
        linked: Some(linked),
        guard,
        keyring: options.keyring.clone(),
        entropy: options.entropy.clone(),
        clock,
        told_the_time: database.is_some(),
        lock: lock_of(&store_id),
        answer_timeout: options.answer_timeout,
        settle_timeout: options.settle_timeout,
    };
    Ok((
        writer,
        Found {
            store_id,
            durability,
            version,
        },
    ))
}

/// What the server's settings make of a commit, and its version.
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

/// The advisory lock of a store's writers.
pub(crate) fn lock_of(store_id: &str) -> i64 {
    let hash = filrouge_store::chain::fingerprint(&[b"writers", store_id.as_bytes()]);
    let mut half = [0; 8];
    half.copy_from_slice(&hash[..8]);
    i64::from_be_bytes(half)
}

/// Looks for commits of other servers as long as the ledger is there.
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
        driver: Driver::own()?,
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
    async fn write(&self, command: Command) -> Result<Stored, Failure> {
        let (reply, answer) = oneshot::channel();
        let sender = self.sender().ok_or_else(closed)?;
        sender
            .send(Request { command, reply })
            .await
            .map_err(|_| closed())?;
        drop(sender);
        let outcome = answer.await.map_err(|_| {
            unavailable("the writer stopped before it answered")
                .with_hint("retry with the same key: what was written is found again")
        })??;
        Ok(Stored {
            outcome,
            durability: self.durability,
        })
    }

    async fn inspect(&self, about: About<'_>, question: Inspect) -> Result<(), Failure> {
        match about {
            About::Store => self.readers.inspect(None, question).await,
            About::Apart => self.apart.inspect(None, question).await,
            About::Session(scope, session) => {
                let about = Asked::by(&scope.tenant, session, Some(scope));
                self.readers.inspect(Some(about), question).await
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

    fn witnessed(&self) -> Position {
        self.guard.witnessed()
    }

    fn writer(&self) -> String {
        self.name.clone()
    }

    /// What other machines run is not known here.
    fn is_gone(&self, _: &str) -> bool {
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

    fn load(&self) -> Load {
        let queued = self.sender().map_or(0, |s| QUEUE_MAX - s.capacity());
        Load {
            statements: self.connector.asked(),
            queued_writes: queued as u64,
        }
    }

    fn distrust(&self, what: String) {
        self.guard.suspect(Suspects::everything(what));
    }

    async fn close(&self) {
        self.readers.close().await;
        self.apart.close().await;
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
