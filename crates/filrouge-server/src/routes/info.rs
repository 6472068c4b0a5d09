//! `/api/v1/info`: this server's identity and capabilities.

use filrouge_engine::scopes::TieredLedger;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::openapi::StateResponse;
use filrouge_http::access::may;
use filrouge_http::extract::TenantAccess;
use filrouge_http::response::{RouteResult, json};

/// A server's identity and capabilities.
#[derive(Serialize, ToSchema)]
pub(super) struct Info {
    /// Always `filrouge`.
    #[schema(value_type = String, example = "filrouge")]
    name: &'static str,
    /// The version of the program.
    #[schema(value_type = String, example = "0.1.0")]
    version: &'static str,
    /// The caller's tenant.
    tenant_id: String,
    /// The end user on whose behalf the caller acts; `null` for an anonymous caller.
    identity_id: Option<String>,
    /// What an answered write survives.
    #[schema(value_type = String, example = "flushed")]
    durability: &'static str,
    /// The kind of the hot store, `memory` or `redis`; `null` without one.
    #[schema(value_type = Option<String>, example = "memory")]
    hot: Option<&'static str>,
    /// The limits of a session in the hot store; `null` without one.
    hot_bounds: Option<HotBounds>,
    /// Which sessions are recorded in the ledger: `all`, or only `authenticated` ones.
    #[schema(value_type = String, example = "all")]
    durable: &'static str,
    /// The formats of contexts.
    context_formats: Vec<String>,
    /// The formats of streams that can be recorded.
    #[schema(value_type = Vec<String>)]
    stream_formats: [&'static str; 5],
    /// The formats of exports.
    #[schema(value_type = Vec<String>)]
    export_formats: [&'static str; 3],
    /// Upper bounds.
    limits: Bounds,
}

/// The limits of a session in the hot store.
#[derive(Serialize, ToSchema)]
struct HotBounds {
    /// The seconds that it is kept after its last write.
    #[schema(example = 86400)]
    ttl_s: u64,
    /// The maximum number of turns; the oldest are dropped first.
    #[schema(example = 500)]
    turns: u64,
    /// The maximum size in bytes.
    #[schema(example = 8388608)]
    bytes: u64,
}

/// Upper bounds of requests.
#[derive(Serialize, ToSchema)]
#[schema(as = RequestLimits)]
struct Bounds {
    /// Bytes of a body.
    body_bytes: u64,
    /// Bytes of an item.
    item_bytes: u64,
    /// Bytes of the metadata of a session or a turn, and of an event's detail.
    metadata_bytes: u64,
    /// Bytes of a title, a state, a reason and the like.
    label_bytes: u64,
    /// Bytes of an id.
    id_bytes: u64,
    /// Items of a turn.
    turn_items: u64,
    /// Levels of nested JSON.
    nesting: u64,
    /// Rows of a page.
    page_rows: u64,
    /// Milliseconds of a long poll.
    wait_ms: u64,
}

/// Describes this server and its limits.
///
/// A client needs no other call to know which formats and sizes this server accepts.
#[utoipa::path(
    get,
    path = "/api/v1/info",
    responses(StateResponse<Info>)
)]
pub(super) async fn get_info(app: App, access: TenantAccess<may::Read>) -> RouteResult {
    let limits = app.engine().limits();
    let hot = app.tiers().map(TieredLedger::view);
    let info = Info {
        name: "filrouge",
        version: env!("CARGO_PKG_VERSION"),
        tenant_id: access.caller.tenant().to_string(),
        identity_id: access.caller.identity().map(ToString::to_string),
        durability: app.upkeep.durability().as_str(),
        hot: hot.as_ref().map(|hot| hot.kind),
        hot_bounds: hot.as_ref().map(|hot| HotBounds {
            ttl_s: hot.bounds.ttl.as_secs(),
            turns: hot.bounds.turns,
            bytes: hot.bounds.bytes,
        }),
        durable: hot.as_ref().map_or("all", |hot| hot.durable),
        context_formats: filrouge_transcode::Format::ALL
            .iter()
            .map(ToString::to_string)
            .collect(),
        stream_formats: filrouge_transcode::StreamFormat::ALL
            .map(filrouge_transcode::StreamFormat::as_str),
        export_formats: ["json", "md", "html"],
        limits: Bounds {
            body_bytes: app.limits().settings().body_bytes as u64,
            item_bytes: limits.item_bytes as u64,
            metadata_bytes: limits.metadata_bytes as u64,
            label_bytes: limits.label_bytes as u64,
            id_bytes: 256,
            turn_items: filrouge_store::rules::TURN_ITEMS_MAX,
            nesting: filrouge_types::MAX_NESTING as u64,
            page_rows: filrouge_http::extract::LIMIT_MAX as u64,
            wait_ms: filrouge_http::extract::WAIT_MAX_MS,
        },
    };
    json(&info)
}
