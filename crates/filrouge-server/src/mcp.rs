//! What agents are answered from over the Model Context Protocol.

use filrouge_mcp::{Histories, HttpService, McpServer, Own};
use filrouge_sources::Library;

mod alone;

pub use alone::serve_mcp;

/// What agents are answered from at `/mcp`, and under which names.
#[derive(Clone)]
pub struct McpSettings {
    /// Histories that everybody who may call can read, whoever they are of; none unless asked for.
    pub library: Library,
    /// Names in `Host` and `Origin` that are answered to besides those of this machine, with or without a port.
    pub hosts: Vec<String>,
}

impl Default for McpSettings {
    /// The ledger alone, and this machine's own names.
    fn default() -> Self {
        Self {
            library: Library::new(Vec::new(), 0),
            hosts: Vec::new(),
        }
    }
}

/// The service with the histories that are the same for everybody.
pub(crate) struct Mounted {
    pub(crate) library: Library,
    pub(crate) service: HttpService,
}

impl Mounted {
    pub(crate) fn new(settings: McpSettings) -> Self {
        let server = McpServer::new(Histories::OfCaller, Own::default());
        Self {
            library: settings.library,
            service: HttpService::new(server, settings.hosts),
        }
    }
}
