//! The section `[mcp]`: the route `/mcp` of a server, for agents (DESIGN §12).

use super::layers::Layers;
use crate::exit::Result;

/// Parses a host name, with or without a port.
fn parse_host(name: &str) -> Result<String, String> {
    let is_invalid = |c: char| c.is_whitespace() || c.is_control() || "/@*\\".contains(c);
    match name.is_empty() || name.contains(is_invalid) {
        true => Err(format!(
            "{name:?} is no name such as filrouge.example.org or 192.0.2.7:7717"
        )),
        false => Ok(name.to_owned()),
    }
}

/// Reads the host names that `/mcp` accepts in addition to this machine's names.
pub(super) fn read(layers: &mut Layers<'_>) -> Result<Vec<String>> {
    layers.list("mcp.hosts", Vec::new, parse_host)
}
