//! When one write is slow, a probe finds out whether the ledger answers at all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::{Ledger, QuerySubject};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::Mutex;

/// A small query to the ledger. Callers that wait at the same time share one query.
pub(super) struct Probe {
    inner: Arc<dyn Ledger>,
    within: Duration,
    last: Mutex<Option<(Instant, Result<(), Failure>)>>,
}

impl Probe {
    /// A probe that times out after `within`.
    pub(super) fn new(inner: Arc<dyn Ledger>, within: Duration) -> Self {
        Self {
            inner,
            within,
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
        let answer = match tokio::time::timeout(self.within, query).await {
            Ok(Err(failure)) if failure.code == ErrorCode::StoreUnavailable => Err(failure),
            // Any other failure shows that the ledger answers.
            Ok(_) => Ok(()),
            Err(_) => {
                let within = self.within.as_millis();
                let what = format!("the ledger has not answered a probe for {within} ms");
                Err(Failure::new(ErrorCode::StoreUnavailable, what))
            }
        };
        *last = Some((Instant::now(), answer.clone()));
        answer
    }
}
