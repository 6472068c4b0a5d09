//! Shows sums as key values, charts and tables.

use filrouge_engine::{SessionStatistics, Statistics};
use filrouge_types::Timestamp;
use maud::{Markup, html};

use super::breakdown::{Breakdown, ByName, Sums};
use crate::charts::{Bar, bars, columns};
use crate::format::number;
use crate::prices::{DAY, Prices};
use crate::words::StatisticsWords;

/// The maximum number of names in a table.
const NAMES_MAX: usize = 100;
/// The maximum number of models without a price that are named.
const UNPRICED_MAX: usize = 20;
/// The maximum number of columns of a chart.
const COLUMNS_MAX: usize = 400;

/// Sums, and what is needed to show them.
pub(super) struct Shown<'a> {
    pub(super) words: &'a StatisticsWords,
    pub(super) prices: &'a Prices,
    pub(super) sums: &'a Breakdown,
    /// The first and the last day; `None` for those of the sums.
    pub(super) days: Option<(i64, i64)>,
}

/// A day such as `2026-11-30`.
pub(super) fn date(day: i64) -> String {
    let text = Timestamp::from_micros(day.saturating_mul(DAY)).to_string();
    text.get(..10).unwrap_or(&text).to_owned()
}

/// Reads one figure.
type Figure = fn(&Statistics) -> u64;

/// The figures of a session alone, with its descendants, and without copied items, as `GET …/stats` returns them.
pub(super) fn with_descendants(words: &StatisticsWords, of: &SessionStatistics) -> Markup {
    let columns: [(&str, &Statistics); 3] = [
        (words.own, &of.own),
        (words.with_descendants, &of.with_descendants),
        (words.without_copied, &of.without_copied),
    ];
    let rows: [(&str, Figure); 7] = [
        (words.sessions, |s| s.sessions),
        (words.turns, |s| s.turns),
        (words.failed, |s| s.turns_by_status.failed),
        (words.messages, |s| s.messages),
        (words.tool_calls, |s| s.tool_calls),
        (words.tool_errors, |s| s.tool_errors),
        (words.tokens, |s| s.tokens.total()),
    ];
    html! {
        div.wide tabindex="0" role="group" aria-label=(words.own) {
            table.figures {
                thead { tr { td {} @for (name, _) in columns { th.number scope="col" { (name) } } } }
                tbody {
                    @for (name, value) in rows {
                        tr {
                            th scope="row" { (name) }
                            @for (_, statistics) in columns { td.number { (number(value(statistics))) } }
                        }
                    }
                }
            }
        }
        @if of.truncated { p.note { (words.truncated) } }
    }
}

impl Shown<'_> {
    /// Everything; without figures, what to do next.
    pub(super) fn sums(&self) -> Markup {
        let words = self.words;
        if self.sums.total.sessions == 0 {
            return html! {
                section.empty { h2 { (words.nothing) } p { (words.nothing_hint) } }
            };
        }
        html! {
            (self.totals())
            (self.by_day())
            (self.by_name(words.by_agent, words.agent, &self.sums.agents))
            (self.by_name(words.by_model, words.model, &self.sums.models))
        }
    }

    fn totals(&self) -> Markup {
        let (words, total) = (self.words, &self.sums.total);
        let tokens = &total.tokens;
        let facts = [
            (words.sessions, number(total.sessions)),
            (words.turns, number(total.turns)),
            (words.failed, number(total.failed)),
            (words.tokens, number(tokens.total())),
            (words.input, number(tokens.input)),
            (words.output, number(tokens.output)),
            (words.reasoning, number(tokens.reasoning)),
            (words.cache_read, number(tokens.cache_read)),
            (words.cache_write, number(tokens.cache_write)),
            (words.cost, self.cost(total)),
        ];
        html! {
            dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
            @if !self.sums.unpriced.is_empty() {
                p.note {
                    (words.unpriced) " "
                    @for (at, model) in self.sums.unpriced.iter().take(UNPRICED_MAX).enumerate() {
                        @if at > 0 { ", " } bdi { (model) }
                    }
                    @if self.sums.unpriced.len() > UNPRICED_MAX { ", …" }
                }
            }
            @if total.usage_unknown > 0 {
                p.note { (words.usage_unknown) " " (number(total.usage_unknown)) }
            }
        }
    }

    /// The cost of a group: absent where nothing has a price, and marked where only a part has one.
    fn cost(&self, sums: &Sums) -> String {
        match (sums.priced, sums.unpriced) {
            (0, 0) => String::new(),
            (0, _) => "–".to_owned(),
            (_, 0) => format!("{} {}", sums.cost.text(), self.prices.currency()),
            _ => format!("≥ {} {}", sums.cost.text(), self.prices.currency()),
        }
    }

    fn by_day(&self) -> Markup {
        let (words, sums) = (self.words, self.sums);
        let days = self.shown_days();
        let of = |day: &i64| sums.days.get(day).copied().unwrap_or_default();
        let chart = |title: &str, value: fn(&Sums) -> u64| {
            let bars = days.iter().map(|day| Bar {
                name: date(*day),
                value: value(&of(day)),
                text: number(value(&of(day))),
            });
            columns(title, &bars.collect::<Vec<_>>(), number)
        };
        let costs = || {
            let bars = days.iter().map(|day| Bar {
                name: date(*day),
                value: hundredths(&of(day)),
                text: self.cost(&of(day)),
            });
            let shown = |value: u64| format!("{}.{:02}", value / 100, value % 100);
            columns(words.cost, &bars.collect::<Vec<_>>(), shown)
        };
        let rows = sums.days.iter().map(|(day, sums)| (date(*day), sums));
        html! {
            section.chart-section {
                h2 { (words.by_day) }
                div.charts {
                    figure { figcaption { (words.tokens) } (chart(words.tokens, |s| s.tokens.total())) }
                    @if hundredths(&sums.total) > 0 {
                        figure { figcaption { (words.cost) ", " (self.prices.currency()) } (costs()) }
                    }
                    figure { figcaption { (words.sessions) } (chart(words.sessions, |s| s.sessions)) }
                    figure { figcaption { (words.failed) } (chart(words.failed, |s| s.failed)) }
                }
                details { summary { (words.table) } (self.table(words.day, rows)) }
            }
        }
    }

    fn by_name(&self, title: &str, name: &str, groups: &ByName) -> Markup {
        let words = self.words;
        let text = |name: &Option<Box<str>>| name.as_deref().unwrap_or(words.unnamed).to_owned();
        let mut groups: Vec<_> = groups.iter().collect();
        groups.sort_by_key(|(_, sums)| std::cmp::Reverse((sums.tokens.total(), sums.turns)));
        groups.truncate(NAMES_MAX);
        let drawn = groups.iter().map(|(name, sums)| Bar {
            name: text(name),
            value: sums.tokens.total(),
            text: number(sums.tokens.total()),
        });
        let drawn: Vec<_> = drawn.collect();
        let rows = groups.iter().map(|(name, sums)| (text(name), *sums));
        html! {
            section.chart-section {
                h2 { (title) }
                figure { figcaption { (words.tokens) } (bars(title, &drawn)) }
                details open { summary { (words.table) } (self.table(name, rows)) }
            }
        }
    }

    fn table<'s>(&self, name: &str, rows: impl Iterator<Item = (String, &'s Sums)>) -> Markup {
        let words = self.words;
        let columns = [
            words.sessions,
            words.turns,
            words.failed,
            words.tokens,
            words.cost,
        ];
        html! {
            div.wide tabindex="0" role="group" aria-label=(name) {
                table.figures {
                    thead {
                        tr {
                            th scope="col" { (name) }
                            @for column in columns { th.number scope="col" { (column) } }
                        }
                    }
                    tbody {
                        @for (name, sums) in rows {
                            tr {
                                th scope="row" { bdi { (name) } }
                                td.number { (number(sums.sessions)) }
                                td.number { (number(sums.turns)) }
                                td.number { (number(sums.failed)) }
                                td.number { (number(sums.tokens.total())) }
                                td.number { (self.cost(sums)) }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The days of the charts: all of the period, unless they are too many; then those with figures, the last ones.
    fn shown_days(&self) -> Vec<i64> {
        let of_sums = &self.sums.days;
        let first_and_last = of_sums.keys().next().zip(of_sums.keys().next_back());
        let period = self.days.or(first_and_last.map(|(a, b)| (*a, *b)));
        let (first, last) = period.unwrap_or_default();
        if last - first < COLUMNS_MAX as i64 {
            return (first..=last).collect();
        }
        let newest = of_sums.keys().rev().take(COLUMNS_MAX).copied();
        let mut days: Vec<i64> = newest.collect();
        days.reverse();
        days
    }
}

/// The known cost in hundredths of the currency.
fn hundredths(sums: &Sums) -> u64 {
    u64::try_from(sums.cost.hundredths()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(20_787), "2026-11-30");
    }
}
