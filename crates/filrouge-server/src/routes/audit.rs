//! `/api/v1/audit`: who said what, which tool with which parameters, by which agent and model, in order.

use axum::http::HeaderMap;
use filrouge_engine::audit::{AuditQuery, AuditRow};
use filrouge_types::{IdentityId, SessionId, Timestamp};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::PageOrTableResponse;
use filrouge_http::HttpLayer;
use filrouge_http::access::may;
use filrouge_http::audit::{AuditFile, audit_file};
use filrouge_http::extract::{Limit, TenantAccess};
use filrouge_http::response::{Page, RouteResult, accepted_media_types, json};

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
        ..AuditQuery::default()
    };
    let file = match format {
        Format::Json => {
            let limit = access.query.limit.unwrap_or_default().into();
            let query = AuditQuery { limit, ..query };
            let page = app.audit.page(&access.caller, query).await?;
            return json(&Page {
                data: page.rows,
                next_cursor: page.next.map(|next| next.to_string()),
                findings: page.findings,
            });
        }
        Format::Jsonl => AuditFile::JsonLines,
        Format::Csv => AuditFile::Csv,
    };
    let rows_max = access.query.limit.map_or(usize::MAX, Into::into);
    let (http, caller) = (HttpLayer::clone(&app), (access.caller, access.principal));
    audit_file(http, caller, query, rows_max, file).await
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
