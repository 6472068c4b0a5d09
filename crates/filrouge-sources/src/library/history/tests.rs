//! Tests of histories and of compacted contexts.

mod paging;

use std::sync::Arc;

use super::{HistoryRequest, history};
use crate::library::Library;
use crate::library::compacted::compacted;
use crate::library::samples::{MemorySource, conversation, header, message, part, text, tool};
use crate::{Boundary, Conversation, Message, PartKind, Role, Tool, ToolStatus};

fn library(conversation: Conversation) -> Library {
    let source = MemorySource::default();
    source.put(header("ses", 1), conversation);
    Library::new(vec![Arc::new(source)], 1 << 20)
}

/// A query without masking.
fn request(
    cursor: Option<String>,
    newest_first: bool,
    chars: usize,
    limit: usize,
) -> HistoryRequest {
    HistoryRequest {
        cursor,
        newest_first,
        limit,
        max_chars: chars,
        mask: false,
        ..HistoryRequest::new("ses")
    }
}

fn boundary_at(at: usize) -> Boundary {
    Boundary {
        at,
        created: 5,
        automatic: Some(true),
        summary_id: None,
    }
}

/// Five messages: a compaction dropped those before the third, and the user reverted the fifth.
fn marked() -> Conversation {
    let child = Tool {
        child: Some("child".into()),
        status: ToolStatus::Running,
        ..tool(None)
    };
    let pruned = Tool {
        pruned: Some(9),
        ..tool(Some("old output"))
    };
    let calls = vec![
        part("c1", PartKind::Tool(Box::new(child))),
        part("c2", PartKind::Tool(Box::new(pruned))),
        part("c3", PartKind::Tool(Box::new(tool(Some("new output"))))),
    ];
    let mut marked = conversation(vec![
        message("m1", Role::User, vec![text("t1", "first")]),
        message("m2", Role::Assistant, vec![text("t2", "second")]),
        Message {
            summary: true,
            ..message("m3", Role::Assistant, vec![text("t3", "what went before")])
        },
        message("m4", Role::Assistant, calls),
        message("m5", Role::User, vec![text("t5", "never mind")]),
    ]);
    marked.boundaries = vec![Boundary {
        summary_id: Some("m3".into()),
        ..boundary_at(2)
    }];
    marked.reverted_at = Some(4);
    marked
}

#[test]
fn messages_are_marked_as_compacted_as_boundary_and_as_reverted() {
    let all = history(&library(marked()), &request(None, false, 0, 0)).unwrap();
    let marks: Vec<_> = all
        .messages
        .iter()
        .map(|m| (m.compacted, m.boundary, m.reverted))
        .collect();
    assert_eq!(
        marks,
        [
            (true, false, false),
            (true, false, false),
            (false, true, false),
            (false, false, false),
            (false, false, true),
        ]
    );
    assert!(all.messages[2].summary);
    assert_eq!(
        all.messages[3].parts[0].child_session_id.as_deref(),
        Some("child")
    );
    assert_eq!(all.messages[3].parts[1].pruned, Some(9));
    assert_eq!(all.children, ["child"]);
    assert_eq!(all.notices, [""; 0]);
}

#[test]
fn parts_and_messages_left_out_are_counted() {
    let shown = HistoryRequest {
        tool_output: false,
        reverted: false,
        ..HistoryRequest::new("ses")
    };
    let all = history(&library(marked()), &shown).unwrap();
    assert_eq!(all.messages.len(), 4);
    assert_eq!(all.total_messages, 5);
    assert_eq!(all.messages[3].parts[2].output, None);
    assert_eq!(
        all.notices,
        [
            "outputs of tools left out on this page: 2",
            "messages reverted by the user, left out: 1",
        ]
    );
}

#[test]
fn dropped_messages_and_pruned_outputs_are_returned() {
    let dropped = compacted(&library(marked()), &HistoryRequest::new("ses")).unwrap();
    let ids: Vec<_> = dropped.messages.iter().map(|m| m.id.as_str()).collect();
    assert_eq!(ids, ["m1", "m2", "m4"]);
    assert_eq!(dropped.messages[2].parts.len(), 1);
    assert_eq!(
        dropped.messages[2].parts[0].output.as_deref(),
        Some("old output")
    );
    assert_eq!(dropped.pruned_outputs, 1);
    let [compaction] = dropped.compactions.as_slice() else {
        panic!("{:?}", dropped.compactions);
    };
    assert_eq!((compaction.messages, compaction.automatic), (2, Some(true)));
    assert_eq!(compaction.summary.as_deref(), Some("what went before"));
    assert_eq!(
        dropped.notices,
        ["messages reverted by the user, not listed here: 1"]
    );
}

#[test]
fn a_cut_summary_has_a_cursor_to_its_message() {
    let library = library(marked());
    let page = compacted(&library, &request(None, false, 40, 0)).unwrap();
    let compaction = &page.compactions[0];
    assert_eq!(compaction.summary.as_deref(), Some("what went "));
    let cut = compaction.cut.clone().unwrap();
    assert_eq!(cut.chars, 6);
    let linked = history(&library, &request(Some(cut.cursor), false, 40, 1)).unwrap();
    assert_eq!(linked.messages[0].id, "m3");
}

#[test]
fn a_page_can_begin_or_end_at_a_named_message() {
    let library = library(marked());
    let first = |cursor: &str, newest_first| {
        let page = history(
            &library,
            &request(Some(cursor.to_owned()), newest_first, 0, 1),
        )
        .unwrap();
        page.messages[0].id.clone()
    };
    assert_eq!(first("message:m3", false), "m3");
    assert_eq!(first("message:m3", true), "m3");
    assert_eq!(first("ses:m2", false), "m2");
    let place = history(
        &library,
        &HistoryRequest {
            limit: 1,
            ..HistoryRequest::new("ses:m4")
        },
    )
    .unwrap();
    assert_eq!(place.messages[0].id, "m4");
    assert_eq!(
        history(&library, &HistoryRequest::new("no:m4"))
            .unwrap_err()
            .code(),
        "session_not_found"
    );
    for invalid in ["message:m9", "ses:m9", "on.m.0.0.m9", "back", ""] {
        let error = history(&library, &request(Some(invalid.to_owned()), false, 0, 0)).unwrap_err();
        assert_eq!(error.code(), "invalid_argument", "{invalid}");
    }
}

#[test]
fn credentials_are_masked_before_texts_are_cut() {
    let key = format!("AKIA{}", "Q7RT5VWX2YZ3ABCD");
    let long_text = format!("the key {key} is old {}", "x".repeat(50));
    let library = library(conversation(vec![message(
        "m",
        Role::User,
        vec![text("p", &long_text)],
    )]));
    for budget in 1..80 {
        let mut cursor = None;
        let mut all = String::new();
        loop {
            let page = HistoryRequest {
                mask: true,
                ..request(cursor, false, budget, 0)
            };
            let page = history(&library, &page).unwrap();
            assert_eq!(page.notices, ["masked credentials on this page: 1"]);
            all.extend(page.messages[0].parts[0].text.clone());
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert!(
            !all.contains(&key[..8]) && all.contains("[masked:"),
            "{all}"
        );
        assert!(all.ends_with(&"x".repeat(50)));
    }
    let cut = history(
        &library,
        &HistoryRequest {
            max_chars: 5,
            ..HistoryRequest::new("ses")
        },
    )
    .unwrap();
    let error = history(&library, &request(cut.next_cursor, false, 5, 0)).unwrap_err();
    assert_eq!(error.code(), "invalid_argument");
}

#[test]
fn new_messages_follow_the_last_page() {
    let source = Arc::new(MemorySource::default());
    source.put(
        header("ses", 1),
        conversation(vec![message("m1", Role::User, vec![text("a", "a")])]),
    );
    let library = Library::new(vec![source.clone()], 1 << 20);
    let page = history(&library, &request(None, true, 0, 0)).unwrap();
    assert_eq!((page.messages.len(), page.next_cursor), (1, None));
    let more = vec![
        message("m1", Role::User, vec![text("a", "a")]),
        message("m2", Role::User, vec![text("b", "b")]),
    ];
    source.put(header("ses", 1), conversation(more));
    let page = history(&library, &request(None, true, 0, 1)).unwrap();
    assert_eq!(page.messages[0].id, "m2");
    assert_eq!(page.total_messages, 2);
}

#[test]
fn names_are_masked_as_texts_are() {
    let key = format!("AKIA{}", "Q7RT5VWX2YZ3ABCD");
    let named = Tool {
        name: key.as_str().into(),
        call_id: key.as_str().into(),
        ..tool(None)
    };
    let attached = PartKind::File {
        mime: Some(key.as_str().into()),
        name: Some(key.as_str().into()),
        url: None,
    };
    let other = PartKind::Other {
        name: key.as_str().into(),
        json: "{}".into(),
    };
    let parts = [PartKind::Tool(Box::new(named)), attached, other];
    let parts = parts.into_iter().map(|kind| part("p", kind)).collect();
    let credentials = Message {
        agent: Some(key.as_str().into()),
        model: Some(key.as_str().into()),
        ..message("m", Role::Assistant, parts)
    };
    let library = library(conversation(vec![credentials]));
    let shown = |mask| {
        let request = HistoryRequest {
            mask,
            ..HistoryRequest::new("ses")
        };
        serde_json::to_string(&history(&library, &request).unwrap()).unwrap()
    };
    assert_eq!(shown(false).matches(&key).count(), 7);
    assert!(!shown(true).contains(&key[..8]), "{}", shown(true));
}

#[test]
fn cursors_of_dropped_messages_and_of_histories_differ() {
    let library = library(marked());
    let dropped = compacted(&library, &request(None, false, 0, 1)).unwrap();
    let next = dropped.next_cursor.unwrap();
    let page = compacted(&library, &request(Some(next.clone()), false, 0, 1)).unwrap();
    assert_eq!(page.messages[0].id, "m2");
    let error = history(&library, &request(Some(next), false, 0, 1)).unwrap_err();
    assert_eq!(error.code(), "invalid_argument");
    let next = history(&library, &request(None, false, 0, 1))
        .unwrap()
        .next_cursor;
    let error = compacted(&library, &request(next, false, 0, 1)).unwrap_err();
    assert!(
        error.to_string().contains("get_compacted_context"),
        "{error}"
    );
}
