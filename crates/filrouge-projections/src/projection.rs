//! A projection: its name, its target, and its settings.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filrouge_types::{TenantId, lock};

use crate::history::ForeignHistory;
use crate::selection::Selection;
use crate::target::{SessionKey, SimilarQuery, SimilarTurn, Target, TargetError};

/// The number of the target's sessions that are listed at once.
const SESSIONS_PER_PAGE: usize = 500;
/// The maximum length of a projection's name.
const NAME_MAX: usize = 40;

/// The name of a projection: 1 to 40 lower-case letters a–z, digits, `-` and `_`, beginning with a letter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProjectionName(Box<str>);

/// The text is not a valid name of a projection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a projection's name has 1 to {NAME_MAX} lower-case letters a–z, digits, '-' and '_', and begins with a letter"
)]
pub struct ProjectionNameError;

impl ProjectionName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProjectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for ProjectionName {
    type Err = ProjectionNameError;

    fn from_str(text: &str) -> Result<Self, ProjectionNameError> {
        let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b);
        let begins_with_letter = text.starts_with(|first: char| first.is_ascii_lowercase());
        match begins_with_letter && text.len() <= NAME_MAX && text.bytes().all(is_allowed) {
            true => Ok(Self(text.into())),
            false => Err(ProjectionNameError),
        }
    }
}

/// A projection, as its settings describe it.
pub struct Projection {
    /// The name, which is part of the names of its notes.
    pub name: ProjectionName,
    /// The target.
    pub target: Arc<dyn Target>,
    /// The kind of the target, the version of the rows that it makes, such as `opensearch/1`, and those of its settings
    /// on which rows depend. When it changes, the projection is rebuilt.
    pub structure: String,
    /// The history of another program that is copied; `None` for the ledger.
    pub history: Option<Arc<ForeignHistory>>,
    /// What the projection has of the ledger, or of the history.
    pub selection: Selection,
    /// How long one call of the target may take, at most [`Self::TIMEOUT_MAX`].
    pub timeout: Duration,
    /// How long a redaction or an erasure waits until the projection is cleaned.
    pub clean_timeout: Duration,
    /// What this process counts.
    pub counts: Counts,
}

impl Projection {
    /// The maximum of `timeout`: a claim must outlast a call.
    pub const TIMEOUT_MAX: Duration = Duration::from_secs(50);
    /// How long a search waits for [`Self::similar`], unless `timeout` is shorter.
    pub const SIMILAR_TIMEOUT: Duration = Duration::from_secs(2);

    /// The settings as text, which changes whenever the rows of a session could.
    pub(crate) fn fingerprint(&self) -> String {
        format!("{} {}", self.structure, self.selection.fingerprint())
    }

    /// Whether the tenant's sessions are copied from the ledger.
    pub(crate) fn copies(&self, tenant: &TenantId) -> bool {
        self.history.is_none() && self.selection.has_tenant(tenant)
    }

    /// Whether sessions of this tenant are those of another program's history.
    pub(crate) fn has_history_of(&self, tenant: &TenantId) -> bool {
        let history = self.history.as_ref();
        history.is_some_and(|history| history.tenant == *tenant)
    }

    /// Whether the projection has sessions of this tenant.
    #[must_use]
    pub fn concerns(&self, tenant: &TenantId) -> bool {
        self.copies(tenant) || self.has_history_of(tenant)
    }

    /// Whether the projection has sessions of this tenant and of no other.
    #[must_use]
    pub fn concerns_only(&self, tenant: &TenantId) -> bool {
        let mut tenants = self.selection.tenants.iter().flatten();
        let is_only = tenants.next() == Some(tenant) && tenants.next().is_none();
        self.has_history_of(tenant) || self.history.is_none() && is_only
    }

    /// Waits for a call of the target, at most as long as the settings allow.
    pub(crate) async fn within_timeout<T>(
        &self,
        call: impl Future<Output = Result<T, TargetError>>,
    ) -> Result<T, TargetError> {
        within(self.timeout, call).await
    }

    /// The sessions that have rows in a generation.
    pub(crate) async fn target_sessions(
        &self,
        generation: u64,
    ) -> Result<Vec<SessionKey>, TargetError> {
        let mut sessions = Vec::new();
        loop {
            let listed = self
                .target
                .sessions(generation, sessions.last(), SESSIONS_PER_PAGE);
            let page = self.within_timeout(listed).await?;
            if page.is_empty() {
                return Ok(sessions);
            }
            sessions.extend(page);
        }
    }

    /// Turns that are similar to a question, as the target names them: candidates, which the caller must read from the
    /// ledger. `None` if the target compares no vectors of this length, or lacks the questions of this tenant or owner;
    /// and for a projection of another program's history.
    ///
    /// # Errors
    /// [`TargetError`], also if there is no answer within [`Self::SIMILAR_TIMEOUT`].
    pub async fn similar(
        &self,
        query: &SimilarQuery,
    ) -> Result<Option<Vec<SimilarTurn>>, TargetError> {
        let has_questions = self
            .selection
            .has_questions(&query.tenant, query.owner.is_some());
        if self.history.is_some() || !has_questions {
            return Ok(None);
        }
        let limit = self.timeout.min(Self::SIMILAR_TIMEOUT);
        within(limit, self.target.similar(query)).await
    }
}

/// Waits for a call of a target, at most for `limit`.
async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, TargetError>>,
) -> Result<T, TargetError> {
    let answer = tokio::time::timeout(limit, call).await;
    answer.unwrap_or_else(|_| {
        let detail = format!("no answer within {} ms", limit.as_millis());
        Err(TargetError::Unavailable(detail))
    })
}

/// What a process counts for a projection since it started.
#[derive(Debug, Default)]
pub struct Counts {
    /// Rows that the target was given.
    pub(crate) rows: AtomicU64,
    /// Sessions that the target refused.
    pub(crate) refused: AtomicU64,
    /// Sessions that became dead letters.
    pub(crate) dead_letters: AtomicU64,
    /// Commits that were not examined at the newest check.
    pub(crate) lag_commits: AtomicU64,
    /// Why the projection is not up to date; `None` if it is, or catches up.
    pub(crate) failure: Mutex<Option<String>>,
}

/// The values of [`Counts`] at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountValues {
    /// Rows that the target was given.
    pub rows: u64,
    /// Sessions that the target refused.
    pub refused: u64,
    /// Sessions that became dead letters.
    pub dead_letters: u64,
    /// Commits that were not examined at the newest check.
    pub lag_commits: u64,
    /// Why the projection is not up to date; `None` if it is, or catches up.
    pub failure: Option<String>,
}

impl Counts {
    /// The current values.
    #[must_use]
    pub fn values(&self) -> CountValues {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CountValues {
            rows: load(&self.rows),
            refused: load(&self.refused),
            dead_letters: load(&self.dead_letters),
            lag_commits: load(&self.lag_commits),
            failure: lock(&self.failure).clone(),
        }
    }

    pub(crate) fn add(count: &AtomicU64, by: usize) {
        count.fetch_add(by as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_failure(&self, failure: Option<String>) {
        *lock(&self.failure) = failure;
    }
}
