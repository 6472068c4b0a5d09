//! `/api/v1/sessions/{session_id}/context`.

use filrouge_engine::restore::{RestoreQuery, Selection, Unanswered};
use filrouge_store::WorkSize;
use filrouge_transcode::{Format, restore};
use filrouge_types::{ErrorCode, Variant};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa::openapi::Schema;

use crate::app::App;
use crate::openapi::{Context, StateResponse, enum_schema};
use filrouge_http::access::may;
use filrouge_http::extract::SessionAccess;
use filrouge_http::problem::Problem;
use filrouge_http::response::{RouteResult, json_bytes, text};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ContextQuery {
    /// The format of the messages: `pairs` by default.
    #[param(schema_with = format_schema)]
    format: Option<String>,
    /// The language: neutral by default.
    variant: Option<Variant>,
    /// Only the newest turns, at most this many.
    #[param(minimum = 1)]
    last_turns: Option<usize>,
    /// Only the newest turns, by an estimate of their tokens.
    #[param(minimum = 1)]
    max_tokens: Option<u64>,
    /// How to treat a call that was never answered.
    #[serde(default)]
    #[param(inline)]
    unanswered: Unanswered,
}

fn format_schema() -> Schema {
    enum_schema(Format::ALL.map(Format::as_str))
}

/// Restores a conversation as the messages of a provider's request, in a structure that the provider accepts.
///
/// The report lists what was left out and why.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/context",
    params(ContextQuery),
    responses(StateResponse<Context>)
)]
pub(super) async fn restore_context(
    app: App,
    access: SessionAccess<may::Read, ContextQuery>,
) -> RouteResult {
    let format: Format = match access.query.format.as_deref().map(str::parse) {
        None => Format::Pairs,
        Some(Ok(format)) => format,
        Some(Err(unknown)) => {
            let known = format!("known: {}", Format::ALL.map(Format::as_str).join(", "));
            return Err(Problem::new(ErrorCode::Invalid, unknown.to_string()).with_hint(known));
        }
    };
    let query = RestoreQuery {
        selection: match format {
            Format::Pairs => Selection::Pairs,
            _ => Selection::Messages,
        },
        variant: access.query.variant.unwrap_or_default(),
        last_turns: access.query.last_turns,
        max_tokens: access.query.max_tokens,
        unanswered: access.query.unanswered,
    };
    let permit = app.work_permit(&access.caller, WorkSize::Large).await?;
    let context = restore(app.engine(), &access.caller, &access.session, format, query).await?;
    let response = permit.hold(json_bytes(&context)?).await?;
    Ok(text("application/json", response))
}
