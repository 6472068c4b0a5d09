//! Webhooks and projections.

use filrouge_types::Failure;
use maud::{Markup, html};

use super::status::{Deliveries, ProjectionState, WebhookState};
use crate::format::time;
use crate::words::OperationsWords;

/// Shows webhooks and projections; if they cannot be read, the reason.
pub(super) fn show(words: &OperationsWords, deliveries: &Result<Deliveries, Failure>) -> Markup {
    html! {
        @match deliveries {
            Err(failure) => {
                section { h2 { (words.webhooks) } p.failure { bdi { (failure.detail) } } }
            }
            Ok(deliveries) => {
                section.webhooks {
                    h2 { (words.webhooks) }
                    @if deliveries.webhooks.is_empty() {
                        p.empty { (words.no_webhooks) }
                    } @else {
                        (webhooks(words, &deliveries.webhooks))
                    }
                }
                section.projections {
                    h2 { (words.projections) }
                    @if deliveries.projections.is_empty() {
                        p.empty { (words.no_projections) }
                    } @else {
                        (projections(words, &deliveries.projections))
                    }
                }
            }
        }
    }
}

fn webhooks(words: &OperationsWords, webhooks: &[WebhookState]) -> Markup {
    let columns = [
        words.name,
        words.lag,
        words.failures,
        words.dead_letters,
        words.last_error,
        words.next_attempt,
    ];
    html! {
        div.wide tabindex="0" role="group" aria-label=(words.webhooks) {
            table.figures {
                (head(&columns))
                tbody {
                    @for webhook in webhooks {
                        tr {
                            th scope="row" {
                                (webhook.name)
                                @if webhook.disabled_at.is_some() { " " span.pill.bad { (words.disabled) } }
                            }
                            td.number { (webhook.lag_commits) }
                            td.number { (webhook.failures) }
                            (dead_letters(webhook.dead_letters))
                            td { @if let Some(error) = &webhook.last_error { bdi { (error) } } }
                            td { @if let Some(at) = webhook.retry_at { (time(at)) } }
                        }
                    }
                }
            }
        }
    }
}

fn projections(words: &OperationsWords, projections: &[ProjectionState]) -> Markup {
    let columns = [
        words.name,
        words.lag,
        words.uncleaned,
        words.dead_letters,
        words.last_error,
        words.next_attempt,
    ];
    html! {
        div.wide tabindex="0" role="group" aria-label=(words.projections) {
            table.figures {
                (head(&columns))
                tbody {
                    @for projection in projections {
                        tr {
                            th scope="row" {
                                (projection.name)
                                @if projection.building_lag_commits.is_some() { " " span.pill { (words.being_filled) } }
                            }
                            td.number {
                                @if let Some(lag) = projection.lag_commits.or(projection.building_lag_commits) { (lag) }
                            }
                            td.number { (projection.uncleaned) }
                            (dead_letters(projection.dead_letters))
                            td {
                                @if let Some(error) = &projection.last_error { bdi { (error) } }
                                @if projection.hides_error { (words.error_hidden) }
                            }
                            td { @if let Some(at) = projection.retry_at { (time(at)) } }
                        }
                    }
                }
            }
        }
    }
}

fn head(columns: &[&str]) -> Markup {
    html! { thead { tr { @for name in columns { th scope="col" { (name) } } } } }
}

fn dead_letters(count: u64) -> Markup {
    html! {
        td.number { @if count > 0 { span.pill.bad { (count) } } @else { (count) } }
    }
}
