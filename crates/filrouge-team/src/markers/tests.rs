//! Markers and mentions in messages: the addressees, the remaining text, and markers that are plain text.

use proptest::prelude::*;

use super::*;
use crate::team_file::Format;

fn team() -> Team {
    let text = r#"
        name = "Bridge"
        members = [
            { name = "Ada", kind = "human" },
            { name = "Bob", kind = "agent", command = "bob" },
            { name = "Bob Reply", kind = "agent", command = "bob" },
            { name = "小红", kind = "agent", command = "hong" },
            { name = "小红花", kind = "agent", command = "hua" },
            { name = "Élise", kind = "agent", command = "elise" },
        ]"#;
    Team::parse(text, Format::Toml, std::path::Path::new("/teams")).unwrap()
}

fn parse(text: &str) -> ParsedText {
    ParsedText::parse(text, &team(), &crate::team::derive_id("Ada"))
}

/// The addressed members' names, each with its intent; `?name` for an unknown member.
fn addressed(text: &str) -> Vec<String> {
    let parsed = parse(text);
    let names = parsed.addressed.iter().map(|addressed| {
        let name = addressed.addressee.member_name.as_deref();
        let identifier = &addressed.addressee.identifier;
        let name = name.map_or_else(|| format!("?{identifier}"), str::to_owned);
        match addressed.intent {
            None => name,
            Some(Intent::Interrupt) => format!("{name} 1"),
            Some(Intent::Reply) => format!("{name} 2"),
            Some(Intent::Extend) => format!("{name} 3"),
        }
    });
    names.collect()
}

#[test]
fn next_markers_name_the_next_speakers() {
    for (text, names) in [
        ("[NEXT: Bob]", vec!["Bob"]),
        ("[next:bob]", vec!["Bob"]),
        ("[ Next : @BOB ] ", vec!["Bob"]),
        ("[NEXT：ｂｏｂ，小红]", vec!["Bob", "小红"]),
        ("[NEXT: 小红花、E\u{301}LISE]", vec!["小红花", "Élise"]),
        ("[NEXT: bob][NEXT: ada, bob]", vec!["Bob", "Ada"]),
        ("[NEXT: bob, bob , BOB]", vec!["Bob"]),
        (
            "[NEXT: Bob !P1, Ada!p3, 小红 reply]",
            vec!["Bob 1", "Ada 3", "小红 2"],
        ),
        (
            "[NEXT: bob interrupt, ada ! extend]",
            vec!["Bob 1", "Ada 3"],
        ),
        ("[NEXT: bob reply]", vec!["Bob Reply"]),
        ("[NEXT: bob reply reply]", vec!["Bob Reply 2"]),
        ("[NEXT: bob !P3] [NEXT: bob !P1]", vec!["Bob 1"]),
        (
            "[NEXT: carol, bob, dave !P1, CAROL]",
            vec!["?carol", "Bob", "?dave 1"],
        ),
        ("[NEXT: bob !P9]", vec!["?bob !P9"]),
        ("[NEXT: ]", vec![]),
        ("[NEXT bob] [NEXT: bob", vec![]),
        ("[NEXT: a [b]", vec![]),
        ("[NEXT: bob\n]", vec![]),
    ] {
        assert_eq!(addressed(text), names, "{text}");
    }
    let id = team().members[3].id.clone();
    assert_eq!(addressed(&format!("[NEXT: {id}]")), ["小红"]);
}

#[test]
fn markers_are_removed_from_the_text() {
    for (text, content) in [
        ("Done. [NEXT: Bob]  \n", "Done."),
        ("Done.[NEXT: Bob]", "Done."),
        ("[NEXT: Bob] hello", "hello"),
        ("ask [NEXT: Bob] please", "ask please"),
        ("ask[NEXT: Bob] please", "ask please"),
        ("one\n[NEXT: Bob]\ntwo", "one\ntwo"),
        ("one\n  [NEXT: Bob] [DROP]  \ntwo", "one\ntwo"),
        ("one\n\n[NEXT: Bob]\n", "one"),
        ("\n\n  indented\n\n", "  indented"),
        ("two  \nspaces", "two  \nspaces"),
        ("[FROM: bob] hi", "hi"),
        ("a [TEAM_TASK: x [y]\nz] b", "a b"),
        (
            "[TEAM_TASK x] [DROPS] [NEXTBOB: a] []",
            "[TEAM_TASK x] [DROPS] [NEXTBOB: a] []",
        ),
        ("[see](https://x) [1]", "[see](https://x) [1]"),
        ("", ""),
        ("[NEXT: Bob]", ""),
    ] {
        assert_eq!(&*parse(text).content, content, "{text:?}");
    }
}

#[test]
fn code_and_escapes_contain_no_markers() {
    for text in [
        "`[NEXT: bob]`",
        "``a ` [NEXT: bob]`` `@bob`",
        "```\n[NEXT: bob]\n@bob\n```",
        "~~~ text\n[NEXT: bob]\n~~~~",
        "```\n[NEXT: bob] is never closed",
        "\\[NEXT: bob]",
    ] {
        let parsed = parse(text);
        assert_eq!(
            (&*parsed.content, parsed.addressed.len()),
            (text, 0),
            "{text}"
        );
    }
    for (text, content) in [
        ("it's a ` tick [NEXT: bob]", "it's a ` tick"),
        ("```\ncode\n```\n[NEXT: bob]", "```\ncode\n```"),
        ("```a`` b [NEXT: bob]", "```a`` b"),
        ("`code` [NEXT: bob]\n`", "`code`\n`"),
        ("    ```\n[NEXT: bob]", "    ```"),
    ] {
        assert_eq!(&*parse(text).content, content, "{text}");
        assert_eq!(addressed(text), ["Bob"], "{text}");
    }
}

#[test]
fn mentions_of_nobody_are_unresolved() {
    for (text, names) in [
        ("@Nobody, look", vec!["Nobody"]),
        ("ask @carol, @carol and @bob.", vec!["carol"]),
        ("@bobby @bob_x", vec!["bobby", "bob_x"]),
        (
            "a@carol.org, @carol.org, @carol@host, @@carol, x/@carol",
            vec![],
        ),
        ("`@carol` @ carol @2x @", vec![]),
        ("@ada says so herself", vec![]),
        ("@carol [NEXT: bob]", vec![]),
    ] {
        let parsed = parse(text);
        assert_eq!(parsed.unresolved().collect::<Vec<_>>(), names, "{text}");
    }
    // They address nobody, so that the record of a message stays as it is.
    assert_eq!(addressed("@Nobody, look"), Vec::<String>::new());
}

#[test]
fn mentions_address_members_without_a_next_marker() {
    for (text, names) in [
        ("@bob, look", vec!["Bob"]),
        ("look @Bob.", vec!["Bob"]),
        ("(@BOB) @小红花看 请@小红看", vec!["Bob", "小红花", "小红"]),
        ("@bob reply now", vec!["Bob Reply"]),
        ("@Bob  Replying", vec!["Bob"]),
        ("@e\u{301}lise!", vec!["Élise"]),
        ("@bob's turn", vec!["Bob"]),
        (
            "a@bob.org, ada@bob, @bob.org, @bobby, @bob_x, x/@bob, @bob@host",
            vec![],
        ),
        ("@ bob @ @@bob @carol", vec![]),
        ("`@bob` and\n```\n@bob\n```", vec![]),
        ("@ada says so herself", vec![]),
        ("@bob [NEXT: 小红]", vec!["小红"]),
        ("@bob [NEXT: carol]", vec!["?carol"]),
    ] {
        assert_eq!(addressed(text), names, "{text}");
    }
}

#[test]
fn tasks_and_drops_are_read() {
    let task = |text: &str| parse(text).team_task;
    assert_eq!(
        task("[TEAM_TASK: build\n[it] well ]").as_deref(),
        Some("build\n[it] well")
    );
    assert_eq!(
        task("[team_task：a][TEAM_TASK: b][TEAM_TASK: ]").as_deref(),
        Some("b")
    );
    assert_eq!(task("[TEAM_TASK: no end"), None);
    let too_long = format!("[TEAM_TASK: {}]", "x".repeat(6000));
    assert_eq!(task(&too_long).map(|task| task.len()), Some(6000));

    assert_eq!(parse("x").dropped, None);
    assert_eq!(parse("[drop]").dropped, Some(Dropped::All));
    assert_eq!(parse("[DROP: ]").dropped, Some(Dropped::All));
    // The first two members, in the order of the markers: Bob, then Ada.
    let ids = team()
        .members
        .iter()
        .rev()
        .skip(4)
        .map(|member| member.id.clone())
        .collect();
    let dropped = parse("[DROP: bob, nobody][DROP: ada]").dropped;
    assert_eq!(dropped, Some(Dropped::Members(ids)));
    assert_eq!(parse("[DROP: bob][DROP]").dropped, Some(Dropped::All));
}

#[test]
fn the_routing_records_the_written_names() {
    let parsed = parse("x [NEXT: Bob !P3, carol] [NEXT: Ada !P2]");
    let routing = parsed.routing(Some("msg-7".into()));
    assert_eq!(
        routing.markers,
        [
            "NEXT: Bob !P3, carol".into(),
            Box::<str>::from("NEXT: Ada !P2")
        ]
    );
    assert_eq!(routing.intent, Some(Intent::Reply));
    assert_eq!(routing.parent.as_deref(), Some("msg-7"));
    let resolved: Vec<_> = routing
        .addressees
        .iter()
        .map(|addressee| addressee.member_id.is_some())
        .collect();
    assert_eq!(resolved, [true, false, true]);
    assert_eq!(parsed.unresolved().collect::<Vec<_>>(), ["carol"]);
}

#[test]
fn markers_beyond_the_limits_stay_text() {
    let many = "[NEXT: bob]".repeat(MARKERS_MAX + 2);
    assert_eq!(&*parse(&many).content, "[NEXT: bob][NEXT: bob]");
    let long = format!("[NEXT: {}]", "x".repeat(NAMES_BYTES_MAX));
    assert_eq!(*parse(&long).content, long);
    for text in [
        format!("[TEAM_TASK: {}]", "x".repeat(HELD_BYTES_MAX)),
        format!("`{}`", "x".repeat(2 * HELD_BYTES_MAX)),
        format!("```{}\n[", "x".repeat(2 * HELD_BYTES_MAX)),
        format!("```\n```{}\n[NEXT: bob]", " ".repeat(2 * HELD_BYTES_MAX)),
        "`".repeat(3 * HELD_BYTES_MAX),
    ] {
        let mut reader = MarkerReader::default();
        let visible: String = text
            .as_bytes()
            .chunks(4096)
            .map(|piece| reader.push(std::str::from_utf8(piece).unwrap()))
            .collect();
        let (remaining, parsed) = reader.finish(&team(), &crate::team::derive_id("Ada"));
        assert_eq!(visible + &remaining, *parsed.content);
        assert_eq!(parsed, parse(&text));
        assert_eq!(parsed.markers.len(), 0);
    }
}

/// Texts full of markers and of parts of markers.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "[",
        "]",
        "NEXT",
        "next",
        ":",
        "：",
        " bob",
        "Ada",
        ",",
        "!P1",
        "`",
        "``",
        "```",
        "~~~",
        "\n",
        "\r\n",
        " ",
        "\t",
        "\\",
        "@",
        "@bob",
        "a@bob",
        "小红",
        "[NEXT: bob]",
        "[DROP]",
        "[TEAM_TASK:",
        "[TEAM",
        "_TASK",
        "x",
        "é",
        "[FROM: x]",
        "\u{3000}",
        "[NEXT: bob !P3]",
    ]);
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// However a text is split, the joined output is its content: no part of a marker is ever shown.
    #[test]
    fn the_result_does_not_depend_on_the_chunks(text in texts(), cuts in prop::collection::vec(1..7usize, 1..10)) {
        let expected = parse(&text);
        let mut reader = MarkerReader::default();
        let mut visible = String::new();
        let mut chars = text.chars().peekable();
        for cut in cuts.iter().cycle() {
            let piece: String = chars.by_ref().take(*cut).collect();
            visible.push_str(&reader.push(&piece));
            prop_assert!(expected.content.starts_with(&visible), "{visible:?}");
            if chars.peek().is_none() {
                break;
            }
        }
        let (remaining, parsed) = reader.finish(&team(), &crate::team::derive_id("Ada"));
        prop_assert_eq!(&*parsed.content, &*(visible + &remaining));
        prop_assert_eq!(parsed, expected);
    }

    #[test]
    fn text_without_markers_is_unchanged(text in "[a-z@`~! \n\t\\\\(){}:,]{0,60}") {
        let content = parse(&text).content;
        let lines = text.trim_end();
        let blank = lines.len() - lines.trim_start().len();
        let start = lines[..blank].rfind('\n').map_or(0, |end| end + 1);
        prop_assert_eq!(&*content, &lines[start..]);
    }

    #[test]
    fn no_marker_is_left_outside_code(text in texts()) {
        let parsed = parse(&text);
        if !text.contains(['`', '~', '\\']) && parsed.markers.is_empty() {
            prop_assert!(!parsed.content.contains("[DROP]"));
            prop_assert!(!parsed.content.contains("[NEXT: bob]"));
        }
    }

    #[test]
    fn any_text_is_accepted(text in any::<String>(), speaker in "[a-z]{1,3}") {
        let parsed = ParsedText::parse(&text, &team(), &speaker);
        prop_assert!(parsed.content.len() <= text.len());
    }
}
