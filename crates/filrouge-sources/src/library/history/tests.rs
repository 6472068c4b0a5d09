#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use proptest::prelude::*;

use super::{Ask, History, ShownMessage, ShownPart, history};
use crate::library::Library;
use crate::library::compacted::{CompactedContext, compacted};
use crate::library::made::{Made, conversation, header, message, part, text, tool};
use crate::{
    Boundary, Conversation, Message, MessageError, Part, PartKind, Role, Tool, ToolStatus,
};

fn library(of: Conversation) -> Library {
    let made = Made::default();
    made.put(header("ses", 1), of);
    Library::new(vec![Arc::new(made)], 1 << 20)
}

fn ask(cursor: Option<String>, back: bool, chars: usize, limit: usize) -> Ask {
    Ask {
        cursor,
        newest_first: back,
        limit,
        max_chars: chars,
        mask: false,
        ..Ask::of("ses")
    }
}

/// What a message says: its id, each part's id and type, each text with the field it is in. Texts of a part that is on
/// two pages are put together.
#[derive(Debug, Default, PartialEq)]
struct Said(Vec<(String, Vec<(String, String)>)>);

impl Said {
    fn add(&mut self, messages: &[ShownMessage]) {
        for message in messages {
            let head = format!("message {}", message.id);
            self.add_texts(head, message.before.is_some(), [("error", &message.error)]);
            for part in &message.parts {
                let head = format!("{} {} {}", message.id, part.kind, part.id);
                self.add_texts(head, part.before.is_some(), fields(part));
            }
        }
    }

    fn add_texts<'a>(
        &mut self,
        head: String,
        continued: bool,
        texts: impl IntoIterator<Item = (&'a str, &'a Option<String>)>,
    ) {
        if !(continued && self.0.iter().any(|(known, _)| *known == head)) {
            assert!(!continued, "{head} goes on without a beginning");
            assert!(
                self.0.iter().all(|(known, _)| *known != head),
                "{head} is there twice"
            );
            self.0.push((head.clone(), Vec::new()));
        }
        let (_, all) = self.0.iter_mut().find(|(known, _)| *known == head).unwrap();
        for (field, text) in texts {
            let Some(text) = text else { continue };
            match all.last_mut() {
                Some((last, so_far)) if last == field => so_far.push_str(text),
                _ => all.push((field.to_owned(), text.clone())),
            }
        }
    }
}

fn fields(part: &ShownPart) -> [(&'static str, &Option<String>); 6] {
    [
        ("text", &part.text),
        ("title", &part.title),
        ("input", &part.input),
        ("error", &part.error),
        ("output", &part.output),
        ("json", &part.json),
    ]
}

fn chars(messages: &[ShownMessage]) -> usize {
    let of_part = |p: &ShownPart| fields(p).iter().map(|(_, t)| count(t)).sum::<usize>();
    let of = |m: &ShownMessage| count(&m.error) + m.parts.iter().map(of_part).sum::<usize>();
    messages.iter().map(of).sum()
}

fn count(text: &Option<String>) -> usize {
    text.as_deref().map_or(0, |t| t.chars().count())
}

/// All pages in the order in which they are met.
fn pages(library: &Library, back: bool, chars: usize, limit: usize) -> Vec<History> {
    let mut all = vec![history(library, &ask(None, back, chars, limit)).unwrap()];
    loop {
        let last = all.last().unwrap();
        let next = if back {
            &last.previous_cursor
        } else {
            &last.next_cursor
        };
        let Some(cursor) = next.clone() else {
            return all;
        };
        let next = history(library, &ask(Some(cursor), back, chars, limit)).unwrap();
        assert!(
            !next.messages.is_empty(),
            "a page that a cursor leads to is never empty"
        );
        all.push(next);
        assert!(all.len() < 20_000, "pages without end");
    }
}

fn some_text() -> impl Strategy<Value = String> {
    let alphabet = prop::sample::select(vec!['a', 'é', '字', '🦀', '\u{301}', ' ', '\n', '"']);
    prop_oneof![
        3 => prop::collection::vec(alphabet.clone(), 0..12),
        1 => prop::collection::vec(alphabet, 0..200),
    ]
    .prop_map(|chars| chars.into_iter().collect())
}

fn some_part() -> impl Strategy<Value = PartKind> {
    let texts = (
        prop::option::of(some_text()),
        prop::option::of(some_text()),
        prop::option::of(some_text()),
        any::<bool>(),
    );
    let call = texts.prop_map(|(title, output, error, pruned)| {
        PartKind::Tool(Box::new(Tool {
            title: title.map(Into::into),
            error: error.map(Into::into),
            pruned: pruned.then_some(7),
            ..tool(output.as_deref())
        }))
    });
    let said = (some_text(), any::<bool>()).prop_map(|(text, synthetic)| PartKind::Text {
        text: text.into(),
        synthetic,
    });
    prop_oneof![
        said,
        some_text().prop_map(|text| PartKind::Reasoning { text: text.into() }),
        call,
        Just(PartKind::Other {
            name: "step-start".into(),
            json: "{}".into()
        }),
        Just(PartKind::Other {
            name: "retry".into(),
            json: r#"{"attempt":1}"#.into()
        }),
        prop::option::of(some_text()).prop_map(|summary| PartKind::Compaction {
            automatic: true,
            summary: summary.map(Into::into),
        }),
    ]
}

fn some_conversation() -> impl Strategy<Value = Conversation> {
    let error = prop::option::weighted(0.2, some_text());
    let one = (prop::collection::vec(some_part(), 0..6), error);
    let boundary = prop::option::of(0..9_usize);
    (prop::collection::vec(one, 0..9), boundary).prop_map(|(all, boundary)| {
        let messages = all.into_iter().enumerate().map(|(n, (parts, error))| {
            let parts = parts.into_iter().enumerate();
            let parts = parts
                .map(|(p, kind)| part(&format!("p{n}.{p}"), kind))
                .collect();
            Message {
                error: error.map(|text| MessageError {
                    name: "E".into(),
                    message: text.into(),
                    retryable: false,
                }),
                // A cursor has to live with whatever stands in an id.
                ..message(&format!("m.{n}:é"), Role::User, parts)
            }
        });
        let mut made = conversation(messages.collect());
        let at = boundary.map(|at| at.min(made.messages.len()));
        made.boundaries = at.into_iter().map(boundary_at).collect();
        made
    })
}

fn boundary_at(at: usize) -> Boundary {
    Boundary {
        at,
        created: 5,
        automatic: Some(true),
        summary_id: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn all_pages_are_the_whole_conversation(
        made in some_conversation(),
        budget in prop_oneof![1_usize..6, 6_usize..300],
        limit in 0_usize..4,
        back in any::<bool>(),
    ) {
        let library = library(made);
        let mut whole = Said::default();
        let all = history(&library, &ask(None, false, usize::MAX, 0)).unwrap();
        prop_assert_eq!(&all.next_cursor, &None);
        prop_assert_eq!(&all.previous_cursor, &None);
        whole.add(&all.messages);
        let mut pages = pages(&library, back, budget, limit);
        if back {
            pages.reverse();
        }
        let mut together = Said::default();
        for page in &pages {
            prop_assert!(chars(&page.messages) <= budget);
            prop_assert!(limit == 0 || page.messages.len() <= limit);
            together.add(&page.messages);
        }
        prop_assert_eq!(together, whole);
    }

    #[test]
    fn pages_lead_back_to_where_they_came_from(made in some_conversation(), budget in 1_usize..200) {
        let library = library(made);
        for pair in pages(&library, false, budget, 2).windows(2) {
            let cursor = pair[1].previous_cursor.clone();
            prop_assert!(cursor.is_some());
            let before = history(&library, &ask(cursor, false, budget, 2)).unwrap();
            // Cut elsewhere, perhaps, but it ends where the page before ended.
            prop_assert_eq!(&before.next_cursor, &pair[0].next_cursor);
        }
    }

    #[test]
    fn whatever_is_cut_says_so(made in some_conversation(), budget in 1_usize..60) {
        let library = library(made);
        let whole = history(&library, &ask(None, false, usize::MAX, 0)).unwrap();
        for page in pages(&library, false, budget, 0) {
            for shown in &page.messages {
                let all = whole.messages.iter().find(|m| m.id == shown.id).unwrap();
                let missing = |cut: &Option<super::Cut>| cut.as_ref().map_or(0, |c| c.chars);
                let here = chars(std::slice::from_ref(shown));
                let told = missing(&shown.before) + here + missing(&shown.cut);
                prop_assert_eq!(told, chars(std::slice::from_ref(all)));
                if shown.cut.is_none() && shown.before.is_none() {
                    prop_assert_eq!(shown.parts.len(), all.parts.len());
                }
                for part in shown.parts.iter().filter(|p| p.cut.is_some()) {
                    let cut = part.cut.clone().unwrap();
                    let rest = history(&library, &ask(Some(cut.cursor), false, usize::MAX, 1)).unwrap();
                    let first = &rest.messages[0].parts[0];
                    prop_assert_eq!(&first.id, &part.id);
                    let follows: usize = fields(first).iter().map(|(_, t)| count(t)).sum();
                    prop_assert_eq!(follows, cut.chars);
                }
            }
        }
    }

    #[test]
    fn all_pages_of_what_was_dropped_are_all_of_it(
        made in some_conversation(),
        budget in 1_usize..120,
        back in any::<bool>(),
    ) {
        let boundary = made.boundaries.first().map_or(0, |b| b.at);
        let pruned = |p: &&Part| matches!(&p.kind, PartKind::Tool(t) if t.pruned.is_some());
        let expected: Vec<(String, Vec<String>)> = made.messages.iter().enumerate().filter_map(|(n, m)| {
            let wanted = m.parts.iter().filter(|p| n < boundary || pruned(p));
            let parts: Vec<String> = wanted.map(|p| p.id.to_string()).collect();
            (n < boundary || !parts.is_empty()).then(|| (m.id.to_string(), parts))
        }).collect();
        let library = library(made);
        let (mut met, mut cursor): (Vec<CompactedContext>, _) = (Vec::new(), None);
        loop {
            let page = compacted(&library, &ask(cursor, back, budget, 0)).unwrap();
            prop_assert!(chars(&page.messages) <= budget);
            prop_assert_eq!(page.total_messages, expected.len());
            cursor = if back { page.previous_cursor.clone() } else { page.next_cursor.clone() };
            met.push(page);
            if cursor.is_none() {
                break;
            }
        }
        if back {
            met.reverse();
        }
        let mut seen: Vec<(String, Vec<String>)> = Vec::new();
        for message in met.iter().flat_map(|page| &page.messages) {
            if seen.last().is_none_or(|(id, _)| *id != message.id) {
                seen.push((message.id.clone(), Vec::new()));
            }
            let parts = &mut seen.last_mut().unwrap().1;
            parts.extend(message.parts.iter().filter(|p| p.before.is_none()).map(|p| p.id.clone()));
        }
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn no_cursor_makes_it_fail_in_another_way(cursor in "(on|back)\\.[mrx]\\.[0-9]{0,30}\\.[0-9]{0,30}\\..{0,4}|.{0,20}") {
        let library = library(conversation(vec![message("m", Role::User, vec![text("p", "abc")])]));
        if let Err(why) = history(&library, &ask(Some(cursor), false, 1, 1)) {
            prop_assert_eq!(why.code(), "invalid_argument");
        }
    }
}

/// Four messages: a compaction has cut before the third, and the fourth was taken back.
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
    let mut made = conversation(vec![
        message("m1", Role::User, vec![text("t1", "first")]),
        message("m2", Role::Assistant, vec![text("t2", "second")]),
        Message {
            summary: true,
            ..message("m3", Role::Assistant, vec![text("t3", "what went before")])
        },
        message("m4", Role::Assistant, calls),
        message("m5", Role::User, vec![text("t5", "never mind")]),
    ]);
    made.boundaries = vec![Boundary {
        summary_id: Some("m3".into()),
        ..boundary_at(2)
    }];
    made.reverted_at = Some(4);
    made
}

#[test]
fn marks_stand_where_they_belong() {
    let all = history(&library(marked()), &ask(None, false, 0, 0)).unwrap();
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
fn what_is_left_out_is_counted() {
    let shown = Ask {
        tool_output: false,
        reverted: false,
        ..Ask::of("ses")
    };
    let all = history(&library(marked()), &shown).unwrap();
    assert_eq!(all.messages.len(), 4);
    assert_eq!(all.total_messages, 5);
    assert_eq!(all.messages[3].parts[2].output, None);
    assert_eq!(
        all.notices,
        [
            "outputs of tools left out on this page: 2",
            "messages taken back by the user, left out: 1",
        ]
    );
}

#[test]
fn what_compactions_and_pruning_dropped() {
    let dropped = compacted(&library(marked()), &Ask::of("ses")).unwrap();
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
        ["messages taken back by the user, not among these: 1"]
    );
}

#[test]
fn a_long_summary_is_cut_and_says_where_it_stands() {
    let library = library(marked());
    let page = compacted(&library, &ask(None, false, 40, 0)).unwrap();
    let compaction = &page.compactions[0];
    assert_eq!(compaction.summary.as_deref(), Some("what went "));
    let cut = compaction.cut.clone().unwrap();
    assert_eq!(cut.chars, 6);
    let there = history(&library, &ask(Some(cut.cursor), false, 40, 1)).unwrap();
    assert_eq!(there.messages[0].id, "m3");
}

#[test]
fn a_message_can_be_named() {
    let library = library(marked());
    let first = |cursor: &str, back| {
        let page = history(&library, &ask(Some(cursor.to_owned()), back, 0, 1)).unwrap();
        page.messages[0].id.clone()
    };
    assert_eq!(first("message:m3", false), "m3");
    assert_eq!(first("message:m3", true), "m3");
    assert_eq!(first("ses:m2", false), "m2");
    let place = history(
        &library,
        &Ask {
            limit: 1,
            ..Ask::of("ses:m4")
        },
    )
    .unwrap();
    assert_eq!(place.messages[0].id, "m4");
    assert_eq!(
        history(&library, &Ask::of("no:m4")).unwrap_err().code(),
        "session_not_found"
    );
    for wrong in ["message:m9", "ses:m9", "on.m.0.0.m9", "back", ""] {
        let why = history(&library, &ask(Some(wrong.to_owned()), false, 0, 0)).unwrap_err();
        assert_eq!(why.code(), "invalid_argument", "{wrong}");
    }
}

#[test]
fn credentials_are_masked_before_texts_are_cut() {
    let key = format!("AKIA{}", "Q7RT5VWX2YZ3ABCD");
    let said = format!("the key {key} is old {}", "x".repeat(50));
    let library = library(conversation(vec![message(
        "m",
        Role::User,
        vec![text("p", &said)],
    )]));
    for budget in 1..80 {
        let mut cursor = None;
        let mut all = String::new();
        loop {
            let page = Ask {
                mask: true,
                ..ask(cursor, false, budget, 0)
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
        &Ask {
            max_chars: 5,
            ..Ask::of("ses")
        },
    )
    .unwrap();
    let raw = history(&library, &ask(cut.next_cursor, false, 5, 0)).unwrap_err();
    assert_eq!(raw.code(), "invalid_argument");
}

#[test]
fn new_messages_are_behind_the_last_page() {
    let made = Arc::new(Made::default());
    made.put(
        header("ses", 1),
        conversation(vec![message("m1", Role::User, vec![text("a", "a")])]),
    );
    let library = Library::new(vec![made.clone()], 1 << 20);
    let page = history(&library, &ask(None, true, 0, 0)).unwrap();
    assert_eq!((page.messages.len(), page.next_cursor), (1, None));
    let more = vec![
        message("m1", Role::User, vec![text("a", "a")]),
        message("m2", Role::User, vec![text("b", "b")]),
    ];
    made.put(header("ses", 1), conversation(more));
    let page = history(&library, &ask(None, true, 0, 1)).unwrap();
    assert_eq!(page.messages[0].id, "m2");
    assert_eq!(page.total_messages, 2);
}
