//! Connects to a PostgreSQL server or to a pooler in front of one, such as PgBouncer.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use filrouge_types::{ErrorCode, Failure};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Config};

use crate::error::{failure, unavailable};
use crate::presence::Presence;
use crate::session::{Session, Sql};
use crate::target::{self, Target};

mod addresses;
mod pooler;

use addresses::{addresses, combined_failure, connect_failure};
use pooler::is_pooled;

/// The oldest supported server version, 14, in the form of the setting `server_version_num`.
const SERVER_MIN: i32 = 140_000;

/// Opens connections to one store.
pub(crate) struct Connector {
    target: Target,
    /// The index, in `target.servers`, of the server to which the newest connection was opened; it is tried first.
    preferred_server: AtomicUsize,
    /// How long a statement may wait for a lock. Set once per connection or, behind a pooler, in each transaction.
    lock_timeout: Duration,
    /// How long the server keeps an open transaction that is idle, before it ends the connection.
    idle_timeout: Duration,
    /// The number of statements sent over all connections of this connector and of its copies.
    statements_sent: Arc<AtomicU64>,
    /// Whether the store is distributed.
    distributed: AtomicBool,
    /// The name of this server, which its connections lock.
    presence: Option<Arc<Presence>>,
}

/// The idle timeout of writing transactions. It is short, because a process that is suspended in the middle of a write
/// must not keep its lanes from the other writers.
const WRITE_IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The idle timeout of reading transactions. It is long, because an idle reader delays only vacuum, and its caller may
/// still be processing rows.
const READ_IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// How long the server keeps a connection whose client accepts no data. A transaction that sends an answer is not
/// idle, so a suspended client could otherwise keep it open for ever.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// Planner settings that force index lookups. PostgreSQL plans each statement once per connection, for all parameter
/// values, possibly while the tables are still empty. For empty tables the planner prefers to scan an entire table, or
/// all rows of a session, and the connection would keep this plan after the tables have grown.
const PLANNER_SETTINGS: &str =
    "; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off";

/// Settings of a connection to a distributed store. Citus plans no statement with arrays for all parameter values.
/// And it sends `SET LOCAL` to the nodes, whose triggers read such settings.
const DISTRIBUTED_SETTINGS: &str =
    "SET plan_cache_mode = auto; SET citus.propagate_set_commands = 'local'";

impl Connector {
    pub(crate) fn new(target: Target, lock_timeout: Duration) -> Self {
        Self {
            target,
            preferred_server: AtomicUsize::new(0),
            lock_timeout,
            idle_timeout: WRITE_IDLE_TIMEOUT,
            statements_sent: Arc::default(),
            distributed: AtomicBool::default(),
            presence: None,
        }
    }

    /// Returns this connector, with a name that its connections lock.
    #[must_use]
    pub(crate) fn with_presence(mut self, presence: Arc<Presence>) -> Self {
        self.presence = Some(presence);
        self
    }

    /// The name of this server; empty if the connector has none.
    pub(crate) fn server_name(&self) -> String {
        let visible = !self.is_distributed();
        let presence = self.presence.as_ref();
        presence.map_or_else(String::new, |presence| presence.name(visible))
    }

    /// Returns a copy of this connector whose transactions have the longer idle timeout of reads.
    pub(crate) fn for_reading(&self) -> Self {
        Self {
            target: self.target.clone(),
            preferred_server: AtomicUsize::new(self.preferred_server.load(Ordering::Relaxed)),
            lock_timeout: self.lock_timeout,
            idle_timeout: READ_IDLE_TIMEOUT,
            statements_sent: self.statements_sent.clone(),
            distributed: AtomicBool::new(self.is_distributed()),
            presence: self.presence.clone(),
        }
    }

    /// Returns a copy of this connector that connects to another node of a distributed store.
    pub(crate) fn for_node(&self, host: &str, port: u16) -> Self {
        Self {
            target: self.target.for_server(host, port),
            preferred_server: AtomicUsize::default(),
            lock_timeout: self.lock_timeout,
            idle_timeout: self.idle_timeout,
            statements_sent: self.statements_sent.clone(),
            distributed: AtomicBool::new(true),
            presence: None,
        }
    }

    /// Records whether the store is distributed. Applies to connections that are opened afterwards.
    pub(crate) fn set_distributed(&self, distributed: bool) {
        self.distributed.store(distributed, Ordering::Relaxed);
    }

    /// Whether the store is distributed.
    pub(crate) fn is_distributed(&self) -> bool {
        self.distributed.load(Ordering::Relaxed)
    }

    /// How long a statement may wait for a lock.
    pub(crate) const fn lock_timeout(&self) -> Duration {
        self.lock_timeout
    }

    /// Returns the number of statements sent over all connections, including those for reading.
    pub(crate) fn statements_sent(&self) -> u64 {
        self.statements_sent.load(Ordering::Relaxed)
    }

    /// Returns SQL that overrides the settings of the role and of the database: in this database session if `scope` is
    /// empty, in one transaction if it is `LOCAL`. So a commit is flushed before it is acknowledged, and a table name
    /// means the same table everywhere, even if a role has the same name as the schema.
    fn settings(&self, scope: &str) -> String {
        format!(
            "SET {scope} search_path = pg_catalog; SET {scope} idle_in_transaction_session_timeout = {}; SET {scope} lock_timeout = {};
             SET {scope} tcp_user_timeout = {};
             SELECT set_config('synchronous_commit', 'on', {}) WHERE current_setting('synchronous_commit') = 'off'",
            self.idle_timeout.as_millis(),
            self.lock_timeout.as_millis(),
            SEND_TIMEOUT.as_millis(),
            !scope.is_empty()
        )
    }

    /// Connects to the database. Prepares `statements`, except behind a pooler.
    pub(crate) async fn connect(&self, statements: &[&'static Sql]) -> Result<Connection, Failure> {
        let (client, _) = self.open_client().await?;
        with_timeout(self.prepare_connection(client, statements)).await
    }

    /// Like [`Self::connect`], but also returns a channel of the notifications of commits that any server makes.
    /// Returns `None` instead of the channel behind a pooler, which delivers no notifications, and for a distributed
    /// store, where the nodes do not notify each other.
    pub(crate) async fn listen(
        &self,
        statements: &[&'static Sql],
    ) -> Result<(Connection, Option<Notifications>), Failure> {
        let (client, notifications) = self.open_client().await?;
        let connection = with_timeout(self.prepare_connection(client, statements)).await?;
        if connection.pooled || connection.session.is_distributed() {
            return Ok((connection, None));
        }
        let listen = connection.session.run("LISTEN filrouge");
        with_timeout(async { listen.await.map_err(|e| failure(&e)) }).await?;
        Ok((connection, Some(notifications)))
    }

    /// Connects to the first server that accepts writes. Also returns the channel of commit notifications, which stays
    /// empty without `LISTEN`.
    async fn open_client(&self) -> Result<OpenedClient, Failure> {
        let servers = &self.target.servers;
        let first = self.preferred_server.load(Ordering::Relaxed);
        let mut failures = Vec::new();
        for n in (first..servers.len()).chain(0..first) {
            match self.try_addresses(&servers[n]).await {
                Ok(opened) => {
                    self.preferred_server.store(n, Ordering::Relaxed);
                    return Ok(opened);
                }
                Err(failure) => failures.push((target::display_name(&servers[n]), failure)),
            }
        }
        Err(combined_failure(failures))
    }

    /// Tries each address of `server` until one works. `connect_timeout` limits each attempt, including the first
    /// query: a hanging server accepts connections but does not answer.
    async fn try_addresses(&self, server: &Config) -> Result<OpenedClient, Failure> {
        let timeout = server.get_connect_timeout().copied();
        let timeout = timeout.unwrap_or(target::CONNECT_TIMEOUT);
        let no_answer = || {
            let seconds = timeout.as_secs();
            unavailable(format!("PostgreSQL: no answer within {seconds} s"))
        };
        let mut failure = unavailable("PostgreSQL: the host has no address");
        let resolved = tokio::time::timeout(timeout, addresses(server)).await;
        for config in resolved.map_err(|_| no_answer())?? {
            let result = tokio::time::timeout(timeout, self.connect_to(&config)).await;
            match result.unwrap_or_else(|_| Err(no_answer())) {
                Ok(opened) => return Ok(opened),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Connects to one address, and starts the task that drives the connection.
    async fn connect_to(&self, config: &Config) -> Result<OpenedClient, Failure> {
        let connector = self.target.tls.recording_connector();
        let encrypted = connector.handshake_begun();
        let connected = config.connect(connector).await;
        let (client, mut connection) = connected
            .map_err(|e| connect_failure(&e, config, encrypted.load(Ordering::Relaxed)))?;
        if target::is_remote(config) && !encrypted.load(Ordering::Relaxed) {
            self.target.tls.warn(&target::display_name(config));
        }
        let (sender, notifications) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                match message {
                    Ok(AsyncMessage::Notification(notification)) => {
                        // Sending fails on most connections, because nobody listens.
                        let _ = sender.send(notification.payload().to_owned());
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, "a connection to PostgreSQL has ended");
                        return;
                    }
                }
            }
        });
        Ok((check_server(client).await?, notifications))
    }

    /// Detects a pooler. Without one, sets the settings, locks the server's name and prepares `statements`. Behind one,
    /// every transaction must begin with the settings, and a lock would belong to a connection of the pooler. In a
    /// distributed store, a lock would be seen on one entry node only.
    async fn prepare_connection(
        &self,
        client: Client,
        statements: &[&'static Sql],
    ) -> Result<Connection, Failure> {
        let pooled = is_pooled(&client).await?;
        let session = Session::new(client, self.statements_sent.clone());
        let transaction_settings = if pooled {
            format!("; {}", self.settings("LOCAL"))
        } else {
            let result = session.run(&(self.settings("") + PLANNER_SETTINGS)).await;
            result.map_err(|e| failure(&e))?;
            if let Some(presence) = self.presence.as_ref().filter(|_| !self.is_distributed()) {
                presence.lock(&session).await?;
            }
            String::new()
        };
        let mut connection = Connection {
            session,
            pooled,
            transaction_settings,
        };
        if self.is_distributed() {
            connection.use_distributed().await?;
        }
        if !pooled {
            let prepared = connection.session.prepare(statements).await;
            prepared.map_err(|e| failure(&e))?;
        }
        Ok(connection)
    }
}

/// Limits the time of `setup`: a server may hang after its first answers, or a pooler may have no free connection to
/// the server.
async fn with_timeout<T>(setup: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let result = tokio::time::timeout(target::CONNECT_TIMEOUT, setup).await;
    result.unwrap_or_else(|_| Err(unavailable("PostgreSQL does not answer")))
}

/// Refuses servers that are too old, use another encoding than UTF-8, or do not accept writes.
async fn check_server(client: Client) -> Result<Client, Failure> {
    let row = client
        .query_typed_one(
            "SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),
                    current_setting('server_encoding')",
            &[],
        )
        .await
        .map_err(|e| failure(&e))?;
    let (version, standby, encoding): (i32, bool, String) = (row.get(0), row.get(1), row.get(2));
    if version < SERVER_MIN {
        let detail = format!("PostgreSQL {} is too old, 14 is needed", version / 10_000);
        return Err(Failure::new(ErrorCode::Invalid, detail));
    }
    if encoding != "UTF8" {
        let detail = format!("the database's encoding is {encoding}");
        return Err(Failure::new(ErrorCode::Invalid, detail)
            .with_hint("create the database with ENCODING 'UTF8' TEMPLATE template0"));
    }
    if standby {
        return Err(
            unavailable("PostgreSQL: the server is a standby and accepts no writes")
                .with_hint("name the primary in --store"),
        );
    }
    Ok(client)
}

/// The payloads of the notifications that a connection receives.
pub(crate) type Notifications = mpsc::UnboundedReceiver<String>;

/// A new connection, and its notifications.
type OpenedClient = (Client, Notifications);

/// A connection that is ready for statements.
pub(crate) struct Connection {
    pub(crate) session: Session,
    /// Whether there is a pooler before the server. Then each transaction may run in another session of the server.
    pub(crate) pooled: bool,
    /// SQL with the settings of a transaction, to append to each `BEGIN`; empty without a pooler.
    pub(crate) transaction_settings: String,
}

impl Connection {
    /// Configures the connection for a distributed store. No statement must be prepared yet.
    ///
    /// # Errors
    /// `invalid` behind a pooler, which may send the settings and the statements to different servers.
    pub(crate) async fn use_distributed(&mut self) -> Result<(), Failure> {
        if self.pooled {
            let detail = "a distributed store cannot be used through a pooler";
            return Err(Failure::new(ErrorCode::Invalid, detail)
                .with_hint("name Citus's coordinator in --store"));
        }
        self.session.set_distributed();
        let set = self.session.run(DISTRIBUTED_SETTINGS).await;
        set.map_err(|e| failure(&e))
    }
}
