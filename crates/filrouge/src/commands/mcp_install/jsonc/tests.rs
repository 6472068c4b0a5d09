use serde_json::{Value, json};

use super::{ExpectedEntry, edit};

fn expected(comments: bool) -> ExpectedEntry<'static> {
    ExpectedEntry {
        section: "mcp",
        command_line: &["/bin/filrouge", "mcp"],
        entry: json!({ "command": ["/bin/filrouge", "mcp"] }),
        allow_comments: comments,
        first_member: Some(("$schema", json!("s"))),
    }
}

fn edited(text: &str) -> String {
    match edit(text, &expected(true)) {
        Ok(Some(new)) => new,
        Ok(None) => panic!("unchanged: {text}"),
        Err(refused) => panic!("{}: {text}", refused.reason),
    }
}

fn lines_except(text: &str, left_out: &[&str]) -> Vec<String> {
    let lines = text.lines().filter(|line| !left_out.contains(line));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_entry_is_added_and_nothing_else_changes() {
    let old =
        "{\n  // mine\n  \"a\": 1, /* too */\n  \"mcp\": {\n    \"other\": {} // last\n  }\n}\n";
    let new = edited(old);
    assert!(new.contains("// mine\n  \"a\": 1, /* too */"), "{new}");
    assert!(
        new.contains("\"other\": {}, // last\n    \"filrouge\": {\n      \"command\": ["),
        "{new}"
    );
    let kept = lines_except(&new, &[]);
    for line in lines_except(old, &["    \"other\": {} // last"]) {
        assert!(kept.contains(&line), "{line}\n{new}");
    }
    assert!(matches!(edit(&new, &expected(true)), Ok(None)));
}

#[test]
fn every_form_keeps_its_members_and_gets_the_entry() {
    for text in [
        "{}",
        "{ }\n",
        "{\"a\":1}",
        "{\n\t\"a\": [1, 2,\n\t\t{\"x\": \"}//\"}]\n}",
        "{\r\n    \"a\": {}\r\n}\r\n",
        "\u{feff}{\"a\": \"é\\\"/*\"}",
        "{\"mcp\": {}}",
        "{\"mcp\": {\"x\": null}, \"b\": true}",
    ] {
        let new = edited(text);
        let read: Value = serde_json::from_str(new.trim_start_matches('\u{feff}'))
            .unwrap_or_else(|e| panic!("{e}: {new}"));
        let old: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap();
        assert_eq!(read["mcp"]["filrouge"], expected(true).entry, "{new}");
        let mut without_entry = read.clone();
        let servers = without_entry["mcp"].as_object_mut().unwrap();
        servers.remove("filrouge");
        if old.get("mcp").is_none() {
            without_entry.as_object_mut().unwrap().remove("mcp");
        }
        assert_eq!(without_entry, old, "{new}");
        assert_eq!(text.contains("\r\n"), new.contains("\r\n"));
        assert!(!text.contains("\r\n") || !new.replace("\r\n", "").contains('\n'));
    }
}

#[test]
fn trailing_commas_and_comments_are_kept() {
    for text in [
        "{\n  \"a\": 1,\n  // end\n}",
        "{\n  \"a\": 1 // end\n}",
        "{ // only\n}",
        "{ /* only */ }",
        "// before\n{\"mcp\": {\"x\": 1,},}\n// behind",
    ] {
        let new = edited(text);
        for comment in ["// end", "// only", "/* only */", "// before", "// behind"] {
            assert_eq!(text.contains(comment), new.contains(comment), "{new}");
        }
        assert!(matches!(edit(&new, &expected(true)), Ok(None)), "{new}");
    }
}

#[test]
fn an_existing_entry_is_kept_and_a_new_file_has_a_head() {
    for (entry, is_kept) in [
        (
            "{\"command\": [\"/bin/filrouge\", \"mcp\"], \"enabled\": true}",
            true,
        ),
        (
            "{\"command\": [\"/bin/filrouge\", \"mcp\", \"--source\", \"codex\"]}",
            true,
        ),
        (
            "{\"command\": \"/bin/filrouge\", \"args\": [\"mcp\"], \"env\": {}}",
            true,
        ),
        ("{\"command\": [\"/bin/filrouge\"]}", false),
        ("{\"command\": [\"/old\", \"mcp\"]}", false),
        ("{\"command\": [\"/bin/filrouge\", 1, \"mcp\"]}", false),
        (
            "{\"command\": [\"/bin/filrouge\", \"mcp\"], \"enabled\": false}",
            false,
        ),
        ("{\"url\": \"https://x\"}", false),
        ("null", false),
        ("[]", false),
    ] {
        let text = format!("{{\"mcp\": {{\"filrouge\": {entry}, \"b\": 2}}}}");
        match edit(&text, &expected(true)) {
            Ok(None) => assert!(is_kept, "{entry}"),
            Ok(Some(new)) => panic!("{new}"),
            Err(refused) => {
                let has_reason = refused
                    .reason
                    .starts_with("mcp.filrouge already exists and");
                assert!(
                    !is_kept && has_reason && refused.by_hand.is_some(),
                    "{entry}: {}",
                    refused.reason
                );
            }
        }
    }
    for empty in ["", " \n", "\u{feff}"] {
        let new_file: Value = serde_json::from_str(&edited(empty)).unwrap();
        assert_eq!(
            (&new_file["$schema"], &new_file["mcp"]["filrouge"]),
            (&json!("s"), &expected(true).entry)
        );
    }
}

#[test]
fn malformed_text_is_refused_with_its_position() {
    for (text, comments, message) in [
        ("{\n  \"a\": ,\n}", true, "line 2, column 8"),
        ("{\"a\": 1", true, "Unterminated object"),
        ("{\"a\" 1}", true, "Expected colon"),
        ("{\"a\": 1} x", true, "more than one JSON value"),
        ("{\"a\": tru}", true, "Unexpected"),
        ("{\"a\": \"x}", true, "Unterminated string"),
        ("{\"a\": 1, \"mcp\": 2}", true, "mcp is no object"),
        ("[]", true, "no object"),
        ("{\"mcp\": {}, \"mcp\": {}}", true, "twice"),
        ("{ // x\n}", false, "line 1, column 3"),
        ("{\"a\": 1,}", false, "line 1, column 9"),
        ("{ /* x }", true, "Unterminated comment"),
        ("{'a': 1}", true, "Single-quoted"),
        ("{a: 1}", true, "Expected string"),
        ("{\"a\": 0x1}", true, "Hexadecimal"),
        ("{\"a\": 1 \"b\": 2}", true, "Expected comma"),
    ] {
        let refused = edit(text, &expected(comments))
            .err()
            .map(|refused| refused.reason);
        let is_expected = refused
            .as_ref()
            .is_some_and(|reason| reason.contains(message));
        assert!(is_expected, "{text}: {refused:?}");
    }
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(edit(&deep, &expected(true)).is_err());
}
