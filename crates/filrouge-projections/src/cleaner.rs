//! Cleans projections when a redaction or an erasure has been committed, before its caller gets a response.
//!
//! Whatever interrupts this, nothing erased stays: the change feed contains the redaction or the erasure too, and the
//! process that feeds the projection cleans the session again when it reaches it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_engine::cleaning::{Cleaner, ERASED, PENDING};
use filrouge_engine::{Engine, StoreReceipt};
use filrouge_types::{Clock, Failure, SessionId, TenantId};
use tokio::time::{Instant, sleep, timeout_at};

use crate::calls::{Calls, StepError};
use crate::projection::Projection;
use crate::state::{Uncleaned, change_uncleaned, read_state, read_uncleaned};
use crate::target::{SessionKey, TargetError};

/// How often the note is read while the process that feeds the projection cleans it.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Cleans all projections of an engine's ledger.
pub struct ProjectionCleaner {
    engine: Weak<Engine>,
    projections: Vec<Arc<Projection>>,
    clock: Arc<dyn Clock>,
}

impl ProjectionCleaner {
    /// Makes the engine's redactions and erasures clean these projections.
    pub fn install(engine: &Arc<Engine>, projections: Vec<Arc<Projection>>, clock: Arc<dyn Clock>) {
        if projections.is_empty() {
            return;
        }
        engine.set_cleaner(Arc::new(Self {
            engine: Arc::downgrade(engine),
            projections,
            clock,
        }));
    }
}

#[async_trait]
impl Cleaner for ProjectionCleaner {
    async fn clean(&self, tenant: &TenantId, session: &SessionId) -> Vec<StoreReceipt> {
        let key = SessionKey {
            tenant: tenant.clone(),
            session: session.clone(),
        };
        let mut receipts = Vec::with_capacity(self.projections.len());
        let Some(engine) = self.engine.upgrade() else {
            return receipts;
        };
        for projection in &self.projections {
            let calls = Calls {
                engine: &engine,
                projection,
                clock: self.clock.as_ref(),
                claimed_until: None,
            };
            if !projection.selection.has_tenant(tenant) && !may_show_others(calls).await {
                continue;
            }
            let (status, remains) = clean(calls, &key).await;
            receipts.push(StoreReceipt {
                store: "projection",
                name: Some(projection.name.as_str().into()),
                status,
                remains,
            });
        }
        receipts
    }
}

/// Cleans one projection; returns the status for the receipt, and where bytes may remain.
async fn clean(calls: Calls<'_>, key: &SessionKey) -> (&'static str, Option<&'static str>) {
    let projection = calls.projection;
    let uncleaned = Uncleaned {
        tenant: key.tenant.clone(),
        session: key.session.clone(),
        commit: calls.newest_commit(key),
        since: calls.clock.now(),
    };
    let end = Instant::now() + projection.clean_timeout;
    let cleaned = timeout_at(end, clean_directly(calls, &uncleaned)).await;
    let cleaned = cleaned.map_err(|_| "no answer in time".to_owned());
    match cleaned.and_then(|cleaned| cleaned.map_err(|error| format!("{error:?}"))) {
        Ok(Direct::Empty) => (ERASED, None),
        Ok(Direct::Cleaned(remains)) => {
            match timeout_at(end, wait_for_holder(calls, &uncleaned)).await {
                Ok(Ok(())) => (ERASED, remains),
                Ok(Err(_)) | Err(_) => (PENDING, None),
            }
        }
        Ok(Direct::Unknown) => (PENDING, None),
        Err(error) => {
            tracing::warn!(projection = %projection.name, session_id = %key.session, error,
                "the projection was not cleaned; this is repeated");
            // The target may still be executing a call, so the session is cleaned once more after it.
            if let Err(failure) = add(calls, &uncleaned).await {
                tracing::error!(%failure, "the cleaning was not recorded; it follows when the feed reaches the commit");
            }
            (PENDING, None)
        }
    }
}

/// What a direct cleaning reached.
enum Direct {
    /// The target has no generation.
    Empty,
    /// Where bytes may remain.
    Cleaned(Option<&'static str>),
    /// The target shows a generation that the store does not know. The projector replaces it.
    Unknown,
}

/// Records that the session must be cleaned.
async fn add(calls: Calls<'_>, uncleaned: &Uncleaned) -> Result<(), Failure> {
    let key = uncleaned.key();
    change_uncleaned(calls.engine.ledger(), &calls.projection.name, |entries| {
        entries.retain(|entry| entry.key() != key);
        entries.push(uncleaned.clone());
    })
    .await
}

/// Records that the session must be cleaned, and cleans it.
async fn clean_directly(calls: Calls<'_>, uncleaned: &Uncleaned) -> Result<Direct, StepError> {
    add(calls, uncleaned).await?;
    let key = uncleaned.key();
    let mut generations = known_generations(calls).await?;
    let mut is_repeated = false;
    loop {
        if generations.is_empty() {
            let shown = calls.call(calls.projection.target.published()).await?;
            if shown.is_none() {
                return Ok(Direct::Empty);
            }
        }
        let refreshed = calls.refresh(&key, &generations, uncleaned.commit).await;
        let known = known_generations(calls).await?;
        let refreshed = match refreshed {
            // Another generation was published meanwhile, and this one deleted.
            Err(StepError::Target(TargetError::Altered(_), _)) if known != generations => {
                generations = known;
                continue;
            }
            refreshed => refreshed?,
        };
        if known.is_empty() {
            return Ok(Direct::Unknown);
        }
        if known
            .iter()
            .all(|generation| generations.contains(generation))
        {
            let (ledger, name) = (calls.engine.ledger(), &calls.projection.name);
            if is_repeated || read_uncleaned(ledger, name).await?.contains(uncleaned) {
                return Ok(Direct::Cleaned(refreshed.cleaned.remains));
            }
            // Another process has cleaned the session meanwhile. It may have read a newer state of it, and rows of an
            // older one may have been written here after that.
            add(calls, uncleaned).await?;
            is_repeated = true;
        }
        // Another generation was begun meanwhile, and may have been filled with rows that were deleted now.
        generations = known;
    }
}

/// Whether queries may see a generation with other settings, which may select other tenants.
async fn may_show_others(calls: Calls<'_>) -> bool {
    let (ledger, name) = (calls.engine.ledger(), &calls.projection.name);
    let Ok(state) = read_state(ledger, name).await else {
        return true;
    };
    let has_settings = state.fingerprint == calls.projection.fingerprint();
    state.queried.is_some() && !(has_settings && state.published.is_some())
}

async fn known_generations(calls: Calls<'_>) -> Result<Vec<u64>, Failure> {
    let state = read_state(calls.engine.ledger(), &calls.projection.name).await?;
    Ok(state
        .generations()
        .map(|filled| filled.generation)
        .collect())
}

/// Waits until the process that feeds the projection has cleaned the session too: it may have read the session before
/// the commit, and have written it after the cleaning here. If no process has a claim, none can be writing what it read
/// before the commit.
async fn wait_for_holder(calls: Calls<'_>, uncleaned: &Uncleaned) -> Result<(), Failure> {
    let (ledger, name) = (calls.engine.ledger(), &calls.projection.name);
    let key = uncleaned.key();
    loop {
        // A later redaction of the session may have replaced the entry.
        let entries = read_uncleaned(ledger, name).await?;
        if entries.iter().all(|entry| entry.key() != key) {
            return Ok(());
        }
        let state = read_state(ledger, name).await?;
        if state.live_claim(calls.clock.now()).is_none() {
            return change_uncleaned(ledger, name, |entries| {
                entries.retain(|entry| entry != uncleaned);
            })
            .await;
        }
        sleep(POLL_INTERVAL).await;
    }
}
