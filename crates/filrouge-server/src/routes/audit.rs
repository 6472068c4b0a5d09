//! `/api/v1/audit`: who said what, which tool with which parameters, by which agent and model, in order.

use std::collections::BTreeSet;
use std::future::ready;

use axum::body::{Body as HttpBody, Bytes};
use axum::http::HeaderMap;
use filrouge_engine::Caller;
use filrouge_engine::audit::{AuditQuery, AuditRow};
use filrouge_store::WorkSize;
use filrouge_types::{ErrorCode, Failure, IdentityId, SessionId, Timestamp};
use futures_util::stream::{iter, try_unfold};
use futures_util::{StreamExt, TryStreamExt};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::PageOrTableResponse;
use filrouge_http::access::{Principal, may};
use filrouge_http::extract::{LIMIT_MAX, Limit, TenantAccess};
use filrouge_http::limits::UnreadResponse;
use filrouge_http::response::{Page, RouteResult, accepted_media_types, attachment, json};

/// The format of the rows.
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

/// Returns the first supported format that `Accept` names; JSON if it names none.
fn requested_format(headers: &HeaderMap) -> Format {
    let mut formats =
        accepted_media_types(headers).filter_map(|media_type| match media_type.as_str() {
            "application/json" => Some(Format::Json),
            "application/x-ndjson" | "application/jsonl" => Some(Format::Jsonl),
            "text/csv" => Some(Format::Csv),
            _ => None,
        });
    formats.next().unwrap_or(Format::Json)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditPageQuery {
    /// Only items of this session, by seq.
    session_id: Option<SessionId>,
    /// Only turns that this end user asked, with their answers.
    identity_id: Option<IdentityId>,
    /// Only calls of this tool, and their results.
    tool: Option<Box<str>>,
    /// Only items of this agent.
    agent: Option<Box<str>>,
    /// Only items committed at this moment or later.
    since: Option<Timestamp>,
    /// Only items committed before this moment.
    until: Option<Timestamp>,
    /// The format of the rows; overrides `Accept`.
    #[param(inline)]
    format: Option<Format>,
    /// The maximum number of rows: by default 50 for a page, all for `jsonl` and `csv`.
    #[param(inline)]
    limit: Option<Limit>,
    /// The `next_cursor` of the previous page.
    #[param(pattern = r"^[0-9]+(\.[0-9]+)?(_[0-9]+(\.[0-9]+)?)*(-[0-9]+-[0-9]+(_[0-9]+)?)*$")]
    cursor: Option<String>,
}

/// Lists who said what, and which tool was called with which parameters, by which agent and model.
///
/// One row for each item of the ledger, and for each call and result where an item holds several. With `session_id` by
/// seq, otherwise for the whole tenant by the time of the commit. The work for a page is bounded: it may hold fewer rows than
/// the limit, even none, and still have a `next_cursor`. `jsonl` and `csv` (or `Accept`) return all rows in one
/// response, written as they are read. Items that were damaged in the store are left out. A page names their sessions in
/// `findings`; one response with all rows has a row for each such session, without `seq` and `channel`, with the finding
/// in `detail`, which does not count towards the limit. With `session_id`, damage is an error.
#[utoipa::path(
    get,
    path = "/api/v1/audit",
    params(AuditPageQuery),
    responses(PageOrTableResponse<AuditRow>)
)]
pub(super) async fn list_audit(
    app: App,
    access: TenantAccess<may::Audit, AuditPageQuery>,
    headers: HeaderMap,
) -> RouteResult {
    let format = access
        .query
        .format
        .unwrap_or_else(|| requested_format(&headers));
    let query = AuditQuery {
        session_id: access.query.session_id,
        identity_id: access.query.identity_id,
        tool: access.query.tool,
        agent: access.query.agent,
        since: access.query.since,
        until: access.query.until,
        cursor: access.query.cursor.as_deref().map(str::parse).transpose()?,
        last_commit: None,
        limit: LIMIT_MAX,
        named: BTreeSet::new(),
    };
    if format == Format::Json {
        let limit = access.query.limit.unwrap_or_default().into();
        let query = AuditQuery { limit, ..query };
        let page = app.audit.page(&access.caller, query).await?;
        let page = Page {
            data: page.rows,
            next_cursor: page.next.map(|next| next.to_string()),
            findings: page.findings,
        };
        return json(&page);
    }
    let reader = RowReader {
        app,
        caller: access.caller,
        principal: access.principal,
        query,
        rows_left: access.query.limit.map_or(usize::MAX, Into::into),
        format,
    };
    reader.respond().await
}

/// Reads all rows page by page, and writes them as lines while the response is sent.
struct RowReader {
    app: App,
    caller: Caller,
    principal: Principal,
    query: AuditQuery,
    /// The maximum number of further rows.
    rows_left: usize,
    format: Format,
}

/// A part of the response, and the reader of the further rows; `None` if there are none.
type BodyPiece = (UnreadResponse, Option<RowReader>);

impl RowReader {
    async fn respond(self) -> RouteResult {
        let (media_type, name, heading) = match self.format {
            Format::Csv => {
                let media_type = "text/csv; charset=utf-8; header=present";
                (media_type, "audit.csv", AuditRow::csv_header())
            }
            Format::Json | Format::Jsonl => ("application/x-ndjson", "audit.jsonl", String::new()),
        };
        let mut body_pieces = Box::pin(try_unfold(Some(self), |reader| async move {
            match reader {
                Some(reader) => reader.next_piece().await.map(Some),
                None => Ok(None),
            }
        }));
        // The first page is read before the response begins, so that its failure gets an ordinary error response.
        let first = body_pieces.try_next().await?;
        // A later failure breaks the connection, so that the client does not take the response for complete.
        let later_pieces = body_pieces.inspect_err(|failure: &Failure| {
            let code = failure.code.as_str();
            tracing::warn!(code, detail = %failure.detail, "an audit was cut off");
        });
        let rows = iter(first.map(Ok)).chain(later_pieces);
        let rows = rows.map_ok(|piece| HttpBody::from(piece).into_data_stream());
        let rows = rows.map_err(axum::Error::new).try_flatten();
        let body = iter([Ok(Bytes::from(heading))]).chain(rows);
        let body = body.try_filter(|bytes| ready(!bytes.is_empty()));
        Ok(attachment(media_type, name, HttpBody::from_stream(body)))
    }

    /// Reads a page, under a permit of its own, so that a client that reads slowly holds none. Commits made after the
    /// first page was read are left out, because the response might never end otherwise. Fails if the server stops or
    /// the credentials become invalid.
    async fn next_piece(mut self) -> Result<BodyPiece, Failure> {
        let end_reason = if *self.app.stopping().borrow() {
            Some("the server stops")
        } else if !self.principal.is_valid() {
            Some("the credentials stopped being valid")
        } else {
            None
        };
        if let Some(why) = end_reason {
            return Err(Failure::new(ErrorCode::Unauthenticated, why));
        }
        let permit = self.app.work_permit(&self.caller, WorkSize::Large).await?;
        self.query.limit = self.rows_left.min(LIMIT_MAX);
        let query = self.query.clone();
        let page = self.app.audit.page(&self.caller, query).await?;
        let damage = self.app.audit.damage_rows(&page.findings)?;
        self.rows_left -= page.rows.len();
        let line = match self.format {
            Format::Csv => AuditRow::csv_line,
            Format::Json | Format::Jsonl => AuditRow::json_line,
        };
        let lines = page.rows.iter().chain(&damage).map(line);
        let lines = lines.collect::<Result<String, Failure>>()?;
        self.query.continue_after(page);
        let has_more = self.query.cursor.is_some() && self.rows_left > 0;
        Ok((permit.hold(lines).await?, has_more.then_some(self)))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header};

    use super::*;

    fn format_for(accept: &str) -> Format {
        let mut headers = HeaderMap::new();
        headers.append(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
        requested_format(&headers)
    }

    #[test]
    fn a_format_is_chosen_by_its_media_type() {
        assert_eq!(requested_format(&HeaderMap::new()), Format::Json);
        for (accept, expected) in [
            ("*/*", Format::Json),
            ("text/html, Text/CSV; header=present", Format::Csv),
            ("application/x-ndjson", Format::Jsonl),
            ("application/jsonl, text/csv", Format::Jsonl),
            ("application/json, text/csv", Format::Json),
        ] {
            assert_eq!(format_for(accept), expected, "{accept}");
        }
    }
}
