//! Tests that all pages together equal the conversation, for every conversation, budget and direction.

use proptest::prelude::*;

use super::{boundary_at, library, request};
use crate::library::Library;
use crate::library::compacted::{CompactedContext, compacted};
use crate::library::history::{Cut, History, ShownMessage, ShownPart, history};
use crate::library::samples::{conversation, message, part, text, tool};
use crate::{Conversation, Message, MessageError, Part, PartKind, Role, Tool};

/// The contents of messages and parts: for each its ids and type, and its texts by field. Joins the texts of a part
/// that is on two pages.
#[derive(Debug, Default, PartialEq)]
struct Content(Vec<(String, Vec<(String, String)>)>);

impl Content {
    fn add(&mut self, messages: &[ShownMessage]) {
        for message in messages {
            let key = format!("message {}", message.id);
            self.add_texts(key, message.before.is_some(), [("error", &message.error)]);
            for part in &message.parts {
                let key = format!("{} {} {}", message.id, part.kind, part.id);
                self.add_texts(key, part.before.is_some(), fields(part));
            }
        }
    }

    fn add_texts<'a>(
        &mut self,
        key: String,
        continued: bool,
        texts: impl IntoIterator<Item = (&'a str, &'a Option<String>)>,
    ) {
        if !(continued && self.0.iter().any(|(existing, _)| *existing == key)) {
            assert!(!continued, "{key} continues without a beginning");
            assert!(
                self.0.iter().all(|(existing, _)| *existing != key),
                "{key} occurs twice"
            );
            self.0.push((key.clone(), Vec::new()));
        }
        let (_, texts_of_key) = self
            .0
            .iter_mut()
            .find(|(existing, _)| *existing == key)
            .unwrap();
        for (field, text) in texts {
            let Some(text) = text else { continue };
            match texts_of_key.last_mut() {
                Some((last, so_far)) if last == field => so_far.push_str(text),
                _ => texts_of_key.push((field.to_owned(), text.clone())),
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

/// The number of characters of all texts.
fn chars(messages: &[ShownMessage]) -> usize {
    let of_part = |p: &ShownPart| fields(p).iter().map(|(_, t)| count(t)).sum::<usize>();
    let of_message =
        |m: &ShownMessage| count(&m.error) + m.parts.iter().map(of_part).sum::<usize>();
    messages.iter().map(of_message).sum()
}

fn count(text: &Option<String>) -> usize {
    text.as_deref().map_or(0, |t| t.chars().count())
}

/// All pages, in the order in which they are read.
fn pages(library: &Library, back: bool, chars: usize, limit: usize) -> Vec<History> {
    let mut all = vec![history(library, &request(None, back, chars, limit)).unwrap()];
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
        let next = history(library, &request(Some(cursor), back, chars, limit)).unwrap();
        assert!(
            !next.messages.is_empty(),
            "the page of a cursor is never empty"
        );
        all.push(next);
        assert!(all.len() < 20_000, "the pages never end");
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
    let text_part = (some_text(), any::<bool>()).prop_map(|(text, synthetic)| PartKind::Text {
        text: text.into(),
        synthetic,
    });
    prop_oneof![
        text_part,
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
    let parts_and_error = (prop::collection::vec(some_part(), 0..6), error);
    let boundary = prop::option::of(0..9_usize);
    (prop::collection::vec(parts_and_error, 0..9), boundary).prop_map(|(all, boundary)| {
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
                // A cursor must work with any id.
                ..message(&format!("m.{n}:é"), Role::User, parts)
            }
        });
        let mut sample = conversation(messages.collect());
        let at = boundary.map(|at| at.min(sample.messages.len()));
        sample.boundaries = at.into_iter().map(boundary_at).collect();
        sample
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn all_pages_together_equal_the_conversation(
        sample in some_conversation(),
        budget in prop_oneof![1_usize..6, 6_usize..300],
        limit in 0_usize..4,
        back in any::<bool>(),
    ) {
        let library = library(sample);
        let mut expected = Content::default();
        let all = history(&library, &request(None, false, usize::MAX, 0)).unwrap();
        prop_assert_eq!(&all.next_cursor, &None);
        prop_assert_eq!(&all.previous_cursor, &None);
        expected.add(&all.messages);
        let mut pages = pages(&library, back, budget, limit);
        if back {
            pages.reverse();
        }
        let mut collected = Content::default();
        for page in &pages {
            prop_assert!(chars(&page.messages) <= budget);
            prop_assert!(limit == 0 || page.messages.len() <= limit);
            collected.add(&page.messages);
        }
        prop_assert_eq!(collected, expected);
    }

    #[test]
    fn previous_cursors_lead_back_to_the_page_before(sample in some_conversation(), budget in 1_usize..200) {
        let library = library(sample);
        for pair in pages(&library, false, budget, 2).windows(2) {
            let cursor = pair[1].previous_cursor.clone();
            prop_assert!(cursor.is_some());
            let before = history(&library, &request(cursor, false, budget, 2)).unwrap();
            // The page may begin elsewhere, but it ends where the previous page ended.
            prop_assert_eq!(&before.next_cursor, &pair[0].next_cursor);
        }
    }

    #[test]
    fn every_cut_is_reported(sample in some_conversation(), budget in 1_usize..60) {
        let library = library(sample);
        let full = history(&library, &request(None, false, usize::MAX, 0)).unwrap();
        for page in pages(&library, false, budget, 0) {
            for shown in &page.messages {
                let all = full.messages.iter().find(|m| m.id == shown.id).unwrap();
                let missing = |cut: &Option<Cut>| cut.as_ref().map_or(0, |c| c.chars);
                let shown_chars = chars(std::slice::from_ref(shown));
                let total = missing(&shown.before) + shown_chars + missing(&shown.cut);
                prop_assert_eq!(total, chars(std::slice::from_ref(all)));
                if shown.cut.is_none() && shown.before.is_none() {
                    prop_assert_eq!(shown.parts.len(), all.parts.len());
                }
                for part in shown.parts.iter().filter(|p| p.cut.is_some()) {
                    let cut = part.cut.clone().unwrap();
                    let rest = history(&library, &request(Some(cut.cursor), false, usize::MAX, 1)).unwrap();
                    let first = &rest.messages[0].parts[0];
                    prop_assert_eq!(&first.id, &part.id);
                    let remaining: usize = fields(first).iter().map(|(_, t)| count(t)).sum();
                    prop_assert_eq!(remaining, cut.chars);
                }
            }
        }
    }

    #[test]
    fn all_pages_of_dropped_messages_are_complete(
        sample in some_conversation(),
        budget in 1_usize..120,
        back in any::<bool>(),
    ) {
        let boundary = sample.boundaries.first().map_or(0, |b| b.at);
        let pruned = |p: &&Part| matches!(&p.kind, PartKind::Tool(t) if t.pruned.is_some());
        let expected: Vec<(String, Vec<String>)> = sample.messages.iter().enumerate().filter_map(|(n, m)| {
            let wanted = m.parts.iter().filter(|p| (n < boundary && p.kind.name() != "step-start") || pruned(p));
            let parts: Vec<String> = wanted.map(|p| p.id.to_string()).collect();
            (n < boundary || !parts.is_empty()).then(|| (m.id.to_string(), parts))
        }).collect();
        let library = library(sample);
        let (mut read_pages, mut cursor): (Vec<CompactedContext>, _) = (Vec::new(), None);
        loop {
            let page = compacted(&library, &request(cursor, back, budget, 0)).unwrap();
            prop_assert!(chars(&page.messages) <= budget);
            prop_assert_eq!(page.total_messages, expected.len());
            cursor = if back { page.previous_cursor.clone() } else { page.next_cursor.clone() };
            read_pages.push(page);
            if cursor.is_none() {
                break;
            }
        }
        if back {
            read_pages.reverse();
        }
        let mut seen: Vec<(String, Vec<String>)> = Vec::new();
        for message in read_pages.iter().flat_map(|page| &page.messages) {
            if seen.last().is_none_or(|(id, _)| *id != message.id) {
                seen.push((message.id.clone(), Vec::new()));
            }
            let parts = &mut seen.last_mut().unwrap().1;
            parts.extend(message.parts.iter().filter(|p| p.before.is_none()).map(|p| p.id.clone()));
        }
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn every_invalid_cursor_is_an_invalid_argument(cursor in "(on|back)\\.[mrx]\\.[0-9]{0,30}\\.[0-9]{0,30}\\..{0,4}|.{0,20}") {
        let library = library(conversation(vec![message("m", Role::User, vec![text("p", "abc")])]));
        if let Err(error) = history(&library, &request(Some(cursor), false, 1, 1)) {
            prop_assert_eq!(error.code(), "invalid_argument");
        }
    }
}
