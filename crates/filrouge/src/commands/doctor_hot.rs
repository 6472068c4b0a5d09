//! The part of `filrouge doctor` about the hot store: does it answer, and do its copies match the ledger?

use filrouge_engine::Engine;
use filrouge_engine::caller::Permission;
use filrouge_engine::scopes::{HotState, TieredLedger};
use filrouge_store::command::SessionFilter;
use filrouge_store::hot::HotHealth;
use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_store::{Ledger, Scope};
use filrouge_types::{ErrorCode, Failure, Result, SessionId, TurnStatus};
use serde::Serialize;

use crate::config::{Config, HotUrl};
use crate::open::operator;

/// Sessions per page of the listing.
const PAGE_SESSIONS: usize = 100;
/// The numbers of newest turns of a copy to compare. The next smaller number is tried when the copy has fewer turns.
const TURN_COUNTS: [usize; 3] = [49, 10, 1];

/// The hot store and its copies.
#[derive(Debug, Default, Serialize)]
pub(super) struct HotReport {
    #[serde(skip)]
    url: String,
    kind: &'static str,
    #[serde(flatten)]
    health: HotHealth,
    /// `null` for a hot store in memory, since each process has its own, and for one that does not answer.
    pub(super) copies: Option<Copies>,
}

/// The comparison of the copies of the newest sessions with the ledger.
#[derive(Debug, Default, Serialize)]
pub(super) struct Copies {
    /// Sessions that were compared.
    sessions: u64,
    /// Copies that match the ledger.
    fresh: u64,
    /// Copies that are older than the ledger; they are not used.
    stale: u64,
    /// The maximum number of seqs that a stale copy lacks.
    lag_seqs: u64,
    /// Copies of another history, for example after the ledger was restored from a backup; they are not used.
    other: u64,
    /// Sessions without a copy.
    absent: u64,
    /// Sessions whose copy claims to match the ledger and does not.
    different: Vec<SessionId>,
}

impl HotReport {
    /// Checks the hot store, and compares the copies of the `sessions` newest sessions of the tenant with the ledger.
    /// `None` if the ledger was opened without a hot store, as with `--unverified`.
    ///
    /// # Errors
    /// Errors of the ledger. A hot store that does not answer is not an error, but a part of the report.
    pub(super) async fn check(
        config: &Config,
        engine: &Engine,
        sessions: usize,
    ) -> Result<Option<Self>> {
        let mut report = Self {
            url: config.hot.url.to_string(),
            kind: "memory",
            ..Self::default()
        };
        if config.hot.url == HotUrl::Memory {
            return Ok(Some(report));
        }
        let Some(tiers) = engine.tiers() else {
            return Ok(None);
        };
        (report.kind, report.health) = (tiers.view().kind, tiers.hot_health().await);
        if !report.answers() {
            return Ok(Some(report));
        }
        let scope = operator(config).scope(Permission::Read)?;
        match compare_copies(tiers, &scope, sessions).await {
            Ok(copies) => report.copies = Some(copies),
            Err(failure) if failure.code == ErrorCode::HotUnavailable => {
                report.health.unavailable = Some(failure.detail);
            }
            Err(failure) => return Err(failure),
        }
        Ok(Some(report))
    }

    fn answers(&self) -> bool {
        self.health.unavailable.is_none()
    }

    /// Whether the hot store answers and accepts writes.
    pub(super) fn is_well(&self) -> bool {
        self.answers() && self.health.refuses_writes.is_none()
    }

    /// The hot store's URL, version and size, or the reason why it does not answer.
    pub(super) fn detail(&self) -> String {
        if let Some(reason) = &self.health.unavailable {
            return format!("{}: {reason}", self.url);
        }
        if self.kind == "memory" {
            return format!("{}, separate in each server", self.url);
        }
        let mut parts = vec![self.url.clone()];
        parts.extend(self.health.version.clone());
        parts.extend(
            self.health
                .used_bytes
                .map(|bytes| format!("{bytes} bytes used")),
        );
        parts.push(format!("nodes: {}", self.health.nodes));
        let refuses = self.health.refuses_writes.as_ref();
        parts.extend(refuses.map(|reason| format!("refuses writes: {reason}")));
        parts.join(", ")
    }

    /// A hint when the hot store does not answer or refuses writes, or when it will refuse them once it is full.
    pub(super) fn hint(&self) -> Option<String> {
        let hint = if !self.answers() {
            "sessions in the ledger work without it; check its log, and the URL and password in `hot`"
        } else if self.health.refuses_writes.is_some() {
            "sessions without an identity are answered 503; give it more memory, or a maxmemory-policy of volatile-ttl"
        } else if self.health.unbounded {
            "it has no maxmemory: set it to what you can spare, with maxmemory-policy volatile-ttl"
        } else if self.health.evicts_nothing {
            "with maxmemory-policy noeviction it refuses writes once it is full; volatile-ttl is recommended"
        } else {
            return None;
        };
        Some(hint.to_owned())
    }
}

impl Copies {
    /// Whether every copy that claims to match the ledger does match it.
    pub(super) fn are_correct(&self) -> bool {
        self.different.is_empty()
    }

    /// The number of copies of each kind.
    pub(super) fn detail(&self) -> String {
        let mut text = format!(
            "newest {} sessions: {} fresh, {} stale (behind by {} seqs at most), {} of another history, {} absent",
            self.sessions, self.fresh, self.stale, self.lag_seqs, self.other, self.absent
        );
        if !self.are_correct() {
            let ids: Vec<_> = self.different.iter().map(ToString::to_string).collect();
            text = format!("{text}; DIFFERENT: {}", ids.join(", "));
        }
        text
    }

    /// A hint about wrong copies.
    pub(super) fn hint(&self) -> Option<String> {
        (!self.are_correct()).then(|| {
            "another program writes to these keys: give filrouge a separate Redis or hot_prefix; unreadable copies are rebuilt"
                .to_owned()
        })
    }

    async fn add(&mut self, tiers: &TieredLedger, scope: &Scope, session: SessionId) -> Result<()> {
        let state = match tiers.compare(scope, &session).await {
            // The session was erased after it was listed.
            Err(failure)
                if matches!(
                    failure.code,
                    ErrorCode::SessionErased | ErrorCode::SessionNotFound
                ) =>
            {
                HotState::Absent
            }
            state => state?,
        };
        match state {
            HotState::Absent => self.absent += 1,
            HotState::Same => match is_correct(tiers, scope, &session).await? {
                true => self.fresh += 1,
                false => self.different.push(session),
            },
            HotState::Behind(seqs) => {
                self.stale += 1;
                self.lag_seqs = self.lag_seqs.max(seqs);
            }
            HotState::Other => self.other += 1,
        }
        Ok(())
    }
}

async fn compare_copies(tiers: &TieredLedger, scope: &Scope, limit: usize) -> Result<Copies> {
    let mut copies = Copies::default();
    let mut cursor = None;
    let mut remaining = limit;
    while remaining > 0 {
        let filter = SessionFilter::default();
        let ledger: &dyn Ledger = tiers;
        let page = ledger
            .sessions(scope, filter, cursor, remaining.min(PAGE_SESSIONS))
            .await?;
        let (sessions, next) = page;
        remaining = remaining.saturating_sub(sessions.len());
        for session in sessions {
            copies.sessions += 1;
            copies.add(tiers, scope, session.session_id).await?;
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(copies)
}

/// Compares the turns of a copy that claims the ledger's history with the ledger's turns. Returns whether they are
/// equal; `false` also if the copy cannot be read.
async fn is_correct(tiers: &TieredLedger, scope: &Scope, session: &SessionId) -> Result<bool> {
    let ledger: &dyn Ledger = tiers;
    let unreadable_count = || tiers.counts().recent_unreadable;
    for limit in TURN_COUNTS {
        let count_before = unreadable_count();
        let Some(copy) = tiers.recent_turns(scope, session, limit).await? else {
            if unreadable_count() > count_before {
                return Ok(false);
            }
            continue;
        };
        let query = TurnQuery {
            status: Some(TurnStatus::Finalized),
            order: TurnOrder::Newest,
            limit,
            ..TurnQuery::default()
        };
        let (turns, _) = ledger.turns(scope, session, query).await?;
        let turns: Result<Vec<_>, _> = turns.iter().map(serde_json::to_vec).collect();
        let turns = turns.map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?;
        // If a concurrent write changed the history between the two reads, they cannot be compared, and the copy counts
        // as correct.
        let state_after = tiers.compare(scope, session).await?;
        return Ok(turns == copy.turns || state_after != HotState::Same);
    }
    // The copy has too few turns for any of these numbers, so no query is answered from it.
    Ok(true)
}
