//! The server: the native routes of DESIGN §12 over the HTTP layer, webhooks, and metrics. The server also mounts the
//! other HTTP wires.

mod app;
mod mcp;
mod metrics;
mod openapi;
mod recordings;
mod routes;
mod serve;
mod status;
mod webhooks;

pub use app::App;
pub use filrouge_pages::{Prices, PricesError};
pub use mcp::{McpSettings, serve_mcp};
pub use serve::{RunningServer, serve};
pub use webhooks::{
    DeadLetter, SecretError, WebhookAction, WebhookError, WebhookFeed, WebhookName,
    WebhookNameError, WebhookSecret, WebhookSecrets, WebhookSettings, WebhookStart, WebhookStatus,
    WebhookUrl, WebhookUrlError, Webhooks, change_webhook, webhook_status,
};
