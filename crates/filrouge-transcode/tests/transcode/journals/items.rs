//! Items in few words.

use filrouge_types::{Channel, NewItem, RawJson, Role, Variant};
use serde_json::{Value, json};

/// An item of any parts.
pub(crate) fn item(role: Role, channel: &str, parts: Value) -> NewItem {
    raw_item(role, channel, &parts.to_string())
}

/// An item of parts as they are spelled.
pub(crate) fn raw_item(role: Role, channel: &str, parts: &str) -> NewItem {
    NewItem::new(
        role,
        Channel::from_word(channel),
        RawJson::parse(parts).unwrap(),
    )
}

pub(crate) fn said(role: Role, channel: &str, text: &str) -> NewItem {
    item(role, channel, json!([{"type": "text", "text": text}]))
}

pub(crate) fn note(text: &str) -> NewItem {
    said(Role::System, "system_note", text)
}

pub(crate) fn part(part: Value) -> NewItem {
    item(Role::Assistant, "final", json!([part]))
}

pub(crate) fn call(id: &str) -> NewItem {
    call_of(id, json!({"of": id}))
}

pub(crate) fn call_of(id: &str, args: Value) -> NewItem {
    let parts = json!([{"type": "tool_call", "call_id": id, "name": "f", "args": args}]);
    item(Role::Assistant, "tool_call", parts)
}

pub(crate) fn result(id: &str) -> NewItem {
    result_of(id, json!(format!("did {id}")))
}

pub(crate) fn result_of(id: &str, content: Value) -> NewItem {
    let parts = json!([{"type": "tool_result", "call_id": id, "ok": true, "content": content}]);
    item(Role::Tool, "tool_result", parts)
}

pub(crate) fn failed(id: &str, content: Value) -> NewItem {
    let parts = json!([{"type": "tool_result", "call_id": id, "ok": false, "content": content}]);
    item(Role::Tool, "tool_result", parts)
}

pub(crate) fn thought(text: &str) -> NewItem {
    let parts =
        json!([{"type": "reasoning", "text": text, "provider": "anthropic", "signature": "c2ln"}]);
    item(Role::Assistant, "thought", parts)
}

pub(crate) fn summary(text: &str, covers: Option<Value>) -> NewItem {
    let metadata = covers.map(|covers| RawJson::write(&json!({"covers": covers})).unwrap());
    NewItem {
        metadata,
        ..said(Role::System, "summary", text)
    }
}

pub(crate) fn translated(item: NewItem) -> NewItem {
    NewItem {
        variant: Variant::Translated,
        ..item
    }
}

pub(crate) fn by(model: &str, item: NewItem) -> NewItem {
    NewItem {
        model: Some(model.into()),
        ..item
    }
}
