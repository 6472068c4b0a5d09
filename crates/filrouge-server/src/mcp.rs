//! The service for agents over the Model Context Protocol.

use std::sync::Arc;

use filrouge_mcp::{CallerSession, Histories, HttpService, McpServer};
use filrouge_sources::Library;
use filrouge_sources::ledger::KeptConversations;

mod standalone;

pub use standalone::serve_mcp;

/// The histories that `/mcp` serves besides the ledger, and the host names that it accepts.
#[derive(Clone)]
pub struct McpSettings {
    /// Histories that every caller can read, whatever their owner.
    pub library: Library,
    /// Accepted names in `Host` and `Origin` besides those of this machine, with or without a port.
    pub hosts: Vec<String>,
}

/// The service, with the histories that all callers share.
pub(crate) struct McpState {
    pub(crate) library: Library,
    pub(crate) service: HttpService,
    /// Conversations of the ledger that callers have read.
    pub(crate) kept: Arc<KeptConversations>,
}

impl McpState {
    pub(crate) fn new(settings: McpSettings) -> Self {
        let server = McpServer::new(Histories::PerCaller, CallerSession::default());
        Self {
            library: settings.library,
            service: HttpService::new(server, settings.hosts),
            kept: Arc::default(),
        }
    }
}
