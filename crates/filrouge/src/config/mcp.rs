//! The section `[mcp]`: agents at `/mcp` of a server (DESIGN §12)

use serde::Deserialize;

use super::{Layers, Setting};
use crate::exit::Usage;

/// The section `[mcp]` in the file; unknown members are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct McpFile {
    hosts: Option<Vec<String>>,
}

/// What agents may call the server.
#[derive(Debug, Clone)]
pub(crate) struct McpConfig {
    /// Names besides this machine's.
    pub(crate) hosts: Setting<Vec<String>>,
}

/// Names between commas, each with or without a port.
fn hosts(text: &str) -> Result<Vec<String>, String> {
    let names = text.split(',').map(str::trim);
    let wrong = |name: &str| {
        format!("mcp.hosts: {name:?} is no name such as filrouge.example.org or 192.0.2.7:7717")
    };
    let odd = |c: char| c.is_whitespace() || c.is_control() || "/@*\\".contains(c);
    names
        .map(|name| match name.is_empty() || name.contains(odd) {
            true => Err(wrong(name)),
            false => Ok(name.to_owned()),
        })
        .collect()
}

impl McpConfig {
    pub(super) fn read(layers: &Layers<'_>, file: McpFile) -> Result<Self, Usage> {
        Ok(Self {
            hosts: layers.pick(
                None,
                "FILROUGE_MCP_HOSTS",
                file.hosts.map(|names| names.join(",")),
                || Ok(Vec::new()),
                hosts,
            )?,
        })
    }

    /// Names, values and origins, as `config show` tells them.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String, String)> {
        let shown = match self.hosts.value.as_slice() {
            [] => "none".to_owned(),
            names => names.join(","),
        };
        vec![("mcp.hosts", shown, self.hosts.origin.to_string())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_ports() {
        let two = hosts("a.example, [::2]:7717");
        assert_eq!(
            two,
            Ok(vec!["a.example".to_owned(), "[::2]:7717".to_owned()])
        );
        for wrong in ["", "a,,b", "http://a", "*", "a b"] {
            assert!(hosts(wrong).is_err(), "{wrong:?}");
        }
    }
}
