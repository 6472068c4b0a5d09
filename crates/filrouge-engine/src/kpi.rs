//! Key figures of live calls, counted from the events of a tenant's sessions over a time window (DESIGN §6, §12).
//!
//! An event counts by when it happened (`at`), not by when it was recorded. Each figure's definition is in
//! `docs/kpi.md`.

use filrouge_store::command::{Scope, Viewer};
use filrouge_types::{ErrorCode, Result, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Permission};
use crate::engine::Events;

mod csv;
mod figures;
mod period;
mod status;
mod tally;

pub use figures::{KeyFigures, KindCount};
pub use status::{ServiceAgent, TechnicalStatus, TimeWindow};

use period::periods;
use tally::KpiTally;

const MICROS: i64 = 1_000_000;
const HOUR: i64 = 3600 * MICROS;
const DAY: i64 = 24 * HOUR;
/// The default time window of key figures.
const WEEK: i64 = 7 * DAY;

/// The period that a row of key figures covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = KpiPeriod)]
pub enum Every {
    /// An ISO 8601 week: it begins on Monday, in UTC.
    Week,
    /// A day, in UTC.
    Day,
}

/// The key figures to compute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KpiQuery {
    /// Counts events at this moment or later; by default seven days before `until`.
    pub since: Option<Timestamp>,
    /// Counts events before this moment; by default now.
    pub until: Option<Timestamp>,
    /// The period of each row; `None` for one row that covers the entire window.
    pub by: Option<Every>,
}

/// Key figures with one row per period.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct KpiReport {
    /// The tenant whose sessions are counted.
    pub tenant_id: TenantId,
    /// The start of the window, inclusive.
    pub since: Timestamp,
    /// The end of the window, exclusive.
    pub until: Timestamp,
    /// The period of a row; absent when one row covers all.
    #[schema(required)]
    pub by: Option<Every>,
    /// The rows in chronological order, including periods without events.
    pub data: Vec<KpiRow>,
}

/// The key figures of a period.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct KpiRow {
    /// The period: a week such as `2026-W47`, a day such as `2026-11-22`; absent when the row covers all.
    #[schema(value_type = Option<String>, required, example = "2026-W47")]
    pub period: Option<Box<str>>,
    /// The start of the row; in the first row it may be later than the start of the period.
    pub since: Timestamp,
    /// The end of the row; in the last row it may be earlier than the end of the period.
    pub until: Timestamp,
    /// Its figures.
    #[serde(flatten)]
    pub figures: KeyFigures,
}

impl Events {
    /// The key figures of the caller's tenant: one row per week or day, including those without events, or one row for
    /// the entire window. Reads the window's events once. Memory is bounded by the sessions of one row, at somewhat
    /// more than 16 bytes each.
    ///
    /// Sessions that are only in the hot store are not counted.
    ///
    /// # Errors
    /// `forbidden` on behalf of an end user; `invalid` for a window that is empty or has too many rows;
    /// `limit_exceeded` when one row has more sessions than can be counted; `integrity_error`, `key_missing`, and the
    /// ledger's errors.
    pub async fn key_figures(&self, caller: &Caller, query: KpiQuery) -> Result<KpiReport> {
        let scope = operator_scope(caller)?;
        let until = query.until.unwrap_or_else(|| self.clock.now());
        let since = query.since.unwrap_or_else(|| subtract_micros(until, WEEK));
        let periods = periods(since, until, query.by)?;
        let tenant = scope.tenant.clone();
        let data = self
            .ledger
            .query_listed(&scope, move |snapshot| {
                let mut rows = Vec::with_capacity(periods.len());
                let mut periods = periods.into_iter();
                let Some(mut period) = periods.next() else {
                    return Ok(rows);
                };
                let mut tally = KpiTally::default();
                snapshot.tenant_events(&tenant, (since, until), &mut |session, event| {
                    while event.at >= period.until {
                        let Some(next) = periods.next() else { break };
                        let ended = std::mem::replace(&mut period, next);
                        rows.push(ended.row(std::mem::take(&mut tally)));
                    }
                    tally.count(session, event)
                })?;
                rows.push(period.row(tally));
                rows.extend(periods.map(|period| period.row(KpiTally::default())));
                Ok(rows)
            })
            .await?;
        Ok(KpiReport {
            tenant_id: scope.tenant,
            since,
            until,
            by: query.by,
            data,
        })
    }
}

/// Refuses the scope of an end user: key figures cover an entire tenant.
fn operator_scope(caller: &Caller) -> Result<Scope> {
    let scope = caller.scope(Permission::Administer)?;
    match scope.viewer {
        Viewer::Operator => Ok(scope),
        Viewer::EndUser(_) => {
            Err(ErrorCode::Forbidden.failure("key figures are about all sessions of the tenant"))
        }
    }
}

fn subtract_micros(moment: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(moment.as_micros().saturating_sub(micros))
}

#[cfg(test)]
mod tests;
