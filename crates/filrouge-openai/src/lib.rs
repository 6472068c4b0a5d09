//! A wire for clients of OpenAI's Conversations API: it shows sessions as conversations, read-only.
//!
//! API keys, owners, limits and rate limits apply as on the native routes; only the formats of responses and failures
//! differ.

mod items;

use std::collections::BTreeMap;
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use filrouge_http::access::may;
use filrouge_http::extract::SessionAccess;
use filrouge_http::problem::{FailureText, Problem, detail_and_hint};
use filrouge_http::response::json as json_response;
use filrouge_http::{HttpLayer, Load, OwnPaths, Wire, log_load};
use filrouge_types::{ErrorCode, Failure, RawJson};
use serde::Deserialize;
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::items::{openai_items, parse_id};

const CONVERSATION: &str = "/openai/v1/conversations/{session_id}";
const ITEMS: &str = "/openai/v1/conversations/{session_id}/items";

/// Builds the wire's routes over the HTTP layer `http`.
pub fn wire(http: HttpLayer) -> Wire {
    let routes = Router::new()
        .route(CONVERSATION, get(get_conversation))
        .route(ITEMS, get(list_items));
    Wire {
        routes: routes.with_state(http),
        own_paths: Some(OwnPaths {
            contain: |path| path.starts_with("/openai/v1/"),
            format_failure: |failure, _| format_failure(failure),
            for_browsers: false,
            headers: &[],
        }),
        ..Wire::default()
    }
}

/// Formats a failure as OpenAI's API does.
fn format_failure(failure: &Failure) -> FailureText {
    let (detail, hint) = detail_and_hint(failure);
    let message = hint.map_or_else(|| detail.to_owned(), |hint| format!("{detail}; {hint}"));
    let code = failure.code;
    let kind = match code.status() {
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    let error = json!({ "message": message, "type": kind, "param": null, "code": code.as_str() });
    let text = json!({ "error": error }).to_string();
    ("application/json", text.into())
}

/// Returns a session as a conversation. In OpenAI's API all values of metadata are strings, so a value of another type
/// is returned as its JSON text.
async fn get_conversation(
    State(http): State<HttpLayer>,
    access: SessionAccess<may::Read>,
) -> Result<Response, Problem> {
    let session = http.sessions.get(&access.caller, &access.session).await?;
    let metadata: BTreeMap<String, RawJson> =
        serde_json::from_str(session.metadata.as_str()).unwrap_or_default();
    let metadata = metadata
        .iter()
        .map(|(name, json)| (name, metadata_text(json)));
    let conversation = json!({
        "id": session.session_id,
        "object": "conversation",
        "created_at": session.created_at.as_millis().div_euclid(1000),
        "metadata": metadata.collect::<BTreeMap<_, _>>(),
    });
    json_response(&conversation)
}

/// The content of a JSON string, or the JSON text of another value.
fn metadata_text(json: &RawJson) -> String {
    serde_json::from_str(json.as_str()).unwrap_or_else(|_| json.as_str().to_owned())
}

#[derive(PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    Asc,
    Desc,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    limit: Option<u64>,
    after: Option<String>,
    #[param(inline)]
    order: Option<Order>,
}

/// Lists the items of a conversation after the item `after`. `limit` is 20 by default and at most 100; the default
/// order is newest first.
async fn list_items(
    State(http): State<HttpLayer>,
    access: SessionAccess<may::Read, ListQuery>,
) -> Result<Response, Problem> {
    let invalid = |message: &str| Problem::new(ErrorCode::Invalid, message);
    let limit = access.query.limit.unwrap_or(20);
    if !(1..=100).contains(&limit) {
        return Err(invalid("limit: no whole number from 1 to 100"));
    }
    let after = access.query.after.as_deref().map(parse_id);
    if after == Some(None) {
        return Err(invalid("after: no id of an item in a list"));
    }
    let after = after.flatten();
    let (caller, session) = (&access.caller, &access.session);
    let (turns, started_at) = (&http.turns, Instant::now());
    // One recorded item may yield several OpenAI items. The recorded item of `after` is read again, because some of its
    // OpenAI items may come after `after`; hence one row more than `limit`.
    let rows = limit + 1;
    let (mut data, more) = if access.query.order == Some(Order::Asc) {
        let after = after.unwrap_or_default();
        let mut after_seq = after.0.saturating_sub(1);
        loop {
            let (items, next) = turns
                .items(caller, session, after_seq, rows as usize)
                .await?;
            let data = openai_items(&items, |position| position > after);
            if !data.is_empty() || next.is_none() {
                break (data, next.is_some());
            }
            after_seq += 1;
        }
    } else {
        let before = after.unwrap_or((u64::MAX, 0));
        let before_seq = before.0.saturating_add(u64::from(before.1 > 0));
        let (mut items, next) = turns
            .items_before(caller, session, before_seq, rows as usize)
            .await?;
        items.reverse();
        let mut data = openai_items(&items, |position| position < before);
        data.reverse();
        (data, next.is_some())
    };
    let has_more = more || data.len() as u64 > limit;
    data.truncate(limit as usize);
    let load = Load {
        items: Some(data.len()),
        ..Load::default()
    };
    log_load(caller, session, "openai", load, started_at);
    let [first, last] = [data.first(), data.last()].map(|item| Some(item?["id"].clone()));
    let list = json!({ "object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more });
    json_response(&list)
}
