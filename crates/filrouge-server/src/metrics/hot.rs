//! What `/metrics` tells of the hot store, and of what does not reach the ledger (DESIGN §7).

use std::sync::atomic::Ordering;

use filrouge_engine::scopes::ScopeCounts;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What became of something.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// Why a turn came to the ledger behind its time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WhenLabels {
    when: &'static str,
}

/// A member of metadata. The engine keeps few names apart; the others are one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KeyLabels {
    key: String,
}

/// An item by its channel. The engine keeps those apart that it knows; the others are one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChannelLabels {
    channel: String,
}

/// How the hot store is at the moment of a scrape.
#[derive(Debug, Clone, Default)]
pub(crate) struct HotState {
    /// Whether there is one.
    pub(crate) there: bool,
    /// Whether it answers.
    pub(crate) up: bool,
    pub(crate) counts: ScopeCounts,
    pub(crate) links_refused: u64,
    pub(crate) metadata_dropped: Vec<(String, u64)>,
    pub(crate) items_not_recorded: Vec<(String, u64)>,
}

/// Counters and gauges of both scopes.
#[derive(Default)]
pub(super) struct HotMetrics {
    up: Gauge,
    reads: Family<OutcomeLabels, Counter>,
    fills: Counter,
    steps: Family<OutcomeLabels, Counter>,
    steps_waiting: Gauge,
    removals_failed: Counter,
    removals_waiting: Gauge,
    failures: Counter,
    logins: Counter,
    links_refused: Counter,
    late_refused: Counter,
    backfilled: Family<WhenLabels, Counter>,
    went_back: Counter,
    damaged: Counter,
    conflicts: Counter,
    trimmed: Counter,
    loads: Counter,
    metadata_dropped: Family<KeyLabels, Counter>,
    not_recorded: Family<ChannelLabels, Counter>,
}

fn set(counter: &Counter, count: u64) {
    counter.inner().store(count, Ordering::Relaxed);
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl HotMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("hot_up", "1 when the hot store answers", self.up.clone());
        r.register(
            "hot_reads",
            "Questions about recent turns, by what the copy in the hot store was good for",
            self.reads.clone(),
        );
        let fills = "Copies of recent turns that were made anew from the ledger";
        r.register("hot_fills", fills, self.fills.clone());
        let steps = "Writes that copies of recent turns were told of, or were not";
        r.register("hot_steps", steps, self.steps.clone());
        let waiting = "Writes that copies are still to be told of";
        r.register("hot_steps_waiting", waiting, self.steps_waiting.clone());
        let failed = "Removals from the hot store that failed";
        r.register("hot_removals_failed", failed, self.removals_failed.clone());
        let waiting = "Removals from the hot store that are still to be done";
        r.register(
            "hot_removals_waiting",
            waiting,
            self.removals_waiting.clone(),
        );
        let failures = "Requests to the hot store that failed";
        r.register("hot_failures", failures, self.failures.clone());
        let logins = "Ephemeral sessions that got an owner and went to the ledger";
        r.register("logins", logins, self.logins.clone());
        let refused = "Links that were refused because the session has another owner";
        r.register("links_refused", refused, self.links_refused.clone());
        let backfilled = "Turns that came from the hot store to the ledger";
        r.register("backfilled_turns", backfilled, self.backfilled.clone());
        let refused =
            "Turns that stayed behind in the hot store because the ledger did not take them";
        r.register("late_turns_refused", refused, self.late_refused.clone());
        for (name, help, counter) in [
            (
                "ephemeral_went_back",
                "Ephemeral sessions that were forgotten because the hot store had lost writes",
                &self.went_back,
            ),
            (
                "ephemeral_damaged",
                "Ephemeral sessions that were forgotten because their rows were not what was written",
                &self.damaged,
            ),
            (
                "ephemeral_conflicts",
                "Writes to ephemeral sessions that were done again because another process was faster",
                &self.conflicts,
            ),
            (
                "ephemeral_trimmed_turns",
                "Turns that ephemeral sessions dropped because of their bounds",
                &self.trimmed,
            ),
            (
                "ephemeral_loads",
                "Ephemeral sessions that were read from the hot store",
                &self.loads,
            ),
        ] {
            r.register(name, help, counter.clone());
        }
        let dropped = "Members of metadata that did not go to the ledger, by name";
        r.register("metadata_dropped", dropped, self.metadata_dropped.clone());
        let items = "Items that did not go to the ledger, by channel";
        r.register("items_not_recorded", items, self.not_recorded.clone());
    }

    pub(super) fn set(&self, state: &HotState) {
        let counts = &state.counts;
        self.up.set((state.there && state.up).into());
        for (outcome, count) in [
            ("hit", counts.recent_hits),
            ("absent", counts.recent_absent),
            ("stale", counts.recent_stale),
            ("unreadable", counts.recent_unreadable),
            ("as_of", counts.recent_as_of),
        ] {
            set(&self.reads.get_or_create(&OutcomeLabels { outcome }), count);
        }
        for (outcome, count) in [
            ("sent", counts.steps_sent),
            ("dropped", counts.steps_dropped),
        ] {
            set(&self.steps.get_or_create(&OutcomeLabels { outcome }), count);
        }
        for (when, count) in [
            ("login", counts.backfilled_turns),
            ("late", counts.late_turns),
        ] {
            set(&self.backfilled.get_or_create(&WhenLabels { when }), count);
        }
        self.steps_waiting.set(whole(counts.steps_waiting));
        self.removals_waiting.set(whole(counts.removals_waiting));
        for (counter, count) in [
            (&self.fills, counts.recent_fills),
            (&self.removals_failed, counts.removals_failed),
            (&self.failures, counts.hot_failures),
            (&self.logins, counts.logins),
            (&self.links_refused, state.links_refused),
            (&self.late_refused, counts.late_refused),
            (&self.went_back, counts.ephemeral_went_back),
            (&self.damaged, counts.ephemeral_damaged),
            (&self.conflicts, counts.ephemeral_conflicts),
            (&self.trimmed, counts.ephemeral_trimmed_turns),
            (&self.loads, counts.ephemeral_loads),
        ] {
            set(counter, count);
        }
        for (key, count) in &state.metadata_dropped {
            let labels = KeyLabels { key: key.clone() };
            set(&self.metadata_dropped.get_or_create(&labels), *count);
        }
        for (channel, count) in &state.items_not_recorded {
            let channel = channel.clone();
            let labels = ChannelLabels { channel };
            set(&self.not_recorded.get_or_create(&labels), *count);
        }
    }
}
