//! `/api/v1/sessions/{sid}/context`.

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use filrouge_engine::ContextQuery;
use filrouge_types::{ErrorCode, Variant};
use serde::Deserialize;

use crate::answer::json;
use crate::extract::{InSession, Query};
use crate::problem::Problem;
use crate::serve::App;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowQuery {
    format: Option<String>,
    variant: Option<Variant>,
    last_turns: Option<usize>,
}

pub(super) async fn show(
    State(app): State<App>,
    at: InSession,
    Query(query): Query<ShowQuery>,
) -> Result<Response<HttpBody>, Problem> {
    if let Some(format) = query.format.filter(|f| f != "pairs") {
        let mut problem = Problem::new(ErrorCode::Invalid, format!("unknown format {format:?}"));
        problem.0.hint = Some("known: pairs".to_owned());
        return Err(problem);
    }
    let asked = ContextQuery {
        variant: query.variant.unwrap_or(Variant::Neutral),
        last_turns: query.last_turns,
    };
    json(
        StatusCode::OK,
        &app.engine().pairs(&at.scope, &at.session, asked).await?,
    )
}
