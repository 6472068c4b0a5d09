//! The HTTP server of DESIGN §12 over an engine: routes, problem+json, loopback rule, graceful stop.

mod access;
mod answer;
mod extract;
mod limits;
mod mcp;
mod metrics;
mod observe;
mod openapi;
mod outgoing;
mod problem;
mod recordings;
mod request_id;
mod routes;
mod search;
mod serve;
#[cfg(feature = "otel")]
mod telemetry;
mod transport;
mod webhooks;

pub use access::{AccessSettings, Authority, JwksSource, JwtAlgorithm, JwtError, JwtSettings};
pub use limits::{LargeAnswer, LimitSettings, Limits, Rate, RateSubject, Retry, StreamSlot};
pub use mcp::{McpSettings, serve_mcp};
pub use metrics::Metrics;
pub use routes::router;
pub use search::SearchSettings;
pub use serve::{App, ListenError, bind, serve};
pub use webhooks::{
    DeadLetter, SecretError, WebhookAction, WebhookError, WebhookFeed, WebhookName,
    WebhookNameError, WebhookSecret, WebhookSecrets, WebhookSettings, WebhookStart, WebhookStatus,
    WebhookUrl, WebhookUrlError, Webhooks, change_webhook, webhook_status,
};
