//! A PostgreSQL database with plain tables, which are not a ledger's.

use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::plain::{PlainDatabase, PlainError, PlainRows, Statement};
use filrouge_types::Failure;
use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};

use crate::connect::{Connection, Connector};
use crate::error::plain_error;
use crate::session::{Param, Session};
use crate::target::Target;

/// How long a statement waits for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of a statement. One that changes many rows, or removes a large table, takes long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// Where bytes of deleted rows remain.
const REMAINS: &str = "in old row versions until PostgreSQL has vacuumed the tables, then in its free space and \
                       write-ahead log, until they are reused: docs/format.md#postgresql";

/// A PostgreSQL database with plain tables. It uses one connection at a time, which it opens when it is needed.
pub struct PlainServer {
    connector: Connector,
    /// The connection, while it is not in use.
    connection: Mutex<Option<Connection>>,
}

impl PlainServer {
    /// Parses `url`, which has the form of a store's (docs/postgresql.md), and reads the files of certificates that it
    /// names. `password` applies if the URL contains none. Does not connect.
    ///
    /// # Errors
    /// `invalid` when `url` is malformed, has an unknown parameter, or names a certificate that cannot be read. No
    /// error contains the URL.
    pub fn new(url: &str, password: Option<&str>) -> Result<Self, Failure> {
        let mut target = Target::parse(url)?;
        if let Some(password) = password {
            target.set_password(password);
        }
        Ok(Self {
            connector: Connector::new(target, LOCK_TIMEOUT),
            connection: Mutex::new(None),
        })
    }

    /// The connection, and the slot to which it must be returned. One that is not returned is closed.
    async fn acquire(&self) -> Result<(Connection, Slot<'_>), PlainError> {
        let mut slot = self.connection.lock().await;
        let open = slot.take().filter(|c| !c.session.client().is_closed());
        let connection = match open {
            Some(connection) => connection,
            None => {
                let connected = self.connector.connect(&[]).await;
                connected.map_err(connection_error)?
            }
        };
        Ok((connection, slot))
    }
}

type Slot<'a> = MutexGuard<'a, Option<Connection>>;

/// The error for a connection that could not be opened.
fn connection_error(failure: Failure) -> PlainError {
    let detail = match failure.hint {
        Some(hint) => format!("{}; {hint}", failure.detail),
        None => failure.detail,
    };
    match failure.code.retry() {
        true => PlainError::Unavailable(detail),
        false => PlainError::Refused(detail),
    }
}

#[async_trait]
impl PlainDatabase for PlainServer {
    async fn run(&self, statements: Vec<Statement>) -> Result<Vec<PlainRows>, PlainError> {
        let (connection, mut slot) = self.acquire().await?;
        let done = in_transaction(&connection, &statements).await;
        let is_usable = match &done {
            Ok(_) => true,
            Err(PlainError::Unavailable(_)) => false,
            Err(_) => answer(connection.session.run("ROLLBACK")).await.is_ok(),
        };
        if is_usable {
            *slot = Some(connection);
        }
        done
    }

    async fn erase_deleted(&self, tables: &[String]) -> Result<Option<&'static str>, PlainError> {
        if tables.is_empty() {
            return Ok(Some(REMAINS));
        }
        let (connection, mut slot) = self.acquire().await?;
        let vacuum = format!("VACUUM {}", tables.join(", "));
        match answer(connection.session.run(&vacuum)).await {
            Ok(()) => *slot = Some(connection),
            // Autovacuum does it later.
            Err(error) => {
                tracing::warn!(%error, "tables of a projection were not vacuumed after rows were deleted");
            }
        }
        Ok(Some(REMAINS))
    }
}

async fn in_transaction(
    connection: &Connection,
    statements: &[Statement],
) -> Result<Vec<PlainRows>, PlainError> {
    let session = &connection.session;
    let begin = format!("BEGIN{}", connection.transaction_settings);
    answer(session.run(&begin)).await?;
    let mut returned = Vec::with_capacity(statements.len());
    for statement in statements {
        let rows = answer(query(session, statement)).await?;
        let rows = rows.iter().map(texts).collect::<Result<PlainRows, Error>>();
        returned.push(rows.map_err(|e| plain_error(&e))?);
    }
    answer(session.run("COMMIT")).await?;
    Ok(returned)
}

async fn query(session: &Session, statement: &Statement) -> Result<Vec<Row>, Error> {
    let types = vec![Type::TEXT; statement.params.len()];
    let params = statement.params.iter();
    let params: Vec<Param<'_>> = params.map(|param| param as Param<'_>).collect();
    session.query_text(&statement.text, &types, &params).await
}

fn texts(row: &Row) -> Result<Vec<Option<String>>, Error> {
    let columns = 0..row.len();
    columns
        .map(|column| row.try_get::<_, Option<String>>(column))
        .collect()
}

/// Waits for an answer up to [`ANSWER_TIMEOUT`].
async fn answer<T>(query: impl Future<Output = Result<T, Error>>) -> Result<T, PlainError> {
    let answered = tokio::time::timeout(ANSWER_TIMEOUT, query).await;
    let no_answer = |_| PlainError::Unavailable("PostgreSQL does not answer".to_owned());
    answered
        .map_err(no_answer)?
        .map_err(|error| plain_error(&error))
}
