//! Pools of connections to PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{Manager, Metrics, Pool, RecycleError, RecycleResult};
use filrouge_types::{ErrorCode, Failure, Result};

use crate::connect::{Connection, Connector};
use crate::session::Sql;

/// Opens connections for a pool.
pub(crate) struct PooledConnector {
    pub(crate) connector: Arc<Connector>,
    /// The statements prepared on each connection.
    pub(crate) statements: &'static [&'static Sql],
    /// The time limit for each answer over these connections. `None`: callers limit the time themselves.
    pub(crate) answer_timeout: Option<Duration>,
}

impl Manager for PooledConnector {
    type Type = Connection;
    type Error = Failure;

    async fn create(&self) -> Result<Connection> {
        let mut connection = self.connector.connect(self.statements).await?;
        if let Some(timeout) = self.answer_timeout {
            connection.session.set_answer_timeout(timeout);
        }
        Ok(connection)
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Failure> {
        match connection.session.client().is_closed() {
            true => Err(RecycleError::message("closed")),
            false => Ok(()),
        }
    }
}

impl PooledConnector {
    /// Creates a pool of at most `max_size` connections. While all are in use, a caller waits at most `wait_timeout`
    /// for one.
    pub(crate) fn pool(self, max_size: usize, wait_timeout: Duration) -> Result<Pool<Self>> {
        let pool = Pool::builder(self)
            .max_size(max_size)
            .wait_timeout(Some(wait_timeout))
            .runtime(Runtime::Tokio1)
            .build();
        pool.map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))
    }
}
