//! Messages and tasks as items of the ledger, and back.

use filrouge_types::{RawJson, TurnId};

use super::*;
use crate::message::{Addressee, Intent};

fn message() -> Message {
    Message {
        id: "msg-7".into(),
        at: Timestamp::from_micros(1_700_000_000_000_001),
        speaker: Speaker {
            id: "coder-0a1b2c3d".into(),
            name: "Der \"Coder\" 🧵".into(),
            kind: SpeakerKind::Agent,
        },
        content: "one\n\"two\" \u{0}\u{2028}".into(),
        routing: Routing {
            markers: vec!["NEXT: ann, bob !P1".into()],
            addressees: vec![
                Addressee {
                    identifier: "ann".into(),
                    member_id: Some("ann".into()),
                    member_name: Some("Ann".into()),
                },
                Addressee {
                    identifier: "bob".into(),
                    member_id: None,
                    member_name: None,
                },
            ],
            parent: Some("msg-6".into()),
            intent: Some(Intent::Reply),
        },
        cut: Some(Cut::Failed),
    }
}

/// The body as an item of the ledger.
fn stored(body: ItemBody) -> Item {
    Item {
        seq: 3,
        turn_id: Some(TurnId::from_bytes([1; 16])),
        created_at: Timestamp::from_micros(5),
        redacted: false,
        body,
    }
}

/// A message that was not read from a draft.
fn final_message(message: Message) -> ParsedItem {
    let from_draft = false;
    ParsedItem::Message {
        message,
        from_draft,
    }
}

#[test]
fn a_message_survives_the_conversion_to_an_item_and_back() {
    let failed = AgentError {
        code: "agent_exit",
        detail: "exit code 3: \"no\"".into(),
        cut: Cut::Failed,
    };
    let bare = Message {
        routing: Routing::default(),
        cut: None,
        ..message()
    };
    for (message, error) in [(message(), None), (message(), Some(&failed)), (bare, None)] {
        let item = to_item(&message, Channel::Partial, error).unwrap();
        RawJson::parse(item.parts.as_str()).unwrap();
        assert_eq!(item.item_id.as_ref().unwrap().as_str(), "msg-7");
        assert_eq!(item.agent, Some(message.speaker.name.clone()));
        assert_eq!(item.parts.as_str().contains("agent_exit"), error.is_some());
        assert_eq!(parse_item(&stored(item)), final_message(message));
    }
}

#[test]
fn the_item_of_a_draft_is_read_as_the_same_message() {
    let mut started = message();
    started.cut = None;
    started.content = "the text so far".into();
    let draft_item = |description: &RawJson, text: &str| {
        let text = JsonText::from_plain(text);
        let parts = format!(
            r#"[{{"type":"text","text":{}}},{}]"#,
            text.as_token(),
            description.as_str()
        );
        let mut item = ItemBody::new(
            Role::Assistant,
            Channel::Partial,
            RawJson::from_checked(parts),
        );
        // The last eight hex digits of the draft's name are its number: 0x2a = 42.
        item.item_id = ItemId::new("st_0a0b0c0d0000002a.0").ok();
        stored(item)
    };
    for (state, cut) in [
        (DraftState::Growing, Some(Cut::Interrupted)),
        (DraftState::Complete, None),
    ] {
        let description = draft_description(&started, state).unwrap();
        let expected = Message {
            cut,
            ..started.clone()
        };
        let item = draft_item(&description, &started.content);
        assert_eq!(
            parse_item(&item),
            ParsedItem::Message {
                message: expected.clone(),
                from_draft: true
            }
        );
        assert_eq!(
            read_draft(Some(&description), &started.content),
            Some(expected)
        );
        let mut redacted = Item {
            redacted: true,
            ..item
        };
        redacted.body.parts = RawJson::from_checked("[]");
        assert_eq!(
            parse_item(&redacted),
            ParsedItem::Redacted(RedactedId::Number(42))
        );
    }
    assert_eq!(
        read_draft(None, "x"),
        None,
        "the draft of a provider's stream"
    );
    let other = RawJson::from_checked(r#"{"type":"image_url","url":"u"}"#);
    assert_eq!(read_draft(Some(&other), "x"), None);
}

#[test]
fn other_items_are_not_messages() {
    let item = |role, channel, parts: &str| {
        stored(ItemBody::new(role, channel, RawJson::from_checked(parts)))
    };
    let text = r#"[{"type":"text","text":"x"}]"#;
    let status = r#"[{"type":"turn_status","status":"interrupted"}]"#;
    for (item, expected) in [
        (
            stored(task_item(Some("t\n"))),
            ParsedItem::Task(Some("t\n".into())),
        ),
        (stored(task_item(None)), ParsedItem::Task(None)),
        (stored(note_item("state")), ParsedItem::NoText),
        (
            item(Role::User, Channel::Question, text),
            ParsedItem::Foreign,
        ),
        (
            item(Role::Assistant, Channel::Final, text),
            ParsedItem::Foreign,
        ),
        (
            item(Role::Assistant, Channel::Final, "[1]"),
            ParsedItem::Foreign,
        ),
        (
            item(Role::Assistant, Channel::Thought, text),
            ParsedItem::NoText,
        ),
        (
            item(Role::System, Channel::Interrupted, status),
            ParsedItem::NoText,
        ),
    ] {
        assert_eq!(parse_item(&item), expected, "{item:?}");
    }
    let mut redacted = stored(to_item(&message(), Channel::Final, None).unwrap());
    redacted.redacted = true;
    redacted.body.parts = RawJson::from_checked("[]");
    assert_eq!(
        parse_item(&redacted),
        ParsedItem::Redacted(RedactedId::Id("msg-7".into()))
    );
}
