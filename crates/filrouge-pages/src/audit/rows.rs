//! Rows of the audit, as a timeline and as a table.

use filrouge_engine::audit::{AuditKind, AuditRow};
use filrouge_store::record::Seqs;
use filrouge_types::{JsonText, Part, Role, Timestamp};
use maud::{Markup, html};

use crate::format::time;
use crate::links::{item_path, session_path};
use crate::text::cut;
use crate::words::AuditWords;

/// The maximum number of characters that a row shows of a text.
const TEXT_CHARS_MAX: usize = 400;

/// The rows by day, each with its place on the thread.
pub(super) fn timeline(words: &AuditWords, rows: &[AuditRow]) -> Markup {
    html! {
        @for of_day in rows.chunk_by(|a, b| day(a.at) == day(b.at)) {
            section.audit-day {
                @if let Some(first) = of_day.first() { h2 { (day(first.at)) } }
                ol.audit-line {
                    @for row in of_day {
                        @let kind = row.kind().unwrap_or(AuditKind::Said);
                        li.audit-entry data-kind=(kind.as_str()) {
                            p.meta {
                                (time(row.at)) " " span.pill { (words.of_kind(kind)) } " "
                                strong { (who(words, row)) } " " (place(row))
                            }
                            div.audit-what { (what(words, row, kind)) }
                        }
                    }
                }
            }
        }
    }
}

/// The rows as a table.
pub(super) fn table(words: &AuditWords, rows: &[AuditRow]) -> Markup {
    let columns = [words.when, words.kind, words.who, words.what, words.place];
    html! {
        div.wide tabindex="0" role="region" aria-label=(words.table) {
            table.audit {
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody {
                    @for row in rows {
                        @let kind = row.kind().unwrap_or(AuditKind::Said);
                        tr data-kind=(kind.as_str()) {
                            td { (time(row.at)) }
                            td { (words.of_kind(kind)) }
                            td { (who(words, row)) }
                            td.audit-what { (what(words, row, kind)) }
                            td { (place(row)) }
                        }
                    }
                }
            }
        }
    }
}

/// The day of a moment, in UTC.
fn day(at: Timestamp) -> String {
    let mut text = at.to_string();
    text.truncate(10);
    text
}

/// The author of a row: the end user of a question, else the agent and its model, else the kind of author.
fn who(words: &AuditWords, row: &AuditRow) -> Markup {
    let names = [row.agent.as_deref(), row.model.as_deref()];
    let names: Vec<&str> = names.into_iter().flatten().collect();
    let author = match (row.kind(), row.role) {
        (Some(AuditKind::Redaction), _) => {
            let parts = parts_of(row);
            let by = parts.first().and_then(|part| part.text("by"));
            by.unwrap_or_default()
        }
        (_, None) => "–".to_owned(),
        (_, Some(Role::User)) => {
            let identity = row.identity_id.as_ref();
            identity.map_or_else(|| words.anonymous.to_owned(), ToString::to_string)
        }
        _ if !names.is_empty() => names.join(" · "),
        (_, Some(Role::Tool)) => words.tool.to_owned(),
        (_, Some(Role::System)) => words.application.to_owned(),
        (_, Some(Role::Assistant)) => words.assistant.to_owned(),
    };
    html! { bdi { (author) } }
}

/// What a row records.
fn what(words: &AuditWords, row: &AuditRow, kind: AuditKind) -> Markup {
    let failed = row.ok == Some(false);
    let codes = [&row.args, &row.result];
    let error = row.error.as_ref();
    let error = error.map(|error| [plain(&error.code), plain(&error.message)]);
    let error: Vec<String> = error.into_iter().flatten().flatten().collect();
    let has_members = row.tool.is_some() || row.text.is_some() || !error.is_empty();
    html! {
        @if row.redacted { em { (words.redacted) } }
        @if let Some(tool) = plain(&row.tool) { strong { bdi { (tool) } } " " }
        @for code in codes.into_iter().flatten() { code { bdi { (cut(code.as_str(), TEXT_CHARS_MAX)) } } " " }
        @if failed { span.pill.bad { (words.failed) } " " }
        @if !error.is_empty() { span.pill.bad { bdi { (cut(&error.join(": "), TEXT_CHARS_MAX)) } } " " }
        @if let Some(text) = plain(&row.text) { span { bdi { (cut(&text, TEXT_CHARS_MAX)) } } }
        @if !has_members { (recorded(words, row, kind)) }
    }
}

/// What only the recorded parts of a row say.
fn recorded(words: &AuditWords, row: &AuditRow, kind: AuditKind) -> Markup {
    let parts = parts_of(row);
    let Some(part) = parts.first() else {
        return html! {};
    };
    let text = |name: &str| part.text(name).unwrap_or_default();
    let number = |name: &str| {
        part.value(name)
            .map_or_else(String::new, |json| json.as_str().to_owned())
    };
    match kind {
        AuditKind::Redaction => {
            let ranges: Vec<(u64, u64)> = serde_json::from_str(&number("seqs")).unwrap_or_default();
            let seqs = Seqs::from_ranges(ranges).unwrap_or_default();
            html! { (words.items) " " (seqs) ": " bdi { (cut(&text("reason"), TEXT_CHARS_MAX)) } }
        }
        AuditKind::Link => html! {
            bdi { (text("identity_id")) }
            @if part.is("link_refused") { " " span.pill.bad { (words.refused) } }
        },
        AuditKind::Erasure => html! {
            (words.items) " " (number("items")) ", " (words.turns) " " (number("turns"))
        },
        AuditKind::Said | AuditKind::Tool | AuditKind::Failure => html! {
            code { bdi { (cut(part.raw, TEXT_CHARS_MAX)) } }
        },
    }
}

/// The item on its session's page; the session for a row without an item.
fn place(row: &AuditRow) -> Markup {
    let session = &row.session_id;
    match row.seq {
        Some(seq) => html! { a href=(item_path(session, seq)) { bdi { (session) } ":" (seq) } },
        None => html! { a href=(session_path(session)) { bdi { (session) } } },
    }
}

fn parts_of(row: &AuditRow) -> Vec<Part<'_>> {
    row.detail.as_ref().map_or_else(Vec::new, Part::all)
}

fn plain(text: &Option<JsonText>) -> Option<String> {
    text.as_ref().map(JsonText::to_plain)
}
