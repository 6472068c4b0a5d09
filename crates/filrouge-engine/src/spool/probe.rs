//! Whether the ledger answers at all, when one write of it takes long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::{About, Ledger};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::Mutex;

/// A small question to the ledger, put once for all who ask at a time.
pub(super) struct Probe {
    inner: Arc<dyn Ledger>,
    within: Duration,
    last: Mutex<Option<(Instant, Result<(), Failure>)>>,
}

impl Probe {
    /// A probe that waits for an answer `within` this time.
    pub(super) fn new(inner: Arc<dyn Ledger>, within: Duration) -> Self {
        Self {
            inner,
            within,
            last: Mutex::const_new(None),
        }
    }

    /// Asks the ledger something small, apart from the questions of callers.
    ///
    /// # Errors
    /// `store_unavailable` when it does not answer, or not in time.
    pub(super) async fn ask(&self) -> Result<(), Failure> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((ended, answer)) = last.as_ref().filter(|(ended, _)| *ended >= asked) {
            tracing::trace!(ago = ?ended.elapsed(), "[SPOOL] probed for another write");
            return answer.clone();
        }
        let nothing = self.inner.inspect(About::Apart, Box::new(|_| {}));
        let answer = match tokio::time::timeout(self.within, nothing).await {
            Ok(Err(failure)) if failure.code == ErrorCode::StoreUnavailable => Err(failure),
            // Another failure is an answer as well.
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
