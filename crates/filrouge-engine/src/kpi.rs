//! Key figures of live calls: counted from the events of a tenant's sessions, over a window of time (DESIGN §6, §12).
//!
//! An event counts by when it happened (`at`), whenever it was told. Each figure's definition is in `docs/kpi.md`.

use filrouge_store::command::{Scope, Viewer};
use filrouge_types::{ErrorCode, Failure, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Permission};
use crate::engine::Events;

mod csv;
mod figures;
mod period;
mod status;
mod tally;

pub use figures::{KeyFigures, KindCount};
pub use status::{ServiceAgent, TechnicalStatus, Window};

use period::periods;
use tally::Tally;

const MICROS: i64 = 1_000_000;
const HOUR: i64 = 3600 * MICROS;
const DAY: i64 = 24 * HOUR;
/// What key figures are over when nothing else is asked for.
const WEEK: i64 = 7 * DAY;

/// What a row of key figures is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Every {
    /// A week of ISO 8601: it begins on Monday, in UTC.
    Week,
    /// A day, in UTC.
    Day,
}

/// Which key figures are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KpiQuery {
    /// What happened at this moment or later; without it, seven days before `until`.
    pub since: Option<Timestamp>,
    /// What happened before this moment; without it, now.
    pub until: Option<Timestamp>,
    /// A row for each of these; without it, one row for all.
    pub by: Option<Every>,
}

/// Key figures, a row for each period.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KpiReport {
    /// Whose sessions they are.
    pub tenant_id: TenantId,
    /// Events count that happened at this moment or later,
    pub since: Timestamp,
    /// and before this one.
    pub until: Timestamp,
    /// What a row is about; absent when one row is about all.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub by: Option<Every>,
    /// The rows in order of time; also those of periods without events.
    pub data: Vec<KpiRow>,
}

/// The key figures of a period.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KpiRow {
    /// The period: a week such as `2026-W47`, a day such as `2026-11-22`; absent when the row is about all.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required, example = "2026-W47"))]
    pub period: Option<Box<str>>,
    /// Where it begins; later than the period itself in the first row when that is asked for.
    pub since: Timestamp,
    /// Where it ends; earlier than the period itself in the last row when that is asked for.
    pub until: Timestamp,
    /// Its figures.
    #[serde(flatten)]
    pub figures: KeyFigures,
}

impl Events {
    /// The key figures of the scope's tenant, a row for each week or day, zero rows as well. One pass over the window's
    /// events; memory is bounded by the sessions of one row, 16 bytes or some more each.
    ///
    /// Sessions that are in the hot store alone are not counted.
    ///
    /// # Errors
    /// `forbidden` on behalf of an end user; `invalid` for a window that is empty or has too many rows;
    /// `limit_exceeded` for more sessions in one row than are counted; `integrity_error`, `key_missing`, and the ledger's.
    pub async fn key_figures(
        &self,
        caller: &Caller,
        query: KpiQuery,
    ) -> Result<KpiReport, Failure> {
        let scope = &caller.scope(Permission::Administer)?;
        check_operator(scope)?;
        let until = query.until.unwrap_or_else(|| self.clock.now());
        let since = query.since.unwrap_or_else(|| before(until, WEEK));
        let periods = periods(since, until, query.by)?;
        let tenant = scope.tenant.clone();
        let data = self
            .ledger
            .ask(move |sight| {
                let mut rows = Vec::with_capacity(periods.len());
                let mut periods = periods.into_iter();
                let Some(mut period) = periods.next() else {
                    return Ok(rows);
                };
                let mut tally = Tally::default();
                sight.tenant_events(&tenant, (since, until), &mut |session, event| {
                    while event.at >= period.until {
                        let Some(next) = periods.next() else { break };
                        let ended = std::mem::replace(&mut period, next);
                        rows.push(ended.row(std::mem::take(&mut tally)));
                    }
                    tally.see(session, event)
                })?;
                rows.push(period.row(tally));
                rows.extend(periods.map(|period| period.row(Tally::default())));
                Ok(rows)
            })
            .await?;
        Ok(KpiReport {
            tenant_id: scope.tenant.clone(),
            since,
            until,
            by: query.by,
            data,
        })
    }
}

/// Key figures are about a tenant, and not about what one end user sees.
fn check_operator(scope: &Scope) -> Result<(), Failure> {
    match scope.viewer {
        Viewer::Operator => Ok(()),
        Viewer::EndUser(_) => Err(Failure::new(
            ErrorCode::Forbidden,
            "key figures are about all sessions of the tenant",
        )),
    }
}

fn before(moment: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(moment.as_micros().saturating_sub(micros))
}

#[cfg(test)]
mod tests;
