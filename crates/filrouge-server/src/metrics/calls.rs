//! What is counted of live calls (DESIGN §6).

use std::sync::atomic::Ordering;

use filrouge_engine::CallCounts;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Why a lease has refused a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    code: &'static str,
}

/// What a session was gone on with from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResumeLabels {
    source: &'static str,
    /// What it was instead of the newest checkpoint, or `none`.
    fallback: &'static str,
}

/// The counters of live calls, as the engine has them.
#[derive(Debug, Default)]
pub(super) struct CallMetrics {
    leases: Counter,
    lease_timeouts: Counter,
    leases_refused: Counter,
    events_dropped: Counter,
    writes_refused: Family<CodeLabels, Counter>,
    checkpoints: Counter,
    resumes: Family<ResumeLabels, Counter>,
}

impl CallMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        let taken = "Leases that were taken, also again by who held them";
        r.register("leases", taken, self.leases.clone());
        let timeouts = "Leases that were waited for in vain";
        r.register("lease_timeouts", timeouts, self.lease_timeouts.clone());
        let held = "Leases that somebody else held, and that were not waited for";
        r.register("leases_refused", held, self.leases_refused.clone());
        let dropped = "Events of live calls that a session had no room for";
        r.register("call_events_dropped", dropped, self.events_dropped.clone());
        let refused = "Writes that a lease has refused, by code";
        r.register("lease_refusals", refused, self.writes_refused.clone());
        let put = "Checkpoints that were put";
        r.register("checkpoints", put, self.checkpoints.clone());
        let resumed = "Sessions that were gone on with, by source and by what stood in for the newest checkpoint";
        r.register("resumes", resumed, self.resumes.clone());
    }

    pub(super) fn set(&self, counts: &CallCounts) {
        let set = |counter: &Counter, count| counter.inner().store(count, Ordering::Relaxed);
        set(&self.leases, counts.leases);
        set(&self.lease_timeouts, counts.lease_timeouts);
        set(&self.leases_refused, counts.leases_refused);
        set(&self.events_dropped, counts.events_dropped);
        set(&self.checkpoints, counts.checkpoints);
        for (code, count) in &counts.writes_refused {
            let counter = self.writes_refused.get_or_create(&CodeLabels { code });
            set(&counter, *count);
        }
        for (source, fallback, count) in &counts.resumes {
            let labels = ResumeLabels { source, fallback };
            set(&self.resumes.get_or_create(&labels), *count);
        }
    }
}
