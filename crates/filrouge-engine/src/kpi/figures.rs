//! What is counted, and the rates made of it.

use serde::Serialize;

/// Above so many percent of timeouts there is an alert.
const ALERT_PCT: f64 = 0.5;

/// The key figures of one window. Rates are fractions rounded to four decimals, those in percent to two; all are absent
/// without calls, and none is bounded by one.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyFigures {
    /// Sessions with an event `call_started`.
    #[cfg_attr(feature = "openapi", schema(example = 10))]
    pub calls: u64,
    /// Events `call_lock_timeout`.
    #[cfg_attr(feature = "openapi", schema(example = 1))]
    pub call_lock_timeouts: u64,
    /// Those for each call, in percent.
    #[cfg_attr(feature = "openapi", schema(required, example = 10.0))]
    pub call_lock_timeout_rate_pct: Option<f64>,
    /// Whether that is more than 0.5.
    pub call_lock_timeout_alert: bool,
    /// Events `resume_from_pg`.
    #[cfg_attr(feature = "openapi", schema(example = 3))]
    pub resume_from_pg_count: u64,
    /// Those for each call.
    #[cfg_attr(feature = "openapi", schema(required, example = 0.3))]
    pub resume_from_pg_rate: Option<f64>,
    /// Sessions with an event `session_reconstruct_used`.
    #[cfg_attr(feature = "openapi", schema(example = 1))]
    pub sessions_reconstructed: u64,
    /// Those for each call.
    #[cfg_attr(feature = "openapi", schema(required, example = 0.1))]
    pub session_reconstruct_rate: Option<f64>,
    /// Sessions with an event `unknown_state`.
    #[cfg_attr(feature = "openapi", schema(example = 0))]
    pub sessions_with_unknown_state: u64,
    /// Those for each call.
    #[cfg_attr(feature = "openapi", schema(required, example = 0.0))]
    pub unknown_state_rate: Option<f64>,
    /// Sessions with an event `transferred` or `transferred_human`.
    #[cfg_attr(feature = "openapi", schema(example = 2))]
    pub sessions_transferred: u64,
    /// Those for each call.
    #[cfg_attr(feature = "openapi", schema(required, example = 0.2))]
    pub transfer_rate: Option<f64>,
    /// All events.
    #[cfg_attr(feature = "openapi", schema(example = 17))]
    pub events: u64,
    /// How many of each kind, the most frequent first.
    pub kinds: Vec<KindCount>,
    /// Events of further kinds, when there are more than are told apart.
    #[cfg_attr(feature = "openapi", schema(example = 0))]
    pub events_of_other_kinds: u64,
}

/// How many events of a kind there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KindCount {
    /// The kind, as it was told.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "call_started"))]
    pub kind: Box<str>,
    /// Its events.
    #[cfg_attr(feature = "openapi", schema(example = 10))]
    pub events: u64,
}

impl KeyFigures {
    /// With the rates that follow from the counts.
    pub(super) fn with_rates(mut self) -> Self {
        let calls = self.calls;
        let rate = |of: u64| per(of, calls, 1, 10_000);
        self.call_lock_timeout_rate_pct = per(self.call_lock_timeouts, calls, 100, 100);
        self.call_lock_timeout_alert = self
            .call_lock_timeout_rate_pct
            .is_some_and(|pct| pct > ALERT_PCT);
        self.resume_from_pg_rate = rate(self.resume_from_pg_count);
        self.session_reconstruct_rate = rate(self.sessions_reconstructed);
        self.unknown_state_rate = rate(self.sessions_with_unknown_state);
        self.transfer_rate = rate(self.sessions_transferred);
        self
    }
}

/// `count / calls`, times `times`, rounded half up to so many parts of one; `None` without calls.
#[expect(
    clippy::cast_precision_loss,
    reason = "a rate whose parts are more than 2^53 is told roughly"
)]
fn per(count: u64, calls: u64, times: u128, parts: u128) -> Option<f64> {
    let (count, calls) = (u128::from(count), u128::from(calls));
    let rounded = (2 * count * times * parts + calls).checked_div(2 * calls)?;
    Some(rounded as f64 / parts as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_rounded_half_up_and_absent_without_calls() {
        for (count, calls, expected) in [
            (0, 3, 0.0),
            (1, 3, 0.3333),
            (2, 3, 0.6667),
            (1, 20_000, 0.0001), // 0.00005
            (1, 20_001, 0.0),
            (7, 2, 3.5),
        ] {
            assert_eq!(
                per(count, calls, 1, 10_000),
                Some(expected),
                "{count}/{calls}"
            );
        }
        assert_eq!(per(1, 0, 1, 10_000), None);
        assert_eq!(per(1, 800, 100, 100), Some(0.13)); // 0.125
    }

    #[test]
    fn the_alert_is_judged_by_the_rate_that_is_shown() {
        let alert = |call_lock_timeouts, calls| {
            let counted = KeyFigures {
                calls,
                call_lock_timeouts,
                ..KeyFigures::default()
            };
            counted.with_rates().call_lock_timeout_alert
        };
        assert!(!alert(1, 200)); // 0.50
        assert!(!alert(1, 199)); // 0.5025, shown as 0.50
        assert!(alert(1, 197)); // 0.5076, shown as 0.51
        assert!(!alert(5, 0));
    }
}
