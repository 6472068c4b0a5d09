//! Cleans projections when a redaction or an erasure has been committed, before its caller gets a response.
//!
//! Whatever interrupts this, nothing erased stays: the change feed contains the redaction or the erasure too, and the
//! process that feeds the projection cleans the session again when it reaches it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_engine::cleaning::{Cleaner, ERASED, PENDING};
use filrouge_engine::{Engine, StoreReceipt};
use filrouge_types::{Clock, Failure, SessionId, TenantId, Timestamp, lock};
use tokio::time::{Instant, sleep, timeout_at};

use crate::calls::{Calls, StepError};
use crate::projection::Projection;
use crate::state::{State, Uncleaned, change_uncleaned, read_state, read_uncleaned};
use crate::target::{SessionKey, TargetError};

/// How often the note is read while the process that feeds the projection cleans it.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a process may be cleaning a session: it waits for at most 60 s, and then for a call.
const ATTEMPT_MAX: Duration = Duration::from_secs(120);

/// The time for which a target that did not answer is not called, after the first time; it doubles with each more.
const FIRST_SILENCE: Duration = Duration::from_secs(5);
/// The longest such time.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// How long this process leaves out a target that did not answer in time: of many erasures, one after the other would
/// wait for it. They are recorded, and the process that feeds the projection cleans it.
#[derive(Debug, Default)]
struct Silence {
    times: u32,
    until: Option<Timestamp>,
}

impl Silence {
    fn lasts(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Records that the target did not answer. Of several calls at once, one counts.
    fn extend(&mut self, now: Timestamp) {
        if self.lasts(now) {
            return;
        }
        let doubled = FIRST_SILENCE.saturating_mul(2_u32.saturating_pow(self.times));
        self.times = self.times.saturating_add(1);
        self.until = Some(now.after(doubled.min(LONGEST_SILENCE)));
    }
}

/// Cleans all projections of an engine's ledger.
pub struct ProjectionCleaner {
    engine: Weak<Engine>,
    projections: Vec<(Arc<Projection>, Mutex<Silence>)>,
    clock: Arc<dyn Clock>,
}

impl ProjectionCleaner {
    /// Makes the engine's redactions and erasures clean these projections. One that copies another program's history
    /// is cleaned only while queries may see sessions of the ledger, which it copied before.
    pub fn install(engine: &Arc<Engine>, projections: Vec<Arc<Projection>>, clock: Arc<dyn Clock>) {
        if projections.is_empty() {
            return;
        }
        let projections = projections.into_iter();
        engine.set_cleaner(Arc::new(Self {
            engine: Arc::downgrade(engine),
            projections: projections.map(|p| (p, Mutex::default())).collect(),
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
        for (projection, silence) in &self.projections {
            let calls = Calls {
                engine: &engine,
                projection,
                clock: self.clock.as_ref(),
                claimed_until: None,
            };
            if !projection.copies(tenant) && !may_show_others(calls).await {
                continue;
            }
            let (status, remains) = clean(calls, &key, silence).await;
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
async fn clean(
    calls: Calls<'_>,
    key: &SessionKey,
    silence: &Mutex<Silence>,
) -> (&'static str, Option<&'static str>) {
    let (projection, now) = (calls.projection, calls.clock.now());
    let uncleaned = Uncleaned {
        tenant: key.tenant.clone(),
        session: key.session.clone(),
        commit: calls.newest_commit(key),
        since: now,
    };
    if lock(silence).lasts(now) {
        add_for_later(calls, &uncleaned).await;
        return (PENDING, None);
    }
    let end = Instant::now() + projection.clean_timeout;
    loop {
        let cleaned = match clean_until(calls, &uncleaned, end, silence).await {
            Some(Direct::Cleaned(cleaned)) => cleaned,
            Some(Direct::Empty) => return (ERASED, None),
            Some(Direct::Unknown) | None => return (PENDING, None),
        };
        match timeout_at(end, wait_for_others(calls, &uncleaned, &cleaned)).await {
            Ok(Ok(Waited::Done)) => return (ERASED, cleaned.remains),
            Ok(Ok(Waited::ClaimEnded)) => {}
            Ok(Err(_)) | Err(_) => return (PENDING, None),
        }
    }
}

/// Cleans the session directly. `None` if this fails, or has not ended at `end`: then it is repeated later.
async fn clean_until(
    calls: Calls<'_>,
    uncleaned: &Uncleaned,
    end: Instant,
    silence: &Mutex<Silence>,
) -> Option<Direct> {
    let (projection, began) = (calls.projection, Instant::now());
    let cleaned = timeout_at(end, clean_directly(calls, uncleaned)).await;
    let no_answer = || StepError::from(TargetError::Unavailable("no answer in time".to_owned()));
    let cleaned = cleaned.unwrap_or_else(|_| Err(no_answer()));
    if cleaned.is_err() && began.elapsed() >= projection.clean_timeout / 2 {
        lock(silence).extend(calls.clock.now());
    } else {
        *lock(silence) = Silence::default();
    }
    match cleaned {
        Ok(direct) => Some(direct),
        Err(error) => {
            tracing::warn!(projection = %projection.name, session_id = %uncleaned.session, ?error,
                "the projection was not cleaned; this is repeated");
            // The target may still be executing a call, so the session is cleaned once more after it.
            add_for_later(calls, uncleaned).await;
            None
        }
    }
}

/// What a direct cleaning reached.
enum Direct {
    /// The target has no generation.
    Empty,
    /// It is clean.
    Cleaned(CleanedTarget),
    /// The target shows a generation that the store does not know. The projector replaces it.
    Unknown,
}

/// A target that was cleaned, and who may write to it what was read before the commit.
struct CleanedTarget {
    /// Where bytes may remain.
    remains: Option<&'static str>,
    /// Whether a process had the claim before the cleaning.
    has_holder: bool,
    /// Whether another process may be redacting the session.
    is_shared: bool,
}

/// How a wait for other processes ended.
enum Waited {
    /// None of them can write what it read before the commit.
    Done,
    /// The claim has ended, perhaps after a write: the session must be cleaned again.
    ClaimEnded,
}

/// Records that the session must be cleaned. Returns whether another process may be cleaning it, too: that one is no
/// longer named, and begins anew when it notices.
async fn add(calls: Calls<'_>, uncleaned: &Uncleaned) -> Result<bool, Failure> {
    let (key, now) = (uncleaned.key(), calls.clock.now());
    let is_shared = AtomicBool::new(false);
    change_uncleaned(calls.engine.ledger(), &calls.projection.name, |entries| {
        let mut others = entries
            .iter()
            .filter(|entry| entry.key() == key && *entry != uncleaned);
        let is_recent = others.any(|entry| now < entry.since.after(ATTEMPT_MAX));
        is_shared.store(is_recent, Ordering::Relaxed);
        entries.retain(|entry| entry.key() != key);
        entries.push(uncleaned.clone());
    })
    .await?;
    Ok(is_shared.into_inner())
}

/// As [`add`]. A failure is only logged, because the feed contains the commit.
async fn add_for_later(calls: Calls<'_>, uncleaned: &Uncleaned) {
    if let Err(failure) = add(calls, uncleaned).await {
        tracing::error!(%failure, "the cleaning was not recorded; it follows when the feed reaches the commit");
    }
}

/// Records that the session must be cleaned, and cleans it.
async fn clean_directly(calls: Calls<'_>, uncleaned: &Uncleaned) -> Result<Direct, StepError> {
    let is_shared = add(calls, uncleaned).await?;
    let key = uncleaned.key();
    let state = read_state(calls.engine.ledger(), &calls.projection.name).await?;
    let has_holder = state.live_claim(calls.clock.now()).is_some();
    let mut generations = generations_of(&state);
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
                return Ok(Direct::Cleaned(CleanedTarget {
                    remains: refreshed.cleaned.remains,
                    has_holder,
                    is_shared: is_shared && !is_repeated && !refreshed.has_rows,
                }));
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

/// Whether queries may see a generation with other settings, which may select other tenants or another source.
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
    Ok(generations_of(&state))
}

fn generations_of(state: &State) -> Vec<u64> {
    let generations = state.generations();
    generations.map(|filled| filled.generation).collect()
}

/// Waits until the process that feeds the projection has cleaned the session too: it may have read the session before
/// the commit, and have written it after the cleaning here. A process that had no claim before the cleaning reads the
/// session after the commit. One that redacts the session needs no claim, and removes its entry after its write.
async fn wait_for_others(
    calls: Calls<'_>,
    uncleaned: &Uncleaned,
    cleaned: &CleanedTarget,
) -> Result<Waited, Failure> {
    let (ledger, name) = (calls.engine.ledger(), &calls.projection.name);
    let key = uncleaned.key();
    loop {
        // A later redaction of the session may have replaced the entry.
        let entries = read_uncleaned(ledger, name).await?;
        if entries.iter().all(|entry| entry.key() != key) {
            return Ok(Waited::Done);
        }
        let state = read_state(ledger, name).await?;
        if !cleaned.is_shared && state.live_claim(calls.clock.now()).is_none() {
            if cleaned.has_holder {
                return Ok(Waited::ClaimEnded);
            }
            change_uncleaned(ledger, name, |entries| {
                entries.retain(|entry| entry != uncleaned);
            })
            .await?;
            return Ok(Waited::Done);
        }
        sleep(POLL_INTERVAL).await;
    }
}
