//! What `/metrics` tells of the spool (DESIGN §6, "Ledger down").

use std::sync::atomic::Ordering;

use filrouge_engine::spool::SpoolView;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counters and gauges of the spool.
#[derive(Debug, Default)]
pub(super) struct SpoolMetrics {
    entries: Gauge,
    sessions: Gauge,
    bytes: Gauge,
    oldest_seconds: Gauge,
    dead_letters: Gauge,
    spooled: Counter,
    drained: Counter,
    refused: Counter,
    full: Counter,
    unreadable: Counter,
}

impl SpoolMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        let gauges = [
            (
                "spool_entries",
                "Writes that wait for the ledger",
                &self.entries,
            ),
            (
                "spool_sessions",
                "Sessions of which writes wait for the ledger",
                &self.sessions,
            ),
            (
                "spool_bytes",
                "Bytes of the writes that wait for the ledger",
                &self.bytes,
            ),
            (
                "spool_oldest_seconds",
                "Since when the oldest write waits for the ledger",
                &self.oldest_seconds,
            ),
            (
                "spool_dead_letters",
                "Writes that the ledger has refused after they had waited for it",
                &self.dead_letters,
            ),
        ];
        for (name, help, gauge) in gauges {
            r.register(name, help, gauge.clone());
        }
        let counters = [
            (
                "spool_spooled",
                "Writes that were put into the spool",
                &self.spooled,
            ),
            (
                "spool_drained",
                "Writes that the ledger has taken from the spool",
                &self.drained,
            ),
            (
                "spool_refused",
                "Writes from the spool that the ledger has refused",
                &self.refused,
            ),
            ("spool_full", "Writes that found the spool full", &self.full),
            (
                "spool_unreadable",
                "Pieces of the spool's files that are not what was written",
                &self.unreadable,
            ),
        ];
        for (name, help, counter) in counters {
            r.register(name, help, counter.clone());
        }
    }

    pub(super) fn set(&self, view: &SpoolView) {
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.entries.set(whole(view.entries));
        self.sessions.set(whole(view.sessions));
        self.bytes.set(whole(view.bytes));
        let oldest = view.oldest.map_or(0, |age| age.as_secs());
        self.oldest_seconds.set(whole(oldest));
        self.dead_letters.set(whole(view.dead_letters));
        let set = |counter: &Counter, n| counter.inner().store(n, Ordering::Relaxed);
        set(&self.spooled, view.counts.spooled);
        set(&self.drained, view.counts.drained);
        set(&self.refused, view.counts.refused);
        set(&self.full, view.counts.full);
        set(&self.unreadable, view.counts.unreadable);
    }
}
