//! The HTTP layer that all HTTP wires share: authentication, rate and body limits, parsing of query and body, CORS,
//! error responses, request ids, metrics of requests, and connections.
//!
//! A wire consists of routes over [`HttpLayer`]; [`mount`] wraps them in this layer.

pub mod access;
pub mod audit;

mod blocking;
mod cors;
pub mod export;
pub mod extract;
mod host;
mod layer;
pub mod limits;
mod load_log;
mod metrics;
mod observe;
pub mod outgoing;
pub mod problem;
mod request_id;
pub mod response;
pub mod tail;
#[cfg(feature = "otel")]
mod telemetry;
mod transport;
mod wire;

pub use blocking::{join_task, run_blocking};
pub use cors::{AllowedOrigin, InvalidOrigin};
pub use host::check_host;
pub use layer::HttpLayer;
pub use load_log::{Load, log_load};
pub use metrics::Metrics;
pub use transport::{ListenError, bind, serve};
pub use wire::{OwnPaths, Wire, mount};
