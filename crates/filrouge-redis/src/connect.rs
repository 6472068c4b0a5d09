//! The connection to Redis: opened when it is first used, and again after it was lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use filrouge_types::{Failure, lock};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind,
    IntoConnectionInfo, Pipeline, RedisConnectionInfo, RedisError, RedisResult, TlsCertificates,
    Value,
};

use crate::error::RequestFailure;
use crate::options::Options;
use crate::url::{Address, Target, invalid};

/// The maximum number of retries of the client library for clusters: after a redirection, or while no node serves a
/// slot.
const MAX_RETRIES: u32 = 6;

/// Opens connections to a single server, or to a cluster.
enum Opener {
    Single(Box<Client>, AsyncConnectionConfig),
    Cluster(Box<ClusterClient>),
}

/// An open connection to a single server, or to a cluster. Clones share the connection.
#[derive(Clone)]
pub(crate) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    /// Sends commands in one pipeline, and returns one answer for each. Errors of the server are among the answers.
    pub(crate) async fn send(&mut self, commands: &[&Cmd]) -> RedisResult<Vec<Value>> {
        let connection: &mut (dyn ConnectionLike + Send) = match self {
            Self::Single(connection) => connection,
            Self::Cluster(connection) => connection,
        };
        if let [command] = commands {
            // In a pipeline, the client library returns an error of the server as a value; here, as an error.
            let answer = connection.req_packed_command(command).await;
            let as_value = |e: RedisError| redis::ServerError::try_from(e).map(Value::ServerError);
            return Ok(vec![answer.or_else(as_value)?]);
        }
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command((*command).clone());
        }
        connection
            .req_packed_commands(&pipeline, 0, commands.len())
            .await
    }

    /// Sends a command to every master of a cluster, or to the single server. Returns one answer for each.
    pub(crate) async fn send_to_masters(&mut self, command: &Cmd) -> RedisResult<Vec<Value>> {
        let Self::Cluster(connection) = self else {
            return self.send(&[command]).await;
        };
        let masters = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        match connection.route_command(command.clone(), masters).await? {
            Value::Map(answers) => Ok(answers.into_iter().map(|(_, answer)| answer).collect()),
            answer => Ok(vec![answer]),
        }
    }
}

/// The single connection of a hot store.
pub(crate) struct Connections {
    opener: Arc<Opener>,
    /// The number of the current connection, and the connection if it is open. The number is incremented when the
    /// connection is dropped.
    current: Arc<Mutex<(u64, Option<Connection>)>>,
    /// Locked while a connection is being opened, so that only one of several requests opens it.
    opening: Arc<tokio::sync::Mutex<()>>,
    cluster: bool,
    timeout: Duration,
    db: i64,
}

/// A connection that one request uses.
pub(crate) struct BorrowedConnection {
    pub(crate) connection: Connection,
    number: u64,
    /// Whether the connection was open before this request: then it may have been lost since.
    pub(crate) reused: bool,
}

impl Connections {
    /// Parses the options; opens no connection.
    pub(crate) fn new(options: &Options) -> Result<Self, Failure> {
        let target = Target::parse(&options.url)?;
        Ok(Self {
            opener: Arc::new(new_opener(&target, options)?),
            current: Arc::default(),
            opening: Arc::default(),
            cluster: target.cluster,
            timeout: options.timeout,
            db: target.db,
        })
    }

    /// Returns the connection; opens one if none is open. A separate task opens it, so that a request that stops
    /// waiting does not cancel the attempt.
    pub(crate) async fn get(&self) -> RedisResult<BorrowedConnection> {
        if let Some(borrowed) = borrow_current(&self.current, true) {
            return Ok(borrowed);
        }
        let (opener, current) = (Arc::clone(&self.opener), Arc::clone(&self.current));
        let (opening, timeout) = (Arc::clone(&self.opening), self.timeout);
        let attempt = tokio::spawn(async move {
            let _guard = opening.lock().await;
            if let Some(borrowed) = borrow_current(&current, true) {
                return Ok(borrowed);
            }
            // The time limit is longer than that of a request: a cluster has several nodes, and some of them may be
            // down.
            let opened = tokio::time::timeout(timeout * 8, opener.open()).await;
            let connection = opened.map_err(|_| RedisError::from(timed_out()))??;
            lock(&current).1 = Some(connection);
            borrow_current(&current, false).ok_or_else(|| RedisError::from(timed_out()))
        });
        let not_opened = |_| RedisError::from((ErrorKind::Client, "the connection was not opened"));
        attempt.await.map_err(not_opened)?
    }

    /// Classifies an error from opening the connection.
    pub(crate) fn classify_connect_error(&self, error: &RedisError) -> RequestFailure {
        RequestFailure::from_connect_error(error, self.cluster, self.db)
    }

    /// Drops a borrowed connection, if it is still the current one.
    pub(crate) fn drop_borrowed(&self, borrowed: &BorrowedConnection) {
        let mut current = lock(&self.current);
        if current.0 == borrowed.number {
            *current = (borrowed.number + 1, None);
        }
    }

    /// Drops the current connection.
    pub(crate) fn drop_current(&self) {
        let mut current = lock(&self.current);
        if current.1.is_some() {
            *current = (current.0 + 1, None);
        }
    }
}

type Current = Mutex<(u64, Option<Connection>)>;

fn borrow_current(current: &Current, reused: bool) -> Option<BorrowedConnection> {
    let current = lock(current);
    Some(BorrowedConnection {
        connection: current.1.clone()?,
        number: current.0,
        reused,
    })
}

fn timed_out() -> std::io::Error {
    std::io::ErrorKind::TimedOut.into()
}

impl Opener {
    async fn open(&self) -> RedisResult<Connection> {
        Ok(match self {
            Self::Single(client, config) => {
                let opened = client.get_multiplexed_async_connection_with_config(config);
                Connection::Single(opened.await?)
            }
            Self::Cluster(client) => Connection::Cluster(client.get_async_connection().await?),
        })
    }
}

fn new_opener(target: &Target, options: &Options) -> Result<Opener, Failure> {
    if target.tls {
        // The client library uses the TLS provider of the process. If one is already installed, it is kept.
        let installed = rustls::crypto::ring::default_provider().install_default();
        drop(installed);
    }
    let certificates = certificates(target)?;
    let connection_infos = connection_infos(target, options);
    let invalid_settings = |error: RedisError| invalid(error.category());
    if target.cluster {
        let millis = u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX);
        let mut builder = ClusterClientBuilder::new(connection_infos)
            .connection_timeout(options.timeout)
            .response_timeout(options.timeout)
            .retries(MAX_RETRIES)
            .min_retry_wait(5)
            .max_retry_wait((millis / 8).max(10));
        if let Some(certificates) = certificates {
            builder = builder.certs(certificates);
        }
        return Ok(Opener::Cluster(Box::new(
            builder.build().map_err(invalid_settings)?,
        )));
    }
    let info = connection_infos
        .into_iter()
        .next()
        .ok_or_else(|| invalid("it names no host"))?;
    let client = match certificates {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    };
    // No time limit for a response: the time limit of the request includes it.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(options.timeout))
        .set_response_timeout(None);
    Ok(Opener::Single(
        Box::new(client.map_err(invalid_settings)?),
        config,
    ))
}

/// Reads the certificates of trusted authorities, if the URL names a file. The file is read only once, so later changes
/// do not affect a running store.
fn certificates(target: &Target) -> Result<Option<TlsCertificates>, Failure> {
    let Some(path) = &target.authorities else {
        return Ok(None);
    };
    let read = std::fs::read(path);
    let root = read.map_err(|error| invalid(format!("cacert cannot be read: {error}")))?;
    Ok(Some(TlsCertificates {
        client_tls: None,
        root_cert: Some(root),
    }))
}

fn connection_infos(target: &Target, options: &Options) -> Vec<ConnectionInfo> {
    let addresses = match &target.address {
        Address::Socket(path) => vec![ConnectionAddr::Unix(path.into())],
        Address::Hosts(hosts) => (hosts.iter())
            .map(|(host, port)| match target.tls {
                false => ConnectionAddr::Tcp(host.clone(), *port),
                true => ConnectionAddr::TcpTls {
                    host: host.clone(),
                    port: *port,
                    insecure: false,
                    tls_params: None,
                },
            })
            .collect(),
    };
    let mut login = RedisConnectionInfo::default()
        .set_db(target.db)
        .set_skip_set_lib_name();
    if let Some(user) = &target.user {
        login = login.set_username(user);
    }
    if let Some(password) = options.password.as_ref().or(target.password.as_ref()) {
        login = login.set_password(password);
    }
    let info = |address: ConnectionAddr| address.into_connection_info().ok();
    (addresses.into_iter().filter_map(info))
        .map(|info| info.set_redis_settings(login.clone()))
        .collect()
}
