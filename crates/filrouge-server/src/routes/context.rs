//! `/api/v1/sessions/{session_id}/context`.

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use filrouge_engine::restore::{RestoreQuery, Selection, Unanswered};
use filrouge_transcode::{Format, restore};
use filrouge_types::{ErrorCode, Variant};
use serde::Deserialize;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::{Called, Context, OfSession, Problems, SessionPath, Shown, Stored};
use filrouge_http::access::may;
use filrouge_http::answer::json;
use filrouge_http::extract::{InSession, Query};
use filrouge_http::problem::Problem;

/// What becomes of a call that was never answered.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OnUnanswered {
    #[default]
    /// It is left out with its group.
    Drop,
    /// It gets an error as its answer.
    Error,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowQuery {
    /// What the messages are written as: `pairs` unless asked.
    #[param(schema_with = formats)]
    format: Option<String>,
    /// The language: neutral unless asked.
    variant: Option<Variant>,
    /// Only the newest turns, at most so many.
    #[param(minimum = 1)]
    last_turns: Option<usize>,
    /// Only the newest turns, by an estimate of their tokens.
    #[param(minimum = 1)]
    max_tokens: Option<u64>,
    /// What becomes of a call that was never answered.
    #[serde(default)]
    #[param(inline)]
    unanswered: OnUnanswered,
}

fn formats() -> Schema {
    let words = Format::ALL.map(Format::as_str);
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words))
        .build()
        .into()
}

/// Restores a conversation as the messages of a provider's request, structurally valid for it.
///
/// The report tells what was left out and why.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/context",
    operation_id = "restoreContext",
    tag = "reading",
    params(SessionPath, ShowQuery),
    responses(Shown<Context>, Problems<(Called, Stored, OfSession)>)
)]
pub(super) async fn show(
    State(app): State<App>,
    at: InSession<may::Read>,
    Query(query): Query<ShowQuery>,
) -> Result<Response<HttpBody>, Problem> {
    let format: Format = match query.format.as_deref().map(str::parse) {
        None => Format::Pairs,
        Some(Ok(format)) => format,
        Some(Err(unknown)) => {
            let mut problem = Problem::new(ErrorCode::Invalid, unknown.to_string());
            let known: Vec<&str> = Format::ALL.iter().map(|f| f.as_str()).collect();
            problem.0.hint = Some(format!("known: {}", known.join(", ")));
            return Err(problem);
        }
    };
    let asked = RestoreQuery {
        selection: match format {
            Format::Pairs => Selection::Pairs,
            _ => Selection::Messages,
        },
        variant: query.variant.unwrap_or(Variant::Neutral),
        last_turns: query.last_turns,
        max_tokens: query.max_tokens,
        unanswered: match query.unanswered {
            OnUnanswered::Drop => Unanswered::Drop,
            OnUnanswered::Error => Unanswered::Error,
        },
    };
    let leave = app.limits().large_answer().await?;
    let context = restore(app.engine(), &at.caller, &at.session, format, asked).await?;
    Ok(json(StatusCode::OK, &context)?.map(|body| leave.hold_in(body)))
}
