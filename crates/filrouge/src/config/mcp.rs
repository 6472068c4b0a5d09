//! The section `[mcp]`: agents at `/mcp` of a server (DESIGN §12)

use super::layers::{Form, Layers, joined};
use crate::exit::Usage;

/// Names between commas, each with or without a port.
fn hosts(text: &str) -> Result<Vec<String>, String> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "/@*\\".contains(c);
    let name = |name: &str| match name.is_empty() || name.contains(odd) {
        true => Err(format!(
            "{name:?} is no name such as filrouge.example.org or 192.0.2.7:7717"
        )),
        false => Ok(name.to_owned()),
    };
    text.split(',').map(str::trim).map(name).collect()
}

/// The names of this server besides this machine's.
pub(super) fn read(layers: &mut Layers<'_>) -> Result<Vec<String>, Usage> {
    let setting = ("mcp.hosts", Form::List);
    layers.read(setting, || Ok(Vec::new()), hosts, |hosts| joined(hosts))
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
