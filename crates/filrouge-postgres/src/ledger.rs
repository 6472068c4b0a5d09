//! The ledger in one PostgreSQL database.

mod open;

use std::sync::Arc;

use async_trait::async_trait;
use filrouge_store::ledger::SnapshotQuery;
use filrouge_store::verify::Suspects;
use filrouge_store::write_queue::WriteQueue;
use filrouge_store::{
    Backend, Command, CommittedWrite, Durability, Health, Keyring, Lane, Lanes, Ledger, Position,
    QuerySubject, StoreLoad,
};
use filrouge_types::{Clock, ErrorCode, Failure, Result};
use tokio::sync::watch;

use crate::clock::DatabaseClock;
use crate::connect::Connector;
use crate::lanes::{WRITERS, writer_of};
use crate::options::Options;
use crate::presence::Presence;
use crate::readers::Readers;
use crate::rows::SessionLookup;
use crate::session::Driver;
use crate::store_state::StoreState;
use crate::transact::first_answer_timeout;
use open::{OpenedStore, new_writer, open_store, start_watch};

/// The number of connections reserved for reads of the filrouge server's own data, such as API keys.
const RESERVED_CONNECTIONS: u32 = 1;
/// Where bytes of erased contents remain after a redaction or an erasure.
const REMAINS: &str = "in free space and the write-ahead log of PostgreSQL, until they are reused: docs/format.md#postgresql";

/// A durable ledger in one PostgreSQL database; several servers may have it open at once.
pub struct PostgresLedger {
    store_state: Arc<StoreState>,
    keyring: Arc<Keyring>,
    connector: Arc<Connector>,
    /// For reads of users' data.
    readers: Arc<Readers>,
    /// For reads of the server's own data.
    reserved: Arc<Readers>,
    /// The queues of the writers, by the numbers of [`writer_of`].
    writes: Vec<WriteQueue>,
    store_id: String,
    presence: Arc<Presence>,
    clock: Arc<dyn Clock>,
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
    pub fn open(options: Options) -> Result<Self> {
        let presence = Arc::new(Presence::new(options.entropy.as_ref())?);
        let connector = Connector::new(options.server.clone(), options.lock_timeout);
        let connector = Arc::new(connector.with_presence(presence.clone()));
        let database_clock = options.clock.is_none().then(Arc::<DatabaseClock>::default);
        let clock: Arc<dyn Clock> = match (&options.clock, &database_clock) {
            (Some(clock), _) => clock.clone(),
            (None, Some(database_clock)) => database_clock.clone(),
            (None, None) => Arc::new(DatabaseClock::default()),
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        let work = {
            let (connector, clock) = (connector.clone(), clock.clone());
            let (options, database_clock) = (options.clone(), database_clock.clone());
            move |requests| match open_store(&options, &connector, database_clock.as_deref()) {
                Ok((driver, connection, store)) => {
                    let mut writer = new_writer(&options, connector, clock, &store, driver, 0);
                    writer.connection = Some(connection);
                    // Sending cannot fail: the thread that opens the ledger waits for this message.
                    let _ = sender.send(Ok(store));
                    writer.run(requests);
                }
                Err(failure) => drop(sender.send(Err(failure))),
            }
        };
        let mut writes = vec![WriteQueue::start(options.entropy.clone(), work)?];
        let store: OpenedStore = receiver
            .recv()
            .map_err(|_| Failure::new(ErrorCode::Internal, "opening the store panicked"))??;
        let distributed = connector.is_distributed();
        while writes.len() < WRITERS.min(store.store_state.log.lanes().count().into()) {
            // This writer connects when it gets its first write.
            let driver = Driver::on_current_thread()?;
            let (connector, clock) = (connector.clone(), clock.clone());
            let writer = new_writer(&options, connector, clock, &store, driver, writes.len());
            let entropy = options.entropy.clone();
            writes.push(WriteQueue::start(entropy, move |requests| {
                writer.run(requests);
            })?);
        }
        let watched = (&store.store_state, &presence);
        start_watch(&options, watched, database_clock, distributed)?;
        let read_connector = Arc::new(connector.for_reading());
        let readers = |max_queries| {
            let (store_state, keyring) = (store.store_state.clone(), store.keyring.clone());
            let connector = read_connector.clone();
            let (check, timeout) = (options.check, first_answer_timeout(options.answer_timeout));
            Readers::new(connector, max_queries, store_state, keyring, check, timeout).map(Arc::new)
        };
        Ok(Self {
            readers: readers(options.readers)?,
            reserved: readers(RESERVED_CONNECTIONS)?,
            store_state: store.store_state,
            keyring: store.keyring,
            connector,
            writes,
            store_id: store.store_id,
            presence,
            clock,
            durability: store.durability,
            version: format!("PostgreSQL {}", store.version),
        })
    }

    /// The number of the writer for a write to `lane`. While other servers write too, the first writer takes the writes of
    /// all lanes: the larger a group, the more lanes each transaction shares its round trips and its flush among, and
    /// the fewer transactions compete for lanes. The nodes of a distributed store do not share flushes.
    fn writer_for(&self, lane: Lane) -> usize {
        if self.store_state.is_contended() && !self.connector.is_distributed() {
            return 0;
        }
        writer_of(lane, self.lanes())
    }

    /// The store's clock: that of the database server, unless the options contain another one.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}

#[async_trait]
impl Ledger for PostgresLedger {
    async fn write(&self, command: Command) -> Result<CommittedWrite> {
        let lanes = self.lanes();
        let queue = &self.writes[self.writer_for(command.lane(lanes))];
        Ok(CommittedWrite {
            outcome: queue.write(command).await?,
            durability: self.durability,
        })
    }

    async fn inspect(&self, subject: QuerySubject<'_>, query: SnapshotQuery) -> Result<()> {
        let lanes = self.lanes();
        match subject {
            QuerySubject::Store | QuerySubject::Listed(_) => {
                let all = lanes.iter().collect();
                self.readers.inspect(subject, all, None, query).await
            }
            // The server's own data are notes.
            QuerySubject::ServerData => {
                let first = vec![Lane::FIRST];
                self.reserved.inspect(subject, first, None, query).await
            }
            QuerySubject::Session(scope, session) => {
                let lane = lanes.of_session(&scope.tenant, session);
                let lookup = SessionLookup::new(lanes, &scope.tenant, session, Some(scope));
                let readers = &self.readers;
                readers
                    .inspect(subject, vec![lane], Some(lookup), query)
                    .await
            }
        }
    }

    fn backend(&self) -> Backend {
        Backend {
            kind: "pg",
            version: Some(self.version.clone()),
            durability: self.durability,
            remains: Some(REMAINS),
        }
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.store_state.log.commits().subscribe()
    }

    fn lanes(&self) -> Lanes {
        self.store_state.log.lanes()
    }

    fn position(&self) -> Position {
        self.store_state.log.position()
    }

    fn anchor_position(&self) -> Position {
        self.store_state.log.anchor_position()
    }

    fn writer(&self) -> String {
        self.connector.server_name()
    }

    async fn has_exited(&self, writer: &str) -> bool {
        let key = self.presence.key_of_other(writer);
        let Some(key) = key.filter(|_| !self.connector.is_distributed()) else {
            return false;
        };
        self.reserved
            .is_unlocked(key)
            .await
            .unwrap_or_else(|error| {
                tracing::debug!(%error, "whether a server still runs cannot be checked");
                false
            })
    }

    fn store_id(&self) -> &str {
        &self.store_id
    }

    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn health(&self) -> Health {
        let suspects = self.store_state.log.suspects();
        let outdated = self.store_state.outdated().map(|failure| failure.detail);
        Health {
            read_only: outdated.or_else(|| self.store_state.write_refusal()),
            integrity: (!suspects.is_empty()).then(|| suspects.to_string()),
        }
    }

    fn load(&self) -> StoreLoad {
        StoreLoad {
            statements: self.connector.statements_sent(),
            queued_writes: self.writes.iter().map(WriteQueue::queued).sum(),
        }
    }

    fn distrust(&self, reason: String) {
        self.store_state
            .log
            .add_suspects(Suspects::entire_store(reason));
    }

    async fn close(&self) {
        self.readers.close().await;
        self.reserved.close().await;
        for queue in &self.writes {
            queue.close().await;
        }
        self.store_state.erasure().wait_for_attempt().await;
    }
}
