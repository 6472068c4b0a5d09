//! Live calls, and the state of the store, the spool, the hot store and the search index.

use filrouge_engine::LiveCalls;
use filrouge_engine::spool::{SpoolView, SpooledLedger};
use filrouge_search::ledger::FeedCounts;
use filrouge_store::hot::HotHealth;
use filrouge_store::ledger::StoreLoad;
use filrouge_types::{Failure, Timestamp};
use maud::{Markup, html};

use super::status::Observer;
use crate::Pages;
use crate::format::time;
use crate::links::session_path;
use crate::words::OperationsWords;

/// The state of a server's stores.
pub(super) struct State {
    /// What does not work, by the names of the members of `/readyz`, with the reasons.
    degraded: Vec<(&'static str, String)>,
    commits: u64,
    durability: &'static str,
    load: StoreLoad,
    spool: Option<SpoolView>,
    /// The hot store, with the removals from it that wait.
    hot: Option<(HotHealth, u64)>,
    index: Option<FeedCounts>,
}

impl State {
    pub(super) async fn read(pages: &Pages, observer: Observer<'_>) -> Self {
        let mut degraded = pages.status().degraded(observer).await;
        if let Err(failure) = pages.upkeep.probe_store().await {
            degraded.push(("store", failure.detail));
        }
        let hot = match pages.tiers() {
            Some(tiers) => Some((tiers.hot_health().await, tiers.counts().removals_waiting)),
            None => None,
        };
        let feed = pages.search().feed.as_ref();
        Self {
            degraded,
            commits: pages.upkeep.position().commit_count(),
            durability: pages.upkeep.durability().as_str(),
            load: pages.upkeep.load(),
            spool: pages.spool().map(SpooledLedger::view),
            hot,
            index: feed.map(|feed| feed.counts()),
        }
    }

    pub(super) fn show(&self, words: &OperationsWords) -> Markup {
        html! {
            section.state {
                h2 { (words.server) }
                @if self.degraded.is_empty() {
                    p { (words.ready) }
                } @else {
                    ul.degraded { @for (part, why) in &self.degraded { li { strong { (part) } ": " bdi { (why) } } } }
                }
                div.stores {
                    (facts(words.store, &self.store(words)))
                    (facts(words.spool, &self.spool(words)))
                    (facts(words.hot, &self.hot(words)))
                    (facts(words.index, &self.index(words)))
                }
            }
        }
    }

    fn store(&self, words: &OperationsWords) -> Vec<Fact> {
        vec![
            Fact::new(words.commits, self.commits),
            Fact::new(words.durability, self.durability),
            Fact::new(words.queued_writes, self.load.queued_writes),
            Fact::new(words.statements, self.load.statements),
        ]
    }

    fn spool(&self, words: &OperationsWords) -> Vec<Fact> {
        let Some(spool) = &self.spool else {
            return vec![Fact::new(words.state, words.none)];
        };
        let oldest = spool.oldest.map_or_else(
            || words.none.to_owned(),
            |oldest| duration(oldest.as_secs()),
        );
        vec![
            Fact::new(words.waiting, spool.entries).bad_if(spool.entries > 0),
            Fact::new(words.sessions, spool.sessions),
            Fact::new(
                words.bytes,
                format!("{} / {}", spool.bytes, spool.bytes_max),
            ),
            Fact::new(words.oldest, oldest),
            Fact::new(words.dead_letters, spool.dead_letters).bad_if(spool.dead_letters > 0),
        ]
    }

    fn hot(&self, words: &OperationsWords) -> Vec<Fact> {
        let Some((hot, removals)) = &self.hot else {
            return vec![Fact::new(words.state, words.none)];
        };
        let why = hot.unavailable.as_ref().or(hot.refuses_writes.as_ref());
        let state = why.map_or(words.works, |why| why.as_str());
        let mut facts = vec![Fact::new(words.state, state).bad_if(why.is_some())];
        if let Some(bytes) = hot.used_bytes {
            facts.push(Fact::new(words.bytes, bytes));
        }
        facts.push(Fact::new(words.removals, removals).bad_if(*removals > 0));
        facts
    }

    fn index(&self, words: &OperationsWords) -> Vec<Fact> {
        let Some(index) = &self.index else {
            return vec![Fact::new(words.state, words.none)];
        };
        vec![
            Fact::new(words.lag, index.lag_commits),
            Fact::new(words.unreadable, index.unreadable).bad_if(index.unreadable > 0),
            Fact::new(words.failures, index.failed),
        ]
    }
}

/// A named value.
struct Fact {
    name: &'static str,
    value: String,
    is_bad: bool,
}

impl Fact {
    fn new(name: &'static str, value: impl ToString) -> Self {
        Self {
            name,
            value: value.to_string(),
            is_bad: false,
        }
    }

    fn bad_if(self, is_bad: bool) -> Self {
        Self { is_bad, ..self }
    }
}

fn facts(title: &str, facts: &[Fact]) -> Markup {
    html! {
        section {
            h3 { (title) }
            dl {
                @for fact in facts {
                    div class=[fact.is_bad.then_some("bad")] { dt { (fact.name) } dd { bdi { (fact.value) } } }
                }
            }
        }
    }
}

/// Shows the live calls; if they cannot be read, the reason.
pub(super) fn calls(words: &OperationsWords, live: &Result<LiveCalls, Failure>) -> Markup {
    html! {
        section.calls {
            h2 { (words.live_calls) }
            @match live {
                Err(failure) => { p.failure { bdi { (failure.detail) } } }
                Ok(live) => {
                    @if live.calls.is_empty() {
                        p.empty { (words.no_calls) }
                    } @else {
                        (table(words, live))
                    }
                    @if live.truncated { p.note { (words.calls_truncated) } }
                }
            }
        }
    }
}

fn table(words: &OperationsWords, live: &LiveCalls) -> Markup {
    let columns = [
        words.session,
        words.state,
        words.holder,
        words.fence,
        words.held_for,
        words.age,
        words.last_activity,
    ];
    html! {
        div.wide tabindex="0" role="group" aria-label=(words.live_calls) {
            table.figures {
                thead { tr { @for name in columns { th scope="col" { (name) } } } }
                tbody {
                    @for call in &live.calls {
                        @let session = &call.session;
                        tr {
                            th scope="row" {
                                a href=(session_path(&session.session_id)) {
                                    bdi { (session.title.as_deref().unwrap_or(session.session_id.as_str())) }
                                }
                            }
                            td { @if let Some(state) = &session.state { bdi { (state) } } }
                            td { bdi { (call.holder) } }
                            td.number { (call.fence) }
                            td.number { (since(call.held_since, live.as_of)) }
                            td.number { (since(session.created_at, live.as_of)) }
                            td { (time(session.updated_at)) }
                        }
                    }
                }
            }
        }
    }
}

/// The time that has passed between two moments.
fn since(from: Timestamp, to: Timestamp) -> String {
    let micros = to.as_micros().saturating_sub(from.as_micros());
    duration(u64::try_from(micros / 1_000_000).unwrap_or(0))
}

/// A duration such as `42 s`, `3 min 05 s` or `2 h 10 min`.
fn duration(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {:02} s", seconds % 60),
        (1..48, _) => format!("{hours} h {:02} min", minutes % 60),
        _ => format!("{} d {:02} h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        for (seconds, expected) in [
            (0, "0 s"),
            (185, "3 min 05 s"),
            (7_800, "2 h 10 min"),
            (200_000, "2 d 07 h"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }
}
