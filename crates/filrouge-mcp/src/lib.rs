//! Conversation histories over the Model Context Protocol: tools, resources and a prompt (DESIGN §12, MCP).
//!
//! [`filrouge_sources::library`] implements the queries; this crate adds the interface for agents: parameters, typed
//! answers with a readable text, errors that say what to do. [`serve_stdio`] uses standard input and output,
//! [`HttpService`] streamable HTTP. Both support every version of the protocol up to 2026-07-28; the previous one,
//! 2025-11-25, and older ones begin with `initialize`.
//!
//! No state is kept between calls: a call carries all it needs, and is answered from the
//! [`Library`](filrouge_sources::Library) of its own request. The types of the protocol's SDK are private. Recorded
//! text is data: every answer first states its origin, and readable texts quote each recorded line.

mod arguments;
mod call;
mod document;
mod faults;
mod http;
mod prompts;
mod refusal;
mod resources;
mod schema;
mod server;
mod stdio;
mod text;
mod tools;
mod when;

pub use call::{Corpus, Histories, Own};
pub use http::{HttpService, OfCaller};
pub use server::McpServer;
pub use stdio::{StdioError, serve, serve_stdio};
