//! Conversation histories over the Model Context Protocol: tools, resources and a prompt (DESIGN §12, MCP).
//!
//! [`filrouge_sources::library`] implements the queries. This crate adds the interface for agents: parameters, typed
//! answers that also have a readable text, and errors that say what to do. [`serve_stdio`] uses standard input and
//! output, [`HttpService`] streamable HTTP. Both support every version of the protocol up to 2026-07-28. In that
//! version a client's first request may be any; in 2025-11-25 and earlier versions it is `initialize`.
//!
//! No state is kept between calls: a call's parameters contain everything that its answer depends on, and it reads only
//! the [`Library`](filrouge_sources::Library) of its caller. No type of the protocol's SDK is public. Recorded text is
//! data, not instructions: every answer begins with its origin, and readable texts quote each recorded line.

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

pub use call::{CallerSession, Corpus, Histories, PrintPdf};
pub use http::{CallerCorpus, HttpService};
pub use server::McpServer;
pub use stdio::{StdioError, serve, serve_stdio};
