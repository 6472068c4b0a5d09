//! `/api/v1/sessions/{session_id}/turns/{turn_id}/stream`: a provider's response, recorded while it arrives
//! (DESIGN §4).
//!
//! The recording is a separate task: if the caller disconnects, everything received by then is still recorded.

use filrouge_transcode::{RecordStream, StreamFormat};
use filrouge_types::{ErrorCode, Turn};
use serde::{Deserialize, Deserializer, de};
use tracing::Instrument;
use utoipa::IntoParams;
use utoipa::openapi::Schema;

use crate::app::App;
use crate::openapi::{WriteResponse, enum_schema};
use filrouge_http::access::may;
use filrouge_http::extract::{RawBody, TurnAccess};
use filrouge_http::join_task;
use filrouge_http::problem::Problem;
use filrouge_http::response::{RouteResult, write_response};

mod flow;

/// The route's path; its requests have no time limit.
pub(crate) const PATH: &str = "/api/v1/sessions/{session_id}/turns/{turn_id}/stream";

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordQuery {
    /// The format of the body.
    #[serde(deserialize_with = "parse_format")]
    #[param(schema_with = format_schema, required = true)]
    format: StreamFormat,
    /// Whether an answer ends the turn. Otherwise the turn stays open, and the caller ends it.
    #[param(default = true)]
    finalize: Option<bool>,
    /// The agent that speaks.
    #[serde(default, deserialize_with = "non_empty_name")]
    #[param(value_type = Option<String>, min_length = 1)]
    agent: Option<Box<str>>,
}

fn parse_format<'de, D: Deserializer<'de>>(d: D) -> Result<StreamFormat, D::Error> {
    String::deserialize(d)?.parse().map_err(de::Error::custom)
}

fn non_empty_name<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Box<str>>, D::Error> {
    let name = Box::<str>::deserialize(d)?;
    if name.is_empty() {
        return Err(de::Error::custom("a name must not be empty; leave it out"));
    }
    Ok(Some(name))
}

fn format_schema() -> Schema {
    enum_schema(StreamFormat::ALL.map(StreamFormat::as_str))
}

/// Records a provider's response into an open turn while it arrives.
///
/// The body is the response's own body, streamed or complete, forwarded as it arrives. Finished parts become items at
/// once; growing text is a draft. The response follows when the stream has ended: the turn is finalized; or open, when
/// the provider waits for tool results; or failed or cancelled, with what had arrived and the reason, also when the
/// caller disconnects.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/turns/{turn_id}/stream",
    params(RecordQuery),
    request_body(content(
        (String = "text/event-stream"),
        (String = "application/json"),
        (String = "application/x-ndjson"),
        (String = "application/octet-stream"),
    )),
    responses(WriteResponse<Turn>)
)]
pub(super) async fn record_stream(
    app: App,
    access: TurnAccess<may::Write, RecordQuery>,
    body: RawBody,
) -> RouteResult {
    if *app.stopping().borrow() {
        let detail = "the server is stopping";
        return Err(Problem::new(ErrorCode::Overloaded, detail));
    }
    let slot = app.limits().open_stream(&access.caller)?;
    let request = RecordStream {
        session_id: access.session,
        turn_id: access.turn,
        format: access.query.format,
        finalize: access.query.finalize.unwrap_or(true),
        agent: access.query.agent,
    };
    let recording = flow::RecordingTask {
        app: app.clone(),
        caller: access.caller.clone(),
        principal: access.principal,
        request,
        body,
    };
    let task = async move {
        let turn = recording.run().await;
        drop(slot);
        turn
    };
    let turn = join_task(tokio::spawn(task.in_current_span())).await??;
    write_response(&turn)
}
