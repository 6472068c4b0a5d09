//! The key figures of live calls: the last seven days, the seven days before, each day, and thresholds.

use filrouge_engine::Caller;
use filrouge_engine::kpi::{Every, KeyFigures, KpiQuery, KpiRow, TechnicalStatus};
use filrouge_types::{Failure, Timestamp};
use maud::{Markup, html};

use crate::Pages;
use crate::charts::trend;
use crate::words::OperationsWords;

/// Seven days in microseconds.
const WEEK: i64 = 7 * 86_400_000_000;

/// The key figures of two weeks.
pub(super) struct Weeks {
    now: TechnicalStatus,
    before: KeyFigures,
    days: Vec<KpiRow>,
}

impl Weeks {
    /// Reads the figures by the definitions of the native routes.
    ///
    /// # Errors
    /// Those of the key figures.
    pub(super) async fn read(pages: &Pages, caller: &Caller) -> Result<Self, Failure> {
        let now = pages.events.technical_status(caller).await?;
        let begin = now.window.since;
        let earlier = Timestamp::from_micros(begin.as_micros().saturating_sub(WEEK));
        let query = KpiQuery {
            since: Some(earlier),
            until: Some(begin),
            by: None,
        };
        let before = pages.events.key_figures(caller, query).await?;
        let query = KpiQuery {
            since: Some(earlier),
            until: Some(now.window.until),
            by: Some(Every::Day),
        };
        let days = pages.events.key_figures(caller, query).await?.data;
        let before = before.data.into_iter().next();
        Ok(Self {
            before: before.map(|row| row.figures).unwrap_or_default(),
            now,
            days,
        })
    }
}

/// A figure: its name, its value in a window, and its count on a day.
struct Figure {
    name: &'static str,
    value: fn(&KeyFigures) -> Option<f64>,
    count: fn(&KeyFigures) -> u64,
    /// The unit and the number of decimals.
    unit: &'static str,
    decimals: usize,
    /// Above it, the figure is marked.
    threshold: Option<&'static str>,
}

/// A count per call.
fn rate(
    name: &'static str,
    value: fn(&KeyFigures) -> Option<f64>,
    count: fn(&KeyFigures) -> u64,
) -> Figure {
    Figure {
        name,
        value,
        count,
        unit: "",
        decimals: 4,
        threshold: None,
    }
}

fn figures(words: &OperationsWords) -> [Figure; 6] {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a number above 2^53 is shown approximately"
    )]
    let calls = |figures: &KeyFigures| Some(figures.calls as f64);
    [
        Figure {
            name: words.calls,
            value: calls,
            count: |figures| figures.calls,
            unit: "",
            decimals: 0,
            threshold: None,
        },
        Figure {
            name: words.lock_timeouts,
            value: |figures| figures.call_lock_timeout_rate_pct,
            count: |figures| figures.call_lock_timeouts,
            unit: " %",
            decimals: 2,
            threshold: Some("0.5 %"),
        },
        rate(
            words.resumes,
            |figures| figures.resume_from_pg_rate,
            |figures| figures.resume_from_pg_count,
        ),
        rate(
            words.reconstructed,
            |figures| figures.session_reconstruct_rate,
            |figures| figures.sessions_reconstructed,
        ),
        rate(
            words.unknown_state,
            |figures| figures.unknown_state_rate,
            |figures| figures.sessions_with_unknown_state,
        ),
        rate(
            words.transferred,
            |figures| figures.transfer_rate,
            |figures| figures.sessions_transferred,
        ),
    ]
}

/// Shows the key figures; if they cannot be read, the reason.
pub(super) fn show(words: &OperationsWords, weeks: &Result<Weeks, Failure>) -> Markup {
    html! {
        section.key-figures {
            h2 { (words.key_figures) }
            @match weeks {
                Err(failure) => { p.failure { bdi { (failure.detail) } } }
                Ok(weeks) => {
                    @if weeks.now.figures.events == 0 && weeks.before.events == 0 {
                        p.empty { (words.no_events) }
                    } @else {
                        (table(words, weeks))
                    }
                    @if weeks.now.call_lock_timeout_spike {
                        p.note { span.pill.bad { (words.spike) } }
                    }
                }
            }
        }
    }
}

fn table(words: &OperationsWords, weeks: &Weeks) -> Markup {
    let columns = [
        words.figure,
        words.this_week,
        words.week_before,
        words.by_day,
        words.threshold,
    ];
    html! {
        div.wide tabindex="0" role="group" aria-label=(words.key_figures) {
            table.figures {
                thead { tr { @for name in columns { th scope="col" { (name) } } } }
                tbody { @for figure in figures(words) { (row(words, weeks, &figure)) } }
            }
        }
    }
}

fn row(words: &OperationsWords, weeks: &Weeks, figure: &Figure) -> Markup {
    let (now, before) = (
        (figure.value)(&weeks.now.figures),
        (figure.value)(&weeks.before),
    );
    let (decimals, unit) = (figure.decimals, figure.unit);
    let shown = |value: Option<f64>| match value {
        Some(value) => format!("{value:.decimals$}{unit}"),
        None => "–".to_owned(),
    };
    let direction = match now.partial_cmp(&before) {
        Some(std::cmp::Ordering::Greater) => ("↑", words.more),
        Some(std::cmp::Ordering::Less) => ("↓", words.less),
        _ => ("=", words.equal),
    };
    let days: Vec<u64> = weeks
        .days
        .iter()
        .map(|day| (figure.count)(&day.figures))
        .collect();
    let counts: Vec<String> = days.iter().map(u64::to_string).collect();
    let is_alert = figure.threshold.is_some() && weeks.now.figures.call_lock_timeout_alert;
    html! {
        tr {
            th scope="row" { (figure.name) }
            td.number {
                span aria-hidden="true" { (direction.0) " " } span.unseen { (direction.1) " " }
                (shown(now))
            }
            td.number { (shown(before)) }
            td { (trend(&format!("{}: {}", figure.name, counts.join(", ")), &days)) }
            td {
                @if let Some(threshold) = figure.threshold {
                    (threshold) " "
                    @if is_alert { span.pill.bad { (words.exceeded) } }
                }
            }
        }
    }
}
