//! When one write is slow, a probe checks whether the ledger answers other queries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::{Ledger, QuerySubject};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::Mutex;

/// A small query to the ledger. Callers that wait at the same time share one query.
pub(super) struct Probe {
    inner: Arc<dyn Ledger>,
    timeout: Duration,
    last: Mutex<Option<(Instant, Result<(), Failure>)>>,
}

impl Probe {
    /// A probe that fails after `timeout`.
    pub(super) fn new(inner: Arc<dyn Ledger>, timeout: Duration) -> Self {
        Self {
            inner,
            timeout,
            last: Mutex::const_new(None),
        }
    }

    /// Probes the ledger with a query that does not wait for callers' queries. Returns the result of another caller's
    /// probe if that ended after this call began.
    ///
    /// # Errors
    /// `store_unavailable` if the ledger reports it, or does not answer in time.
    pub(super) async fn check(&self) -> Result<(), Failure> {
        let requested_at = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((ended, answer)) = last.as_ref().filter(|(ended, _)| *ended >= requested_at) {
            tracing::trace!(ago = ?ended.elapsed(), "[SPOOL] probed for another write");
            return answer.clone();
        }
        let query = self
            .inner
            .inspect(QuerySubject::ServerData, Box::new(|_| {}));
        let answer = match tokio::time::timeout(self.timeout, query).await {
            Ok(Err(failure)) if failure.code == ErrorCode::StoreUnavailable => Err(failure),
            // Any other failure shows that the ledger answers.
            Ok(_) => Ok(()),
            Err(_) => {
                let timeout = self.timeout.as_millis();
                let detail = format!("the ledger has not answered a probe for {timeout} ms");
                Err(Failure::new(ErrorCode::StoreUnavailable, detail))
            }
        };
        *last = Some((Instant::now(), answer.clone()));
        answer
    }
}
