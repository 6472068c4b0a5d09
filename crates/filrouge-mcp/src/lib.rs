//! Conversation histories over the Model Context Protocol: tools, resources and a prompt (DESIGN §12, MCP).
//!
//! What is asked of histories is in [`filrouge_sources::library`]; here are its words for agents: parameters, typed
//! answers with a text to read, errors that say what to do. [`serve_stdio`] talks over standard input and output,
//! [`HttpService`] over streamable HTTP. Both speak every generation of the protocol up to 2026-07-28; the one before,
//! 2025-11-25, and older ones begin with `initialize`.
//!
//! Nothing is kept from one call to the next: a call holds all it needs, and each caller is answered from the
//! [`Library`](filrouge_sources::Library) that came with its own request. All types of the protocol's SDK stay inside.
//! Recorded text is data: every answer says first where it comes from, and in texts to read each line of it is quoted.

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
