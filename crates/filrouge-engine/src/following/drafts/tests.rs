//! The draft events that a tail sends: each text once, before its item.

use filrouge_types::{ItemBody, Timestamp};
use proptest::prelude::*;

use super::*;

const STREAM: StreamId = StreamId([7; 8]);

fn turn() -> TurnId {
    TurnId::from_bytes([1; 16])
}

fn head(kind: PieceKind) -> PieceHead {
    PieceHead {
        kind,
        role: Role::Assistant,
        channel: Channel::Final,
        call: (kind == PieceKind::ToolCall)
            .then(|| (JsonText::from_plain("c1"), JsonText::from_plain("look"))),
        agent: None,
        model: Some("m".into()),
    }
}

fn delta(number: u64, part: u64, text: &str, kind: Option<PieceKind>) -> Delta {
    Delta {
        replaces: false,
        number,
        part,
        head: kind.map(head),
        text: text.to_owned(),
        done: false,
    }
}

fn updates(chunk: u64, complete: bool, deltas: Vec<Delta>) -> Vec<DraftUpdate> {
    vec![DraftUpdate {
        turn_id: turn(),
        stream: STREAM,
        writer: "w".into(),
        begun_at: Timestamp::from_micros(0),
        beat_at: Timestamp::from_micros(0),
        chunk,
        complete,
        deltas,
    }]
}

fn item(number: u64, parts: &str) -> Item {
    let parts = RawJson::parse(parts).unwrap();
    Item {
        seq: 9,
        turn_id: Some(turn()),
        created_at: Timestamp::from_micros(0),
        redacted: false,
        body: ItemBody {
            item_id: STREAM.item_id(number),
            ..ItemBody::new(Role::Assistant, Channel::Final, parts)
        },
    }
}

/// Part, offset and text of events.
fn part_offset_text(events: &[DraftEvent]) -> Vec<(u64, u64, &str)> {
    let inner = |e: &'_ DraftEvent| 1..e.text.as_str().len() - 1;
    events
        .iter()
        .map(|e| (e.part, e.offset, &e.text.as_str()[inner(e)]))
        .collect()
}

#[test]
fn the_remaining_text_precedes_the_item() {
    let mut drafts = SentDrafts::default();
    let text = Some(PieceKind::Text);
    let events = drafts.update(updates(1, true, vec![delta(0, 0, r"a\u00e9", text)]));
    assert_eq!(part_offset_text(&events), [(0, 0, r"a\u00e9")]);
    assert_eq!(drafts.received_chunks(), BTreeMap::from([(STREAM, 1)]));
    let events = drafts.update(updates(2, false, vec![delta(0, 0, "b", None)]));
    assert_eq!(part_offset_text(&events), [(0, 2, "b")]);
    let remaining = drafts.remaining_events(&item(0, r#"[{"type":"text","text":"a\u00e9bc"}]"#));
    assert_eq!(part_offset_text(&remaining), [(0, 3, "c")]);
    assert!(remaining[0].done);
    let repeated = drafts.remaining_events(&item(0, r#"[{"type":"text","text":"a\u00e9bc"}]"#));
    assert!(repeated.is_empty(), "the draft has ended");
    assert!(drafts.update(Vec::new()).is_empty());
    assert!(drafts.received_chunks().is_empty() && drafts.sent.is_empty());
}

#[test]
fn a_rewritten_draft_is_not_sent_twice() {
    let mut drafts = SentDrafts::default();
    let text = Some(PieceKind::Text);
    drafts.update(updates(
        3,
        true,
        vec![delta(0, 0, "one", text), delta(1, 0, "tw", text)],
    ));
    assert!(
        drafts
            .remaining_events(&item(0, r#"[{"type":"text","text":"one"}]"#))
            .is_empty()
    );
    let events = drafts.update(updates(4, true, vec![delta(1, 0, "two", text)]));
    assert_eq!(part_offset_text(&events), [(0, 2, "o")]);
}

#[test]
fn text_that_does_not_continue_a_draft_restarts_it() {
    let mut drafts = SentDrafts::default();
    let text = Some(PieceKind::Text);
    drafts.update(updates(1, true, vec![delta(0, 0, "ab", text)]));
    let events = drafts.update(updates(2, true, vec![delta(0, 0, "xyz", text)]));
    assert_eq!(part_offset_text(&events), [(0, 0, "xyz")]);
    let remaining = drafts.remaining_events(&item(0, r#"[{"type":"text","text":"q"}]"#));
    assert_eq!(part_offset_text(&remaining), [(0, 0, "q")]);
}

#[test]
fn parts_are_matched_even_if_the_item_omits_empty_ones() {
    let mut drafts = SentDrafts::default();
    let deltas = vec![
        delta(0, 0, "", Some(PieceKind::Text)),
        delta(
            0,
            1,
            r#"{"type":"image_url","url":"x"}"#,
            Some(PieceKind::Complete),
        ),
        delta(0, 2, "a", Some(PieceKind::Text)),
        delta(0, 3, "n", Some(PieceKind::Refusal)),
    ];
    let events = drafts.update(updates(1, true, deltas));
    assert_eq!(
        part_offset_text(&events),
        [
            (1, 0, r#"{\"type\":\"image_url\",\"url\":\"x\"}"#),
            (2, 0, "a"),
            (3, 0, "n")
        ]
    );
    let parts = r#"[{"type":"image_url","url":"x"},{"type":"text","text":"ab"},{"type":"refusal","refusal":"no"}]"#;
    let remaining = drafts.remaining_events(&item(0, parts));
    assert_eq!(part_offset_text(&remaining), [(2, 1, "b"), (3, 1, "o")]);
}

#[test]
fn a_call_is_sent_before_its_arguments_and_its_item_adds_no_text() {
    let mut drafts = SentDrafts::default();
    let events = drafts.update(updates(
        1,
        true,
        vec![delta(0, 0, "", Some(PieceKind::ToolCall))],
    ));
    assert_eq!(part_offset_text(&events), [(0, 0, "")]);
    assert_eq!(events[0].name, Some(JsonText::from_plain("look")));
    let events = drafts.update(updates(2, false, vec![delta(0, 0, r#"{\"a\":"#, None)]));
    assert_eq!(part_offset_text(&events), [(0, 0, r#"{\"a\":"#)]);
    let parts = r#"[{"type":"tool_call","call_id":"c1","name":"look","args":{"a":1}}]"#;
    assert!(drafts.remaining_events(&item(0, parts)).is_empty());
}

#[test]
fn long_names_are_sent_once_and_not_kept() {
    let mut drafts = SentDrafts::default();
    let mut first = delta(0, 0, "{", Some(PieceKind::ToolCall));
    first.head.as_mut().unwrap().model = Some("m".repeat(NAMES_BYTES_MAX).into());
    let events = drafts.update(updates(1, true, vec![first]));
    assert!(events[0].model.is_some());
    let events = drafts.update(updates(2, false, vec![delta(0, 0, "}", None)]));
    assert_eq!((&events[0].model, &events[0].name), (&None, &None));
}

#[test]
fn keys_of_other_items_are_not_taken_for_drafts() {
    for key in [
        "st_07.0",
        "st_0707070707070707",
        "st_0707070707070707.00",
        "x",
    ] {
        assert_eq!(parse_item_key(&ItemId::new(key).unwrap()), None, "{key}");
    }
    assert_eq!(
        parse_item_key(&STREAM.item_id(12).unwrap()),
        Some((STREAM, 12))
    );
}

proptest! {
    /// For any chunking of a text, any rewrites of its draft, and any moment at which its item arrives.
    #[test]
    fn concatenated_drafts_are_the_text(
        pieces in proptest::collection::vec(("[a-zé🧵]{0,5}", any::<bool>()), 1..12),
        last in "[a-zé🧵]{0,5}",
    ) {
        let (mut drafts, mut complete_text, mut received) = (SentDrafts::default(), String::new(), String::new());
        let receive = |events: Vec<DraftEvent>, received: &mut String| {
            for event in events {
                let text: String = serde_json::from_str(event.text.as_str()).unwrap();
                assert_eq!(event.offset, received.chars().count() as u64);
                received.push_str(&text);
            }
        };
        for (n, (text, complete)) in pieces.iter().enumerate() {
            complete_text.push_str(text);
            let complete = *complete || n == 0;
            let draft_text = if complete { &complete_text } else { text };
            let kind = complete.then_some(PieceKind::Text);
            let events = drafts.update(updates(n as u64, complete, vec![delta(0, 0, draft_text, kind)]));
            receive(events, &mut received);
            prop_assert_eq!(&received, &complete_text);
        }
        complete_text.push_str(&last);
        let begun = !received.is_empty();
        let parts = serde_json::json!([{"type": "text", "text": complete_text}]).to_string();
        receive(drafts.remaining_events(&item(0, &parts)), &mut received);
        prop_assert!(!begun || received == complete_text);
    }
}
