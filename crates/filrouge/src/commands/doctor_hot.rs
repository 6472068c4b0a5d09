//! What `filrouge doctor` says of the hot store: whether it answers, and whether its copies are what the ledger has.

use filrouge_engine::Engine;
use filrouge_engine::caller::Permission;
use filrouge_engine::scopes::{HotState, TwoScopes};
use filrouge_store::command::SessionFilter;
use filrouge_store::hot::HotHealth;
use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_store::{Ledger, Scope};
use filrouge_types::{ErrorCode, Failure, SessionId, TurnStatus};
use serde::Serialize;

use crate::config::{Config, HotUrl};
use crate::open::operator;

/// Sessions asked for at once.
const PAGE: usize = 100;
/// How many of a copy's newest turns are compared: at most so many, fewer when it does not hold as many.
const TURNS: [usize; 3] = [49, 10, 1];

/// The hot store and its copies.
#[derive(Debug, Serialize)]
pub(super) struct HotStanding {
    #[serde(skip)]
    url: String,
    kind: &'static str,
    #[serde(flatten)]
    health: HotHealth,
    /// `null` for one in memory, which is another one in each process, and when it does not answer.
    pub(super) copies: Option<Copies>,
}

/// How the copies of the newest sessions stand to the ledger.
#[derive(Debug, Default, Serialize)]
pub(super) struct Copies {
    /// Sessions that were compared.
    sessions: u64,
    /// Copies of what the ledger has.
    fresh: u64,
    /// Copies that have not come as far; they are not used.
    stale: u64,
    /// How many seqs they are behind, at most.
    lag_seqs: u64,
    /// Copies of another history, as after the ledger was put back; they are not used.
    other: u64,
    /// Sessions without a copy.
    absent: u64,
    /// Sessions whose copy claims to be what the ledger has, and is not.
    different: Vec<SessionId>,
}

impl HotStanding {
    /// Asks the hot store, and compares the copies of the newest `sessions` of the tenant.
    ///
    /// # Errors
    /// The ledger's.
    pub(super) async fn look(
        config: &Config,
        engine: &Engine,
        sessions: usize,
    ) -> Result<Option<Self>, Failure> {
        let url = config.hot.url.to_string();
        if config.hot.url == HotUrl::Memory {
            return Ok(Some(Self::of(url, "memory", HotHealth::default())));
        }
        let Some(tiers) = engine.tiers() else {
            return Ok(None);
        };
        let mut standing = Self::of(url, tiers.view().kind, tiers.hot_health().await);
        if !standing.answers() {
            return Ok(Some(standing));
        }
        let scope = operator(config).scope(Permission::Read)?;
        match compare(tiers, &scope, sessions).await {
            Ok(copies) => standing.copies = Some(copies),
            Err(failure) if failure.code == ErrorCode::HotUnavailable => {
                standing.health.unavailable = Some(failure.detail);
            }
            Err(failure) => return Err(failure),
        }
        Ok(Some(standing))
    }

    fn of(url: String, kind: &'static str, health: HotHealth) -> Self {
        Self {
            url,
            kind,
            health,
            copies: None,
        }
    }

    fn answers(&self) -> bool {
        self.health.unavailable.is_none()
    }

    /// Whether it answers, and takes writes.
    pub(super) fn is_well(&self) -> bool {
        self.answers() && self.health.refuses_writes.is_none()
    }

    /// Its place, version and size, or why it does not answer.
    pub(super) fn detail(&self) -> String {
        if let Some(why) = &self.health.unavailable {
            return format!("{}: {why}", self.url);
        }
        if self.kind == "memory" {
            return format!("{}, in each server by itself", self.url);
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
        parts.extend(refuses.map(|why| format!("refuses writes: {why}")));
        parts.join(", ")
    }

    /// What can be done about one that does not answer or takes no writes, or will take none one day.
    pub(super) fn hint(&self) -> Option<String> {
        let hint = if !self.answers() {
            "sessions in the ledger go on without it; look at its log, and at the URL and password in `hot`"
        } else if self.health.refuses_writes.is_some() {
            "sessions without an identity are answered 503; give it room, or a maxmemory-policy of volatile-ttl"
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
    /// Whether none of them would be answered wrongly.
    pub(super) fn are_true(&self) -> bool {
        self.different.is_empty()
    }

    /// How many there are of each kind.
    pub(super) fn detail(&self) -> String {
        let mut text = format!(
            "newest {} sessions: {} fresh, {} stale (behind by {} seqs at most), {} of another history, {} absent",
            self.sessions, self.fresh, self.stale, self.lag_seqs, self.other, self.absent
        );
        if !self.are_true() {
            let ids: Vec<_> = self.different.iter().map(ToString::to_string).collect();
            text = format!("{text}; DIFFERENT: {}", ids.join(", "));
        }
        text
    }

    /// What can be done about those that are wrong.
    pub(super) fn hint(&self) -> Option<String> {
        (!self.are_true()).then(|| {
            "somebody else writes to these keys: give filrouge a Redis, or a hot_prefix, of its own; those that could not be read are made anew".to_owned()
        })
    }
}

async fn compare(tiers: &TwoScopes, scope: &Scope, most: usize) -> Result<Copies, Failure> {
    let mut copies = Copies::default();
    let mut cursor = None;
    let mut left = most;
    while left > 0 {
        let filter = SessionFilter::default();
        let ledger: &dyn Ledger = tiers;
        let page = ledger
            .sessions(scope, filter, cursor, left.min(PAGE))
            .await?;
        let (sessions, next) = page;
        left = left.saturating_sub(sessions.len());
        for session in sessions {
            copies.sessions += 1;
            copies.take(tiers, scope, session.session_id).await?;
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(copies)
}

impl Copies {
    async fn take(
        &mut self,
        tiers: &TwoScopes,
        scope: &Scope,
        session: SessionId,
    ) -> Result<(), Failure> {
        let state = match tiers.compare(scope, &session).await {
            // Erased since it was listed.
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
            HotState::Same => match is_true(tiers, scope, &session).await? {
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

/// Whether a copy of the ledger's history holds what the ledger answers.
async fn is_true(tiers: &TwoScopes, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
    let ledger: &dyn Ledger = tiers;
    let unreadable = || tiers.counts().recent_unreadable;
    for limit in TURNS {
        let before = unreadable();
        let Some(copy) = tiers.recent_turns(scope, session, limit).await? else {
            if unreadable() > before {
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
        // Somebody may have written in between; then it is not the same history any more.
        let still = tiers.compare(scope, session).await?;
        return Ok(turns == copy.turns || still != HotState::Same);
    }
    // It holds too little to be answered from.
    Ok(true)
}
