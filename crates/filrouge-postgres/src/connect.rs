//! Making connections: to the server itself, or to a pooler before it, which of the two is found out.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use filrouge_types::{ErrorCode, Failure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::mpsc;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::{AsyncMessage, Client, Config};

use crate::error::{failure, unavailable};
use crate::session::{Session, Sql};
use crate::target::{self, Target};
use crate::tls;

/// The oldest server that is accepted.
const SERVER_MIN: i32 = 140_000;

/// Makes connections to one store.
pub(crate) struct Connector {
    target: Target,
    /// Which of its servers took writes last: the first that is tried.
    last: AtomicUsize,
    /// What connections set for themselves; behind a pooler, each transaction does.
    lock_timeout: Duration,
    /// How long the server waits for one that has begun a transaction and says nothing.
    idle_timeout: Duration,
    asked: Arc<AtomicU64>,
}

/// A process that was stopped in the middle of a write must not hold the others up.
const IDLE_WRITING: Duration = Duration::from_secs(5);
/// Who reads holds nobody up, but for vacuum, and may have much to do with what it has read.
const IDLE_READING: Duration = Duration::from_secs(600);

/// Statements are planned once, when tables may still be empty: what is looked up by a key is looked up by its index
/// for ever, and a plan is made for all values. To read a whole table, or all that a session has of it, looks cheap
/// then, also for a join or beside another index.
const PLANS: &str =
    "; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off";

impl Connector {
    pub(crate) fn new(target: Target, lock_timeout: Duration) -> Self {
        Self {
            target,
            last: AtomicUsize::new(0),
            lock_timeout,
            idle_timeout: IDLE_WRITING,
            asked: Arc::default(),
        }
    }

    /// The same for connections that read.
    pub(crate) fn reading(&self) -> Self {
        Self {
            target: self.target.clone(),
            last: AtomicUsize::new(self.last.load(Ordering::Relaxed)),
            lock_timeout: self.lock_timeout,
            idle_timeout: IDLE_READING,
            asked: self.asked.clone(),
        }
    }

    /// How many statements were asked over its connections.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Settings of a session, or with `LOCAL` of a transaction. What answers say of commits is so whatever a role or
    /// a database has set. Names are looked up and told alike whatever the role or the database sets, such as a role that is called as the
    /// schema is.
    fn settings(&self, local: &str) -> String {
        format!(
            "SET {local} search_path = pg_catalog; SET {local} idle_in_transaction_session_timeout = {}; SET {local} lock_timeout = {};
             SELECT set_config('synchronous_commit', 'on', {}) WHERE current_setting('synchronous_commit') = 'off'",
            self.idle_timeout.as_millis(),
            self.lock_timeout.as_millis(),
            !local.is_empty()
        )
    }

    /// Connects, and has `statements` planned where that can be.
    pub(crate) async fn connect(&self, statements: &[&'static Sql]) -> Result<Linked, Failure> {
        let (client, _) = self.open().await?;
        in_time(self.link(client, statements)).await
    }

    /// As [`Self::connect`], and is told of commits: each one's number; `None` behind a pooler, where nobody tells.
    pub(crate) async fn listen(
        &self,
        statements: &[&'static Sql],
    ) -> Result<(Linked, Option<mpsc::UnboundedReceiver<u64>>), Failure> {
        let (client, words) = self.open().await?;
        let linked = in_time(self.link(client, statements)).await?;
        if linked.pooled {
            return Ok((linked, None));
        }
        let listen = linked.session.run("LISTEN filrouge");
        in_time(async { listen.await.map_err(|e| failure(&e)) }).await?;
        Ok((linked, Some(words)))
    }

    /// A connection to the first server that takes writes, and the words of its commits.
    async fn open(&self) -> Result<Opened, Failure> {
        let servers = &self.target.servers;
        let first = self.last.load(Ordering::Relaxed);
        let mut failures = Vec::new();
        for n in (first..servers.len()).chain(0..first) {
            match self.reach(&servers[n]).await {
                Ok(opened) => {
                    self.last.store(n, Ordering::Relaxed);
                    return Ok(opened);
                }
                Err(failure) => failures.push((target::name(&servers[n]), failure)),
            }
        }
        Err(together(failures))
    }

    /// Tries each address of `server`, each for as long as its `connect_timeout` says, answers included: a server that
    /// hangs takes connections and says nothing.
    async fn reach(&self, server: &Config) -> Result<Opened, Failure> {
        let limit = server.get_connect_timeout().copied();
        let limit = limit.unwrap_or(target::CONNECT_TIMEOUT);
        let hangs = || {
            let seconds = limit.as_secs();
            unavailable(format!("PostgreSQL: no answer within {seconds} s"))
        };
        let mut failure = unavailable("PostgreSQL: the host has no address");
        let resolved = tokio::time::timeout(limit, addresses(server)).await;
        for config in resolved.map_err(|_| hangs())?? {
            let tried = tokio::time::timeout(limit, self.attempt(&config)).await;
            match tried.unwrap_or_else(|_| Err(hangs())) {
                Ok(opened) => return Ok(opened),
                Err(why) => failure = why,
            }
        }
        Err(failure)
    }

    async fn attempt(&self, config: &Config) -> Result<Opened, Failure> {
        let upgrade = self.target.tls.upgrade();
        let encrypted = upgrade.begun();
        let connected = config.connect(upgrade).await;
        let (client, mut connection) =
            connected.map_err(|e| cannot_connect(&e, config, encrypted.load(Ordering::Relaxed)))?;
        if target::is_remote(config) && !encrypted.load(Ordering::Relaxed) {
            self.target.tls.warn(&target::name(config));
        }
        let (sender, words) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                match message {
                    Ok(AsyncMessage::Notification(told)) => {
                        // What no filrouge has said counts as news; on most connections nobody listens.
                        let _ = sender.send(told.payload().parse().unwrap_or(u64::MAX));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, "a connection to PostgreSQL has ended");
                        return;
                    }
                }
            }
        });
        Ok((check(client).await?, words))
    }

    async fn link(&self, client: Client, statements: &[&'static Sql]) -> Result<Linked, Failure> {
        let pooled = is_pooled(&client).await?;
        let mut session = Session::new(client, self.asked.clone());
        let local = if pooled {
            format!("; {}", self.settings("LOCAL"))
        } else {
            let set = session.run(&(self.settings("") + PLANS)).await;
            set.map_err(|e| failure(&e))?;
            session.prepare(statements).await.map_err(|e| failure(&e))?;
            String::new()
        };
        Ok(Linked {
            session,
            pooled,
            local,
        })
    }
}

/// A server may hang right behind its first answers, or a pooler have no connection for us.
async fn in_time<T>(linking: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let linked = tokio::time::timeout(target::CONNECT_TIMEOUT, linking).await;
    linked.unwrap_or_else(|_| Err(unavailable("PostgreSQL does not answer")))
}

/// Refuses servers that are too old or take no writes.
async fn check(client: Client) -> Result<Client, Failure> {
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
        let what = format!("PostgreSQL {} is too old, 14 is needed", version / 10_000);
        return Err(Failure::new(ErrorCode::Invalid, what));
    }
    if encoding != "UTF8" {
        let what = format!("the database's encoding is {encoding}");
        return Err(Failure::new(ErrorCode::Invalid, what)
            .with_hint("make the database with ENCODING 'UTF8' TEMPLATE template0"));
    }
    if standby {
        return Err(
            unavailable("PostgreSQL: the server is a standby and takes no writes")
                .with_hint("name the primary in --store"),
        );
    }
    Ok(client)
}

/// `server` once for each of its addresses; a socket has none.
async fn addresses(server: &Config) -> Result<Vec<Config>, Failure> {
    let Some(Host::Tcp(host)) = server.get_hosts().first() else {
        return Ok(vec![server.clone()]);
    };
    let port = server.get_ports().first().copied().unwrap_or_default();
    let found = tokio::net::lookup_host((host.as_str(), port)).await;
    let found = found.map_err(|e| {
        unavailable(format!("PostgreSQL: {e}")).with_hint("check the host in --store")
    })?;
    let configs = found.map(|address| {
        let mut config = server.clone();
        config.hostaddr(address.ip());
        config
    });
    Ok(configs.collect())
}

/// What to say when no server would do. One that may come back is waited for, whatever the others are.
fn together(mut failures: Vec<(String, Failure)>) -> Failure {
    if failures.len() == 1
        && let Some((_, only)) = failures.pop()
    {
        return only;
    }
    let codes: Vec<_> = failures.iter().map(|(_, failure)| failure.code).collect();
    let code = match codes.first() {
        Some(&first) if !codes.contains(&ErrorCode::StoreUnavailable) => first,
        _ => ErrorCode::StoreUnavailable,
    };
    let hint = failures
        .iter()
        .find_map(|(_, failure)| failure.hint.clone());
    let all: Vec<_> = failures
        .iter()
        .map(|(server, failure)| format!("{server}: {}", failure.detail))
        .collect();
    let failure = Failure::new(code, all.join("; "));
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

fn cannot_connect(error: &tokio_postgres::Error, config: &Config, encrypted: bool) -> Failure {
    let failure = failure(error);
    if let Some(hint) = tls::hint(error) {
        return unavailable(failure.detail).with_hint(hint);
    }
    if failure.code == ErrorCode::StoreUnavailable {
        return match failure.hint {
            Some(_) => failure,
            None => failure.with_hint("check --store, and whether the server runs"),
        };
    }
    // Whatever else keeps a connection from being made has no code; what is missing tells.
    let hint = if config.get_ssl_mode() == SslMode::Require && !encrypted {
        "set ssl = on in the server's postgresql.conf, or a weaker sslmode"
    } else if config.get_password().is_none() {
        "give the password in --store, or in FILROUGE_STORE_PASSWORD or PGPASSWORD"
    } else {
        "check --store"
    };
    unavailable(failure.detail).with_hint(hint)
}

/// A connection that was made, and a word for each commit it is told of.
type Opened = (Client, mpsc::UnboundedReceiver<u64>);

/// A connection, and how transactions begin on it.
pub(crate) struct Linked {
    pub(crate) session: Session,
    /// Whether a pooler is in between: each transaction may be another connection of the server's.
    pub(crate) pooled: bool,
    /// What each transaction sets for itself, behind its `BEGIN`.
    pub(crate) local: String,
}

/// Whether something is between us and the server: then the key for cancelling that we were given is not of the process
/// that answers.
async fn is_pooled(client: &Client) -> Result<bool, Failure> {
    let row = client.query_typed_one("SELECT pg_backend_pid()", &[]).await;
    let answering: i32 = row.map_err(|e| failure(&e))?.get(0);
    Ok(told_pid(client).await != Some(answering))
}

/// The process that we were told to be connected to: it stands in a request for cancelling, which is written to nobody.
async fn told_pid(client: &Client) -> Option<i32> {
    let (ours, mut theirs) = tokio::io::duplex(64);
    let token = client.cancel_token();
    let cancel = token.cancel_query_raw(ours, Through);
    let read = async {
        // Length, code, process, secret. A request for TLS, which may go before, is of length and code alone.
        let length = theirs.read_i32().await.ok()?;
        let _code = theirs.read_i32().await.ok()?;
        if length == 8 {
            theirs.write_all(b"S").await.ok()?;
            theirs.read_i64().await.ok()?;
        }
        theirs.read_i32().await.ok()
    };
    let (_, pid) = tokio::join!(cancel, read);
    pid
}

/// TLS that is none.
struct Through;

impl TlsConnect<DuplexStream> for Through {
    type Stream = Plain;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Plain>>;

    fn connect(self, stream: DuplexStream) -> Self::Future {
        std::future::ready(Ok(Plain(stream)))
    }
}

struct Plain(DuplexStream);

impl AsyncRead for Plain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Plain {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl TlsStream for Plain {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
