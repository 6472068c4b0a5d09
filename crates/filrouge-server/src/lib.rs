//! The HTTP server of DESIGN §12 over an engine: routes, problem+json, loopback rule, graceful stop.

mod access;
mod answer;
mod extract;
mod problem;
mod routes;
mod serve;

pub use routes::router;
pub use serve::{App, ListenError, bind, serve};
