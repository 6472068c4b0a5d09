//! Tests of call ids and tool names.

use std::collections::HashSet;

use filrouge_transcode::Format;
use serde_json::Value;

use crate::plans::*;

/// The ids and names of the calls that the provider receives.
fn labels(messages: &Value, format: Format) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let message_labels = |message: &Value| match format {
        Format::OpenaiChat => list(&message["tool_calls"])
            .iter()
            .map(|c| (text(&c["id"]), text(&c["function"]["name"])))
            .collect(),
        Format::OpenaiResponses if message["type"] == "function_call" => {
            vec![(text(&message["call_id"]), text(&message["name"]))]
        }
        Format::Anthropic => list(&message["content"])
            .iter()
            .filter(|b| b["type"] == "tool_use")
            .map(|b| (text(&b["id"]), text(&b["name"])))
            .collect(),
        Format::Gemini => list(&message["parts"])
            .iter()
            .filter_map(|p| p.get("functionCall"))
            .map(|c| (text(&c["id"]), text(&c["name"])))
            .collect(),
        _ => Vec::new(),
    };
    list(messages).iter().flat_map(message_labels).collect()
}

/// An id of 46 characters, which Chat Completions does not accept.
const LONG_ID: &str = "call_01234567890123456789012345678901234567890";

#[test]
fn accepted_ids_are_kept() {
    let is_kept = |id: &str, format| {
        let (messages, adapted, _) =
            render_turn(vec![user("q"), calls(vec![call(id, "f", vec![])])], format);
        let kept = labels(&messages, format)[0].0 == id;
        // The pairs have the seqs of the adapted items: 1 is the question, 2 the call, 3 the call's result.
        let replaced = [(2, "call_id_replaced"), (3, "call_id_replaced")];
        assert_eq!(adapted, if kept { &[][..] } else { &replaced[..] });
        kept
    };
    let formats = [
        Format::OpenaiChat,
        Format::OpenaiResponses,
        Format::Anthropic,
    ];
    let too_long = "x".repeat(65);
    let cases = [
        ("call_1", [true, true, true]),
        (LONG_ID, [false, true, true]),
        ("functions.f:0", [true, true, false]),
        ("é", [true, true, false]),
        ("a\u{7}", [false, false, false]),
        (&too_long, [false, false, false]),
    ];
    for (id, expected) in cases {
        assert_eq!(formats.map(|format| is_kept(id, format)), expected, "{id}");
    }
}

#[test]
fn duplicate_ids_become_distinct_from_all_recorded_ids() {
    let group = |number| {
        let blocks = vec![
            user("q"),
            calls(vec![call("c", "f", vec![]), call("a b", "f", vec![])]),
        ];
        turn(number, blocks)
    };
    for format in [
        Format::OpenaiChat,
        Format::OpenaiResponses,
        Format::Anthropic,
    ] {
        let first = plan(None, vec![group(1), group(2)]);
        let first_labels = labels(&render_plan(&first, format).0, format);
        let ids: HashSet<&str> = first_labels.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids.len(), 4);
        assert_eq!(first_labels[0].0, "c");
        // A call whose recorded id equals a derived one keeps its id; the derived one changes.
        let colliding = turn(
            3,
            vec![
                user("q"),
                calls(vec![call(&first_labels[2].0, "f", vec![])]),
            ],
        );
        let second = plan(None, vec![group(1), group(2), colliding]);
        let second_labels = labels(&render_plan(&second, format).0, format);
        let ids: HashSet<&str> = second_labels.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids.len(), 5);
        assert_eq!(second_labels[4].0, first_labels[2].0);
    }
}

#[test]
fn a_derived_id_is_the_same_in_every_window() {
    let with_invalid_id = |number| {
        turn(
            number,
            vec![user("q"), calls(vec![call("a b", "f", vec![])])],
        )
    };
    let labels_of = |turns| {
        labels(
            &render_plan(&plan(None, turns), Format::Anthropic).0,
            Format::Anthropic,
        )
    };
    let complete = labels_of(vec![with_invalid_id(1), with_invalid_id(2)]);
    let cut = labels_of(vec![with_invalid_id(2)]);
    assert_eq!(complete[1], cut[0]);
    assert!(
        cut[0].0.starts_with("call_") && cut[0].0.len() == 17,
        "{cut:?}"
    );
}

#[test]
fn replaced_names_are_accepted_and_distinct() {
    let long = "n".repeat(200);
    let names = ["find", "a.b", "a_b", "a/b", "", "9x", &long, "a.b", "a:b"];
    let list = names.iter().enumerate();
    let list = list
        .map(|(index, name)| call(&format!("c{index}"), name, vec![]))
        .collect();
    let blocks = vec![user("q"), calls(list)];
    for (format, max_bytes) in [
        (Format::OpenaiChat, 64),
        (Format::OpenaiResponses, 64),
        (Format::Anthropic, 128),
        (Format::Gemini, 64),
    ] {
        let (messages, adapted, _) = render_turn(blocks.clone(), format);
        let rendered: Vec<String> = labels(&messages, format)
            .into_iter()
            .map(|(_, name)| name)
            .collect();
        assert_eq!(
            (&*rendered[0], &*rendered[2], &*rendered[4]),
            ("find", "a_b", "tool")
        );
        assert_eq!(rendered[1], rendered[7]);
        assert_eq!(rendered[6].len(), max_bytes);
        let recorded: HashSet<&str> = names.into_iter().collect();
        assert_eq!(
            rendered.iter().collect::<HashSet<_>>().len(),
            recorded.len()
        );
        if format == Format::Gemini {
            assert_eq!(
                (&*rendered[1], &*rendered[8], &*rendered[5]),
                ("a.b", "a:b", "_9x")
            );
        } else {
            assert!(rendered[1].starts_with("a_b_") && rendered[5] == "9x");
        }
        assert!(adapted.contains(&(8, "tool_name_replaced")), "{adapted:?}");
        assert!(!adapted.contains(&(2, "tool_name_replaced")));
    }
}
