//! Compares a projection with the ledger, or with the history that it copies, row by row.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use filrouge_engine::{Engine, is_of_session};
use filrouge_types::{ErrorCode, Failure, SessionId, TenantId};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::projection::Projection;
use crate::sessions::CurrentSessions;
use crate::state::read_state;
use crate::status::count_lag;
use crate::target::{Row, SessionKey, TargetError};

/// How long a comparison waits until the projection has the newest changes.
const CATCH_UP_TIME: Duration = Duration::from_secs(30);
/// How many times a session that keeps changing is compared again.
const ROUNDS: usize = 5;
/// How often the projection's position is read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The same if each time a history is scanned.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);

filrouge_types::words!(
    /// How a row of a projection differs from the ledger.
    pub enum DifferenceKind: "difference" {
        /// The projection lacks it.
        Missing => "missing",
        /// The projection has it, and the ledger does not.
        Extra => "extra",
        /// Some columns differ.
        Different => "different",
        /// The session cannot be read from the ledger, so it is not compared.
        Unreadable => "unreadable",
    }
);

/// A row of a projection that differs from the ledger. Names no contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The session's tenant.
    pub tenant: TenantId,
    /// The session's id.
    pub session_id: SessionId,
    /// How the row differs.
    #[serde(serialize_with = "serialize_word")]
    pub kind: DifferenceKind,
    /// The table, index or collection; empty for a session that cannot be read.
    pub table: &'static str,
    /// The row's id.
    pub id: String,
    /// The columns that differ.
    pub columns: Vec<String>,
}

fn serialize_word<S: serde::Serializer>(
    kind: &DifferenceKind,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.as_str())
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Sessions of the ledger that were compared.
    pub sessions: u64,
    /// Rows that were compared.
    pub rows: u64,
    /// Rows that differ.
    pub differences: u64,
    /// The number of commits that the projection lacked at the end: differences may be changes that it lacks.
    pub lag_commits: u64,
}

/// Why a projection cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The ledger failed, or no generation is kept up to date (`invalid`).
    #[error(transparent)]
    Ledger(#[from] Failure),
    /// The target failed, or did not answer in time. It is not called again.
    #[error(
        "the target: {0}; the comparison ended there, so it is unknown whether the projection is equal"
    )]
    Target(#[from] TargetError),
}

/// Compares the generation that queries see with the ledger, and calls `report` with each difference, once it is certain
/// and before those of other sessions are looked for. Sessions that change meanwhile are compared again. The first call
/// of the target that fails, or has no answer in time, ends the comparison.
///
/// # Errors
/// [`VerifyError`].
pub async fn verify(
    engine: &Engine,
    projection: &Projection,
    mut report: impl FnMut(&Difference),
) -> Result<Verified, VerifyError> {
    let state = read_state(engine.ledger(), &projection.name).await?;
    let Some(generation) = state.published.as_ref().map(|filled| filled.generation) else {
        let detail = "no generation of the projection is published with its current settings";
        return Err(Failure::new(ErrorCode::Invalid, detail)
            .with_hint("`filrouge project status` shows what is being filled")
            .into());
    };
    let comparison = Comparison {
        engine,
        projection,
        generation,
    };
    let mut lag = comparison.wait_until_current().await?;
    let mut sessions = comparison.list().await?;
    let mut verified = Verified::default();
    let mut again = comparison.find(&sessions, &mut verified).await?;
    // A session that differs is remembered without its differences, which may be everything that the ledger has.
    for round in 0..=ROUNDS {
        if again.is_empty() {
            break;
        }
        if round < ROUNDS {
            lag = comparison.wait_until_current().await?;
        }
        if projection.history.is_some() {
            sessions = comparison.list().await?;
        }
        let mut changed = Vec::new();
        for (key, version) in std::mem::take(&mut again) {
            let now = comparison.compare(&sessions, &key).await?;
            if now.version == version || round == ROUNDS {
                verified.differences += now.differences.len() as u64;
                now.differences.iter().for_each(&mut report);
            } else if !now.differences.is_empty() {
                changed.push((key, now.version));
            }
        }
        again = changed;
    }
    verified.lag_commits = lag;
    Ok(verified)
}

struct Comparison<'a> {
    engine: &'a Engine,
    projection: &'a Projection,
    generation: u64,
}

/// A session that was compared.
struct Compared {
    /// The version of the session in the ledger, or its stamp in the history; 0 for none.
    version: u64,
    rows: u64,
    differences: Vec<Difference>,
}

impl<'a> Comparison<'a> {
    async fn list(&self) -> Result<CurrentSessions<'a>, Failure> {
        let (history, selection) = (&self.projection.history, &self.projection.selection);
        CurrentSessions::list(self.engine, history.as_ref(), selection).await
    }

    /// Waits until the projection has all changes. Returns the number of commits that it lacks, 0 unless the time is up.
    async fn wait_until_current(&self) -> Result<u64, VerifyError> {
        let end = Instant::now() + CATCH_UP_TIME;
        let history = self.projection.history.as_ref();
        let interval = match history {
            Some(_) => SCAN_INTERVAL,
            None => POLL_INTERVAL,
        };
        loop {
            let state = read_state(self.engine.ledger(), &self.projection.name).await?;
            let lag = count_lag(self.engine, history, &state).await?;
            // Without a claim, no process is feeding the projection.
            if lag == 0 || state.claim.is_none() || Instant::now() >= end {
                return Ok(lag);
            }
            sleep(interval).await;
        }
    }

    /// Compares all sessions of the ledger, or of the history, and of the target. Returns those that differ, with their
    /// versions.
    async fn find(
        &self,
        sessions: &CurrentSessions<'_>,
        verified: &mut Verified,
    ) -> Result<Vec<(SessionKey, u64)>, VerifyError> {
        let mut differing = Vec::new();
        for key in sessions.keys() {
            let compared = self.compare(sessions, key).await?;
            verified.sessions += 1;
            verified.rows += compared.rows;
            if !compared.differences.is_empty() {
                differing.push((key.clone(), compared.version));
            }
        }
        for key in self.projection.target_sessions(self.generation).await? {
            if !sessions.keys().contains(&key) {
                let compared = self.compare(sessions, &key).await?;
                differing.push((key, compared.version));
            }
        }
        Ok(differing)
    }

    async fn compare(
        &self,
        sessions: &CurrentSessions<'_>,
        key: &SessionKey,
    ) -> Result<Compared, VerifyError> {
        let (version, expected) = match sessions.read(key).await {
            Ok(Some(update)) => (update.version, self.projection.target.rows(&update)),
            Ok(None) => (0, Vec::new()),
            Err(failure) if is_of_session(&failure) => {
                let reason = vec![failure.code.to_string()];
                return Ok(Compared {
                    version: 0,
                    rows: 0,
                    differences: vec![difference(key, DifferenceKind::Unreadable, "", "", reason)],
                });
            }
            Err(failure) => return Err(failure.into()),
        };
        let stored = self.projection.target.stored(self.generation, key);
        let stored = self.projection.within_timeout(stored).await?;
        Ok(Compared {
            version,
            rows: expected.len() as u64,
            differences: differences(key, &expected, &stored),
        })
    }
}

fn difference(
    key: &SessionKey,
    kind: DifferenceKind,
    table: &'static str,
    id: &str,
    columns: Vec<String>,
) -> Difference {
    Difference {
        tenant: key.tenant.clone(),
        session_id: key.session.clone(),
        kind,
        table,
        id: id.to_owned(),
        columns,
    }
}

fn by_id(rows: &[Row]) -> BTreeMap<(&'static str, &str), &Row> {
    let rows = rows.iter();
    rows.map(|row| ((row.table, row.id.as_str()), row))
        .collect()
}

/// The differences between the rows that a session should have and those that are stored, by table and id.
fn differences(key: &SessionKey, expected: &[Row], stored: &[Row]) -> Vec<Difference> {
    let (expected, stored) = (by_id(expected), by_id(stored));
    let mut found = Vec::new();
    for (&(table, id), row) in &expected {
        match stored.get(&(table, id)) {
            None => found.push(difference(
                key,
                DifferenceKind::Missing,
                table,
                id,
                Vec::new(),
            )),
            Some(other) if other.content != row.content => {
                let columns = row.content.keys().chain(other.content.keys());
                let differs = |name: &&String| row.content.get(*name) != other.content.get(*name);
                let columns: BTreeSet<String> = columns.filter(differs).cloned().collect();
                let columns = columns.into_iter().collect();
                found.push(difference(
                    key,
                    DifferenceKind::Different,
                    table,
                    id,
                    columns,
                ));
            }
            Some(_) => {}
        }
    }
    for &(table, id) in stored.keys().filter(|at| !expected.contains_key(*at)) {
        found.push(difference(
            key,
            DifferenceKind::Extra,
            table,
            id,
            Vec::new(),
        ));
    }
    found
}
