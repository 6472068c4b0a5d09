//! The metrics for `/metrics` that are read from the running server at each scrape: those of the store, the hot store,
//! live calls, the spool, the search index and the projections.

use std::sync::atomic::Ordering;

use filrouge_engine::scopes::TieredLedger;
use filrouge_engine::spool::SpooledLedger;
use filrouge_projections::CountValues;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use crate::app::App;
use crate::routes::readiness;

/// Registers metrics without labels. A row has the kind, the name, the help text and the value.
macro_rules! register_all {
    ($registry:ident: $($kind:ident $name:literal $help:literal = $value:expr;)+) => {$(
        $registry.register($name, $help, $kind::new($value));
    )+};
}

/// Registers a counter with labels. `counts` has each combination of label values with its count. The values come from
/// the program or from a short fixed list, never from callers.
fn register_labeled<const N: usize, V: Into<String>>(
    registry: &mut Registry,
    (name, help): (&str, &str),
    labels: [&'static str; N],
    counts: impl IntoIterator<Item = ([V; N], u64)>,
) {
    let family = Family::<Vec<(&'static str, String)>, Counter>::default();
    for (values, count) in counts {
        let values = values.into_iter().map(Into::into);
        let counter = family.get_or_create_owned(&labels.into_iter().zip(values).collect());
        counter.inner().store(count, Ordering::Relaxed);
    }
    registry.register(name, help, family);
}

/// Collects the metrics with their current values.
pub(crate) async fn collect(app: &App) -> Registry {
    let mut registry = Registry::with_prefix("filrouge");
    add_store(app, &mut registry).await;
    add_secrets(app, &mut registry);
    add_scopes(app, &mut registry);
    add_calls(app, &mut registry);
    add_spool(app, &mut registry);
    add_search(app, &mut registry);
    add_projections(app, &mut registry);
    registry
}

/// Adds the metrics of the store and of the server's readiness.
async fn add_store(app: &App, registry: &mut Registry) {
    let upkeep = &app.upkeep;
    let (readiness, hot_up) = readiness(app).await;
    let load = upkeep.load();
    let is_reported = |why: &Option<String>| i64::from(why.is_some());
    register_all! { registry:
        ConstGauge "store_read_only" "1 when the store accepts no writes" = is_reported(&readiness.read_only);
        ConstGauge "store_integrity_failed" "1 when the store is known to differ from what was written" = is_reported(&readiness.integrity);
        ConstGauge "anchor_failed" "1 when the anchor cannot be advanced, or the store awaits `filrouge anchor accept`" = is_reported(&readiness.anchor);
        ConstGauge "degraded" "1 when /readyz says degraded" = i64::from(readiness.is_degraded());
        ConstGauge "hot_up" "1 when the hot store answers" = i64::from(hot_up);
        ConstGauge "store_commit" "Number of durable commits" = upkeep.position().commit_count();
        ConstGauge "store_queued_writes" "Writes that wait in the queues of the writers" = load.queued_writes;
        ConstCounter "store_statements" "Statements that were run on the store" = load.statements;
    }
}

/// Adds the metrics of masked and refused credentials (DESIGN §8).
fn add_secrets(app: &App, registry: &mut Registry) {
    let upkeep = &app.upkeep;
    register_all! { registry:
        ConstCounter "runtime_context_dropped" "Members of runtime_context that were dropped" = upkeep.counters().runtime_context_dropped.get();
        ConstCounter "runtime_context_lost" "Values of runtime_context that were too long or too many to be masked" = upkeep.runtime_context_lost();
    }
    let outcome = |outcome, counts: Vec<(&'static str, u64)>| {
        let counts = counts.into_iter();
        counts.map(move |(shape, count)| ([shape, outcome], count))
    };
    let masked = outcome("masked", upkeep.counters().masked.all());
    let refused = outcome("refused", upkeep.counters().refused.all());
    let help = "Credentials that were masked, or that writes were refused for, by shape";
    let labels = ["shape", "outcome"];
    register_labeled(
        registry,
        ("credentials", help),
        labels,
        masked.chain(refused),
    );
}

/// Adds the metrics of the hot store, and of what is not recorded in the ledger (DESIGN §7).
fn add_scopes(app: &App, registry: &mut Registry) {
    let upkeep = &app.upkeep;
    let tiers = app.tiers();
    let counts = tiers.map(TieredLedger::counts).unwrap_or_default();
    register_all! { registry:
        ConstCounter "hot_fills" "Copies of recent turns that were rebuilt from the ledger" = counts.recent_fills;
        ConstGauge "hot_steps_waiting" "Writes that copies have not received yet" = counts.steps_waiting;
        ConstCounter "hot_removals_failed" "Removals from the hot store that failed" = counts.removals_failed;
        ConstGauge "hot_removals_waiting" "Removals from the hot store that are still pending" = counts.removals_waiting;
        ConstCounter "hot_failures" "Requests to the hot store that failed" = counts.hot_failures;
        ConstCounter "logins" "Ephemeral sessions that were linked to an owner and moved to the ledger" = counts.logins;
        ConstCounter "links_refused" "Links that were refused because the session has another owner" = upkeep.counters().links_refused.get();
        ConstCounter "late_turns_refused" "Turns that stayed in the hot store because the ledger refused them" = counts.late_refused;
        ConstCounter "ephemeral_went_back" "Ephemeral sessions that were dropped because the hot store had lost writes" = counts.ephemeral.went_back;
        ConstCounter "ephemeral_damaged" "Ephemeral sessions that were dropped because their rows differed from what was written" = counts.ephemeral.damaged;
        ConstCounter "ephemeral_conflicts" "Writes to ephemeral sessions that were retried because another process wrote first" = counts.ephemeral.conflicts;
        ConstCounter "ephemeral_trimmed_turns" "Turns that ephemeral sessions dropped because of their limits" = counts.ephemeral.trimmed_turns;
        ConstCounter "ephemeral_loads" "Ephemeral sessions that were read from the hot store" = counts.ephemeral.loads;
    }
    let reads = [
        (["hit"], counts.recent_hits),
        (["absent"], counts.recent_absent),
        (["stale"], counts.recent_stale),
        (["unreadable"], counts.recent_unreadable),
        (["as_of"], counts.recent_as_of),
    ];
    let help = "Queries for recent turns, by the state of the copy in the hot store";
    register_labeled(registry, ("hot_reads", help), ["outcome"], reads);
    let steps = [
        (["sent"], counts.steps_sent),
        (["dropped"], counts.steps_dropped),
    ];
    let help = "Writes that copies of recent turns received, or did not receive";
    register_labeled(registry, ("hot_steps", help), ["outcome"], steps);
    let turns = [
        (["login"], counts.backfilled_turns),
        (["late"], counts.late_turns),
    ];
    let help = "Turns that were moved from the hot store to the ledger";
    register_labeled(registry, ("backfilled_turns", help), ["when"], turns);
    let to_labels = |(value, count)| ([value], count);
    let members = upkeep.counters().members.all().into_iter().map(to_labels);
    let help = "Members of metadata that were not recorded in the ledger, by name";
    register_labeled(registry, ("metadata_dropped", help), ["key"], members);
    let items = upkeep.counters().items.all().into_iter().map(to_labels);
    let help = "Items that were not recorded in the ledger, by channel";
    register_labeled(registry, ("items_not_recorded", help), ["channel"], items);
}

/// Adds the metrics of live calls (DESIGN §6).
fn add_calls(app: &App, registry: &mut Registry) {
    let counts = app.upkeep.counters();
    register_all! { registry:
        ConstCounter "leases" "Leases that were acquired, including repeats by the holder" = counts.leases.get();
        ConstCounter "lease_timeouts" "Waits for leases that timed out" = counts.lease_timeouts.get();
        ConstCounter "leases_refused" "Leases that were refused at once because another holder had them" = counts.leases_refused.get();
        ConstCounter "call_events_dropped" "Events of live calls that were dropped because the session was full" = counts.events_dropped.get();
        ConstCounter "checkpoints" "Checkpoints that were written" = counts.checkpoints.get();
    }
    let refused = counts.writes_refused.all().into_iter();
    let refused = refused.map(|(code, count)| ([code], count));
    let help = "Writes that were refused because of a lease, by code";
    register_labeled(registry, ("lease_refusals", help), ["code"], refused);
    let resumes = counts.resumes.all().into_iter();
    let resumes = resumes.map(|((source, fallback), count)| ([source, fallback], count));
    let help = "Resumed sessions, by source and by what replaced the newest checkpoint";
    register_labeled(registry, ("resumes", help), ["source", "fallback"], resumes);
}

/// Adds the metrics of the spool (DESIGN §6, "Ledger down").
fn add_spool(app: &App, registry: &mut Registry) {
    let view = app.spool().map(SpooledLedger::view);
    let view = view.unwrap_or_default();
    register_all! { registry:
        ConstGauge "spool_entries" "Writes that wait for the ledger" = view.entries;
        ConstGauge "spool_sessions" "Sessions with writes that wait for the ledger" = view.sessions;
        ConstGauge "spool_bytes" "Bytes of the writes that wait for the ledger" = view.bytes;
        ConstGauge "spool_oldest_seconds" "How long the oldest write has waited for the ledger" = view.oldest.map_or(0, |age| age.as_secs());
        ConstGauge "spool_dead_letters" "Writes that the ledger refused after they had waited for it" = view.dead_letters;
        ConstCounter "spool_spooled" "Writes that were stored in the spool" = view.counts.spooled;
        ConstCounter "spool_drained" "Writes from the spool that the ledger accepted" = view.counts.drained;
        ConstCounter "spool_refused" "Writes from the spool that the ledger refused" = view.counts.refused;
        ConstCounter "spool_full" "Writes that found the spool full" = view.counts.full;
        ConstCounter "spool_unreadable" "Parts of the spool's files that differ from what was written" = view.counts.unreadable;
    }
}

/// Adds the metrics of the ledger's search index (DESIGN §10).
fn add_search(app: &App, registry: &mut Registry) {
    let feed = app.search.feed.as_ref();
    let counts = feed.map(|feed| feed.counts()).unwrap_or_default();
    let up = feed.is_some_and(|feed| feed.failure().is_none());
    register_all! { registry:
        ConstGauge "search_index_up" "1 when the search index of the ledger is kept up to date" = i64::from(up);
        ConstGauge "search_index_behind_commits" "Commits that the search index does not include yet" = counts.lag_commits;
        ConstCounter "search_index_documents" "Messages and titles that were added to the search index" = counts.documents;
        ConstCounter "search_index_sessions" "Sessions that were read for the search index, fully or in part" = counts.sessions;
        ConstCounter "search_index_unreadable" "Sessions that could not be read for the search index" = counts.unreadable;
        ConstCounter "search_index_forgotten" "Redactions and erasures by others that the search index applied afterwards" = counts.forgotten;
        ConstCounter "search_index_stale" "Messages and titles that the search index names and no record of the ledger confirms; searches leave them out" = counts.stale;
        ConstCounter "search_index_damaged" "Damages of the search index: sessions with other documents than it was given, or the index itself" = counts.damaged;
        ConstCounter "search_index_errors" "Steps of the search index that failed" = counts.failed;
    }
}

/// Adds the metrics of projections. Their names come from the configuration, so their number is limited.
fn add_projections(app: &App, registry: &mut Registry) {
    if app.projections.is_empty() {
        return;
    }
    let values = app.projections.iter();
    let values = values.map(|p| (p.name.to_string(), p.counts.values()));
    let values: Vec<(String, CountValues)> = values.collect();
    let mut add = |name, help, count: fn(&CountValues) -> u64| {
        let counts = values.iter().map(|(of, v)| ([of.clone()], count(v)));
        register_labeled(registry, (name, help), ["projection"], counts);
    };
    add(
        "projection_rows",
        "Rows that were written to targets of projections",
        |values| values.rows,
    );
    add(
        "projection_refused",
        "Sessions that targets of projections refused, counted at each attempt",
        |values| values.refused,
    );
    add(
        "projection_dead_letters",
        "Sessions that became dead letters of projections",
        |values| values.dead_letters,
    );
    let lag = Family::<Vec<(&'static str, String)>, Gauge>::default();
    for (name, values) in &values {
        let gauge = lag.get_or_create_owned(&vec![("projection", name.clone())]);
        gauge.set(i64::try_from(values.lag_commits).unwrap_or(i64::MAX));
    }
    registry.register(
        "projection_lag_commits",
        "Commits that projections do not include yet",
        lag,
    );
}
