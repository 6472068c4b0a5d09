//! How the service of a tenant does right now: the key figures of the last seven days, and what happened last.

use filrouge_types::{Failure, TenantId, Timestamp};
use serde::Serialize;

use super::figures::KeyFigures;
use super::tally::Tally;
use super::{HOUR, MICROS, WEEK, before, check_operator};
use crate::caller::{Caller, Permission};
use crate::engine::Events;

/// So long after its last event a tenant's agent counts as online.
const ONLINE: i64 = 15 * 60 * MICROS;
/// Fewer timeouts within an hour are no spike.
const SPIKE_LEAST: u64 = 3;
/// A spike is more than so many times what the other hours had on average.
const SPIKE_TIMES: u64 = 3;
/// The hours of the window but for the last one.
const OTHER_HOURS: u64 = 167;

/// A window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Window {
    /// Events count that happened at this moment or later,
    pub since: Timestamp,
    /// and at this moment or earlier.
    pub until: Timestamp,
}

/// Whether a tenant's agent is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ServiceAgent {
    /// Something happened within the last 15 minutes.
    Online,
    /// Nothing did.
    Offline,
}

/// How the service of a tenant does: the key figures of the last seven days, and what happened last.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TechnicalStatus {
    /// Whose sessions they are.
    pub tenant_id: TenantId,
    /// The moment at which it was so.
    pub as_of: Timestamp,
    /// What is counted: seven days up to `as_of`.
    pub window: Window,
    /// The key figures.
    #[serde(flatten)]
    pub figures: KeyFigures,
    /// Whether the last hour has at least three timeouts, and more than three times as many as the other hours of the
    /// window on average.
    pub call_lock_timeout_spike: bool,
    /// `online` when an event happened within the last 15 minutes.
    pub service_agent: ServiceAgent,
    /// When the last event of the window happened.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub last_event_at: Option<Timestamp>,
    /// Whole seconds since then.
    #[cfg_attr(feature = "openapi", schema(required, example = 12))]
    pub last_event_ago: Option<u64>,
}

impl Events {
    /// How the service of the scope's tenant does now. One pass over the events of seven days.
    ///
    /// # Errors
    /// As [`Self::key_figures`].
    pub async fn technical_status(&self, caller: &Caller) -> Result<TechnicalStatus, Failure> {
        let scope = &caller.scope(Permission::Administer)?;
        check_operator(scope)?;
        let now = self.clock.now();
        let since = before(now, WEEK);
        let tenant = scope.tenant.clone();
        let (tally, last_event_at, lately) = self
            .ledger
            .ask(move |sight| {
                // What happens at this very moment has happened.
                let window = (since, before(now, -1));
                let (mut tally, mut last, mut lately) = (Tally::default(), None, 0);
                sight.tenant_events(&tenant, window, &mut |session, event| {
                    last = Some(event.at);
                    if *event.kind == *"call_lock_timeout" && event.at > before(now, HOUR) {
                        lately += 1;
                    }
                    tally.see(session, event)
                })?;
                Ok((tally, last, lately))
            })
            .await?;
        let figures = tally.figures();
        let ago = last_event_at.map(|at| now.as_micros().saturating_sub(at.as_micros()));
        Ok(TechnicalStatus {
            tenant_id: scope.tenant.clone(),
            as_of: now,
            window: Window { since, until: now },
            call_lock_timeout_spike: is_spike(lately, figures.call_lock_timeouts - lately),
            figures,
            service_agent: match ago {
                Some(ago) if ago <= ONLINE => ServiceAgent::Online,
                _ => ServiceAgent::Offline,
            },
            last_event_at,
            last_event_ago: ago.and_then(|ago| u64::try_from(ago / MICROS).ok()),
        })
    }
}

/// Whether so many timeouts in the last hour are many, beside those of the other hours.
const fn is_spike(lately: u64, others: u64) -> bool {
    lately >= SPIKE_LEAST && lately * OTHER_HOURS > SPIKE_TIMES * others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_is_three_times_the_mean_and_at_least_three() {
        for (lately, others, expected) in [
            (0, 0, false),
            (2, 0, false),
            (3, 0, true),
            (3, 166, true),  // 3 > 3 x 0.994
            (3, 167, false), // 3 = 3 x 1
            (4, 222, true),  // 4 > 3 x 1.329
            (4, 223, false), // 4 < 3 x 1.335
        ] {
            assert_eq!(is_spike(lately, others), expected, "{lately}, {others}");
        }
    }
}
