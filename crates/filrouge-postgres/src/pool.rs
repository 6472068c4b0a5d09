//! Connections of one kind that are kept for whoever asks next.

use std::sync::Arc;
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{Manager, Metrics, Pool, RecycleError, RecycleResult};
use filrouge_types::{ErrorCode, Failure};

use crate::connect::{Connector, Linked};
use crate::session::Sql;

/// Makes connections for a pool.
pub(crate) struct Lines {
    pub(crate) connector: Arc<Connector>,
    /// What is planned on each of them.
    pub(crate) statements: &'static [&'static Sql],
    /// How long each answer is waited for; `None`: as whoever asks says.
    pub(crate) patience: Option<Duration>,
}

impl Manager for Lines {
    type Type = Linked;
    type Error = Failure;

    async fn create(&self) -> Result<Linked, Failure> {
        let mut linked = self.connector.connect(self.statements).await?;
        if let Some(patience) = self.patience {
            linked.session.bound(patience);
        }
        Ok(linked)
    }

    async fn recycle(&self, linked: &mut Linked, _: &Metrics) -> RecycleResult<Failure> {
        match linked.session.client().is_closed() {
            true => Err(RecycleError::message("closed")),
            false => Ok(()),
        }
    }
}

impl Lines {
    /// A pool of at most so many, of which one is waited for so long.
    pub(crate) fn pool(self, most: usize, patience: Duration) -> Result<Pool<Self>, Failure> {
        let pool = Pool::builder(self)
            .max_size(most)
            .wait_timeout(Some(patience))
            .runtime(Runtime::Tokio1)
            .build();
        pool.map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))
    }
}
