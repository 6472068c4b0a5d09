//! `/api/v1/audit`: who said what, which tool with which parameters, by which agent and model, in order.

use std::future::ready;

use axum::body::{Body as HttpBody, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use filrouge_engine::Caller;
use filrouge_engine::audit::{AuditPage, AuditQuery, AuditRow};
use filrouge_types::{ErrorCode, Failure, IdentityId, SessionId, Timestamp};
use futures_util::stream::{once, try_unfold};
use futures_util::{StreamExt, TryStreamExt};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::Tabled;
use filrouge_http::access::{Principal, may};
use filrouge_http::answer::{Answer, Page, accepted, attachment, json};
use filrouge_http::extract::{InTenant, LIMIT_MAX, Limit};

/// What the rows are written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    /// A page.
    Json,
    /// All rows, one JSON object a line.
    Jsonl,
    /// All rows, as comma-separated values.
    Csv,
}

impl Format {
    fn line(self, row: &AuditRow) -> Result<String, Failure> {
        match self {
            Self::Csv => row.csv_line(),
            Self::Json | Self::Jsonl => row.json_line(),
        }
    }

    fn lines(self, rows: &[AuditRow]) -> Result<Vec<u8>, Failure> {
        let mut text = Vec::new();
        for row in rows {
            text.extend_from_slice(self.line(row)?.as_bytes());
        }
        Ok(text)
    }
}

/// The first format that `Accept` names.
fn named(headers: &HeaderMap) -> Format {
    let mut named = accepted(headers).filter_map(|media_type| match media_type.as_str() {
        "application/json" => Some(Format::Json),
        "application/x-ndjson" | "application/jsonl" => Some(Format::Jsonl),
        "text/csv" => Some(Format::Csv),
        _ => None,
    });
    named.next().unwrap_or(Format::Json)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Of one session, by seq.
    session_id: Option<SessionId>,
    /// What an end user has asked, and what was answered.
    identity_id: Option<IdentityId>,
    /// Calls of a tool, and their results.
    tool: Option<Box<str>>,
    /// What an agent has said and done.
    agent: Option<Box<str>>,
    /// What was committed at this moment or later.
    since: Option<Timestamp>,
    /// What was committed before this moment.
    until: Option<Timestamp>,
    /// What the rows are written as; goes before `Accept`.
    #[param(inline)]
    format: Option<Format>,
    /// At most so many rows: 50 unless asked for a page, all for `jsonl` and `csv`.
    #[param(inline)]
    limit: Option<Limit>,
    /// The `next_cursor` of the page before.
    #[param(pattern = r"^[0-9]+(\.[0-9]+)?(-[0-9]+-[0-9]+)?$")]
    cursor: Option<String>,
}

/// Lists who said what, and which tool was called with which parameters, by which agent and model.
///
/// One row for each item of the journal, and for each call and result where an item holds several. With `session_id`
/// by seq, else of the whole tenant in the order of commits. The work for a page is bounded: it may hold fewer rows
/// than asked for, even none, and still have a `next_cursor`. `jsonl` and `csv` (or `Accept`) give all rows in one
/// answer, written as they are read.
#[utoipa::path(
    get,
    path = "/api/v1/audit",
    operation_id = "listAudit",
    tag = "reading",
    params(ListQuery),
    responses(Tabled<AuditRow>)
)]
pub(super) async fn list(
    State(app): State<App>,
    at: InTenant<may::Audit, ListQuery>,
    headers: HeaderMap,
) -> Answer {
    let format = at.query.format.unwrap_or_else(|| named(&headers));
    let asked = AuditQuery {
        session_id: at.query.session_id,
        identity_id: at.query.identity_id,
        tool: at.query.tool,
        agent: at.query.agent,
        since: at.query.since,
        until: at.query.until,
        cursor: at.query.cursor.as_deref().map(str::parse).transpose()?,
        up_to: None,
        limit: LIMIT_MAX,
    };
    if format == Format::Json {
        let limit = at.query.limit.unwrap_or_default().into();
        let page = app.audit.page(&at.caller, AuditQuery { limit, ..asked });
        let AuditPage { rows, next, .. } = page.await?;
        let page = Page {
            data: rows,
            next_cursor: next.map(|next| next.to_string()),
        };
        return json(&page);
    }
    let rows = Rows {
        app,
        caller: at.caller,
        principal: at.principal,
        query: asked,
        left: at.query.limit.map_or(usize::MAX, Into::into),
        format,
    };
    rows.answer().await
}

/// Rows that are read and written page by page.
struct Rows {
    app: App,
    caller: Caller,
    principal: Principal,
    query: AuditQuery,
    /// How many may still come.
    left: usize,
    format: Format,
}

/// Some of the answer, and what follows it.
type Piece = (Bytes, Option<Rows>);

impl Rows {
    async fn answer(self) -> Answer {
        let leave = self.app.limits().large_answer().await?;
        let (media_type, name, head) = match self.format {
            Format::Csv => {
                let media_type = "text/csv; charset=utf-8; header=present";
                (media_type, "audit.csv", AuditRow::csv_header())
            }
            Format::Json | Format::Jsonl => ("application/x-ndjson", "audit.jsonl", String::new()),
        };
        let mut pieces = Box::pin(try_unfold(Some(self), |rows| async move {
            match rows {
                Some(rows) => rows.piece().await.map(Some),
                None => Ok(None),
            }
        }));
        // What fails at once is reported as any failure is.
        let first = pieces.try_next().await?.unwrap_or_default();
        let begin = Bytes::from([head.as_bytes(), &first].concat());
        // A failure cuts the answer off, so that nobody takes it for whole.
        let following = pieces.inspect_err(|failure: &Failure| {
            let code = failure.code.as_str();
            tracing::warn!(code, detail = %failure.detail, "an audit was cut off");
        });
        let body = once(ready(Ok(begin))).chain(following);
        let body = body.try_filter(|bytes| ready(!bytes.is_empty()));
        let body = leave.hold_in(HttpBody::from_stream(body));
        Ok(attachment(media_type, name, body))
    }

    /// Reads a page. What is written after the first one was read does not come any more, so that there is an end.
    async fn piece(mut self) -> Result<Piece, Failure> {
        let ended = if *self.app.stopping().borrow() {
            Some("the server stops")
        } else if !self.principal.still_valid() {
            Some("the credentials stopped being valid")
        } else {
            None
        };
        if let Some(why) = ended {
            return Err(Failure::new(ErrorCode::Unauthenticated, why));
        }
        self.query.limit = self.left.min(LIMIT_MAX);
        let query = self.query.clone();
        let page = self.app.audit.page(&self.caller, query).await?;
        self.query.up_to.get_or_insert(page.newest);
        self.left -= page.rows.len();
        let lines = self.format.lines(&page.rows)?;
        self.query.cursor = page.next;
        let goes_on = page.next.is_some() && self.left > 0;
        Ok((lines.into(), goes_on.then_some(self)))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header};

    use super::*;

    fn asks(accept: &str) -> Format {
        let mut headers = HeaderMap::new();
        headers.append(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
        named(&headers)
    }

    #[test]
    fn a_format_is_asked_for_by_its_media_type() {
        assert_eq!(named(&HeaderMap::new()), Format::Json);
        for (accept, expected) in [
            ("*/*", Format::Json),
            ("text/html, Text/CSV; header=present", Format::Csv),
            ("application/x-ndjson", Format::Jsonl),
            ("application/jsonl, text/csv", Format::Jsonl),
            ("application/json, text/csv", Format::Json),
        ] {
            assert_eq!(asks(accept), expected, "{accept}");
        }
    }
}
