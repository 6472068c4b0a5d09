//! The current condition of a tenant's live calls: the key figures of the last seven days, and recent events.

use filrouge_types::{Failure, TenantId, Timestamp};
use serde::Serialize;

use super::figures::KeyFigures;
use super::tally::KpiTally;
use super::{HOUR, MICROS, WEEK, operator_scope, subtract_micros};
use crate::caller::Caller;
use crate::engine::Events;

/// The time after its last event for which a tenant's agent counts as online.
const ONLINE_FOR: i64 = 15 * 60 * MICROS;
/// The minimum number of timeouts within an hour that can be a spike.
const SPIKE_MIN: u64 = 3;
/// A spike exceeds the average of the other hours by more than this factor.
const SPIKE_FACTOR: u64 = 3;
/// The number of hours of the window (seven days) before the last hour.
const OTHER_HOURS: u64 = 167;

/// A window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct TimeWindow {
    /// The start of the window, inclusive.
    pub since: Timestamp,
    /// The end of the window, inclusive.
    pub until: Timestamp,
}

/// Whether a tenant's agent is working.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceAgent {
    /// An event happened within the last 15 minutes.
    Online,
    /// No event happened within the last 15 minutes.
    Offline,
}

/// The current condition of a tenant's live calls: the key figures of the last seven days, and recent events.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct TechnicalStatus {
    /// The tenant whose sessions are counted.
    pub tenant_id: TenantId,
    /// The moment of the report.
    pub as_of: Timestamp,
    /// The counted window: seven days up to `as_of`.
    pub window: TimeWindow,
    /// The key figures.
    #[serde(flatten)]
    pub figures: KeyFigures,
    /// Whether the last hour has at least three timeouts, and more than three times the average of the window's other hours.
    pub call_lock_timeout_spike: bool,
    /// `online` when an event happened within the last 15 minutes.
    pub service_agent: ServiceAgent,
    /// When the last event of the window happened.
    #[schema(required)]
    pub last_event_at: Option<Timestamp>,
    /// Full seconds since then.
    #[schema(required, example = 12)]
    pub last_event_ago: Option<u64>,
}

impl Events {
    /// The current condition of the caller's tenant. One pass over the events of seven days.
    ///
    /// # Errors
    /// As [`Self::key_figures`].
    pub async fn technical_status(&self, caller: &Caller) -> Result<TechnicalStatus, Failure> {
        let scope = operator_scope(caller)?;
        let now = self.clock.now();
        let since = subtract_micros(now, WEEK);
        let tenant = scope.tenant.clone();
        let (tally, last_event_at, last_hour_timeouts) = self
            .ledger
            .query_listed(&scope, move |snapshot| {
                // `tenant_events` excludes the end of its window, but an event at `now` has to count.
                let window = (since, subtract_micros(now, -1));
                let (mut tally, mut last, mut last_hour_timeouts) = (KpiTally::default(), None, 0);
                snapshot.tenant_events(&tenant, window, &mut |session, event| {
                    last = Some(event.at);
                    if *event.kind == *"call_lock_timeout" && event.at > subtract_micros(now, HOUR)
                    {
                        last_hour_timeouts += 1;
                    }
                    tally.count(session, event)
                })?;
                Ok((tally, last, last_hour_timeouts))
            })
            .await?;
        let figures = tally.figures();
        let since_last_event =
            last_event_at.map(|at| now.as_micros().saturating_sub(at.as_micros()));
        Ok(TechnicalStatus {
            tenant_id: scope.tenant,
            as_of: now,
            window: TimeWindow { since, until: now },
            call_lock_timeout_spike: is_spike(
                last_hour_timeouts,
                figures.call_lock_timeouts - last_hour_timeouts,
            ),
            figures,
            service_agent: match since_last_event {
                Some(since_last_event) if since_last_event <= ONLINE_FOR => ServiceAgent::Online,
                _ => ServiceAgent::Offline,
            },
            last_event_at,
            last_event_ago: since_last_event
                .and_then(|since_last_event| u64::try_from(since_last_event / MICROS).ok()),
        })
    }
}

/// Whether this many timeouts in the last hour are a spike, given the number in the other hours.
const fn is_spike(last_hour_timeouts: u64, other_timeouts: u64) -> bool {
    last_hour_timeouts >= SPIKE_MIN
        && last_hour_timeouts * OTHER_HOURS > SPIKE_FACTOR * other_timeouts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_is_three_times_the_mean_and_at_least_three() {
        for (last_hour_timeouts, other_timeouts, expected) in [
            (0, 0, false),
            (2, 0, false),
            (3, 0, true),
            (3, 166, true),  // 3 > 3 x 0.994
            (3, 167, false), // 3 = 3 x 1
            (4, 222, true),  // 4 > 3 x 1.329
            (4, 223, false), // 4 < 3 x 1.335
        ] {
            assert_eq!(
                is_spike(last_hour_timeouts, other_timeouts),
                expected,
                "{last_hour_timeouts}, {other_timeouts}"
            );
        }
    }
}
