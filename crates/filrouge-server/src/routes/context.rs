//! `/api/v1/sessions/{sid}/context`.

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use filrouge_engine::restore::{RestoreQuery, Selection, Unanswered};
use filrouge_transcode::{Format, restore};
use filrouge_types::{ErrorCode, Variant};
use serde::Deserialize;

use crate::answer::json;
use crate::extract::{InSession, Query};
use crate::problem::Problem;
use crate::serve::App;

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnUnanswered {
    #[default]
    Drop,
    Error,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowQuery {
    format: Option<String>,
    variant: Option<Variant>,
    last_turns: Option<usize>,
    max_tokens: Option<u64>,
    #[serde(default)]
    unanswered: OnUnanswered,
}

pub(super) async fn show(
    State(app): State<App>,
    at: InSession,
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
    let context = restore(app.engine(), &at.scope, &at.session, format, asked).await?;
    json(StatusCode::OK, &context)
}
