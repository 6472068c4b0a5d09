//! Appends the server's table to a TOML file. The rest of the file stays unchanged.

use toml::{Table, Value};

use super::{Edit, NAME, RefusedEdit, existing_entry};

/// The table whose members are the MCP servers.
const SECTION: &str = "mcp_servers";

/// Computes the edit that adds the server to `text`.
pub(super) fn edit(text: &str, command: &str) -> Result<Edit, RefusedEdit> {
    let table: Table = toml::from_str(text).map_err(|e| malformed_toml(&e, text))?;
    let entry_lines = entry_lines(command);
    let by_hand = |reason: String| RefusedEdit {
        reason,
        by_hand: Some(entry_lines.clone()),
    };
    let existing = match table.get(SECTION) {
        None => None,
        Some(Value::Table(servers)) => servers.get(NAME),
        Some(_) => return Err(by_hand(format!("{SECTION} is no table"))),
    };
    if let Some(existing) = existing {
        let first = existing.get("args").and_then(|args| args.get(0));
        let is_same = existing.get("command").and_then(Value::as_str) == Some(command)
            && first.and_then(Value::as_str) == Some("mcp");
        let is_disabled = existing.get("enabled") == Some(&Value::Boolean(false));
        return existing_entry(&format!("[{SECTION}.{NAME}]"), is_same, is_disabled)
            .map_err(by_hand);
    }
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut new = text.to_owned();
    if !new.is_empty() {
        if !new.ends_with('\n') {
            new.push_str(line_end);
        }
        new.push_str(line_end);
    }
    new.push_str(&entry_lines.replace('\n', line_end));
    // The result is invalid if the section is an inline table, to which no table can be added in this way.
    if toml::from_str::<Table>(&new).is_err() {
        return Err(by_hand(format!("{SECTION} is written in one line")));
    }
    Ok(Some(new))
}

fn entry_lines(command: &str) -> String {
    let command = Value::from(command);
    format!("[{SECTION}.{NAME}]\ncommand = {command}\nargs = [\"mcp\"]\n")
}

fn malformed_toml(error: &toml::de::Error, text: &str) -> RefusedEdit {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    RefusedEdit {
        reason: format!("line {line}: {}", error.message()),
        by_hand: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str) -> Option<String> {
        edit(text, "/bin/filrouge").ok().flatten()
    }

    #[test]
    fn a_table_is_appended() {
        let old = "# mine\nmodel = \"x\" # too\n[mcp_servers.other]\ncommand = \"y\"";
        let new = edited(old).unwrap_or_default();
        assert!(
            new.starts_with(&format!("{old}\n\n[mcp_servers.filrouge]\n")),
            "{new}"
        );
        assert!(matches!(edit(&new, "/bin/filrouge"), Ok(None)));
        assert!(edited("").is_some_and(|new| new.starts_with("[mcp_servers.filrouge]")));
        assert!(edited("a = 1\r\n").is_some_and(|new| new.ends_with("args = [\"mcp\"]\r\n")));
    }

    #[test]
    fn malformed_or_unsupported_text_is_refused() {
        for (text, expected) in [
            ("a = 1\nb = \n", "line 2"),
            ("mcp_servers = 1\n", "no table"),
            ("mcp_servers = { x = { command = \"y\" } }\n", "one line"),
            (
                "[mcp_servers.filrouge]\ncommand = \"other\"\n",
                "already exists and differs",
            ),
        ] {
            let refused = edit(text, "/bin/filrouge")
                .err()
                .map(|refused| refused.reason);
            assert!(
                refused
                    .as_ref()
                    .is_some_and(|reason| reason.contains(expected)),
                "{refused:?}"
            );
        }
    }
}
