//! How tenants do, kept for a moment where it takes long to find out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use filrouge_engine::kpi::TechnicalStatus;
use filrouge_engine::{Caller, Engine};
use filrouge_types::{Failure, TenantId};
use tokio::time::Instant;

/// What is found out quicker than this is found out for every request.
const QUICK: Duration = Duration::from_millis(50);
/// What takes longer is kept for so many times as long,
const KEPT_TIMES: u32 = 20;
/// and for so long at most.
const KEPT_MAX: Duration = Duration::from_secs(10);
/// Tenants of which an answer is kept.
const TENANTS: usize = 256;

/// One tenant's answer, and until when it is given again.
type Kept = Arc<tokio::sync::Mutex<Option<(Instant, Arc<TechnicalStatus>)>>>;

/// The answers that were given lately: however often it is asked, a tenant's events are read by one request at a time, and
/// for a twentieth of the time at most once that takes long.
#[derive(Default)]
pub(crate) struct Statuses(Mutex<HashMap<TenantId, Kept>>);

impl Statuses {
    fn of(&self, tenant: &TenantId) -> Kept {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= TENANTS && !all.contains_key(tenant) {
            all.clear();
        }
        all.entry(tenant.clone()).or_default().clone()
    }

    /// How the tenant of `caller` does.
    ///
    /// # Errors
    /// Those of the service of events.
    pub(crate) async fn status(
        &self,
        engine: &Engine,
        caller: &Caller,
    ) -> Result<Arc<TechnicalStatus>, Failure> {
        let kept = self.of(caller.tenant());
        let mut kept = kept.lock().await;
        if let Some((until, status)) = kept.as_ref()
            && Instant::now() < *until
        {
            return Ok(status.clone());
        }
        let begun = Instant::now();
        let status = Arc::new(engine.events.technical_status(caller).await?);
        let took = begun.elapsed();
        *kept = (took > QUICK).then(|| {
            let until = Instant::now() + (took * KEPT_TIMES).min(KEPT_MAX);
            (until, status.clone())
        });
        Ok(status)
    }
}
