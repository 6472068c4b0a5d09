//! The counted figures, and the rates derived from them.

use serde::Serialize;

/// The alert is set if more than one call in this many has a timeout: above 0.5 %.
const ALERT_CALLS: u128 = 200;

/// The key figures of one window. Rates are fractions rounded to four decimals, percentages to two. All rates are absent without
/// calls, and they may exceed one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
pub struct KeyFigures {
    /// The number of sessions with an event `call_started`.
    #[schema(example = 10)]
    pub calls: u64,
    /// The number of events `call_lock_timeout`.
    #[schema(example = 1)]
    pub call_lock_timeouts: u64,
    /// Lock timeouts per call, in percent.
    #[schema(required, example = 10.0)]
    pub call_lock_timeout_rate_pct: Option<f64>,
    /// Whether that rate, before it is rounded, exceeds 0.5.
    pub call_lock_timeout_alert: bool,
    /// The number of events `resume_from_pg`.
    #[schema(example = 3)]
    pub resume_from_pg_count: u64,
    /// These resumes per call.
    #[schema(required, example = 0.3)]
    pub resume_from_pg_rate: Option<f64>,
    /// The number of sessions with an event `session_reconstruct_used`.
    #[schema(example = 1)]
    pub sessions_reconstructed: u64,
    /// Reconstructed sessions per call.
    #[schema(required, example = 0.1)]
    pub session_reconstruct_rate: Option<f64>,
    /// The number of sessions with an event `unknown_state`.
    #[schema(example = 0)]
    pub sessions_with_unknown_state: u64,
    /// Sessions with an unknown state per call.
    #[schema(required, example = 0.0)]
    pub unknown_state_rate: Option<f64>,
    /// The number of sessions with an event `transferred` or `transferred_human`.
    #[schema(example = 2)]
    pub sessions_transferred: u64,
    /// Transferred sessions per call.
    #[schema(required, example = 0.2)]
    pub transfer_rate: Option<f64>,
    /// The number of all events.
    #[schema(example = 17)]
    pub events: u64,
    /// The number of events of each kind, the most frequent first.
    pub kinds: Vec<KindCount>,
    /// The number of events of further kinds, beyond the maximum number of counted kinds.
    #[schema(example = 0)]
    pub events_of_other_kinds: u64,
}

/// The number of events of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = EventCount)]
pub struct KindCount {
    /// The kind, as recorded.
    #[schema(value_type = String, example = "call_started")]
    pub kind: Box<str>,
    /// The number of its events.
    #[schema(example = 10)]
    pub events: u64,
}

impl KeyFigures {
    /// Adds the rates that follow from the counts.
    pub(super) fn with_rates(mut self) -> Self {
        let calls = self.calls;
        let per_call = |count: u64| rounded_ratio(count, calls, 1, 10_000);
        self.call_lock_timeout_rate_pct = rounded_ratio(self.call_lock_timeouts, calls, 100, 100);
        self.call_lock_timeout_alert =
            calls > 0 && u128::from(self.call_lock_timeouts) * ALERT_CALLS > u128::from(calls);
        self.resume_from_pg_rate = per_call(self.resume_from_pg_count);
        self.session_reconstruct_rate = per_call(self.sessions_reconstructed);
        self.unknown_state_rate = per_call(self.sessions_with_unknown_state);
        self.transfer_rate = per_call(self.sessions_transferred);
        self
    }
}

/// `count / calls * factor`, rounded half up to `1 / denominator`; `None` without calls.
#[expect(
    clippy::cast_precision_loss,
    reason = "a numerator above 2^53 makes the rate approximate"
)]
fn rounded_ratio(count: u64, calls: u64, factor: u128, denominator: u128) -> Option<f64> {
    let (count, calls) = (u128::from(count), u128::from(calls));
    let rounded = (2 * count * factor * denominator + calls).checked_div(2 * calls)?;
    Some(rounded as f64 / denominator as f64)
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
                rounded_ratio(count, calls, 1, 10_000),
                Some(expected),
                "{count}/{calls}"
            );
        }
        assert_eq!(rounded_ratio(1, 0, 1, 10_000), None);
        assert_eq!(rounded_ratio(1, 800, 100, 100), Some(0.13)); // 0.125
    }

    #[test]
    fn the_alert_uses_the_exact_rate() {
        let alert = |call_lock_timeouts, calls| {
            let counted = KeyFigures {
                calls,
                call_lock_timeouts,
                ..KeyFigures::default()
            };
            counted.with_rates().call_lock_timeout_alert
        };
        assert!(!alert(1, 200)); // 0.5
        assert!(alert(1, 199)); // 0.5025, shown as 0.50
        assert!(!alert(0, 1));
        assert!(!alert(5, 0));
    }
}
