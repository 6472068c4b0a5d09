//! The audit as a file: all rows, written as they are read.

use std::future::ready;

use axum::body::{Body, Bytes};
use filrouge_engine::Caller;
use filrouge_engine::audit::{AuditQuery, AuditRow};
use filrouge_store::WorkSize;
use filrouge_types::{ErrorCode, Failure};
use futures_util::stream::{iter, try_unfold};
use futures_util::{StreamExt, TryStreamExt};

use crate::access::Principal;
use crate::extract::LIMIT_MAX;
use crate::layer::HttpLayer;
use crate::limits::UnreadResponse;
use crate::response::{RouteResult, attachment};

/// The format of a file with rows of the audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFile {
    /// One JSON object a line.
    JsonLines,
    /// Comma-separated values.
    Csv,
}

/// Returns the rows that match a query, at most `rows_max`, as an attachment, which is written while it is sent. Its
/// `limit` is ignored. Damaged sessions have a row each, which does not count.
///
/// # Errors
/// Those of reading the first rows, as for a page. A later failure breaks the connection.
pub async fn audit_file(
    http: HttpLayer,
    (caller, principal): (Caller, Principal),
    query: AuditQuery,
    rows_max: usize,
    format: AuditFile,
) -> RouteResult {
    let reader = RowReader {
        http,
        caller,
        principal,
        query,
        rows_left: rows_max,
        format,
    };
    reader.respond().await
}

/// Reads all rows page by page, and writes them as lines while the response is sent.
struct RowReader {
    http: HttpLayer,
    caller: Caller,
    principal: Principal,
    query: AuditQuery,
    /// The maximum number of further rows.
    rows_left: usize,
    format: AuditFile,
}

/// A part of the response, and the reader of the further rows; `None` if there are none.
type BodyPiece = (UnreadResponse, Option<RowReader>);

impl RowReader {
    async fn respond(self) -> RouteResult {
        let (media_type, name, heading) = match self.format {
            AuditFile::Csv => {
                let media_type = "text/csv; charset=utf-8; header=present";
                (media_type, "audit.csv", AuditRow::csv_header())
            }
            AuditFile::JsonLines => ("application/x-ndjson", "audit.jsonl", String::new()),
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
        let rows = rows.map_ok(|piece| Body::from(piece).into_data_stream());
        let rows = rows.map_err(axum::Error::new).try_flatten();
        let body = iter([Ok(Bytes::from(heading))]).chain(rows);
        let body = body.try_filter(|bytes| ready(!bytes.is_empty()));
        Ok(attachment(media_type, name, Body::from_stream(body)))
    }

    /// Reads a page, under a permit of its own, so that a client that reads slowly holds none. Commits made after the
    /// first page was read are left out, because the response might never end otherwise. Fails if the server stops or
    /// the credentials become invalid.
    async fn next_piece(mut self) -> Result<BodyPiece, Failure> {
        let end_reason = if *self.http.stopping().borrow() {
            Some("the server stops")
        } else if !self.principal.is_valid() {
            Some("the credentials stopped being valid")
        } else {
            None
        };
        if let Some(why) = end_reason {
            return Err(Failure::new(ErrorCode::Unauthenticated, why));
        }
        let limits = self.http.limits();
        let permit = limits
            .large_response_permit(&self.caller, WorkSize::Large)
            .await?;
        self.query.limit = self.rows_left.min(LIMIT_MAX);
        let query = self.query.clone();
        let page = self.http.audit.page(&self.caller, query).await?;
        let damage = self.http.audit.damage_rows(&page.findings)?;
        self.rows_left -= page.rows.len();
        let line = match self.format {
            AuditFile::Csv => AuditRow::csv_line,
            AuditFile::JsonLines => AuditRow::json_line,
        };
        let lines = page.rows.iter().chain(&damage).map(line);
        let lines = lines.collect::<Result<String, Failure>>()?;
        self.query.continue_after(page);
        let has_more = self.query.cursor.is_some() && self.rows_left > 0;
        Ok((permit.hold(lines).await?, has_more.then_some(self)))
    }
}
